"""Other array libraries give the same numbers, in their own arrays."""

import array_api_strict
import numpy as np
import pytest
from sklearn import config_context

import forgetless as fl
from support.collections import random_pairs

METRICS = ("average_loss", "seen_loss", "forgetting", "drift")

PROBLEMS = [
    ({"M": 3, "d": 2, "rows": (1, 1)}, 5),
    ({"M": 2, "d": 9, "rows": (3, 5), "targets": 2}, 60),
    ({"M": 4, "d": 60, "rows": (1, 6)}, 3),
    ({"M": 40, "d": 5, "rows": (1, 3), "realizable": False}, 4),
]


def check_same_numbers(convert, kind, rng):
    for shape, trials in PROBLEMS:
        pairs = random_pairs(rng, **shape)
        here, there = fl.TaskCollection(pairs), fl.TaskCollection([(convert(X), convert(y)) for X, y in pairs])
        start = rng.standard_normal(here.start().shape)
        assert isinstance(there.teacher(), kind)
        np.testing.assert_allclose(np.asarray(there.teacher(convert(start))), here.teacher(start), rtol=1e-9)
        assert there.residual == pytest.approx(here.residual, rel=1e-6, abs=1e-14)
        assert there.span_dimension == here.span_dimension
        for schedule in (fl.schedules.increasing(), fl.schedules.fixed_budget(3), fl.Projection()):
            options = {"k": 30, "n_trials": trials, "seed": 1, "record": [0, 7, 30], "start": start}
            ours = fl.simulate(here, schedule, backend="array", **options)
            theirs = fl.simulate(there, schedule, **options)
            for name in (*METRICS, "weights"):
                assert isinstance(getattr(theirs, name), kind)
                np.testing.assert_allclose(
                    np.asarray(getattr(theirs, name)), getattr(ours, name), rtol=1e-9, atol=1e-12, err_msg=name
                )
        averages = [fl.simulate(each, fl.Ridge(0.4), **options, average=2) for each in (here, there)]
        for name in (*METRICS, "weights"):
            found = [np.asarray(getattr(each, name)) for each in averages]
            np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12, err_msg=name)
        check_same_expectations(here, there, start, kind)
        check_same_options(here, there, start)
        step = fl.step(convert(start), there[0], fl.Ridge(0.3))
        np.testing.assert_allclose(np.asarray(step), fl.step(start, here[0], fl.Ridge(0.3)), rtol=1e-12)
        np.testing.assert_allclose(fl.metrics.average_loss(there, convert(start)), fl.metrics.average_loss(here, start))
    groups = [0, 1, 0]
    split = fl.TaskCollection.from_arrays(convert(np.eye(3)), convert(np.ones(3)), groups)
    assert split.ranks == [2, 1]
    xi = convert(np.array([0.0, 1.0, 4.0]))
    for filter_ in (fl.Ridge(2.0), fl.Ridge([1.0, 2.0]), fl.GradientDescent(3, [0.1, 0.2]), fl.Projection()):
        assert isinstance(filter_.factors(xi), kind)
        np.testing.assert_allclose(
            np.asarray(filter_.factors(xi)), filter_.factors(np.array([0.0, 1.0, 4.0])), rtol=1e-14
        )


def check_same_options(here, there, start):
    """Metrics of tasks and weights, other tasks, noise, drift and greedy orders."""
    names = ("average_loss", "distance", "seen_loss", *fl.metrics.TASK_METRICS)
    calls = [
        ("expect", {"metrics": names, "evaluate": True}),
        ("expect", {"metrics": names, "evaluate": True, "ordering": "cyclic"}),
        ("expect", {"metrics": names[:4], "noise": 0.3, "drift": 0.2}),
        ("expect", {"metrics": names, "ordering": fl.orderings.Greedy("distance", repeat=True)}),
        ("simulate", {"metrics": names, "evaluate": True, "ordering": "cyclic", "seed": 2}),
        ("simulate", {"metrics": names[:4], "noise": 0.3, "drift": 0.2, "n_trials": 9, "seed": 2}),
    ]
    for verb, options in calls:
        results = []
        for tasks in (here, there):
            more = {"evaluate": tasks[:2]} if "evaluate" in options else {}
            results.append(getattr(fl, verb)(tasks, fl.Ridge(0.7), 6, start=start, **{**options, **more}))
        for name in options["metrics"]:
            ours, theirs = (np.asarray(each.values[name]) for each in results)
            np.testing.assert_allclose(theirs, ours, rtol=1e-8, atol=1e-11, err_msg=f"{verb} {name}")


def check_same_expectations(here, there, start, kind):
    schedules = [fl.schedules.increasing(), fl.Ridge(0.4)]
    laws = [fl.WithReplacement(), fl.Cyclic()] + ([fl.WithoutReplacement()] if here.n_tasks < 6 else [])
    for ordering in laws:
        k = min(6, here.n_tasks) if isinstance(ordering, fl.WithoutReplacement) else 6
        options = {"k": k, "ordering": ordering, "metrics": METRICS, "start": start}
        ours, theirs = (fl.expect(tasks, schedules, **options) for tasks in (here, there))
        for name in METRICS:
            assert isinstance(getattr(theirs, name), kind)
            np.testing.assert_allclose(
                np.asarray(getattr(theirs, name)), getattr(ours, name), rtol=1e-9, atol=1e-12, err_msg=name
            )
        worst = fl.worst_case(there, fl.Ridge(0.4), k, ordering=ordering)
        assert worst.loss == pytest.approx(fl.worst_case(here, fl.Ridge(0.4), k, ordering=ordering).loss, rel=1e-10)
        assert isinstance(worst.teacher, kind)
        options |= {"metrics": "average_loss", "average": 2}
        ours, theirs = (fl.expect(tasks, schedules, **options) for tasks in (here, there))
        np.testing.assert_allclose(np.asarray(theirs.average_loss), ours.average_loss, rtol=1e-9)
        ours, theirs = (fl.worst_case(each, fl.Ridge(0.4), k, ordering=ordering, average=2) for each in (here, there))
        assert theirs.loss == pytest.approx(ours.loss, rel=1e-10)
    if here.n_tasks < 6 and here.n_features < 10:
        for method in ("dense", "lanczos") if here.is_realizable() else ("dense",):
            far = fl.expect(there, fl.Ridge(0.4), 500, method=method)
            near = fl.expect(here, fl.Ridge(0.4), 500, method="steps")
            np.testing.assert_allclose(np.asarray(far.average_loss), near.average_loss, rtol=1e-8, atol=1e-25)
    for objective in ("average_loss", "worst_case"):
        one, two = (fl.loss_gradient(tasks, fl.Ridge(0.4), 4, objective=objective) for tasks in (here, there))
        np.testing.assert_allclose(two.coefficient, one.coefficient, rtol=1e-7, atol=1e-12)


def test_the_strictest_array_library(rng):
    check_same_numbers(array_api_strict.asarray, array_api_strict._array_object.Array, rng)


@pytest.mark.torch
def test_torch_on_the_processor(rng):
    torch = pytest.importorskip("torch")
    check_same_numbers(torch.asarray, torch.Tensor, rng)


@pytest.mark.torch
def test_torch_details(rng):
    torch = pytest.importorskip("torch")
    X = torch.ones((2, 3), requires_grad=True)
    tasks = fl.TaskCollection([(X, torch.ones(2))])
    assert tasks[0].X.dtype == torch.float64
    assert not tasks.teacher().requires_grad
    with pytest.raises(TypeError, match="one library"):
        fl.TaskCollection([(X, torch.ones(2)), (np.ones((1, 3)), [1.0])])


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 6, 30])
def test_streams_of_tensors_in_either_precision(dtype, n, rng):
    """Tasks below and above the number of features; torch does not mix precisions by itself."""
    torch = pytest.importorskip("torch")
    tasks = [(rng.standard_normal((n, 12)), np.arange(n) % 3) for _ in range(4)]
    models = [fl.ContinualRidge, fl.ContinualRidgeClassifier, fl.ContinualGD]
    parameters = ({"rank": 5}, {"rank": 4, "diagonal": True}, {"rank": 20, "decay": 0.1})
    memories = [{"memory": fl.LowRankMemory(**each, dtype="float64")} for each in parameters] + [{"schedule": "auto"}]
    for model, options in [*((model, {}) for model in models), *((m, o) for m in models[:2] for o in memories)]:
        here, there = (model(**options) for _ in "ab")
        declared = {"classes": [0, 1, 2]} if model is fl.ContinualRidgeClassifier else {}
        with config_context(array_api_dispatch=True):
            for X, y in tasks:
                targets = y if declared else y.astype(float)
                here.partial_fit(X, targets, **declared)
                there.partial_fit(torch.asarray(X, dtype=getattr(torch, dtype)), torch.asarray(targets), **declared)
        assert there.coef_.dtype == getattr(torch, dtype)
        close = 1e-4 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(there.coef_.numpy(), here.coef_, atol=close, err_msg=f"{model} {options}")


@pytest.mark.torch
def test_torch_on_a_gpu(rng):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    pairs = random_pairs(rng, M=5, d=30, rows=(2, 5))
    here = fl.TaskCollection(pairs)
    there = fl.TaskCollection([(torch.asarray(X, device="cuda"), torch.asarray(y, device="cuda")) for X, y in pairs])
    ours = fl.simulate(here, fl.schedules.increasing(), 50, n_trials=20, seed=0)
    theirs = fl.simulate(there, fl.schedules.increasing(), 50, n_trials=20, seed=0)
    assert theirs.average_loss.is_cuda
    np.testing.assert_allclose(theirs.average_loss.cpu(), ours.average_loss, rtol=1e-9)
    grid = [fl.Ridge(c) for c in np.geomspace(0.1, 10, 40)]
    for metrics in ("average_loss", METRICS):
        exact, far = (fl.expect(tasks, grid, 20, metrics=metrics, method="steps") for tasks in (here, there))
        for name, value in far.values.items():
            assert value.is_cuda
            np.testing.assert_allclose(value.cpu(), exact.values[name], rtol=1e-9)
    worst = fl.worst_case(there, fl.Ridge(0.4), 1000)
    assert worst.teacher.is_cuda
    assert worst.loss == pytest.approx(fl.worst_case(here, fl.Ridge(0.4), 1000).loss, rel=1e-8)

import importlib
import itertools
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from numba.core import event

import forgetless as fl
from forgetless import _kernels
from support import literal
from support.agreement import METRICS, check_against_literal, drawn_order, expected
from support.collections import FAMILIES, random_pairs
from support.registry import ORDERINGS, SCHEDULES, name

ONE_DIRECTION = [
    {"M": 2 * d + 3, "d": d, "rows": (1, 1), "targets": targets, "realizable": False}
    for d, targets in itertools.product((1, 2, 3, 4, 7), (None, 2))
]


@pytest.mark.parametrize("family", [*FAMILIES.values(), *ONE_DIRECTION], ids=str)
def test_equals_the_literal_algorithm_on_every_family(family, rng):
    k = 60 if family in ONE_DIRECTION else 12
    check_against_literal(random_pairs(rng, **family), fl.schedules.increasing(0.3), fl.WithReplacement(), k, rng)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
def test_equals_the_literal_algorithm_for_every_schedule(schedule, rng):
    pairs = random_pairs(rng, rows=(2, 7), realizable=False)
    check_against_literal(pairs, schedule, fl.WithReplacement(), 12, rng)


@pytest.mark.parametrize("ordering", ORDERINGS, ids=repr)
def test_equals_the_literal_algorithm_for_every_ordering(ordering, rng):
    k = 4 if isinstance(ordering, fl.WithoutReplacement) else 12
    check_against_literal(random_pairs(rng, targets=3), fl.Ridge(0.4), ordering, k, rng)


AVERAGED = [
    {"d": 2, "rows": (1, 1)},
    {"d": 7, "rows": (1, 1), "targets": 2},
    {"d": 5, "rows": (1, 4)},
    {"d": 60, "rows": (1, 3), "targets": 2},  # gram coordinates
]


@pytest.mark.parametrize("shape", AVERAGED, ids=str)
def test_runs_record_the_literal_average(shape, rng):
    pairs = random_pairs(rng, realizable=False, **shape)
    filter_ = fl.Ridge(rng.uniform(0.01, 2.0, 12))
    check_against_literal(pairs, filter_, fl.WithReplacement(), 12, rng, average=2)
    options = {"average": 2, "seed": 5, "metrics": ("average_loss", "weights")}
    curve, alone = (fl.simulate(fl.TaskCollection(pairs), filter_, 12, record=r, **options) for r in ("all", [0, 12]))
    np.testing.assert_allclose(alone.average_loss[:, 1], curve.average_loss[:, -1], rtol=1e-12)
    np.testing.assert_array_equal(alone.weights[:, 0], 0.0)


@pytest.mark.parametrize("average", [None, 1])
def test_long_runs_cross_block_borders(average, rng):
    """More steps than one block of draws: statistics, weights and the restart from them carry over."""
    pairs, k = random_pairs(rng, M=3, d=40, rows=(2, 3), realizable=False), 9000
    options = {"n_trials": 2, "seed": 1, "average": average, "metrics": (*METRICS, "weights")}
    trace = fl.simulate(fl.TaskCollection(pairs), fl.Ridge(0.5), k, record=[4096, 4097, k], **options)
    order = drawn_order(fl.WithReplacement(), 3, k, 1, 1)
    path = literal.run(pairs, order, literal.step_of(fl.Ridge(0.5)), np.zeros(40))
    if average:
        share = np.arange(1.0, k + 1)[:, None]
        path = np.cumsum(share * path, axis=0) / np.cumsum(share, axis=0)
    for j, t in enumerate(trace.steps):
        np.testing.assert_allclose(trace.weights[1, j], path[t - 1], atol=1e-10)
        expected = literal.metrics(pairs, order[:t], path[:t])
        for metric in METRICS:
            assert getattr(trace, metric)[1, j] == pytest.approx(expected[metric], rel=1e-8)


def test_a_trial_does_not_depend_on_the_number_of_trials_and_of_records(rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    few = fl.simulate(tasks, fl.schedules.fixed(), 50, n_trials=3, seed=4, record="all")
    many = fl.simulate(tasks, fl.schedules.fixed(), 50, n_trials=100, seed=4, record=[7, 50])
    np.testing.assert_allclose(few.drift[:, [6, 49]], many.drift[:3], rtol=1e-12)
    assert not np.allclose(few.average_loss[0], few.average_loss[1])


def test_seeds_of_all_kinds(rng):
    tasks = fl.TaskCollection(random_pairs(rng))

    def final(seed):
        return fl.simulate(tasks, fl.Ridge(1.0), 20, n_trials=2, seed=seed, record="last").average_loss

    np.testing.assert_array_equal(final(7), final(np.random.SeedSequence(7)))
    generator = np.random.default_rng(7)
    first, second = final(generator), final(generator)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(first, final(np.random.default_rng(7)))
    assert not np.allclose(final(np.random.SeedSequence(7).spawn(1)[0]), final(7))


@pytest.mark.parametrize(
    ("record", "steps"), [("last", [10]), ("all", [*range(1, 11)]), ([0, 3], [0, 3]), (5, [5]), ("log", None)]
)
def test_record(record, steps, rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    trace = fl.simulate(tasks, fl.Ridge(1.0), 10, n_trials=2, record=record, metrics=("average_loss", "weights"))
    assert trace.steps.tolist() == steps or (steps is None and trace.steps[-1] == 10)
    assert trace.average_loss.shape == (2, len(trace.steps))
    assert trace.weights.shape == (2, len(trace.steps), 6)


def test_step_zero_is_the_start(rng):
    pairs, start = random_pairs(rng), rng.standard_normal(6)
    trace = fl.simulate(
        fl.TaskCollection(pairs).shifted(start), fl.Ridge(1.0), 3, record=[0, 3], metrics=(*METRICS, "weights")
    )
    assert not trace.weights[:, 0].any()
    assert trace.average_loss[0, 0] == pytest.approx(np.mean([literal.loss(start, *pair) for pair in pairs]))
    assert np.isnan(trace.seen_loss[0, 0])
    assert np.isnan(trace.drift[0, 0])


def test_metrics_per_task(rng):
    """NaN where a run did not see a task."""
    tasks = fl.TaskCollection(pairs := random_pairs(rng, M=6, targets=2, realizable=False))
    names = ("task_losses", "task_forgetting", "task_drift", "forgetting", "drift", "weights")
    trace = fl.simulate(tasks, fl.Ridge(0.3), 7, n_trials=2, seed=0, record="all", metrics=names)
    order = drawn_order(fl.WithReplacement(), 6, 7, 1, 0)
    truth = expected(pairs, fl.Ridge(0.3), [(order, 1.0)], np.zeros_like(tasks.teacher()))
    for each in names[:3]:
        np.testing.assert_allclose(trace.values[each][1, -1], truth[each], rtol=1e-9, atol=1e-13)
    for each in names[1:3]:
        given = getattr(fl.metrics, each)(tasks, trace.weights[1], order)
        np.testing.assert_allclose(given, truth[each], rtol=1e-9, atol=1e-13)
    assert "task_drift" not in trace.to_frame().columns


def test_where_numba_cannot_be_imported_one_warning_says_so(tmp_path):
    """In a process of its own; that the same functions then run as Python is in test_golden.py."""
    (tmp_path / "numba.py").write_text("raise ImportError('not here')")
    code = (
        "import warnings; warnings.simplefilter('always')\n"
        "import forgetless as fl\n"
        "tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [0.2])])\n"
        "fl.expect(tasks, fl.Ridge(0.5), 5, metrics='drift'), fl.simulate(tasks, fl.Ridge(0.5), 5, seed=1)"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr.count("numba cannot be used (not here)") == 1


def test_compilation_is_announced_once_in_a_process(capsys):
    started = event.Event("numba:compile", event.EventStatus.START)
    event.broadcast(started)
    importlib.reload(_kernels)  # which forgets what this process has announced
    capsys.readouterr()
    event.broadcast(started)
    event.broadcast(started)
    assert capsys.readouterr().err.count("forgetless: compiling once") == 1


def test_a_million_steps(rng):
    """k = 10⁶ runs in the memory of what is recorded, and ends where theory says: at the joint solution."""
    tasks = fl.TaskCollection(random_pairs(rng, M=2, d=3, rows=(1, 1)))
    trace = fl.simulate(tasks, fl.Ridge(0.5), 10**6, seed=0, record="last", metrics=("average_loss", "weights"))
    np.testing.assert_allclose(trace.weights[0, 0], tasks.teacher(), atol=1e-12)
    assert trace.average_loss[0, 0] < 1e-24


def test_weights_of_wide_tasks_are_made_a_few_at_a_time(rng):
    """Beside the weights that come back, only those of a few snapshots are held."""
    tasks = fl.TaskCollection([(rng.standard_normal((1, 20_000)), [1.0]) for _ in range(3)])
    fl.simulate(tasks, fl.Ridge(1.0), 2)
    tracemalloc.start()
    try:
        trace = fl.simulate(tasks, fl.Ridge(1.0), 300, record="all", metrics=(*METRICS, "weights"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * trace.weights.nbytes


FEW = [{"d": 40, "rows": (1, 1)}, {"d": 40, "rows": (1, 3), "targets": 2}, {"M": 1, "d": 3, "rows": (1, 1)}]


@pytest.mark.parametrize("shape", FEW, ids=str)
@pytest.mark.parametrize("average", [None, 2])
def test_few_rows_in_many_features_are_followed_by_their_outputs(shape, average, rng):
    """The weights themselves are followed where they are asked for: the losses are the same."""
    tasks = fl.TaskCollection(random_pairs(rng, realizable=False, **shape), noise=0.3)
    options = {"n_trials": 5, "seed": 3, "record": [1, 30, 60], "average": average}
    fast = fl.simulate(tasks, "increasing", 60, **options)
    slow = fl.simulate(tasks, "increasing", 60, metrics=(*fast.values, "weights"), **options)
    for metric, values in fast.values.items():
        np.testing.assert_allclose(values, slow.values[metric], rtol=1e-11, atol=1e-13)

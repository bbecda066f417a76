"""Which filter a task of a stream is learned with: schedules, radius, horizon, kind of loss."""

import gc
import tracemalloc

import numpy as np
import pytest

import forgetless as fl
from support.streams import learned, stream


def test_advised_and_optimised_schedules_are_used_as_they_are(rng, tmp_path):
    tasks = list(stream(rng, 6))
    collection = fl.TaskCollection(tasks)
    advised = fl.advise(collection, k=6).best
    optimised = fl.optimal_schedule(collection, k=6)
    for schedule in (advised, optimised, fl.schedules.end_ramp()):
        model = fl.ContinualRidge(schedule=schedule, n_tasks=6, radius=collection.radius)
        options = {"ordering": fl.FixedOrder(range(6)), "record": "last", "metrics": "weights"}
        trace = fl.simulate(collection, schedule, 6, **options)
        np.testing.assert_allclose(learned(model, tasks).coef_, trace.weights[0, -1], rtol=1e-8)
        model.save(tmp_path / "m.npz")
        np.testing.assert_array_equal(fl.load(tmp_path / "m.npz").coef_, model.coef_)
    assert (
        fl.ContinualRidge(schedule=optimised).partial_fit(*tasks[0]).history_["strength"][0]
        == optimised.coefficients[0]
    )


@pytest.mark.parametrize(
    ("kind", "filter_"),
    [
        (fl.ContinualRidge, fl.Ridge([1.0, 2.0, 3.0])),
        (fl.ContinualGD, fl.GradientDescent([1, 2, 3], 0.01)),
    ],
)
def test_a_filter_per_step_means_the_same_under_constant(rng, kind, filter_):
    tasks = list(stream(rng, 3))
    plain, wrapped = (kind(schedule=schedule) for schedule in (filter_, fl.schedules.constant(filter_)))
    np.testing.assert_array_equal(learned(plain, tasks).coef_, learned(wrapped, tasks).coef_)
    for model in (plain, wrapped):
        with pytest.raises(ValueError, match="task 4 is beyond the 3 coefficients that the schedule lists"):
            model.partial_fit(*tasks[0])


def test_default_budget_goes_on_after_the_groups_of_fit(rng):
    (X, y), more = stream(rng, 2, 6)
    assert fl.ContinualGD().fit(X, y, [0, 0, 1, 1, 2, 2]).partial_fit(*more).n_tasks_seen_ == 4


def test_running_radius_is_the_largest_norm_so_far(rng):
    tasks = [(X * scale, y) for scale, (X, y) in zip([1, 3, 2, 5], stream(rng, 4), strict=True)]
    model = learned(fl.ContinualRidge(schedule="increasing", n_tasks=4), tasks)
    norms = np.maximum.accumulate([np.linalg.norm(X, 2) for X, _ in tasks])
    np.testing.assert_allclose(model.history_["radius"], norms, rtol=1e-10)
    expected = [13 / 3 * norm**2 * 5 / (4 - t + 2) for t, norm in enumerate(norms, start=1)]
    np.testing.assert_allclose(model.history_["strength"], expected, rtol=1e-10)
    assert model.radius_ == pytest.approx(norms[-1])


@pytest.mark.parametrize("rows", [1, 5])
def test_tasks_beyond_the_horizon_come_in_epochs_with_one_warning(rng, rows):
    tasks = [(X[:rows], y[:rows]) for X, y in stream(rng, 7)]
    # No warning for a strength that is the same at every task.
    assert learned(fl.ContinualRidge(alpha=1.0, n_tasks=2), tasks).n_tasks_seen_ == 7
    on = learned(fl.ContinualRidge(schedule="increasing", n_tasks=2, radius=1.0), tasks[:2])
    with pytest.warns(UserWarning, match="task 3 is beyond the horizon of 2 tasks"):
        on.partial_fit(*tasks[2])
    learned(on, tasks[3:])
    ratios = [(k + 1) / (k - t + 2) for k, t in [(2, 1), (2, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]]
    np.testing.assert_allclose(on.history_["strength"], 13 / 3 * np.array(ratios))


def test_unknown_horizon_doubles(rng):
    model = learned(fl.ContinualRidge(schedule="increasing", radius=1.0), stream(rng, 9))
    epochs = [(4, 1), (4, 2), (4, 3), (4, 4), (4, 1), (4, 2), (4, 3), (4, 4), (8, 1)]
    np.testing.assert_allclose(model.history_["strength"], [13 / 3 * (k + 1) / (k - t + 2) for k, t in epochs])


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"alpha": -1.0}, ValueError, "alpha must be nonnegative"),
        ({"alpha": "1"}, TypeError, "alpha must be a real number"),
        ({"schedule": "rising"}, ValueError, "there is no schedule 'rising'; did you mean 'increasing'"),
        ({"schedule": 3.0}, TypeError, "schedule must be a name"),
        ({"schedule": "fixed", "n_tasks": 2}, ValueError, "k must be at least 3"),
        ({"n_tasks": 0}, ValueError, "n_tasks must be at least 1"),
        ({"radius": 0.0}, ValueError, "radius must be positive"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"memory": 1.5}, TypeError, "memory"),
    ],
)
def test_bad_parameters_are_named(parameters, error, words):
    with pytest.raises(error, match=words):
        fl.ContinualRidge(**{"alpha": 1.0, **parameters}).partial_fit([[1.0, 2.0]], [1.0])


def test_divergent_step_sizes_are_refused():
    with pytest.raises(ValueError, match=r"step_size=1 diverges on this task, whose squared norm is 4"):
        fl.ContinualGD(3, 1.0).partial_fit([[2.0, 0.0]], [1.0])
    with pytest.raises(ValueError, match="step_size=10 diverges"):
        fl.ContinualRidge(schedule=fl.GradientDescent(20, 10.0)).partial_fit([[2.0, 0.0]], [1.0])
    with pytest.raises(TypeError, match="n_steps"):
        fl.ContinualGD(2.5).partial_fit([[2.0, 0.0]], [1.0])


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("none", fl.Projection()),
        ("fixed", fl.schedules.fixed()),
        ("increasing", fl.schedules.increasing()),
        ("end-ramp", fl.schedules.end_ramp()),
    ],
)
def test_names_are_schedules_of_a_stream(rng, text, schedule):
    tasks = list(stream(rng, 4))
    by_name, given = (learned(fl.ContinualRidge(schedule=each, n_tasks=4), tasks) for each in (text, schedule))
    np.testing.assert_array_equal(by_name.coef_, given.coef_)


def test_budgets_by_name_take_the_steps_of_the_model(rng):
    tasks = list(stream(rng, 4))
    for text, schedule in {
        "fixed": fl.schedules.fixed_budget(7),
        "increasing-budget": fl.schedules.increasing_budget(7),
        "minimax-budget": fl.schedules.minimax_budget(7),
    }.items():
        models = [learned(fl.ContinualGD(7, schedule=each, n_tasks=4), tasks) for each in (text, schedule)]
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_parameters_changed_between_tasks_count_from_the_next_one(rng):
    X, y = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3))
    model = fl.ContinualRidge(alpha=1.0).partial_fit(X[0], y[0])
    model.set_params(alpha=5.0).partial_fit(X[1], y[1])
    expected = fl.step(fl.step(np.zeros(4), (X[0], y[0]), fl.Ridge(1.0)), (X[1], y[1]), fl.Ridge(5.0))
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-10)
    assert model.history_["strength"].tolist() == [1.0, 5.0]


def test_long_horizons_take_little_memory_and_all_of_it_is_counted(rng):
    """Four features and ten million declared tasks: less than a MiB stays, and ``nbytes_`` is right within a tenth."""
    X, y = rng.standard_normal((5, 4)), rng.standard_normal(5)
    fl.ContinualRidge(schedule="increasing", n_tasks=10).partial_fit(X, y)  # imports and caches
    gc.collect()
    tracemalloc.start()
    try:
        model = fl.ContinualRidge(schedule="increasing", n_tasks=10**7)
        for _ in range(3):
            model.partial_fit(X, y)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 2**20
    assert model.nbytes_ == pytest.approx(held, rel=0.1)

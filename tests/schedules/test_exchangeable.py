"""The minimax schedule: its strengths, each task's own norm, and what it rejects."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl

s = fl.schedules


@given(st.integers(1, 300), st.floats(1e-3, 1e3), st.floats(0.05, 1.0), st.integers(1, 9))
def test_the_factor_at_the_radius_decays_linearly_to_zero(k, radius, eta, n_steps):
    """κ_t = η(k+1−t)/(k+1) for explicit L2 and for every budget of steps."""
    expected = eta * np.arange(k, 0, -1) / (k + 1)
    for schedule in (s.minimax(eta), s.minimax_budget(n_steps, eta)):
        np.testing.assert_allclose(schedule(k, radius).factor_at_radius(radius), expected, rtol=1e-10)


def test_strengths_without_rounding():
    """λ_t = R²t/(k+1−t), also where 1/κ − 1 would lose digits; strengths increase."""
    t = np.arange(1, 10_001)
    np.testing.assert_allclose(s.minimax()(10_000, 3.0).coefficient, 9 * t / (10_001 - t), rtol=1e-15)
    assert (np.diff(s.minimax(0.5)(50, 1.0).coefficient) > 0).all()


def test_noise_divides_eta():
    k, noise = 24, 0.3
    expected = s.minimax(eta=0.8 / (1 + noise * 5))
    np.testing.assert_allclose(
        s.minimax(eta=0.8, noise=noise)(k, 2.0).coefficient, expected(k, 2.0).coefficient, rtol=1e-14
    )


@pytest.mark.parametrize("kind", [s.minimax, s.minimax_budget])
def test_own_norms_are_steps_on_normalized_tasks(kind, rng):
    """With ``per_task`` weights are those on X/‖X‖, y/‖X‖, in simulation, ``step`` and the estimators."""
    teacher = rng.standard_normal(4)
    X = [scale * rng.standard_normal((2, 4)) for scale in (1.0, 3.0, 0.2, 0.7)]
    norms = [np.linalg.norm(x, 2) for x in X]
    tasks = fl.TaskCollection([(x, x @ teacher) for x in X])
    normalized = fl.TaskCollection([(x / c, x @ teacher / c) for x, c in zip(X, norms, strict=True)])
    own, plain = kind(per_task=True), kind()
    one = fl.simulate(tasks, own, 4, ordering=fl.Cyclic(), record="last").weights[0, 0]
    two = fl.simulate(normalized, plain, 4, ordering=fl.Cyclic(), record="last").weights[0, 0]
    np.testing.assert_allclose(one, two, atol=1e-14)
    w, filter_ = np.zeros(4), own(4, 1.0)
    for i, task in enumerate(tasks):
        w = fl.step(w, task, filter_.at(i))
    np.testing.assert_allclose(w, two, atol=1e-14)
    estimator = fl.ContinualRidge if kind is s.minimax else fl.ContinualGD
    model = estimator(schedule=own, n_tasks=4, fit_intercept=False, loss="sum")
    for x in X:
        model.partial_fit(x, x @ teacher)
    np.testing.assert_allclose(model.coef_, two, atol=1e-12)


def test_own_norms_of_single_rows(rng):
    """The short path of rows uses the norm of each row: NLMS with step size (k+1−t)/(k+1)."""
    rows, teacher, w = rng.standard_normal((6, 3)) * [[1], [5], [0.1], [2], [1], [9]], rng.standard_normal(3), 0.0
    model = fl.ContinualRidge(schedule="minimax:1,0,per-task", n_tasks=6, fit_intercept=False)
    w = np.zeros(3)
    for t, x in enumerate(rows, start=1):
        model.partial_fit(x[None], [x @ teacher])
        w = w + (7 - t) / 7 * x * (x @ (teacher - w)) / (x @ x)
    np.testing.assert_allclose(model.coef_, w, atol=1e-12)


def test_own_norms_in_other_schedules():
    """A first task without regularization and a wrong horizon keep each task's own norm."""
    first = s.unregularized_first(s.minimax_budget(per_task=True))(4, 2.0)
    assert isinstance(first, fl.filters.PerTask)
    np.testing.assert_allclose(first.factors(1.0), [1.0, 0.6, 0.4, 0.2])
    longer = s.planned_for(s.minimax(per_task=True), 2, 4, 2.0)
    np.testing.assert_allclose(longer.factors(1.0), [2 / 3, 1 / 3, 1 / 3, 1 / 3])
    with pytest.raises(ValueError, match="all use R or all use each task's own norm"):
        fl.filters.per_task.staged((1, 1), (fl.Ridge(1.0), fl.filters.PerTask(fl.Ridge(1.0))))


@pytest.mark.parametrize(
    "schedule",
    [
        s.unregularized_first(s.minimax(per_task=True)),
        fl.filters.PerTask(fl.Ridge(0.4)),
        s.minimax(per_task=True)(3, 1.0),
    ],
)
@pytest.mark.parametrize("n_rows", [1, 2])
def test_estimators_use_own_norms_of_every_such_schedule(schedule, n_rows, rng):
    """Also inside ``unregularized_first`` and as a bare filter, for the sum and the mean of squares."""
    X = [scale * rng.standard_normal((n_rows, 4)) for scale in (2.0, 0.3, 1.0)]
    teacher, filter_ = rng.standard_normal(4), s.resolve(schedule, 3, 1.0)
    for loss in ("sum", "mean"):
        model, w = fl.ContinualRidge(schedule=schedule, n_tasks=3, fit_intercept=False, loss=loss), np.zeros(4)
        for t, x in enumerate(X):
            model.partial_fit(x, x @ teacher)
            w = fl.step(w, (x, x @ teacher), filter_.at(t))
        np.testing.assert_allclose(model.coef_, w, atol=1e-11)
        tasks = fl.TaskCollection([(x, x @ teacher) for x in X])
        exact = fl.simulate(tasks, schedule, 3, ordering=fl.Cyclic(), record="last").weights[0, 0]
        np.testing.assert_allclose(exact, w, atol=1e-11)


def test_scales_of_own_norms():
    """A scale multiplies the strengths and keeps the norms; a function that hides them is an error of estimators."""
    filter_ = fl.filters.PerTask(fl.Ridge(0.5))
    assert filter_.scaled(3.0) == fl.filters.PerTask(fl.Ridge(1.5))
    assert filter_.for_norm(2.0) == fl.Ridge(2.0)
    assert filter_.for_norm(0.0) == fl.Ridge(0.5)
    with pytest.raises(TypeError, match=r"a function that gives fl\.filters\.PerTask"):
        fl.ContinualRidge(schedule=lambda k, radius: filter_).partial_fit([[1.0]], [1.0])


@pytest.mark.parametrize("kind", [s.minimax, s.minimax_budget])
def test_bad_arguments_are_named(kind):
    for eta in (0, -0.5, float("nan")):
        with pytest.raises(ValueError, match=r"eta must be positive and finite, got"):
            kind(eta=eta)
    with pytest.raises(ValueError, match=r"eta must lie in \(0, 1\], got 1.01; 1 is for labels"):
        kind(eta=1.01)
    with pytest.raises(ValueError, match="noise must be nonnegative"):
        kind(noise=-1)
    with pytest.raises(TypeError, match="per_task must be True or False, got 1"):
        kind(per_task=1)


@pytest.mark.torch
def test_the_anchor_takes_it():
    """λ_t at R = 1 for strengths, and the same fractions for budgets of steps."""
    torch = pytest.importorskip("forgetless.torch")
    strengths = importlib.import_module("forgetless.torch.schedules").strengths
    assert strengths(s.minimax(), 3) == strengths(s.minimax(per_task=True), 3) == pytest.approx((1 / 3, 1.0, 3.0))
    assert torch.step_budgets(s.minimax_budget(), 4, n_steps=20) == (20, 15, 10, 5)

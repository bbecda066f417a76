"""Streams that change: the recursion of tracking strengths against its definition, recent tasks, drift and jumps."""

import copy

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.estimators import evidence, tracking
from forgetless.estimators.statistics import mean_variance
from forgetless.estimators.strength import Auto, Steady

D = 5


def following(**options):
    return fl.ContinualRidge(schedule=Auto(objective="next"), **options)


def drawn(rng, n_tasks=6, n=4, d=D, targets=(), drift=0.3, noise=0.2):
    teacher = rng.standard_normal((d, *targets))
    tasks = []
    for _ in range(n_tasks):
        teacher = teacher + drift * rng.standard_normal(teacher.shape)
        X = rng.standard_normal((n, d)) + 0.5
        tasks.append((X, 2.0 + X @ teacher + noise * rng.standard_normal((n, *targets))))
    return tasks


def step(X, y, w, strength):
    """Return the solution of a ridge step from w, and tr Φ/d, by matrices d × d."""
    system = X.T @ X + strength * np.eye(X.shape[1])
    return w + np.linalg.solve(system, X.T @ (y - X @ w)), np.trace(np.linalg.solve(system, X.T @ X)) / X.shape[1]


def learned_as(kind, model, X, y):
    if kind == "sparse":
        return model.partial_fit(sparse.csr_array(X), y)
    if kind == "blocks":
        return model.partial_fit_blocks([(X[:2], y[:2]), (X[2:], y[2:])])
    if kind == "generator":
        return model.partial_fit_blocks((X[i : i + 3], y[i : i + 3]) for i in range(0, len(y), 3))
    weight = np.arange(1.0, 1 + len(y)) if kind == "weights" else None
    return model.partial_fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("targets", [(), (3,)])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["arrays", "tall", "sparse", "blocks", "generator", "weights", "wide"])
def test_trackers_are_ridge_steps_with_the_strengths_of_the_recursion(rng, kind, intercept, targets, monkeypatch):
    monkeypatch.setattr(evidence, "CHUNK", 8 * 30 * 2)  # wide tasks in chunks of three rows
    model = following(fit_intercept=intercept, standardize=False, memory=3 if kind == "wide" else 100)
    tasks = drawn(rng, n=9 if kind == "tall" else 4, d=30 if kind == "wide" else D, targets=targets)
    pieces = [slice(0, 3), slice(3, None)] if kind == "wide" else [slice(None)]
    for number, (X, y) in enumerate(tasks):
        before = model._state.memory if number else None
        learned_as(kind, model, X, y)
        memory = model._state.memory
        statistics = memory.statistics
        if before is None:  # from the solution on the first task, whose strength has the largest evidence
            unit = mean_variance(statistics.diagonal, statistics.rows)
            inverse = (1 - statistics.freedom / (len(statistics.mean) + intercept)) * unit / statistics.strength
            np.testing.assert_allclose(memory.trackers.inverses, inverse + tracking.DRIFTS, rtol=1e-12)
            assert all(np.array_equal(each, statistics.weights) for each in memory.trackers.weights)
            continue
        unit = mean_variance(statistics.diagonal, statistics.rows)
        A = np.column_stack([X, np.ones(len(X))]) if intercept else X
        root = np.sqrt(np.arange(1.0, 1 + len(y)))[:, None] if kind == "weights" else 1.0
        A, b = root * A, root * y.reshape(len(y), -1)
        for i, g in enumerate(tracking.DRIFTS):
            w, inverse = before.trackers.weights[i], before.trackers.inverses[i]
            for piece in pieces:
                w, factor = step(A[piece], b[piece], w, unit / inverse)
                inverse = (1 - factor) * inverse
            np.testing.assert_allclose(memory.trackers.weights[i], w, rtol=1e-7, atol=1e-9)
            assert memory.trackers.inverses[i] == pytest.approx(inverse + g, rel=1e-9)


def test_recent_tasks_are_those_since_the_last_power_of_two(rng):
    model, tasks = following(standardize=False), drawn(rng, n_tasks=9, n=8)
    for number, (X, y) in enumerate(tasks, 1):
        model.partial_fit(X, y)
        since = tasks[2 ** int(np.log2(number)) - 1 : number]
        (recent,) = model._state.memory.recent
        X, y = (np.concatenate(part) for part in zip(*since, strict=True))
        Z = X - X.mean(0)
        slopes = np.linalg.solve(Z.T @ Z + recent.strength * np.eye(D), Z.T @ (y - y.mean()))
        np.testing.assert_allclose(recent.weights[:D, 0], slopes, rtol=1e-8)
        assert recent.rows == 8 * len(since)


def test_a_column_that_varies_more_has_smaller_weights_and_the_mean_keeps_its_prediction(rng):
    X, y = drawn(rng, n_tasks=1, n=20)[0]
    model = following().partial_fit(X, y)
    state = model._state
    units = state.units._replace(scale=state.units.scale * [10, 1, 0.5, 1, 1], mean=state.units.mean + 3.0)
    before, after = state.memory.trackers, state.in_units(units).memory.trackers
    slopes = [units.outward(after.weights)[0], state.units.outward(before.weights)[0]]
    np.testing.assert_allclose(slopes[0][:-1, 0], slopes[1][:-1, 0] / [100, 1, 1, 1, 1], rtol=1e-12)
    centre = np.append(state.units.mean, 1.0)
    np.testing.assert_allclose(centre @ slopes[0], centre @ slopes[1], rtol=1e-12)


def test_a_column_that_hardly_varied_at_first_does_no_harm(rng):
    """Its weight may be anything, and rows far from its first values must not be learned with it."""
    tasks = drawn(rng, n_tasks=20, n=12, drift=0.0)
    tasks[0][0][:, 1] = 0.5 + 1e-6 * rng.standard_normal(12)
    models = following(), fl.ContinualRidge()
    squares = np.zeros(2)
    for number, (X, y) in enumerate(tasks):
        squares += [np.sum((model.predict(X) - y) ** 2) if number > 1 else 0.0 for model in models]
        for model in models:
            model.partial_fit(X, y)
    assert squares[0] < 1.5 * squares[1]


def test_drift_is_followed_about_as_well_as_by_the_best_constant(rng):
    tasks = drawn(rng, 400, 5, 20, drift=0.1, noise=0.3)

    def error(model):
        for X, y in tasks:
            model.partial_fit(X, y)
        return model.prequential_mse_

    best = min(error(fl.ContinualRidge(alpha=alpha, fit_intercept=True)) for alpha in np.logspace(-2, 2, 13))
    assert error(following()) < 1.1 * best
    assert error(fl.ContinualRidge()) > 3.0 * best


def test_a_stream_with_a_jump_recovers(rng):
    """In its last quarter it is as good as a model that starts after the jump."""
    tasks = drawn(rng, 200, 8, 30, drift=0.0, noise=0.5) + drawn(rng, 200, 8, 30, drift=0.0, noise=0.5)
    models, squares = (following(), following()), np.zeros(2)
    for number, (X, y) in enumerate(tasks):
        for i, model in enumerate(models):
            if number >= 300:
                squares[i] += np.sum((model.predict(X) - y) ** 2)
            if i == 0 or number >= 200:
                model.partial_fit(X, y)
    assert squares[0] < 1.1 * squares[1]


def test_new_features_and_a_file_change_nothing(rng, tmp_path):
    tasks = drawn(rng)
    model, wide = following(), following()
    for X, y in tasks[:3]:
        model.partial_fit(X, y)
        wide.partial_fit(np.column_stack([X, np.zeros(len(X))]), y)
    model.widen(1)
    np.testing.assert_allclose(model._state.memory.trackers.weights, wide._state.memory.trackers.weights, atol=1e-9)
    model.save(tmp_path / "m.fl")
    before, other = copy.copy(model), fl.load(tmp_path / "m.fl")
    for X, y in tasks[3:]:
        X = np.column_stack([X, rng.standard_normal(len(X))])
        model.partial_fit(X, y)
        other.partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(before.coef_, fl.load(tmp_path / "m.fl").coef_)
    assert before._state.memory.trackers.weights.shape == (len(tracking.DRIFTS), D + 2, 1)


def test_new_classes_start_from_zero(rng):
    model = fl.ContinualRidgeClassifier(schedule=Auto(objective="next"))
    X = rng.standard_normal((20, 3))
    model.partial_fit(X, np.where(X[:, 0] > 0, "b", "d"))
    before = model._state.memory.trackers.weights
    model.partial_fit(X, np.where(X[:, 1] > 0, "a", "b"))
    after = model._state.memory.trackers.weights
    assert (before.shape[-1], after.shape[-1]) == (2, 3)
    assert np.mean(model.predict(X) == np.where(X[:, 1] > 0, "a", "b")) > 0.6


def test_the_other_objective_has_no_trackers_and_either_can_follow(rng):
    tasks = drawn(rng)
    model = fl.ContinualRidge()
    for X, y in tasks[:3]:
        model.partial_fit(X, y)
    assert len(model._state.memory.trackers.inverses) == 0
    model.set_params(schedule=Auto(objective="next")).partial_fit(*tasks[3])
    memory = model._state.memory
    np.testing.assert_array_equal(memory.trackers.weights[0], memory.statistics.weights)
    model.partial_fit(*tasks[4])
    model.set_params(schedule="auto").partial_fit(*tasks[5])
    assert model._state.memory.shares.shape == (2,)


# --- Steady ---


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"distance": 3.0}, {"drift": 0.0}])
@pytest.mark.parametrize("n", [1, 3, 9])
def test_steady_is_its_recursion(rng, n, options):
    noise, drift, distance = 0.5, options.pop("drift", 0.1), options.pop("distance", 1.0)
    model = fl.ContinualRidge(schedule=Steady(noise, drift, distance), **options)
    w, inverse, strengths = 0.0, 0.0, []
    for X, y in drawn(rng, n=n):
        model.partial_fit(X, y)
        A = np.column_stack([X, np.ones(n)]) if options.get("fit_intercept") else X
        unit = A.shape[1] * noise**2
        w, inverse = (np.zeros(A.shape[1]), distance**2 / unit) if not strengths else (w, inverse)
        strengths.append(1 / inverse)
        w, factor = step(A, y, w, 1 / inverse)
        inverse = (1 - factor) * inverse + drift**2 / unit
    np.testing.assert_allclose(model.history_["strength"], strengths, rtol=1e-10)
    np.testing.assert_allclose(model.coef_, w[:D], rtol=1e-8, atol=1e-10)


def test_steady_without_noise_is_the_projection(rng):
    X, y = drawn(rng, n_tasks=1, n=3)[0]
    model = fl.ContinualRidge(schedule=Steady(0.0)).partial_fit(X, y)
    np.testing.assert_allclose(X @ model.coef_, y, rtol=1e-9)


def test_steady_on_a_large_task_uses_a_bound_of_the_factor(rng, monkeypatch):
    X, y = drawn(rng, n_tasks=1, n=9)[0]
    exact = fl.ContinualRidge(schedule=Steady(0.5)).partial_fit(X, y)._state.inverse_strength
    monkeypatch.setattr(tracking, "SPECTRUM_SIDE", 2)
    bound = fl.ContinualRidge(schedule=Steady(0.5)).partial_fit(X, y)._state.inverse_strength
    value, unit = np.sum(X**2) / D, D * 0.25
    assert bound == pytest.approx((1 - value / (value + unit)) / unit, rel=1e-12)
    assert bound < exact


def test_budgets_have_no_steady_schedule(rng):
    with pytest.raises(TypeError, match="schedule must be a name, a filter or a callable"):
        fl.ContinualGD(schedule=Steady(0.5)).partial_fit(*drawn(rng, n_tasks=1)[0])

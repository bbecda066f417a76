"""Two classes: steps and runs against literal loops, SciPy and scikit-learn."""

import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.linear_model import LogisticRegression, PassiveAggressiveClassifier
from sklearn.svm import SVC, LinearSVC

import forgetless as fl
from research.tests.labels import collection
from research.two_class import (
    LOSSES,
    compare_bounds,
    hinge,
    max_margin,
    simulate,
    step,
)
from research.two_class.losses import lipschitz
from research.two_class.solvers import contradiction, nearest_separator

NAMES = list(LOSSES)
SHAPES = [(4, 120), (25, 25), (150, 8)]


def task(rng, n, d, noise=0.3):
    """Rows of some size, labels of a teacher with noise, weights before the step."""
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 2)
    outputs = X @ rng.standard_normal(d)
    y = np.where(outputs + noise * np.linalg.norm(X[0]) * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y, rng.standard_normal(d) / np.linalg.norm(X, 2)


def slope(name, margins):
    """The derivative of a smooth loss."""
    if name == "logistic":
        return -1 / (1 + np.exp(margins))
    return -np.maximum(1 - margins, 0)


# --- one step


@pytest.mark.parametrize("name", NAMES)
def test_constants_bound_gradients(rng, name):
    """Differences of losses are at most G‖v − w‖, second differences at most β‖v − w‖²."""
    loss = LOSSES[name]
    for _ in range(200):
        X, y, w = task(rng, 5, 6)
        R = np.linalg.norm(X, 2)
        change = rng.standard_normal(6) * 10 ** rng.uniform(-2, 1) / R
        size = np.linalg.norm(change)
        left, middle, right = (loss.value(y * (X @ (w + t * change))).sum() for t in (-0.5, 0.0, 0.5))
        if name != "squared_hinge":
            assert abs(right - left) <= lipschitz(R, 5) * size * (1 + 1e-9)
        assert left + right - 2 * middle <= loss.smoothness(R) * size**2 / 4 * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
def test_gradients_vanish_at_every_strength(rng, name, shape):
    for exponent in range(-8, 9, 2):
        for noise in (0.0, 0.3, 3.0):
            X, y, w = task(rng, *shape, noise)
            square = np.linalg.norm(X, 2) ** 2
            lam = 10.0**exponent * square
            u = step(w, (X, y), fl.Ridge(lam), name)
            gradient = lam * (u - w) + X.T @ (y * slope(name, y * (X @ u)))
            rounding = 1e-14 * (lam + square) * np.linalg.norm(u)
            assert np.linalg.norm(gradient) <= 1e-10 * lam * np.linalg.norm(u - w) + rounding


@pytest.mark.parametrize("shape", SHAPES)
def test_the_step_of_the_hinge_has_no_duality_gap(rng, shape):
    """½λ‖u − w‖² + Σ max(0, 1 − m) is at most 1e-9 above the dual, from subgradients of rows."""
    for exponent in range(-4, 5, 2):
        X, y, w = task(rng, *shape)
        lam = 10.0**exponent * np.linalg.norm(X, 2) ** 2
        A = y[:, None] * X
        u = step(w, (X, y), fl.Ridge(lam), "hinge")
        margins = A @ u
        inside = np.abs(margins - 1) < 1e-7
        # multipliers of rows below 1 are 1, above 0, at 1 whatever explains the change
        p = (margins < 1).astype(float) * ~inside
        rest = lam * (u - w) - A.T @ p
        p[inside] = np.linalg.lstsq(A[inside].T, rest, rcond=None)[0]
        assert p.min() >= -1e-6
        assert p.max() <= 1 + 1e-6
        residual = np.linalg.norm(lam * (u - w) - A.T @ p)
        assert residual <= 1e-8 * np.linalg.norm(X, 2) * math.sqrt(len(X))


def digits(A, w, lam, name, z):
    """The exact change with 50 digits, by Newton's method from ours."""
    with mpmath.workdps(50):
        lam = mpmath.mpf(lam)
        before = mpmath.matrix(A.tolist()) * mpmath.matrix(w.tolist())
        A = mpmath.matrix(A.tolist())
        z = mpmath.matrix(z.tolist())
        for _ in range(8):
            m = before + A * z
            if name == "logistic":
                p = [1 / (1 + mpmath.exp(each)) for each in m]
                h = [q * (1 - q) for q in p]
            else:
                p = [max(1 - each, 0) for each in m]
                h = [mpmath.mpf(q > 0) for q in p]
            H = A.T * mpmath.diag(h) * A + lam * mpmath.eye(A.cols)
            z -= mpmath.lu_solve(H, lam * z - A.T * mpmath.matrix(p))
        return np.array([float(each) for each in z])


@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("shape", [(3, 6), (5, 5), (9, 4)])
def test_steps_agree_with_fifty_digits(rng, name, shape):
    for exponent in (-8, -5, -2, 0, 3):
        X, y, w = task(rng, *shape)
        lam = 10.0**exponent * np.linalg.norm(X, 2) ** 2
        change = step(w, (X, y), fl.Ridge(lam), name) - w
        exact = digits(X * y[:, None], w, lam, name, change)
        rounding = 1e-15 * np.linalg.norm(w)
        assert np.linalg.norm(change - exact) <= 1e-9 * np.linalg.norm(exact) + rounding


@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.05, 0.7, 20.0])
def test_one_row_is_passive_aggressive(rng, name, C):
    """PA-I with C = 1/λ, PA-II with C = 1/(2λ), and PA for λ → 0 (Crammer et al. 2006)."""
    lam = 1 / C if name == "hinge" else 1 / (2 * C)
    w = np.zeros(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is renaming this class
        theirs = PassiveAggressiveClassifier(C=C, loss=name, fit_intercept=False, shuffle=False)
        for _ in range(40):
            X = rng.standard_normal((1, 6))
            y = np.where(rng.random(1) < 0.5, -1.0, 1.0)
            w = step(w, (X, y), fl.Ridge(lam), name)
            theirs.partial_fit(X, y, classes=[-1.0, 1.0])
    np.testing.assert_allclose(w, theirs.coef_[0], rtol=1e-10)
    projected = step([1.0, 1.0], ([[3.0, 4.0]], [-1]), fl.Projection(), name)
    np.testing.assert_allclose(projected, 1 - 8 / 25 * np.array([3.0, 4.0]))


@pytest.mark.parametrize("shape", [(8, 40), (60, 40), (200, 10)])
def test_steps_from_zero_are_those_of_scikit_learn(rng, shape):
    X, y, _ = task(rng, *shape)
    X = X / np.linalg.norm(X, 2)
    zero = np.zeros(shape[1])
    options = {"fit_intercept": False, "max_iter": 200_000}
    for lam in (0.01, 1.0):
        theirs = {
            "logistic": LogisticRegression(C=1 / lam, tol=1e-12, **options),
            "squared_hinge": LinearSVC(C=0.5 / lam, loss="squared_hinge", tol=1e-11, **options),
            "hinge": LinearSVC(C=1 / lam, loss="hinge", dual=True, tol=1e-11, **options),
        }
        for name, model in theirs.items():
            ours = step(zero, (X, y), fl.Ridge(lam), name)
            scale = np.abs(ours).max()
            np.testing.assert_allclose(ours, model.fit(X, y).coef_[0], rtol=1e-4, atol=1e-5 * scale)


def test_the_projection_is_the_limit_and_that_of_scipy(rng):
    for n, d in ((3, 20), (10, 12)):
        X = rng.standard_normal((n, d))
        y = np.where(X @ rng.standard_normal(d) > 0, 1.0, -1.0)
        w = 0.3 * rng.standard_normal(d)
        projected = step(w, (X, y), fl.Projection(), "squared_hinge")
        assert (y * (X @ projected)).min() >= 1 - 1e-12
        limits = LinearConstraint(y[:, None] * X, 1.0, np.inf)
        first = projected + 0.1
        theirs = minimize(lambda v, w=w: np.sum((v - w) ** 2), first, constraints=limits, tol=1e-14)
        np.testing.assert_allclose(projected, theirs.x, atol=1e-5)
        for name in ("squared_hinge", "hinge"):
            near = step(w, (X, y), fl.Ridge(1e-9), name)
            np.testing.assert_allclose(near, projected, atol=1e-6)


def test_equal_rows_and_zero_rows(rng):
    X, y, w = task(rng, 6, 4)
    for name in NAMES:
        for exponent in (-6, 0, 6):
            lam = 10.0**exponent * np.linalg.norm(X, 2) ** 2
            once = step(w, (X, y), fl.Ridge(lam), name)
            twice = step(w, (np.vstack([X, X]), np.tile(y, 2)), fl.Ridge(2 * lam), name)
            zero = step(w, (np.vstack([X, 0 * X[:1]]), np.append(y, 1.0)), fl.Ridge(lam), name)
            np.testing.assert_allclose(twice, once, rtol=1e-7, atol=1e-9 * np.linalg.norm(once))
            np.testing.assert_allclose(zero, once, rtol=1e-7, atol=1e-9 * np.linalg.norm(once))


def test_contradictions_are_named(rng):
    A = rng.standard_normal((10, 3)) + np.array([4.0, 0.0, 0.0])
    assert contradiction(A) == []
    A[9] = -2 * A[4]
    assert contradiction(A) == [4, 9]
    star = np.array([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])  # no two contradict, all three do
    assert contradiction(star) == [0, 1, 2]
    assert contradiction(star[:2]) == []
    assert contradiction(np.vstack([star[:1], np.zeros(2)])) == [1]
    with pytest.raises(ValueError, match=r"no margin: rows \[0, 1, 2\] contradict each other"):
        step(np.zeros(2), (star, np.ones(3)), fl.Projection(), "hinge")
    separated = nearest_separator(np.eye(3), np.array([5.0, 0.0, -3.0]))
    np.testing.assert_allclose(separated, [5.0, 1.0, 1.0], rtol=1e-14)


# --- runs


def literal_step(X, y, w, lam, name):
    """One proximal step by SciPy, the hinge as a smooth problem with slacks."""
    if name == "hinge":
        n, d = X.shape

        def cost(v):
            return v[d:].sum() + lam / 2 * np.sum((v[:d] - w) ** 2)

        limits = [{"type": "ineq", "fun": lambda v: y * (X @ v[:d]) + v[d:] - 1}]
        bounds = [(None, None)] * d + [(0, None)] * n
        start = np.concatenate([w, np.maximum(1 - y * (X @ w), 0)])
        options = {"ftol": 1e-15, "maxiter": 1000}
        settings = {"constraints": limits, "bounds": bounds, "options": options}
        return minimize(cost, start, method="SLSQP", **settings).x[:d]

    def objective(v):
        margins = y * (X @ v)
        gradient = lam * (v - w) + X.T @ (y * slope(name, margins))
        return LOSSES[name].value(margins).sum() + lam / 2 * np.sum((v - w) ** 2), gradient

    return minimize(objective, w, jac=True, method="BFGS", options={"gtol": 1e-10}).x


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_metrics_are_those_of_a_literal_loop(rng, name):
    tasks = collection(rng, 0.2, M=4, d=5, n=3)
    lam = np.array([2.0, 0.5, 3.0, 1.0, 4.0, 0.7])
    order = fl.WithReplacement().sample(4, 6, seed=3)
    path = [0.3 * rng.standard_normal(5)]
    for coefficient, m in zip(lam, order):
        path.append(literal_step(tasks[m].X, tasks[m].y, path[-1], coefficient, name))
    runs = simulate(tasks, fl.Ridge(lam), 6, loss=name, seed=3, start=path[0])
    np.testing.assert_allclose(runs.weights[0], path, atol=1e-6)
    np.testing.assert_array_equal(runs.order[0], order)
    margins = [[each.y * (each.X @ w) for each in tasks] for w in runs.weights[0]]
    losses = np.array([[LOSSES[name].value(m).sum() for m in ms] for ms in margins])
    wrong = [np.mean([np.mean(m <= 0) for m in ms]) for ms in margins]
    violations = [max(0.0, max((1 - m).max() for m in ms)) for ms in margins]
    np.testing.assert_allclose(runs.average_loss[0], losses.mean(axis=1))
    np.testing.assert_allclose(runs.error[0], wrong)
    np.testing.assert_allclose(runs.max_violation[0], violations)
    forgetting = np.mean([losses[-1, m] - losses[t, m] for t, m in enumerate(order, start=1)])
    assert runs.forgetting[0] == pytest.approx(forgetting)


def test_schedules_are_scaled_by_the_smoothness(rng):
    tasks = collection(rng, M=4, d=5, n=3)
    k = 8
    square = tasks.radius**2
    rising = 13 / 3 * (k + 1) / np.arange(k + 1, 1, -1)
    scale = tasks.radius * np.sqrt(3) * np.sqrt(2 * (k + 1)) / 2.5
    for loss, number in (("squared_hinge", square), ("logistic", square / 4), (hinge(2.5), scale)):
        by_name = simulate(tasks, fl.schedules.increasing(), k, loss=loss, seed=0).weights
        by_number = simulate(tasks, fl.Ridge(number * rising), k, loss=loss, seed=0).weights
        np.testing.assert_allclose(by_name, by_number, rtol=1e-9)


def test_trials_do_not_depend_on_their_number_and_empty_tasks_change_nothing(rng):
    tasks = collection(rng, 0.1, M=3, n=2, d=4)
    few = simulate(tasks, 1.0, 9, loss="logistic", n_trials=2, seed=1)
    many = simulate(tasks, 1.0, 9, loss="logistic", n_trials=5, seed=1)
    np.testing.assert_array_equal(many.weights[:2], few.weights)
    more = fl.TaskCollection([*tasks, (np.zeros((0, 4)), np.zeros(0))])
    a = simulate(more, 1.0, 5, loss="squared_hinge", ordering=fl.FixedOrder([0, 3, 1, 3, 2]))
    b = simulate(tasks, 1.0, 3, loss="squared_hinge", ordering=fl.FixedOrder([0, 1, 2]))
    np.testing.assert_allclose(a.weights[0, -1], b.weights[0, -1], rtol=1e-12)
    assert a.average_loss[0, -1] == pytest.approx(0.75 * b.average_loss[0, -1])


def test_max_margin_is_that_of_a_support_vector_machine(rng):
    tasks = collection(rng, M=4, n=3, d=5)
    X = np.concatenate([task.X for task in tasks])
    y = np.concatenate([task.y for task in tasks])
    best = max_margin(tasks)
    assert (y * (X @ best.weights)).min() == pytest.approx(1.0, abs=1e-12)
    assert best.margin == pytest.approx(1 / np.linalg.norm(best.weights))
    # Rows and their mirror images: a machine with an intercept has none by symmetry.
    machine = SVC(kernel="linear", C=1e10, tol=1e-10).fit(np.vstack([X, -X]), np.append(y, -y))
    np.testing.assert_allclose(best.weights, machine.coef_[0], rtol=1e-4)
    start = rng.standard_normal(5)
    near = max_margin(tasks, start)
    assert near.margin == best.margin
    assert np.linalg.norm(near.weights - start) <= np.linalg.norm(best.weights - start)
    assert (y * (X @ near.weights)).min() >= 1 - 1e-12


def test_tasks_that_contradict_each_other_are_not_separable_together():
    first = ([[1.0, 2.0], [0.0, 1.0]], [1, -1])
    tasks = fl.TaskCollection([first, ([[2.0, 0.0], [1.0, 2.0]], [1, -1])])
    best = max_margin(tasks)
    assert (best.margin, best.weights) == (0.0, None)
    assert best.contradiction == ((0, 0), (1, 1))
    # Each of them has a margin, so that projections are defined.
    runs = simulate(tasks, fl.Projection(), 4, loss="hinge", seed=0)
    assert np.isfinite(runs.average_loss).all()


E = np.eye(2)
GOOD = fl.TaskCollection([(E, [1, -1]), (2 * E, [1, -1])])
BAD = [
    ({"tasks": fl.TaskCollection([(E, [1, 1])])}, ValueError, "both labels"),
    ({"tasks": fl.TaskCollection([(E, [0, 1])])}, ValueError, r"use 2\*y − 1"),
    ({"tasks": fl.TaskCollection([(E, [[1], [-1]])])}, ValueError, "vector of labels"),
    ({"schedule": fl.GradientDescent(2, 0.1)}, TypeError, "must be fl.Ridge or fl.Projection"),
    ({"schedule": fl.schedules.increasing(), "loss": "hinge"}, ValueError, "needs a distance"),
    ({"loss": "0-1"}, ValueError, "loss must be one of squared_hinge, logistic, hinge"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named(change, error, message):
    arguments = {"tasks": GOOD, "schedule": fl.Ridge(1.0), "k": 4, "loss": "squared_hinge"}
    with pytest.raises(error, match=message):
        simulate(**arguments | change)


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match="distance must be positive"):
        hinge(0.0)
    with pytest.raises(ValueError, match=r"w must have shape \(2,\)"):
        step(np.zeros(3), (E, [1, -1]), fl.Ridge(1.0), "hinge")
    with pytest.raises(ValueError, match="at least 2 for standard errors"):
        compare_bounds(GOOD, 1.0, 3, loss="logistic", n_trials=1)

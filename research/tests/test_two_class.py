"""Two classes: steps, runs and bounds against literal loops, SciPy, scikit-learn, all orders."""

import itertools
import math
import re
import warnings
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.linear_model import LogisticRegression, PassiveAggressiveClassifier
from sklearn.svm import SVC, LinearSVC

import forgetless as fl
from research.two_class import (
    LOSSES,
    compare_bounds,
    hinge,
    max_margin,
    noise_factor,
    simulate,
    step,
)
from research.two_class.bounds import Setting
from research.two_class.laboratory import SignedRows
from research.two_class.losses import lipschitz
from research.two_class.solvers import contradiction, nearest_separator

NAMES = list(LOSSES)
SHAPES = [(4, 120), (25, 25), (150, 8)]


@pytest.fixture
def rng(request):
    return np.random.default_rng(list(request.node.name.encode()))


def task(rng, n, d, noise=0.3):
    """Rows of some size, labels of a teacher with noise, weights before the step."""
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 2)
    outputs = X @ rng.standard_normal(d)
    y = np.where(outputs + noise * np.linalg.norm(X[0]) * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y, rng.standard_normal(d) / np.linalg.norm(X, 2)


def collection(rng, noise=0.0, M=3, d=3, n=2):
    """Tasks with labels of both classes, of a teacher; with ``noise`` some are flipped."""
    teacher = rng.standard_normal(d)
    while True:
        rows = [rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-0.5, 0.5) for _ in range(M)]
        flips = np.where(rng.random((M, n)) < noise, -1.0, 1.0)
        labels = [flip * np.where(X @ teacher > 0, 1.0, -1.0) for X, flip in zip(rows, flips)]
        if len(np.unique(labels)) == 2:
            return fl.TaskCollection(list(zip(rows, labels)))


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


# --- bounds


def test_the_factor_of_noisy_labels():
    """(1 + Σ 1/(1 − κ_t))/((1 − η)(k + 1)), which tends to −ln(1 − η)/(η(1 − η))."""
    by_hand = (1 + 1 / (1 - 0.5 * 2 / 3) + 1 / (1 - 0.5 / 3)) / (0.5 * 3)
    assert noise_factor(2, 0.5) == pytest.approx(by_hand)
    assert noise_factor(10**5, 0.3) == pytest.approx(-math.log(0.7) / (0.3 * 0.7), rel=1e-4)


def enumerated(tasks, coefficients, loss, ordering, start):
    """The exact expected loss on the next task, and its wrong rows, by all orders."""
    k = len(coefficients)
    M = tasks.n_tasks
    every = isinstance(ordering, fl.WithReplacement)
    orders = itertools.product(range(M), repeat=k) if every else itertools.permutations(range(M), k)
    results = []
    for order in orders:
        w = start
        for m, coefficient in zip(order, coefficients):
            w = step(w, tasks[m], fl.Ridge(float(coefficient)), loss)
        following = range(M) if every else set(range(M)) - set(order)
        margins = [tasks[m].y * (tasks[m].X @ w) for m in following]
        losses = np.mean([LOSSES[loss].value(each).sum() for each in margins])
        results.append([losses, np.mean([np.sum(each <= 0) for each in margins])])
    return np.mean(results, axis=0)


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.WithoutReplacement()], ids=repr)
@pytest.mark.parametrize("loss", NAMES)
def test_bounds_hold_in_all_orders_enumerated(rng, loss, ordering):
    """Exact expectations never exceed them, separable or not, from the origin and elsewhere."""
    largest = 0.0
    k = 2
    for number in range(12):
        tasks = collection(rng, noise=0.5 * (number % 3 == 2))
        start = rng.standard_normal(3) * (number % 2)
        eta = float(rng.choice([0.3, 0.7, 1.0]))
        if loss == "hinge":
            strength = 10.0 ** rng.uniform(-1, 1)
            coefficients = strength * (k + 1) / np.arange(k + 1, 1, -1)
            schedule = fl.Ridge(coefficients)
        else:
            beta = LOSSES[loss].smoothness(tasks.radius)
            coefficients = beta * ((k + 1) / (eta * np.arange(k, 0, -1)) - 1)
            schedule = fl.schedules.minimax(eta=eta)
        exact = enumerated(tasks, coefficients, loss, ordering, start)
        options = {"ordering": ordering, "start": start, "n_trials": 100, "seed": number}
        result = compare_bounds(tasks, schedule, k, loss=loss, **options)
        applies = {check.bound.name for check in result.checks if check.value is not None}
        separable = max_margin(tasks).weights is not None
        expected = {"increasing"} if loss == "hinge" else set()
        if loss == "squared_hinge" and separable:
            expected |= {"minimax", "minimax, wrong rows"}
        if loss != "hinge" and eta < 1:
            expected |= {"oracle"}
        assert applies == expected
        for value, name in zip(exact, ("next_loss", "wrong_rows")):
            error = max(result.errors[name], 0.02)
            assert abs(result.means[name] - value) <= 4.5 * error
            for bound in result.values("upper", name):
                assert value <= bound * (1 + 1e-9), (number, name)
                largest = max(largest, value / bound)
    assert largest > 0.2


@pytest.mark.parametrize("n", [2, 7])
def test_orthonormal_rows_attain_the_minimax_bounds(n):
    """The loss of a row that was never seen is ½ whatever the schedule, and so are the bounds."""
    signs = itertools.cycle([1, -1])
    tasks = fl.TaskCollection([(2.0 * e[None], [sign]) for e, sign in zip(np.eye(n), signs)])
    once = {"ordering": fl.WithoutReplacement(), "n_trials": 20}
    c = compare_bounds(tasks, fl.schedules.minimax(), n - 1, loss="squared_hinge", **once)
    assert c.means["next_loss"] == pytest.approx(0.5)
    assert c.values("upper", "next_loss") == [pytest.approx(0.5)]
    assert c.values("lower", "next_loss") == [0.5]
    wrong = (tasks.radius / max_margin(tasks).margin) ** 2 / n
    assert c.values("upper", "wrong_rows") == [pytest.approx(wrong)] == [pytest.approx(1.0)]
    assert c.values("lower", "wrong_rows") == [0.5]
    for loss, at_zero in (("logistic", math.log(2)), ("hinge", 1.0)):
        lower = compare_bounds(tasks, 1.0, n - 1, loss=loss, **once)
        assert lower.means["next_loss"] == pytest.approx(at_zero)
        assert lower.values("lower", "next_loss") == [pytest.approx(at_zero)]


@pytest.mark.parametrize("loss", NAMES)
def test_any_schedule_is_above_the_lower_bound_with_replacement(loss):
    tasks = fl.TaskCollection([(e[None], [(-1) ** i]) for i, e in enumerate(np.eye(6))])
    for schedule in (fl.Projection(), 0.1, 3.0):
        c = compare_bounds(tasks, schedule, 5, loss=loss, n_trials=400)
        for name in ("next_loss", "wrong_rows"):
            (lower,) = c.values("lower", name)
            assert c.means[name] >= lower - 4 * c.errors[name]


def test_the_hinge_has_at_most_root_two(rng):
    """√2·GD/√(k+1) for the increasing schedule scaled by G and D."""
    tasks = collection(rng, M=5, d=4)
    D = 1 / max_margin(tasks).margin
    G = tasks.radius * math.sqrt(2)
    for k in (1, 5, 40):
        c = compare_bounds(tasks, fl.schedules.increasing(scale=1), k, loss=hinge(D), n_trials=20)
        (value,) = c.values("upper", "next_loss")
        assert c.means["next_loss"] <= value <= math.sqrt(2) * G * D / math.sqrt(k + 1)


@pytest.mark.parametrize("loss", NAMES)
def test_the_comparator_is_the_best_one(rng, loss):
    tasks = collection(rng, noise=0.5)
    start = rng.standard_normal(3)
    setting = Setting(tasks, LOSSES[loss], np.ones(3), fl.WithReplacement(), start)
    A = SignedRows.of(tasks).A

    def right(w, C, a):
        return C * LOSSES[loss].value(A @ w).sum() / 3 + a * np.sum((w - start) ** 2)

    for C, a in ((1.0, 0.5), (1.3, 0.01)):
        options = {"method": "Nelder-Mead", "options": {"xatol": 1e-9}}
        firsts = start + rng.standard_normal((3, 3))
        best = min(minimize(right, first, (C, a), **options).fun for first in firsts)
        assert setting.least(C, a) == pytest.approx(best, rel=1e-5)
        assert setting.least(C, a) <= right(start, C, a)


def test_reasons_why_bounds_do_not_apply(rng):
    tasks = collection(rng)
    minimax = fl.schedules.minimax()

    def reason(name, schedule, loss, tasks=tasks, k=3, **options):
        c = compare_bounds(tasks, schedule, k, loss=loss, n_trials=2, **options)
        return next(check.reason for check in c.checks if check.bound.name == name)

    cyclic = {"ordering": fl.Cyclic()}
    weighted = {"ordering": fl.WithReplacement([0.2, 0.3, 0.5])}
    opposite = fl.TaskCollection([([[1.0, 0.0]], [1]), ([[1.0, 0.0]], [-1])])
    assert "not exchangeable" in reason("minimax", minimax, "squared_hinge", **cyclic)
    assert "not exchangeable" in reason("minimax", minimax, "squared_hinge", **weighted)
    assert "is not η(k+1−t)/(k+1)" in reason("minimax, wrong rows", 1.0, "squared_hinge")
    assert "not k + 1 orthonormal rows" in reason("any algorithm", 1.0, "hinge")
    assert "η is 1" in reason("oracle", minimax, "logistic")
    assert "do not increase" in reason("increasing", 2.0, "hinge")
    assert "not separable" in reason("minimax", minimax, "squared_hinge", tasks=opposite, k=1)


def test_the_page_prints_what_it_says(capsys):
    """Every program of README.md, in one session, and the text block after it."""
    page = (Path(__file__).parents[1] / "two_class" / "README.md").read_text()
    fences = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(fences) == page.count("```python")
    namespace = {}
    for code, printed in fences:
        exec(code, namespace)
        assert capsys.readouterr().out == printed

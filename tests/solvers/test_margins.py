"""The proximal step of losses: against many digits, SciPy, scikit-learn, and its own bound on the error."""

import warnings

import mpmath
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.linear_model import LogisticRegression, PassiveAggressiveClassifier
from sklearn.svm import LinearSVC

import forgetless as fl
from forgetless import losses
from forgetless.solvers.margins import ACCURACY, proximal_step
from forgetless.solvers.separation import contradiction, nearest_separator

MARGIN = [losses.named(name) for name in losses.TWO_CLASSES]
SHAPES = {"n << d": (4, 120), "n = d": (25, 25), "n >> d": (150, 8)}


def task(rng, n, d, loss, noise=0.3):
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 2)
    if loss.name == "softmax":
        return X, rng.integers(3, size=n), rng.standard_normal((d, 3)) / np.sqrt(d)
    y = np.where(X @ rng.standard_normal(d) + noise * np.linalg.norm(X[0]) * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y, rng.standard_normal(d) / np.sqrt(d)


def smoothness(loss, X):
    radius = np.linalg.norm(X, 2)
    return radius**2 if loss.name == "hinge" else loss.smoothness(radius)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", [*MARGIN, losses.Softmax()], ids=lambda loss: loss.name)
def test_the_error_is_below_1e_10_at_every_strength_and_shape(rng, loss, shape):
    n, d = SHAPES[shape]
    for exponent in np.linspace(-8, 8, 17):
        for noise in (0.0, 0.3, 3.0):
            X, y, w = task(rng, n, d, loss, noise)
            step = proximal_step(X, y, w, 10**exponent * smoothness(loss, X), loss)
            assert step.error <= ACCURACY
            if loss.name != "hinge" and exponent >= 0:  # the gradient alone proves it, evaluated independently
                lam = 10**exponent * smoothness(loss, X)
                gradient = lam * step.change + X.T @ loss.slope(X @ (w + step.change), y)
                # w + change is rounded where the change is small beside w
                rounding = 1e-15 * smoothness(loss, X) * np.linalg.norm(w)
                assert np.linalg.norm(gradient) <= 1e-10 * lam * np.linalg.norm(step.change) + rounding


def _digits(X, y, w, lam, loss, start):
    """The exact change with 50 digits, by Newton's method from ours."""
    with mpmath.workdps(50):
        A = mpmath.matrix((X * y[:, None]).tolist())
        n, d = A.rows, A.cols
        z, lam, m0 = mpmath.matrix(start.tolist()), mpmath.mpf(float(lam)), A * mpmath.matrix(w.tolist())
        for _ in range(8):
            m = m0 + A * z
            if loss.name == "logistic":
                p = [1 / (1 + mpmath.exp(m[i])) for i in range(n)]
                h = [q * (1 - q) for q in p]
            else:
                p = [max(1 - m[i], 0) for i in range(n)]
                h = [mpmath.mpf(q > 0) for q in p]
            g = lam * z - A.T * mpmath.matrix(p)
            H = A.T * mpmath.diag(h) * A + lam * mpmath.eye(d)
            z -= mpmath.lu_solve(H, g)
        return np.array([float(each) for each in z])


@pytest.mark.parametrize("loss", MARGIN[:2], ids=lambda loss: loss.name)
@pytest.mark.parametrize("shape", [(3, 6), (5, 5), (9, 4)])
def test_stated_errors_hold_against_fifty_digits(rng, loss, shape):
    for exponent in (-8, -5, -2, 0, 3, 8):
        X, y, w = task(rng, *shape, loss)
        lam = 10.0**exponent * smoothness(loss, X)
        step = proximal_step(X, y, w, lam, loss)
        exact = _digits(X, y, w, lam, loss, step.change)
        distance = np.linalg.norm(step.change - exact)
        assert distance <= (step.error + 1e-14) * np.linalg.norm(exact)


@pytest.mark.parametrize("variant", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.05, 0.7, 20.0])
def test_one_row_is_passive_aggressive(rng, variant, C):
    """PA-I with C = 1/λ for the hinge, PA-II with C = 1/(2λ) for the squared hinge (Crammer et al. 2006)."""
    lam = 1 / C if variant == "hinge" else 1 / (2 * C)
    w = np.zeros(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is renaming this class
        theirs = PassiveAggressiveClassifier(C=C, loss=variant, fit_intercept=False, shuffle=False)
        for _ in range(40):
            X, y = rng.standard_normal((1, 6)), np.where(rng.random(1) < 0.5, -1.0, 1.0)
            w = fl.step(w, (X, y), fl.Ridge(lam), loss=variant)
            theirs.partial_fit(X, y, classes=[-1.0, 1.0])
    np.testing.assert_allclose(w, theirs.coef_[0], rtol=1e-10)


@pytest.mark.parametrize("loss", MARGIN, ids=lambda loss: loss.name)
def test_one_row_in_closed_form_is_the_general_solution(rng, loss):
    for exponent in (-3, 0, 3):
        X, y, w = task(rng, 1, 7, loss)
        lam = 10.0**exponent * smoothness(loss, X)
        general = "newton" if loss.name != "hinge" else "box"
        ours, other = proximal_step(X, y, w, lam, loss), proximal_step(X, y, w, lam, loss, general)
        np.testing.assert_allclose(ours.change, other.change, rtol=1e-9, atol=1e-14)
    # PA: the projection onto one halfspace
    X, y, w = np.array([[3.0, 4.0]]), np.array([-1.0]), np.array([1.0, 1.0])
    np.testing.assert_allclose(fl.step(w, (X, y), fl.Projection(), loss="hinge"), w - 8 / 25 * X[0])


@pytest.mark.parametrize("shape", [(8, 40), (60, 40), (200, 10)])
def test_steps_from_zero_are_those_of_scikit_learn(rng, shape):
    X, y, _ = task(rng, *shape, MARGIN[0])
    X, zero = X / np.linalg.norm(X, 2), np.zeros(shape[1])
    for lam in (0.01, 1.0):
        logistic = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
        ours = proximal_step(X, y, zero, lam, losses.Logistic()).change
        np.testing.assert_allclose(ours, logistic.coef_[0], rtol=1e-4, atol=1e-5 * np.abs(ours).max())
        for name, C in (("squared_hinge", 0.5 / lam), ("hinge", 1 / lam)):
            svc = LinearSVC(C=C, loss=name, fit_intercept=False, dual=True, tol=1e-11, max_iter=200_000).fit(X, y)
            ours = proximal_step(X, y, zero, lam, losses.named(name)).change
            np.testing.assert_allclose(ours, svc.coef_[0], rtol=1e-5, atol=1e-6 * np.abs(ours).max())


def test_softmax_is_that_of_scikit_learn(rng):
    X = rng.standard_normal((80, 6))
    y = np.argmax(X @ rng.standard_normal((6, 4)) + rng.standard_normal((80, 4)), axis=1)
    theirs = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    ours = fl.step(np.zeros((6, 4)), (X, y), fl.Ridge(2.0), loss="softmax")
    np.testing.assert_allclose(ours.T, theirs.coef_, atol=1e-6)


def test_the_projection_is_the_limit_and_that_of_scipy(rng):
    for n, d in ((3, 20), (10, 12)):
        X = rng.standard_normal((n, d))
        y, w = np.where(X @ rng.standard_normal(d) > 0, 1.0, -1.0), 0.3 * rng.standard_normal(d)
        projected = fl.step(w, (X, y), fl.Projection(), loss="squared_hinge")
        assert (y * (X @ projected)).min() >= 1 - 1e-12
        limits = LinearConstraint(y[:, None] * X, 1.0, np.inf)
        theirs = minimize(lambda v, w=w: np.sum((v - w) ** 2), projected + 0.1, constraints=limits, tol=1e-14).x
        np.testing.assert_allclose(projected, theirs, atol=1e-5)
        for name in ("squared_hinge", "hinge"):
            near = fl.step(w, (X, y), fl.Ridge(1e-9), loss=name)
            np.testing.assert_allclose(near, projected, atol=1e-6)


def test_newton_and_conjugate_gradients_agree_with_few_passes(rng):
    """At most 40 products with X at λ ≥ β, for a relative error of at most 1e-10."""
    for n, d in ((120, 120), (400, 60), (60, 900)):
        for loss in (*MARGIN[:2], losses.Softmax()):
            X, y, w = task(rng, n, d, loss, noise=1.0)
            for ratio in (1.0, 30.0):
                lam = ratio * smoothness(loss, X)
                ours, other = (proximal_step(X, y, w, lam, loss, each) for each in ("newton-cg", "newton"))
                assert ours.error <= 1e-10
                assert ours.passes <= 40
                distance = np.linalg.norm(ours.change - other.change)
                assert distance <= (ours.error + other.error) * np.linalg.norm(ours.change)


def test_large_tasks_are_solved_by_conjugate_gradients(rng):
    X, y, w = task(rng, 600, 500, MARGIN[0])
    chosen = {r: proximal_step(X, y, w, r * smoothness(MARGIN[0], X), MARGIN[0]).solver for r in (1e-6, 1.0)}
    assert chosen == {1e-6: "newton", 1.0: "newton-cg"}


def test_contradictions_are_named(rng):
    A = rng.standard_normal((10, 3)) + np.array([4.0, 0.0, 0.0])
    assert contradiction(A) == []
    A[9] = -2 * A[4]
    assert contradiction(A) == [4, 9]
    star = np.array([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])  # no two contradict each other, all three do
    assert contradiction(star) == [0, 1, 2]
    assert contradiction(star[:2]) == []
    assert contradiction(np.vstack([star[:1], np.zeros(2)])) == [1]
    for rows, message in (
        (A, "rows 4 and 9 contradict"),
        (star, "rows 0, 1 and 2 contradict"),
        (0 * star, "0 is zero"),
    ):
        with pytest.raises(ValueError, match=f"the task has no margin: .*{message}"):
            fl.step(np.zeros(rows.shape[1]), (rows, np.ones(len(rows))), fl.Projection(), loss="hinge")


def test_nearest_separator_of_rows_that_are_separated_is_the_start(rng):
    A = np.eye(3)
    np.testing.assert_array_equal(nearest_separator(A, 2 * np.ones(3)), 2 * np.ones(3))
    np.testing.assert_allclose(nearest_separator(A, np.array([5.0, 0.0, -3.0])), [5.0, 1.0, 1.0], rtol=1e-14)


def test_equal_rows_and_zero_rows(rng):
    X, y, w = task(rng, 6, 4, MARGIN[0])
    double, zero = np.vstack([X, X]), np.vstack([X, np.zeros((1, 4))])
    for loss in MARGIN:
        for exponent in (-6, 0, 6):
            lam = 10.0**exponent * smoothness(loss, X)
            twice = proximal_step(double, np.tile(y, 2), w, 2 * lam, loss).change
            once = proximal_step(X, y, w, lam, loss).change
            np.testing.assert_allclose(twice, once, rtol=1e-7, atol=1e-9 * np.linalg.norm(once))
            with_zero = proximal_step(zero, np.append(y, 1.0), w, lam, loss).change
            np.testing.assert_allclose(with_zero, once, rtol=1e-8, atol=1e-9 * np.linalg.norm(once))
    assert proximal_step(X[:0], y[:0], w, 1.0, MARGIN[0]).change.tolist() == [0.0] * 4


BAD = [
    ({"task": (np.eye(2), [0, 1])}, ValueError, r"y must hold the labels −1 and \+1 .*got 0, 1; use 2\*y − 1"),
    ({"task": (np.eye(3), [-1, 1, 2]), "w": np.zeros(3)}, ValueError, r"got -1, 1, 2; use loss=\"softmax\""),
    ({"filter": fl.GradientDescent(3, 0.1)}, TypeError, r"filter must be fl.Ridge\(λ\) or fl.Projection\(\)"),
    ({"filter": fl.Ridge([1.0, 2.0])}, TypeError, "of a single step"),
    ({"filter": fl.Ridge(1e-17)}, ValueError, r"must be 0 or at least 1e-16 β.*got 1e-17; use fl.Projection\(\)"),
    ({"w": np.zeros(3)}, ValueError, "must fit together for the loss hinge"),
    ({"task": np.eye(2)}, TypeError, "task must be a Task or a pair"),
    ({"loss": "softmax"}, ValueError, r"w \(d, c\) must fit together"),
    ({"loss": "softmax", "w": np.zeros((2, 2))}, ValueError, "labels 0..1 for the softmax"),
    (
        {"loss": "softmax", "w": np.zeros((2, 2)), "task": (np.eye(2), [0, 1]), "filter": fl.Projection()},
        ValueError,
        "positive",
    ),
    ({"loss": "absolute"}, ValueError, "loss must be one of squared"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named(change, error, message):
    arguments = {"w": np.zeros(2), "task": (np.eye(2), [-1, 1]), "filter": fl.Ridge(1.0), "loss": "hinge"} | change
    with pytest.raises(error, match=message):
        fl.step(**arguments)


def test_newton_counts_its_factorizations():
    """The loss of margins far below 1 is quadratic: one step solves it, and the next gradient says so."""
    step = proximal_step(np.eye(2), np.ones(2), np.zeros(2), 5.0, losses.SquaredHinge(), solver="newton")
    np.testing.assert_allclose(step.change, 1 / 6)
    assert step.passes == 2

"""The estimators against others' algorithms: ridge, PA-II, NLMS, Kaczmarz, recursive least squares."""

import warnings

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import PassiveAggressiveRegressor, Ridge

import forgetless as fl
from support.streams import learned, stream


@pytest.mark.parametrize("shape", [(20, 5), (5, 20), (1, 7)])
@pytest.mark.parametrize("targets", [(), (3,)])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_task_from_zero_is_ridge(rng, shape, targets, intercept):
    X, y, weight = rng.standard_normal(shape), rng.standard_normal((shape[0], *targets)), rng.uniform(0.1, 2, shape[0])
    ours = fl.ContinualRidge(alpha=0.7, fit_intercept=intercept).fit(X, y, sample_weight=weight)
    # The intercept is one more weight, so the reference gets a column of ones and no intercept of its own.
    wide = np.hstack([X, np.ones((shape[0], 1))]) if intercept else X
    theirs = Ridge(alpha=0.7, fit_intercept=False).fit(wide, y, sample_weight=weight)
    expected = theirs.coef_[..., :-1] if intercept else theirs.coef_
    np.testing.assert_allclose(ours.coef_, expected, rtol=1e-8, atol=1e-12)
    if intercept:
        np.testing.assert_allclose(ours.intercept_, theirs.coef_[..., -1], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(wide), rtol=1e-8, atol=1e-12)


def test_one_row_tasks_are_passive_aggressive_pa2(rng):
    C = 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is renaming this class
        theirs = PassiveAggressiveRegressor(
            C=C, loss="squared_epsilon_insensitive", epsilon=0.0, fit_intercept=False, shuffle=False
        )
        ours = fl.ContinualRidge(alpha=1 / (2 * C))
        for X, y in stream(rng, 40, 1, 6):
            ours.partial_fit(X, y)
            theirs.partial_fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)


def test_one_row_tasks_are_nlms_and_kaczmarz(rng):
    tasks = list(stream(rng, 40, 1, 6))
    nlms, kaczmarz = np.zeros(6), np.zeros(6)
    for X, y in tasks:
        x = X[0]
        nlms += x * (y[0] - x @ nlms) / (0.3 + x @ x)
        kaczmarz += x * (y[0] - x @ kaczmarz) / (x @ x)
    np.testing.assert_allclose(learned(fl.ContinualRidge(alpha=0.3), tasks).coef_, nlms, rtol=1e-10)
    np.testing.assert_allclose(learned(fl.ContinualRidge(alpha=0.0), tasks).coef_, kaczmarz, rtol=1e-10)
    np.testing.assert_allclose(learned(fl.ContinualRidge(alpha=1e-13), tasks).coef_, kaczmarz, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 30])
@pytest.mark.parametrize("intercept", [False, True])
def test_recursive_least_squares_is_joint_ridge(rng, n, intercept):
    tasks = list(stream(rng, 12, n, 8, targets=(2,)))
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    rls = learned(fl.RecursiveLeastSquares(0.5, fit_intercept=intercept), tasks)
    joint = learned(fl.JointRidge(0.5, fit_intercept=intercept), tasks)
    wide = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    expected = Ridge(alpha=0.5, fit_intercept=False).fit(wide, y).coef_[:, :8]
    np.testing.assert_allclose(rls.coef_, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(joint.coef_, expected, rtol=1e-8, atol=1e-10)
    for name in ("mse_before", "mse_after"):
        np.testing.assert_allclose(rls.history_[name], joint.history_[name], rtol=1e-6)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0])
def test_baselines_know_how_accurate_they_are(rng, alpha):
    U, _, V = np.linalg.svd(rng.standard_normal((40, 8)), full_matrices=False)
    X = (U * np.logspace(3, -4, 8)) @ V
    y = rng.standard_normal(40)
    with mpmath.workdps(50):
        A = mpmath.matrix(X.tolist())
        exact = mpmath.lu_solve(A.T * A + mpmath.mpf(alpha) * mpmath.eye(8), A.T * mpmath.matrix(y.tolist()))
        exact = np.array([float(value) for value in exact])
    for model in (fl.JointRidge(alpha), fl.RecursiveLeastSquares(alpha)):
        found = model.fit(X, y)
        error = np.linalg.norm(found.coef_ - exact) / np.linalg.norm(exact)
        assert error <= found.history_["error"][0]
        assert error < 1e-3


def test_baselines_refuse_more_memory_than_allowed(rng, monkeypatch):
    monkeypatch.setattr("forgetless._core.validate.FACTORIZATION_LIMIT", 1000)
    for model in (fl.JointRidge(), fl.RecursiveLeastSquares()):
        with pytest.raises(MemoryError, match=r"\(50, 50\).*ContinualRidge"):
            model.partial_fit(rng.standard_normal((2, 50)), rng.standard_normal(2))
    with pytest.raises(MemoryError, match="read once"):
        fl.ContinualRidge(alpha=1.0).partial_fit_blocks(b for b in [(rng.standard_normal((2, 50)), np.ones(2))])
    with pytest.raises(fl.errors.ConvergenceError, match="generator"):
        fl.RecursiveLeastSquares().partial_fit_blocks(b for b in [(rng.standard_normal((2, 5)), np.ones(2))])

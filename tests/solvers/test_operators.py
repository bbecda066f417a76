"""Tasks of which there are products only: the steps of the stored matrix, without it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import forgetless as fl

FILTERS = [fl.Ridge(0.5), fl.Ridge(1e-6), fl.Ridge(1e5), fl.Projection(), fl.GradientDescent(40, 1e-3)]


class Counted(LinearOperator):
    """Products with a matrix, counted."""

    def __init__(self, X):
        super().__init__(X.dtype, X.shape)
        self.X, self.count, self.widest = X, 0, 0

    def _matmat(self, V):
        self.count, self.widest = self.count + V.shape[1], max(self.widest, V.shape[1])
        return self.X @ V

    def _rmatmat(self, V):
        self.widest = max(self.widest, V.shape[1])
        return self.X.T @ V


@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("shape", [(30, 300), (300, 30), (4, 4)])
def test_a_step_is_that_of_the_matrix(shape, filter, rng):
    X = rng.standard_normal(shape)
    X *= 0.9 / np.linalg.norm(X, 2) * 20
    y, w = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    wanted = fl.step(w, (X, y), filter)
    np.testing.assert_allclose(fl.step(w, (aslinearoperator(X), y), filter), wanted, rtol=1e-8, atol=1e-8)
    single = fl.step(w[:, 0], (aslinearoperator(X), y[:, 0]), filter)
    np.testing.assert_allclose(single, wanted[:, 0], rtol=1e-8, atol=1e-8)


def test_a_wide_operator_is_never_formed(rng):
    """With 50 000 features a Gram matrix of features would not fit, and a few passes do."""
    X = rng.standard_normal((40, 50_000)) / 200
    operator, y = Counted(X), rng.standard_normal(40)
    found = fl.step(np.zeros(50_000), (operator, y), fl.Ridge(1.0))
    np.testing.assert_allclose(found, X.T @ np.linalg.solve(X @ X.T + np.eye(40), y), rtol=1e-8, atol=1e-12)
    assert operator.count <= 30
    assert operator.widest == 1


def test_slow_convergence_is_waited_for_while_it_beats_a_gram_matrix(rng):
    """Condition 100, with errors that fall slowly at first: fewer products than the 150 of a Gram matrix."""
    U, V = (np.linalg.qr(rng.standard_normal((n, 150)))[0] for n in (150, 2000))
    operator, y = Counted((U * np.geomspace(1.0, 0.01, 150)) @ V.T), rng.standard_normal(150)
    found = fl.step(np.zeros(2000), (operator, y), fl.Ridge(0.01))
    np.testing.assert_allclose(found, fl.step(np.zeros(2000), (operator.X, y), fl.Ridge(0.01)), rtol=1e-7, atol=1e-9)
    assert 30 < operator.count < 130
    assert operator.widest == 1


@given(st.integers(1, 6), st.integers(1, 6), st.floats(-3, 3), st.integers(0, 2**20))
def test_streams_learn_from_operators_as_from_arrays(n, d, exponent, seed):
    rng = np.random.default_rng(seed)
    models = [fl.ContinualRidge(schedule=fl.schedules.increasing(scale=10**exponent), n_tasks=3) for _ in range(2)]
    for _ in range(3):
        X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
        models[0].partial_fit(X, y)
        models[1].partial_fit(aslinearoperator(X), y)
        np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(models[1].predict(aslinearoperator(X)), models[0].predict(X), rtol=1e-6, atol=1e-8)
    assert models[1].n_features_in_ == d
    assert models[1].prequential_mse_ == pytest.approx(models[0].prequential_mse_, rel=1e-6)


def test_budgets_too(rng):
    X, y = rng.standard_normal((5, 8)), rng.standard_normal((5, 2))
    wanted = fl.ContinualGD(n_steps=20, step_size=0.01).partial_fit(X, y).coef_
    found = fl.ContinualGD(n_steps=20, step_size=0.01).partial_fit(aslinearoperator(X), y)
    np.testing.assert_allclose(found.coef_, wanted, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "options", "error"),
    [
        (fl.ContinualRidge(alpha=1.0, fit_intercept=True), {}, "fit_intercept needs the rows of X"),
        (fl.ContinualRidge(alpha=1.0, memory=2), {}, "memory needs the rows of X"),
        (fl.ContinualRidge(alpha=1.0), {"sample_weight": 2.0}, "sample_weight needs the rows of X"),
        (fl.JointRidge(), {}, "JointRidge reads rows, and X is an operator"),
        (fl.RecursiveLeastSquares(), {}, "RecursiveLeastSquares reads rows"),
    ],
)
def test_what_needs_rows_is_refused(model, options, error):
    with pytest.raises((TypeError, ValueError), match=error):
        model.partial_fit(aslinearoperator(np.eye(3)), np.ones(3), **options)


def test_shapes_and_numbers_are_checked():
    model = fl.ContinualRidge(alpha=1.0).partial_fit(aslinearoperator(np.eye(3)), np.ones(3))
    with pytest.raises(ValueError, match="X has 2 features, but ContinualRidge is expecting 3"):
        model.partial_fit(aslinearoperator(np.ones((3, 2))), np.ones(3))
    with pytest.raises(ValueError, match="X has 2 features, but ContinualRidge is expecting 3"):
        model.predict(aslinearoperator(np.ones((3, 2))))
    with pytest.raises(ValueError, match="y must have one target per row of X, 3, got shape"):
        model.partial_fit(aslinearoperator(np.eye(3)), np.ones(4))
    with pytest.raises(ValueError, match="like that of the first task"):
        model.partial_fit(aslinearoperator(np.eye(3)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.partial_fit(aslinearoperator(np.full((3, 3), np.nan)), np.ones(3))
    with pytest.raises(TypeError, match="no single rows"):
        fl.ContinualRidge(alpha=1.0).fit(aslinearoperator(np.eye(3)), np.ones(3), groups=[0, 0, 1])
    with pytest.raises(ValueError, match="must fit together"):
        fl.step(np.zeros(3), (aslinearoperator(np.eye(3)), np.ones(4)), fl.Ridge(1.0))

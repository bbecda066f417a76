"""The step on one task: the same by every solver, for every shape and kind of rows."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import forgetless as fl
from forgetless.solvers.one_task import SMALL_SIDE, learn, task_norm
from forgetless.solvers.rows import Limits, OneTask, Rows
from support import literal
from support.steps import kinds, relative, spectral
from support.streams import sparse_rows

SHAPES = [(300, 230), (230, 300), (250, 250), (40, 7), (7, 40), (1, 9), (9, 1)]
# A Gram matrix that does not fit leaves iterations alone.
LIMITS = {"any": Limits(), "iterative": Limits(memory=0)}


@dataclass(frozen=True, eq=False)
class Soft(fl.Filter):
    """A filter of one's own."""

    def factors(self, eigenvalues):
        return np.tanh(eigenvalues)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("relative_strength", [30.0, 1.0, 1e-3])
def test_ridge_step_is_the_same_by_every_solver_and_kind_of_rows(rng, shape, limits, relative_strength):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 3))
    filter_ = fl.Ridge(relative_strength * np.linalg.norm(X, 2) ** 2)
    exact = spectral(X, r, filter_)
    left = np.sum((r - X @ exact) ** 2, axis=0)
    for kind, rows in kinds(X).items():
        made = learn(OneTask(rows, r), filter_, LIMITS[limits])
        assert limits == "any" or made.solver == "iterative"
        assert relative(made.change, exact) < 1e-9, kind
        np.testing.assert_allclose(made.after, left, rtol=1e-7, atol=1e-11 * np.sum(r**2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("budget", [(1, 0.5), (3, 0.9), (40, 0.2), (1000, 0.01), (9, 1.7)])
def test_budget_step_is_the_literal_loop_by_every_solver(rng, shape, limits, budget):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    filter_ = fl.GradientDescent(budget[0], budget[1] / np.linalg.norm(X, 2) ** 2)
    exact = literal.descent_step(np.zeros((shape[1], 2)), X, r, filter_.n_steps, filter_.step_size)
    for kind, rows in kinds(X).items():
        made = learn(OneTask(rows, r), filter_, LIMITS[limits])
        assert relative(made.change, exact) < 1e-9, kind
        assert relative(made.after, np.sum((r - X @ exact) ** 2, axis=0)) < 1e-6


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (300, 230)])
@pytest.mark.parametrize("limits", LIMITS)
def test_steps_and_their_stated_errors_do_not_depend_on_units(limits, shape, rng):
    """Rows and targets in other units, by powers of two: the same step, and relative error."""
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    square = np.linalg.norm(X, 2) ** 2
    budgets = [fl.GradientDescent(n, size / square) for n, size in ((1, 0.5), (30, 0.7), (7, 1.6))]
    for filter_ in [fl.Ridge(0.1 * square), *budgets]:
        one = learn(OneTask(Rows.of(X), r), filter_, LIMITS[limits])
        assert 0 < one.error < 1e-6
        for a, b in ((2.0**12, 1.0), (2.0**-9, 2.0**7)):
            made = learn(OneTask(Rows.of(a * X), b * r), filter_.scaled(a * a), LIMITS[limits])
            assert made.error == pytest.approx(one.error, rel=1e-6, abs=1e-13)
            np.testing.assert_allclose(made.change, b / a * one.change, rtol=1e-9)
            np.testing.assert_allclose(made.after, b * b * one.after, rtol=1e-9, atol=1e-14 * b * b)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    d=st.integers(1, 30),
    decay=st.floats(0, 6),
    strength=st.floats(-12, 4),
)
def test_error_bounds_of_the_iteration_hold(seed, n, d, decay, strength):
    rng = np.random.default_rng(seed)
    U, _, V = np.linalg.svd(rng.standard_normal((n, d)), full_matrices=False)
    X, r = (U * np.logspace(0, -decay, min(n, d))) @ V, rng.standard_normal((n, 1))
    reference = learn(OneTask(Rows.of(X), r), fl.Ridge(10.0**strength))
    for tol in (1e-2, 1e-6, 1e-10):
        try:
            made = learn(OneTask(Rows.of(X), r), fl.Ridge(10.0**strength), Limits(tol, memory=0))
        except fl.errors.ConvergenceError:
            assert strength < -2
            continue
        true = np.linalg.norm(made.change - reference.change) / np.linalg.norm(made.change)
        assert made.error <= 2 * tol + 1e-8
        assert true <= made.error + reference.error + 1e-12


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_iteration_without_regularization_does_not_claim_to_know_its_error(noise, rng):
    """At Xδ = r, or at Xᵀ(r − Xδ) = 0 where no δ fits; the shortest δ where there are many."""
    for shape in ((60, 20), (20, 60)):
        X = rng.standard_normal(shape)
        r = X @ rng.standard_normal((shape[1], 1)) + noise * rng.standard_normal((shape[0], 1))
        made = learn(OneTask(Rows.of(X), r), fl.Projection(), Limits(memory=0))
        assert np.isnan(made.error)
        assert relative(made.change, np.linalg.lstsq(X, r)[0]) < 1e-7


def test_one_exhausted_column_does_not_disturb_another(rng):
    X = rng.standard_normal((300, 260))
    r = np.stack([X @ rng.standard_normal(260), np.zeros(300)], axis=1)
    for filter_ in (fl.Ridge(700.0), fl.GradientDescent(30, 1e-3)):
        made = learn(OneTask(Rows.of(X), r), filter_, Limits(memory=0))
        assert relative(made.change, spectral(X, r, filter_)) < 1e-9
        assert not made.change[:, 1].any()


@pytest.mark.parametrize("shape", [(5, 3), (3, 500), (700, 500), (400, 900)])
def test_norm_is_the_largest_singular_value(rng, shape):
    X = rng.standard_normal(shape)
    exact = np.linalg.norm(X, 2)
    tolerance = 1e-12 if min(shape) <= SMALL_SIDE else 1e-5
    for rows in kinds(X).values():
        assert task_norm(rows) == pytest.approx(exact, rel=1e-5 if rows.single is None else tolerance)
    assert task_norm(Rows.of(X * 1e-160)) == pytest.approx(exact * 1e-160, rel=tolerance, abs=0)
    assert task_norm(Rows.of(X * 1e160)) == pytest.approx(exact * 1e160, rel=tolerance)


def test_memory_is_a_limit_for_every_solver(rng):
    X = sparse_rows(rng, (300, 5000), density=0.02)
    r = rng.standard_normal((300, 1))
    assert learn(OneTask(Rows.of(X), r), fl.Projection()).solver == "iterative"
    for filter_, memory in ((Soft(), 10**6), (fl.GradientDescent(10**8, 1e-3), 10**5)):
        with pytest.raises(fl.errors.ConvergenceError, match="memory"):
            learn(OneTask(Rows.of(X), r), filter_, Limits(memory=memory))
    small, needed = Rows.of(np.eye(6, 4)), 24 * 6 * 4
    assert learn(OneTask(small, np.ones((6, 1))), Soft(), Limits(memory=needed)).solver == "svd"
    with pytest.raises(fl.errors.ConvergenceError, match="memory"):
        learn(OneTask(small, np.ones((6, 1))), Soft(), Limits(memory=needed - 1))


def test_a_slow_iteration_is_replaced_by_the_gram_matrix(rng):
    X, r = rng.standard_normal((600, 500)), rng.standard_normal((600, 1))
    quick = learn(OneTask(Rows.of(X), r), fl.Ridge(5 * np.linalg.norm(X, 2) ** 2))
    assert quick.solver == "iterative"
    slow = X * np.logspace(0, -3, 500)
    filter_ = fl.Ridge(1e-4 * np.linalg.norm(slow, 2) ** 2)
    made = learn(OneTask(Rows.of(slow), r), filter_)
    assert made.solver == "gram"
    assert relative(made.change, spectral(slow, r, filter_)) < 1e-8


def test_float32_rows_keep_their_accuracy(rng):
    X, r = rng.standard_normal((300, 250)), rng.standard_normal((300, 1))
    for filter_ in (fl.Ridge(500.0), fl.GradientDescent(30, 1e-4)):
        exact = learn(OneTask(Rows.of(X), r), filter_).change
        for limits in LIMITS.values():
            made = learn(OneTask(Rows.of(X.astype(np.float32)), r.astype(np.float32)), filter_, limits)
            assert relative(made.change, exact) < 2e-5


def test_step_of_a_pair_is_the_step_of_the_task(rng):
    X, y, w = rng.standard_normal((9, 5)), rng.standard_normal((9, 2)), rng.standard_normal((5, 2))
    task = fl.TaskCollection([(X, y)])[0]
    for filter_ in (fl.Ridge(0.3), fl.GradientDescent(12, 0.02), fl.Projection()):
        expected = fl.step(w, task, filter_)
        np.testing.assert_allclose(fl.step(w, (X, y), filter_), expected, rtol=1e-10)
        np.testing.assert_allclose(fl.step(w, (sparse.csr_array(X), y), filter_), expected, rtol=1e-10)
    np.testing.assert_array_equal(fl.step(w, (sparse.csr_array(X.shape), y), fl.Ridge(1.0)), w)
    with pytest.raises(ValueError, match="must fit together"):
        fl.step(w, (X, y[:, 0]), fl.Ridge(1.0))
    with pytest.raises(ValueError, match="single step"):
        fl.step(w, (X, y), fl.Ridge([1.0, 2.0]))
    with pytest.raises(ValueError, match="NaN"):
        fl.step(w, (sparse.csr_array(X * np.nan), y), fl.Ridge(1.0))


def test_a_residual_of_zero_changes_nothing(rng):
    made = learn(OneTask(Rows.of(rng.standard_normal((4, 3))), np.zeros((4, 1))), fl.Ridge(1.0))
    assert not made.change.any()
    r = rng.standard_normal((4, 2))
    made = learn(OneTask(Rows.of(sparse.csr_array((4, 3))), r), fl.Ridge(1.0))
    assert not made.change.any()
    np.testing.assert_allclose(made.after, np.sum(r**2, axis=0))

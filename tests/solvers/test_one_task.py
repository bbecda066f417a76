"""The step on one task: the same by every solver, for every shape and kind of rows, and chosen by its costs."""

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.solvers import _costs
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import Limits, OneTask, Rows
from support import literal
from support.steps import kinds, relative, spectral
from support.streams import sparse_rows

SHAPES = [(300, 230), (230, 300), (250, 250), (40, 7), (7, 40), (1, 9), (9, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "svd"])
@pytest.mark.parametrize("relative_strength", [30.0, 1.0, 1e-3])
def test_ridge_step_is_the_same_by_every_solver_and_kind_of_rows(rng, shape, solver, relative_strength):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 3))
    filter_ = fl.Ridge(relative_strength * np.linalg.norm(X, 2) ** 2)
    exact = spectral(X, r, filter_)
    left = np.sum((r - X @ exact) ** 2, axis=0)
    for kind, rows in kinds(X).items():
        if (solver, kind) == ("svd", "blocks"):
            continue  # refused: tested below
        made = learn(OneTask(rows, r), filter_, solver=solver)
        assert relative(made.change, exact) < 1e-9, kind
        np.testing.assert_allclose(made.after, left, rtol=1e-7, atol=1e-11 * np.sum(r**2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "svd"])
@pytest.mark.parametrize("budget", [(1, 0.5), (3, 0.9), (40, 0.2), (1000, 0.01), (9, 1.7)])
def test_budget_step_is_the_literal_loop_by_every_solver(rng, shape, solver, budget):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    filter_ = fl.GradientDescent(budget[0], budget[1] / np.linalg.norm(X, 2) ** 2)
    exact = literal.descent_step(np.zeros((shape[1], 2)), X, r, filter_.n_steps, filter_.step_size)
    for kind, rows in kinds(X).items():
        if (solver, kind) == ("svd", "blocks"):
            continue
        made = learn(OneTask(rows, r), filter_, solver=solver)
        assert relative(made.change, exact) < 1e-9, kind
        assert relative(made.after, np.sum((r - X @ exact) ** 2, axis=0)) < 1e-6


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (300, 230)])
@pytest.mark.parametrize("solver", ["gram", "krylov", "svd"])
def test_steps_and_their_stated_errors_do_not_depend_on_units(solver, shape, rng):
    """Rows and targets in other units, by powers of two: the same step, passes, and relative error."""
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    square = np.linalg.norm(X, 2) ** 2
    budgets = [fl.GradientDescent(n, size / square) for n, size in ((1, 0.5), (30, 0.7), (7, 1.6))]
    for filter_ in [fl.Ridge(0.1 * square), fl.Ridge(1e-7 * square), *budgets]:
        if solver == "krylov" and filter_ == fl.Ridge(1e-7 * square) and shape[0] > 100:
            continue  # takes more passes than are allowed
        one = learn(OneTask(Rows.of(X), r), filter_, solver=solver)
        assert 0 < one.error < 1e-6
        for a, b in ((2.0**12, 1.0), (2.0**-9, 2.0**7)):
            made = learn(OneTask(Rows.of(a * X), b * r), filter_.scaled(a * a), solver=solver)
            assert made.error == pytest.approx(one.error, rel=1e-6, abs=0)
            assert made.passes == one.passes
            np.testing.assert_allclose(made.change, b / a * one.change, rtol=1e-9)
            np.testing.assert_allclose(made.after, b * b * one.after, rtol=1e-9, atol=1e-14 * b * b)


def test_memory_is_a_limit_for_every_solver(rng):
    X = sparse_rows(rng, (300, 5000), density=0.02)
    r = rng.standard_normal((300, 1))
    assert learn(OneTask(Rows.of(X), r), fl.Projection()).solver == "krylov"

    class Soft(fl.Filter):
        horizon = None

        def formula(self, eigenvalues):
            return np.tanh(eigenvalues)

    for filter_, memory in ((Soft(), 10**6), (fl.GradientDescent(10**8, 1e-3), 4 * 10**6)):
        with pytest.raises(fl.errors.ConvergenceError, match="memory"):
            learn(OneTask(Rows.of(X), r), filter_, limits=Limits(memory=memory))
    small, needed = Rows.of(np.eye(6, 4)), _costs.spectrum_bytes(Rows.of(np.eye(6, 4)))
    assert learn(OneTask(small, np.ones((6, 1))), Soft(), limits=Limits(memory=needed)).solver == "svd"
    with pytest.raises(fl.errors.ConvergenceError, match="memory"):
        learn(OneTask(small, np.ones((6, 1))), Soft(), limits=Limits(memory=needed - 1))


def test_filters_of_ones_own_are_served_by_the_spectrum(rng):
    class Soft(fl.Filter):
        horizon = None

        def formula(self, eigenvalues):
            return np.tanh(eigenvalues)

    X, r = rng.standard_normal((10, 6)), rng.standard_normal((10, 1))
    made = learn(OneTask(Rows.of(X), r), Soft())
    assert made.solver == "svd"
    assert relative(made.change, spectral(X, r, Soft())) < 1e-12
    with pytest.raises(ValueError, match="solver='krylov' serves"):
        learn(OneTask(Rows.of(X), r), Soft(), solver="krylov")


def test_choice_follows_the_costs(rng):
    def chosen(shape, strength, memory=2**31):
        rows = Rows.of(np.broadcast_to(np.ones(1), shape))
        task = OneTask(rows, np.ones((shape[0], 1)), norm=1.0)
        return _costs.choose(task, fl.Ridge(strength), Limits(memory=memory))

    assert chosen((50_000, 500), 5.9) == "krylov"
    assert chosen((50_000, 500), 1e-6) == "gram"
    assert chosen((50, 10_000), 1e3) == "gram"
    assert chosen((3000, 3000), 1e-6) == "krylov"  # tried, and given up if it is slow
    assert chosen((3000, 3000), 1e-6, memory=10**6) == "krylov"
    assert chosen((3000, 3000), 0.0) == "svd"


def test_a_slow_iteration_is_given_up_after_three_passes(rng, monkeypatch):
    X, r = rng.standard_normal((600, 500)), rng.standard_normal((600, 1))
    monkeypatch.setattr(_costs, "TRIAL", 1)
    quick = learn(OneTask(Rows.of(X), r), fl.Ridge(5 * np.linalg.norm(X, 2) ** 2))
    assert (quick.solver, quick.passes < 10) == ("krylov", True)
    slow = X * np.logspace(0, -3, 500)
    passes = []
    monkeypatch.setattr(Rows, "forward", lambda self, V: passes.append(1) or self.single @ V)
    made = learn(OneTask(Rows.of(slow), r), fl.Ridge(1e-4 * np.linalg.norm(slow, 2) ** 2))
    assert made.solver == "gram"
    assert len(passes) <= 4
    assert relative(made.change, spectral(slow, r, fl.Ridge(1e-4 * np.linalg.norm(slow, 2) ** 2))) < 1e-8


def test_float32_rows_keep_their_accuracy(rng):
    X, r = rng.standard_normal((300, 250)), rng.standard_normal((300, 1))
    for filter_ in (fl.Ridge(500.0), fl.GradientDescent(30, 1e-4)):
        exact = learn(OneTask(Rows.of(X), r), filter_).change
        for solver in ("gram", "krylov"):
            made = learn(OneTask(Rows.of(X.astype(np.float32)), r.astype(np.float32)), filter_, solver=solver)
            assert made.solver == solver
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
    with pytest.raises(TypeError, match="single step"):
        fl.step(w, (X, y), fl.Ridge([1.0, 2.0]))
    with pytest.raises(ValueError, match="NaN"):
        fl.step(w, (sparse.csr_array(X * np.nan), y), fl.Ridge(1.0))


def test_a_residual_of_zero_changes_nothing(rng):
    made = learn(OneTask(Rows.of(rng.standard_normal((4, 3))), np.zeros((4, 1))), fl.Ridge(1.0))
    assert not made.change.any()
    assert made.passes == 0
    r = rng.standard_normal((4, 2))
    made = learn(OneTask(Rows.of(sparse.csr_array((4, 3))), r), fl.Ridge(1.0))
    assert not made.change.any()
    np.testing.assert_allclose(made.after, np.sum(r**2, axis=0))

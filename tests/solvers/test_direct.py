"""Factorisations of one task: their rounding and what they state of it, against fifty digits and exact rationals."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import LinAlgWarning

import forgetless as fl
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import Limits, OneTask, Rows
from support import literal
from support.steps import fifty_digits, hard_task, learn_by, relative, spectral


@pytest.mark.parametrize("kind", ["generic", "decaying", "low rank", "repeated feature"])
@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 6)])
def test_extremes_against_fifty_digits(rng, kind, shape):
    X, r = hard_task(kind, shape, rng), rng.standard_normal((shape[0], 1))
    for size, strength in itertools.product([1e-150, 1e-90, 1.0, 1e90, 1e150], [1e-12, 1e-9, 1e-4, 1.0, 1e4, 1e12]):
        coefficient = strength * size * size
        if not 0 < coefficient < np.inf:
            continue
        made = learn(OneTask(Rows.of(X * size), r), fl.Ridge(coefficient))
        assert relative(made.change, fifty_digits(X * size, r, coefficient)) < 1e-8, (size, strength)


@pytest.mark.parametrize("kind", ["generic", "decaying", "low rank", "repeated feature"])
@pytest.mark.parametrize("shape", [(8, 5), (5, 8)])
@pytest.mark.parametrize("solver", ["auto", "iterative", "svd"])
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_stated_errors_of_every_solver_bound_the_true_ones(rng, kind, shape, solver):
    X, r = hard_task(kind, shape, rng), rng.standard_normal((shape[0], 1))
    stated = []
    for size, strength in itertools.product([1e-3, 1.0, 1e4], [1e-18, 1e-15, 1e-12, 1e-8, 1e-4, 1.0, 1e4]):
        coefficient = strength * size * size
        try:
            made = learn_by(solver, X * size, r, fl.Ridge(coefficient))
        except fl.errors.ConvergenceError:
            continue
        exact = fifty_digits(X * size, r, coefficient)
        true = np.linalg.norm(made.change - exact) / np.linalg.norm(exact)
        assert true <= made.error, (size, strength, made.solver, true, made.error)
        stated.append(made.error)
    assert min(stated) < 1e-12


def test_projection_solves_rank_deficient_tasks_like_the_pseudoinverse(rng):
    X = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 9))
    r = rng.standard_normal((12, 2))
    made = learn(OneTask(Rows.of(X), r), fl.Projection())
    np.testing.assert_allclose(made.change, np.linalg.pinv(X, rcond=1e-12) @ r, atol=1e-10)


def test_smooth_filters_do_not_warn_about_conditions_that_do_not_matter(rng):
    X = hard_task("decaying", (30, 8), rng)
    r = rng.standard_normal((30, 1))
    made = learn_by("svd", X, r, fl.GradientDescent(3, 0.5))
    assert made.error < 1e-12
    assert relative(made.change, literal.descent_step(np.zeros((8, 1)), X, r, 3, 0.5)) < 1e-12


def test_what_cannot_be_computed_accurately_is_not_silent(rng):
    X = hard_task("decaying", (30, 5), rng)
    r = rng.standard_normal((30, 1))
    with pytest.warns(LinAlgWarning, match="ill-conditioned"):
        learn(OneTask(Rows.of(X), r), fl.Ridge(0.0))
    gram = Rows.of_gram(X.T @ X, 30)
    with pytest.raises(fl.errors.ConvergenceError, match="read again"):
        learn(OneTask(gram, np.sqrt(np.sum(r**2, axis=0))[None], X.T @ r), fl.Ridge(1e-12))
    with pytest.raises(fl.errors.ConvergenceError, match="one array"):
        learn(OneTask(Rows(lambda: iter([X]), X.shape, X.size), r), fl.GradientDescent(10**9, 0.5))
    wide = sparse.csr_array(rng.standard_normal((300, 400)))
    few = Limits(memory=1000, passes=20)
    with pytest.raises(fl.errors.ConvergenceError, match="20 passes over a task"):
        learn(OneTask(Rows.of(wide), rng.standard_normal((300, 1))), fl.Ridge(1e-3), limits=few)


@pytest.mark.parametrize("weakest", [1 / 20, 1 / 2000])
@pytest.mark.parametrize("shape", [(60, 30), (30, 60)])
def test_rounding_of_single_precision_targets_is_stated(shape, weakest, rng):
    """r along the strongest direction: its rounding along the weakest is magnified; with and without refinement."""
    U, _, V = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    X = ((U * np.geomspace(1, weakest, 30)) @ V).astype(np.float32)
    r = U[:, :1]
    exact = spectral(X.astype(np.float64), r, fl.Ridge(1e-9))
    made = learn(OneTask(Rows.of(X), r.astype(np.float32)), fl.Ridge(1e-9))
    true = np.linalg.norm(made.change - exact) / np.linalg.norm(exact)
    assert 2e-9 / weakest < true < made.error < 1e-5 / weakest
    made = learn(OneTask(Rows.of(X), r.astype(np.float32)), fl.GradientDescent(400, 0.9))
    assert np.finfo(np.float32).eps < made.error < 1e-5


@pytest.mark.parametrize("shape", [(12, 7), (7, 12)])
@pytest.mark.parametrize("weakest", [1e-1, 1e-3])
@pytest.mark.parametrize("fits", [True, False])
def test_stated_errors_of_a_spectrum_are_those_of_rows_that_were_rounded(shape, weakest, fits, rng):
    """The worst of thirty random changes of eps‖X‖ is what is stated but for a small factor: neither more nor less."""
    U, _, V = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    X, change = 8.0 * (U * np.geomspace(1, weakest, 7)) @ V, 1e-7 * weakest
    r = U @ rng.standard_normal((7, 1)) if fits else rng.standard_normal((shape[0], 1))
    for filter_ in (fl.Ridge(0.064 * weakest**2), fl.GradientDescent(int(20 / weakest), 0.9 / 64)):
        exact, worst = spectral(X, r, filter_), 0.0
        for _ in range(30):
            E = rng.standard_normal(shape)
            other = spectral(X + 8.0 * change * E / np.linalg.norm(E, 2), r, filter_)
            worst = max(worst, np.linalg.norm(other - exact) / np.linalg.norm(exact) / change)
        made = learn_by("svd", X, r, filter_)
        assert 7 < made.error / np.finfo(float).eps / worst < 70


@pytest.mark.parametrize("dual", [False, True])
def test_stated_errors_of_a_factor_grow_with_condition_and_cancellation(dual, rng):
    """X = diag(16, 4): XᵀX + λ has condition (256 + λ)/(16 + λ), and along the weaker row Xᵀr is a quarter."""
    X = np.zeros((2, 3) if dual else (3, 2))
    X[0, 0], X[1, 1] = 16.0, 4.0
    eps = np.finfo(float).eps
    for weak, lost in ((False, 1.0), (True, 4.0)):
        r = np.zeros((len(X), 1))
        r[int(weak)] = 3.0
        for strength in (1.0, 64.0):
            made = learn(OneTask(Rows.of(X), r), fl.Ridge(strength))
            expected = 10 * eps * lost * (256 + strength) / (16 + strength)
            assert made.error == pytest.approx(expected, rel=1e-9, abs=0)
            np.testing.assert_allclose(made.after, (3 * strength / (strength + (16 if weak else 256))) ** 2, rtol=1e-9)


@pytest.mark.parametrize("kind", ["generic", "decaying", "low rank"])
@pytest.mark.parametrize("solver", ["auto", "iterative", "svd"])
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_a_residual_out_of_reach_changes_nothing(kind, solver, rng):
    X = np.vstack([hard_task(kind, (6, 4), rng), np.zeros((1, 4))])
    r = np.array([[0.0]] * 6 + [[2.0]])
    for filter_ in (fl.Ridge(1e-3), fl.Ridge(1e-11), fl.GradientDescent(5, 0.7)):
        made = learn_by(solver, X, r, filter_)
        assert not made.change.any()
        assert made.after.tolist() == [4.0]
        assert made.error < 1e-2


@pytest.mark.parametrize("shape", [(1, 3), (5, 4), (4, 4)])
def test_a_task_learned_again_is_not_called_ill_conditioned(shape, rng):
    """What is left of it is rounding, and known to no digit; its conditions are as good as before."""
    X, y, weights = rng.standard_normal(shape), rng.standard_normal(shape[0]), rng.uniform(0.1, 3, shape[0])
    model = fl.ContinualRidge(0.0)
    for _ in range(3):
        model.partial_fit(X, y, sample_weight=weights)  # a warning is an error
    root = np.sqrt(weights)
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X * root[:, None], y * root)[0], rtol=1e-9)

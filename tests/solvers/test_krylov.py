"""Iterations on one task: their error bounds, passes and norms, against literal loops and exact rationals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forgetless as fl
from forgetless.solvers import _costs, _krylov
from forgetless.solvers.one_task import learn, task_norm
from forgetless.solvers.rows import Limits, OneTask, Rows
from support import literal
from support.steps import kinds, relative, spectral


def test_budget_of_a_thousand_steps_takes_few_passes_and_little_memory(rng):
    X, r = rng.standard_normal((400, 300)), rng.standard_normal((400, 1))
    filter_ = fl.GradientDescent(1000, 1e-3 / np.linalg.norm(X, 2) ** 2)
    stored = learn(OneTask(Rows.of(X), r), filter_, solver="krylov")
    again = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(memory=1))
    assert stored.passes <= 12
    assert again.passes == 2 * stored.passes
    np.testing.assert_array_equal(stored.change, again.change)


@settings(max_examples=80)
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
    s = np.logspace(0, -decay, min(n, d))
    X, r = (U * s) @ V, rng.standard_normal((n, 1))
    for filter_ in (fl.Ridge(10.0**strength), fl.GradientDescent(int(10 ** (2 - strength / 4)), 0.8)):
        reference = learn(OneTask(Rows.of(X), r), filter_)
        for tol in (1e-2, 1e-6, 1e-10):
            try:
                made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
            except fl.errors.ConvergenceError:
                assert strength < -2
                continue
            true = np.linalg.norm(made.change - reference.change) / np.linalg.norm(made.change)
            assert made.error <= 2 * tol + 1e-8
            assert true <= made.error + reference.error + 1e-12


def test_iteration_without_regularization_does_not_claim_to_know_its_error(rng):
    X, r = rng.standard_normal((40, 30)), rng.standard_normal((40, 1))
    made = learn(OneTask(Rows.of(X), r), fl.Projection(), solver="krylov")
    assert np.isnan(made.error)
    np.testing.assert_allclose(made.change, np.linalg.lstsq(X, r)[0], rtol=1e-6)


def test_overshooting_budgets_end_in_time(rng):
    X, r = rng.standard_normal((60, 50)), rng.standard_normal((60, 1))
    square = np.linalg.norm(X, 2) ** 2
    for n_steps in (10**3, 10**6):
        filter_ = fl.GradientDescent(n_steps, 1.5 / square)
        made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov")
        assert relative(made.change, spectral(X, r, filter_)) < 1e-7


def test_one_exhausted_column_does_not_disturb_another(rng):
    X = rng.standard_normal((300, 260))
    r = np.stack([X @ rng.standard_normal(260), np.zeros(300)], axis=1)
    for filter_ in (fl.Ridge(700.0), fl.GradientDescent(30, 1e-3)):
        made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov")
        assert relative(made.change, spectral(X, r, filter_)) < 1e-9
        assert not made.change[:, 1].any()


def test_bidiagonalisation_is_orthonormal(rng):
    X, r = rng.standard_normal((60, 50)), rng.standard_normal((60, 1))
    links = itertools.islice(_krylov.bidiagonalise(OneTask(Rows.of(X), r, X.T @ r)), 12)
    V = np.concatenate([link.v for link in links], axis=1)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=1e-10)


@pytest.mark.parametrize("n_steps", [1, 2, 3, 40])
def test_sums_over_inner_steps_against_exact_rationals(n_steps):
    """Gains (1 − (1−γθ)^i)/θ and their sum over i < N, for γθ from 0 over rounding to beyond 1."""
    step_size = 0.25
    theta = np.array([0.0, 1e-12, 1e-7, 2e-6, 1e-3, 1.0, 3.0, 4.0, 7.0])
    gain, summed = _krylov._gains(theta, n_steps, step_size)
    for at, found, total in zip(theta, gain, summed, strict=True):
        x = Fraction(at)
        each = [(1 - (1 - x / 4) ** i) / x if x else Fraction(i, 4) for i in range(n_steps + 1)]
        assert found == pytest.approx(float(each[-1]), rel=1e-12)
        assert total == pytest.approx(float(sum(each[:-1])), rel=1e-5)


@pytest.mark.parametrize("shown", [1, 2, 10])
def test_inner_steps_beyond_those_summed_one_by_one_are_bounded(shown, rng, monkeypatch):
    """γR² = 1.5: the bound holds however few of the defects are added up, and is not much larger for it."""
    X, r = rng.standard_normal((60, 40)), rng.standard_normal((60, 1))
    filter_ = fl.GradientDescent(60, 1.5 / np.linalg.norm(X, 2) ** 2)
    exact = literal.descent_step(np.zeros((40, 1)), X, r, filter_.n_steps, filter_.step_size)
    for tol in (1e-1, 1e-3, 1e-6):
        full = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
        with monkeypatch.context() as patch:
            patch.setattr(_krylov, "OVERSHOOTS", shown)
            made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
        true = np.linalg.norm(made.change - exact) / np.linalg.norm(exact)
        assert true <= made.error <= tol + 1e-12
        assert full.passes <= made.passes <= full.passes + 8


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_iteration_without_regularization_stops_alike_in_any_units(noise, rng):
    """At Xδ = r, or at Xᵀ(r − Xδ) = 0 where no δ fits."""
    X = rng.standard_normal((60, 20))
    r = X @ rng.standard_normal((20, 1)) + noise * rng.standard_normal((60, 1))
    one = learn(OneTask(Rows.of(X), r), fl.Projection(), solver="krylov")
    assert relative(one.change, np.linalg.lstsq(X, r)[0]) < 1e-8
    assert one.passes < 60
    for a, b in ((2.0**12, 1.0), (2.0**-9, 2.0**7)):
        made = learn(OneTask(Rows.of(a * X), b * r), fl.Projection(), solver="krylov")
        assert made.passes == one.passes
        np.testing.assert_allclose(made.change, b / a * one.change, rtol=1e-9)


@pytest.mark.parametrize("shape", [(5, 3), (3, 500), (700, 500), (400, 900)])
def test_norm_is_the_largest_singular_value(rng, shape):
    X = rng.standard_normal(shape)
    exact = np.linalg.norm(X, 2)
    tolerance = 1e-12 if min(shape) <= _costs.SMALL_SIDE else 2e-3
    for rows in kinds(X).values():
        assert task_norm(rows) == pytest.approx(exact, rel=2e-3 if rows.single is None else tolerance)
    assert task_norm(Rows.of(X * 1e-160)) == pytest.approx(exact * 1e-160, rel=tolerance, abs=0)
    assert task_norm(Rows.of(X * 1e160)) == pytest.approx(exact * 1e160, rel=tolerance)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_norms_of_large_tasks_in_any_units(unit, rng):
    """No gap at the top of the spectrum, and more lines than passes."""
    X = unit * rng.standard_normal((130, 110))
    assert _krylov.norm(Rows.of(X)) == pytest.approx(np.linalg.norm(X, 2), rel=2e-3)


def test_the_stated_error_is_that_of_the_worst_target(rng):
    U, _, V = np.linalg.svd(rng.standard_normal((60, 40)), full_matrices=False)
    X = (U * np.linspace(1, 0.1, 40)) @ V
    r = np.hstack([U[:, :1], rng.standard_normal((60, 1))])  # the first is found in one pass
    for filter_ in (fl.Ridge(0.02), fl.GradientDescent(40, 0.8)):
        exact = spectral(X, r, filter_)
        for tol in (0.3, 1e-2, 1e-4):
            made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
            true = np.linalg.norm(made.change - exact, axis=0) / np.linalg.norm(exact, axis=0)
            assert true[0] < 1e-9 < true[1] <= made.error <= tol + 1e-12


def test_passes_are_a_limit_that_may_be_reached(rng):
    X, r = rng.standard_normal((60, 40)), rng.standard_normal((60, 1))
    for filter_ in (fl.Ridge(30.0), fl.Projection()):
        needed = learn(OneTask(Rows.of(X), r), filter_, solver="krylov").passes
        made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(passes=needed))
        assert made.passes == needed > 3
        with pytest.raises(fl.errors.ConvergenceError):
            learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(passes=needed - 1))


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_literal_steps_state_a_rounding_each(n_steps, rng):
    X, r = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    made = _krylov.gradient_steps(OneTask(Rows.of(X), r, X.T @ r), n_steps, 0.01)
    assert made.error == 4 * n_steps * np.finfo(float).eps
    np.testing.assert_allclose(made.change, literal.descent_step(np.zeros((4, 2)), X, r, n_steps, 0.01), rtol=1e-12)

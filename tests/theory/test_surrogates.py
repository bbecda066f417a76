"""The reduction and the last-iterate lemma against literal computations and exact arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.collections import FAMILIES, random_pairs

s = fl.schedules


@pytest.fixture(params=FAMILIES)
def tasks(request, rng):
    return fl.TaskCollection(random_pairs(rng, **FAMILIES[request.param]))


def filters_for(tasks):
    R2 = tasks.radius**2
    return [fl.Ridge(0.3 * R2), fl.Ridge(20 * R2), fl.GradientDescent(1, 0.5 / R2), fl.GradientDescent(9, 0.2 / R2)]


def test_a_gradient_step_on_the_surrogate_is_the_step(tasks, rng):
    w = rng.standard_normal(tasks.teacher().shape)
    for filter_, eta in itertools.product(filters_for(tasks), (1e-3, 0.7, 50.0)):
        for task in tasks:
            f = fl.theory.surrogate(task, filter_, eta, tasks.radius)
            np.testing.assert_allclose(f.step(w), fl.step(w, task, filter_), rtol=1e-13, atol=1e-15)
            V = task.singular_vectors
            A, solution = (V.T * f.curvature) @ V, np.linalg.pinv(task.X, rcond=1e-12) @ task.y
            np.testing.assert_allclose(f.gradient(w), A @ (w - solution), atol=1e-9 * np.abs(A).max())
            assert f.value(w) == pytest.approx(0.5 * np.sum((w - solution) * (A @ (w - solution))), rel=1e-9)


def test_the_three_properties_hold_in_numbers(tasks, rng):
    for filter_ in filters_for(tasks):
        check = fl.theory.check_reduction(tasks, filter_, 0.37)
        assert check.smallest_curvature >= 0
        assert check.largest_curvature <= check.smoothness * (1 + 1e-12)
        assert check.lower * (1 - 1e-12) <= check.smallest_ratio
        assert check.largest_ratio <= check.upper * (1 + 1e-12)
        if tasks.is_realizable():
            assert check.largest_value_at_teacher < 1e-20 * (1 + check.smoothness)
            assert check.holds
        else:
            assert check.parts == {"(i)": True, "(ii)": True, "(iii)": False}
        for task in tasks:  # the sandwich itself, at random points
            f = fl.theory.surrogate(task, filter_, 0.37, tasks.radius)
            w = rng.standard_normal(tasks.teacher().shape)
            excess = literal.loss(w, *task) - task.floor
            assert check.lower * f.value(w) <= excess * (1 + 1e-9) + 1e-12
            assert excess <= check.upper * f.value(w) * (1 + 1e-9) + 1e-12


def test_filters_that_are_not_concave_fail():
    """1 − (1 − γξ)² falls from ξ = 1/γ on: at γ = 1.5 its largest curvature is at ξ = 2/3, not at R² = 1."""
    tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, np.sqrt(2 / 3)]], [1.0])])
    verdict = fl.theory.check_reduction(tasks, fl.GradientDescent(2, 1.5), 1.0)
    assert (verdict.smoothness, verdict.largest_curvature) == pytest.approx((0.75, 1.0))
    assert not verdict.parts["(i)"]
    tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, np.sqrt(0.6)]], [1.0])])
    parts = fl.theory.check_reduction(tasks, fl.GradientDescent(3, 1.9), 1.0).parts
    assert parts == {"(i)": True, "(ii)": False, "(iii)": True}
    assert fl.theory.check_reduction(tasks, fl.GradientDescent(2, 0.99), 1.0).holds


def test_constants_of_the_paper():
    """Smoothness R²/(η(R²+λ)), lower λη and upper R²/β for L2; η/(γN) for a budget; and of a task of zeros."""
    task, zero = fl.TaskCollection([([[2.0, 0.0]], [1.0]), ([[0.0, 0.0]], [1.0])])
    f = fl.theory.surrogate(task, fl.Ridge(3.0), 0.5)
    assert (f.smoothness, f.lower, f.upper) == pytest.approx((4 / (0.5 * 7), 1.5, 4 / f.smoothness))
    g = fl.theory.surrogate(task, fl.GradientDescent(4, 0.1), 0.5)
    assert (g.smoothness, g.lower) == pytest.approx(((1 - 0.6**4) / 0.5, 0.5 / 0.4))
    assert fl.theory.surrogate(zero, fl.Ridge(3.0), 0.5).upper == 0
    empty = fl.theory.check_reduction(fl.TaskCollection([zero]), fl.Ridge(3.0), 0.5)
    assert (empty.largest_curvature, empty.smallest_ratio, empty.largest_ratio) == (0, np.inf, 0)


@pytest.mark.parametrize("schedule", [s.increasing(), s.increasing_budget(3)], ids=repr)
def test_the_surrogates_have_the_hypotheses_of_the_lemma(schedule, rng):
    """Smoothness β = R², f⁽ᵗ⁾ − f⁽ᵗ⁾⋆ ≤ f − f⋆ ≤ (1 + η_tβ)(f⁽ᵗ⁾ − f⁽ᵗ⁾⋆), and one minimum, for η ≤ 3/(13β)."""
    tasks, k = fl.TaskCollection(random_pairs(rng, M=3)), 9
    square = tasks.radius**2
    etas, filter_ = fl.theory.linear_decay(k, 3 / (13 * square)), schedule(k, tasks.radius)
    for t in range(k):
        check = fl.theory.check_reduction(tasks, filter_[t], etas[t])
        assert check.holds
        assert check.smoothness <= square * (1 + 1e-12)
        assert check.smallest_ratio >= 1 - 1e-12
        assert check.largest_ratio <= (1 + etas[t] * square) * (1 + 1e-12)
    assert fl.theory.check_reduction(tasks, filter_[0], 2 * etas[0]).smallest_ratio > 1.3
    assert fl.theory.check_reduction(tasks, filter_[0], etas[0] / 2).smoothness > square


@pytest.mark.parametrize("k", [*range(1, 61), 100, 300])
def test_weights_are_nonnegative_in_exact_arithmetic(k):
    weights = fl.theory.last_iterate_weights(k, Fraction(3, 13), Fraction(1))
    assert min(weights.c) >= 0
    assert weights.c[-1] >= Fraction(3, 13) / (k + 1)
    floats = fl.theory.last_iterate_weights(k, 3 / 13, 1.0)
    assert float(weights.bound) == pytest.approx(floats.bound, rel=1e-12)
    assert weights.bound * (k + 1) <= Fraction(39, 2)


def test_finite_k_constants_of_the_theorem():
    """(k+1)·v₀²/(2c_{k+1}): 8.25 at k = 2, 14.9 at 10, 18.9 at 100, towards 19.5; above ηβ = 3/13 no proof."""
    assert min(fl.theory.last_iterate_weights(50, Fraction(9, 10), Fraction(1)).c) < 0
    found = [(k + 1) * fl.theory.last_iterate_weights(k, 3 / 13, 1.0).bound for k in (2, 10, 100, 10**5)]
    np.testing.assert_allclose(found, [8.25, 14.9, 18.9, 19.5], atol=0.06)

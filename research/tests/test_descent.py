"""Schedules that minimise their own upper bound, and the gradient by which they do."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from forgetless.theory.majorants import half_supremum
from forgetless.theory.steps import steps_of
from research import minimax_schedule

s = fl.schedules


def check_optimum(k, constant):
    best = minimax_schedule(k)
    assert best.constant < constant + 5e-5  # four digits, rounded
    fine = half_supremum(steps_of(best(k, 1.0), k), k, "average_loss", per_decade=320)
    assert best.value == fine.per_unit
    falling = fl.GradientDescent(1, 1.0 - (np.arange(1, k + 1) / (k + 1)) ** 2.5)
    closed = fl.upper_bound(falling, k).constant
    assert best.constant < closed < 1.03 * best.constant
    filter_ = best(k, 2.0)
    np.testing.assert_allclose(filter_.step_size, np.array(best.strengths) / 4)
    assert fl.upper_bound(best, k, radius=2.0).constant == pytest.approx(fl.upper_bound(best, k).constant, rel=1e-9)
    return best


def test_optimal_schedules():
    best = check_optimum(16, 0.2719)
    assert "upper bound 0.2719 R²D²/k" in repr(best)
    ridge = minimax_schedule(16, scheme="ridge")
    assert best.constant < ridge.constant < 0.2765 < fl.upper_bound(s.increasing(scale=1 / 4), 16).constant
    np.testing.assert_allclose(ridge(16, 3.0).coefficient, 9 * np.array(ridge.strengths))
    with pytest.raises(ValueError, match="schedule gives 16 steps but k is"):
        best(17, 1.0)
    with pytest.raises(ValueError, match="scheme must be"):
        minimax_schedule(4, scheme="both")


@pytest.mark.long
@pytest.mark.parametrize(("k", "constant"), [(64, 0.2899), (256, 0.2984)])
def test_optimal_schedules_of_more_steps(k, constant):
    check_optimum(k, constant)


@pytest.mark.parametrize("scheme", ["budget", "ridge"])
def test_no_change_of_one_strength_is_better(scheme):
    """So the gradient, by which it was found, is that of the bound."""
    best = minimax_schedule(7, scheme=scheme)
    for t, factor in itertools.product(range(7), (0.98, 1.02)):
        strengths = np.array(best.strengths) * np.where(np.arange(7) == t, factor, 1.0)
        strengths = np.minimum(strengths, 1.0) if scheme == "budget" else strengths  # of steps beyond there is no bound
        changed = fl.GradientDescent(1, strengths) if scheme == "budget" else fl.Ridge(strengths)
        fine = half_supremum(steps_of(changed, 7), 7, "average_loss", per_decade=320)
        assert fine.per_unit >= best.value * (1 - 1e-6)

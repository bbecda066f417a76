"""Schedules that minimise their own upper bound, and the gradient by which they do."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.theory.majorants import Mesh, half_supremum
from forgetless.theory.steps import steps_of
from research import minimax_schedule
from research.descent import _Descent

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


def test_gradients_are_those_of_differences(rng):
    k, h = 7, 1e-6
    for scheme in ("budget", "ridge"):
        descent = _Descent(k, scheme, Mesh.of(k).r)
        x = rng.standard_normal(k)
        differences = [(descent._value(x + e)[0] - descent._value(x - e)[0]) / (2 * h) for e in h * np.eye(k)]
        np.testing.assert_allclose(descent._value(x)[1], differences, rtol=0, atol=1e-8)

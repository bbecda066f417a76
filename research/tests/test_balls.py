"""Upper bounds in floating point against the same recursion in ball arithmetic."""

import numpy as np
import pytest

import forgetless as fl
from research.proofs.balls import upper_bound_in_balls
from support.filters import Flow

s = fl.schedules


def test_floats_are_not_below_balls(rng):
    """Fresh k and scales, every kind of step and quantity; and not far above."""
    k = [int(each) for each in rng.integers(2, 30, 5)]
    cases = [(s.increasing(float(10 ** rng.uniform(-1, 1))), n, {}) for n in k]
    cases += [
        (s.increasing_budget(np.resize([2, 3, 5], 9)), 9, {"radius": 0.7}),
        (fl.GradientDescent(1, 1.0 - (np.arange(1, 12) / 12) ** 2.5), 11, {}),
        (s.increasing(0.5), 9, {"quantity": "seen_loss", "radius": 3.0}),
        (s.increasing_budget(3), 7, {"quantity": "seen_loss"}),
        (fl.Ridge([0.0, *s.increasing()(9, 1.0).coefficient[1:]]), 9, {"quantity": "seen_loss"}),
    ]
    for schedule, n, options in cases:
        plain, ball = fl.upper_bound(schedule, n, **options).constant, upper_bound_in_balls(schedule, n, **options)
        assert 0 <= plain - ball <= 1e-9 * plain


def test_balls_need_a_formula():
    with pytest.raises(ValueError, match="needs a filter whose formula is known"):
        upper_bound_in_balls(Flow(1.0), 5)


@pytest.mark.parametrize("budgets", [[200, 300], [500, 900]])
def test_saturated_budgets_in_balls(budgets):
    """1 − φ is below what balls of 120 bits can distinguish from zero."""
    schedule = fl.GradientDescent(np.array(budgets), 0.5)
    bound = fl.upper_bound(schedule, 2).constant
    assert upper_bound_in_balls(schedule, 2) == pytest.approx(bound, rel=1e-9)
    assert bound < 0.4

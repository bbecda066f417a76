"""Hypotheses one by one, at the borders of what they allow, with numbers by hand."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import forgetless as fl
from forgetless.theory import hypotheses
from forgetless.theory.hypotheses import Setting

s = fl.schedules


def setting(pairs, filter_, k, ordering=None, start=None):
    tasks = pairs if isinstance(pairs, fl.TaskCollection) else fl.TaskCollection(pairs)
    filter_ = filter_ if isinstance(filter_, fl.Filter) else filter_(k, tasks.radius)
    tasks = tasks if start is None else tasks.shifted(start)
    teacher = tasks.teacher()
    distance = float(np.linalg.norm(teacher))
    return Setting(tasks, filter_, k, ordering or fl.WithReplacement(), teacher, distance)


def holds(hypothesis, *args, **options):
    return hypothesis.failure(setting(*args, **options)) is None


UNIT = [([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])]
ONE = [([[1.0]], [1.0])]
EDGE = [(5e-10, True), (-5e-10, True), (5e-9, False), (-5e-9, False)]


@pytest.mark.parametrize(("off", "close"), EDGE)
def test_schedules_are_those_of_a_theorem_to_nine_digits(off, close):
    k, last = 5, np.arange(5) == 4
    strengths = 13 / 3 * (k + 1) / np.arange(k + 1, 1, -1)  # R = 1
    assert holds(hypotheses.THEOREM, UNIT, fl.Ridge(strengths * (1 + off)), k) is close
    assert holds(hypotheses.THEOREM, UNIT, fl.Ridge(strengths * (1 + off * last)), k) is close
    assert holds(hypotheses.AT_LEAST, UNIT, fl.Ridge(strengths * (1 + off)), k) is (close or off > 0)
    assert holds(hypotheses.AT_LEAST, UNIT, fl.Ridge(2 * strengths * (1 + off * last)), k) is close
    first_free = np.where(np.arange(k) == 0, 0.0, strengths)
    assert holds(hypotheses.FIRST_FREE, UNIT, fl.Ridge(first_free * (1 + off)), k) is close
    assert holds(hypotheses.FIRST_FREE, UNIT, fl.Ridge(first_free * (1 + off * last)), k) is close
    # φ(1) = 1/(1 + λ) = 1/ln 5 at λ = ln 5 − 1.
    assert holds(hypotheses.INVERSE_LOG, UNIT, fl.Ridge(math.log(5) * (1 + off) - 1), k) is close
    # 2MR²√ln(k/M) = 4√ln 2.5.
    assert holds(hypotheses.CAI, UNIT, fl.Ridge(4 * math.sqrt(math.log(2.5)) * (1 + off)), k) is close
    # φ(1) = 1/2, whose relative change is half that of λ.
    varying = fl.Ridge(1.0 + 2 * off * last)
    assert holds(hypotheses.FIXED, UNIT, varying, k) is close
    assert math.isfinite(setting(UNIT, varying, k).kappa) is close


def test_strengths_that_are_not_the_theorems():
    k = 5
    strengths = 13 / 3 * (k + 1) / np.arange(k + 1, 1, -1)
    free = np.where(np.arange(k) == 0, 0.0, strengths)
    assert setting(UNIT, fl.Ridge(strengths), k).scale == pytest.approx(13 / 3, rel=1e-12)
    assert setting(UNIT, s.increasing_budget(3, scale=6.0), k).scale == pytest.approx(6.0, rel=1e-12)
    double = [([[2.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])]
    assert setting(double, fl.Ridge(4 * strengths), k).scale == pytest.approx(13 / 3, rel=1e-12)
    for schedule in (fl.Ridge(free), fl.Ridge(1.0), fl.GradientDescent(1, 1.5)):
        assert setting(UNIT, schedule, k).scale != pytest.approx(13 / 3)
        assert not holds(hypotheses.THEOREM, UNIT, schedule, k)
        assert not holds(hypotheses.AT_LEAST, UNIT, schedule, k)
    assert not holds(hypotheses.FIRST_FREE, UNIT, fl.Ridge(strengths), k)
    assert not holds(hypotheses.FIRST_FREE, UNIT, fl.Ridge(free * 1.01), k)
    assert not holds(hypotheses.FIRST_FREE, UNIT, fl.Ridge([0.0]), 1)
    assert not holds(hypotheses.FIRST_FREE, UNIT, fl.Ridge(np.where(np.arange(k) == 3, 1.0, free)), k)
    assert holds(hypotheses.AT_LEAST, UNIT, fl.Ridge(1.5 * strengths), k)
    assert not holds(hypotheses.AT_LEAST, UNIT, fl.Ridge(0.9 * strengths), k)
    assert not holds(hypotheses.THEOREM, UNIT, fl.Ridge(1.5 * strengths), k)
    zero = [(np.zeros((1, 2)), [0.0])]
    assert setting(zero, fl.Ridge(strengths), k).scale != pytest.approx(13 / 3)


def test_the_cyclic_coefficient():
    value = 2 * 2 * 9.0 * math.sqrt(math.log(4 / 2))
    tripled = [([[3.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])]
    assert holds(hypotheses.CAI, tripled, fl.Ridge(value), 4)
    assert not holds(hypotheses.CAI, tripled, fl.Ridge(2 * value), 4)
    assert not holds(hypotheses.CAI, tripled, fl.Ridge(value), 5)
    assert not holds(hypotheses.CAI, UNIT, fl.Ridge(0.0), 2)  # k = M
    assert "holds only if λ = 2MR²√ln(k/M) and k > M" in hypotheses.CAI.failure(setting(UNIT, fl.Ridge(0.0), 2)).reason


def test_the_factor_of_the_corollary_holds_from_three_steps_on():
    for k, lam in ((3, math.log(3) - 1), (100, math.log(100) - 1)):
        assert holds(hypotheses.INVERSE_LOG, UNIT, fl.Ridge(lam), k)
        assert holds(hypotheses.INVERSE_LOG, UNIT, fl.GradientDescent(1, 1 / math.log(k)), k)
        assert not holds(hypotheses.INVERSE_LOG, UNIT, fl.Ridge(2 * lam + 1), k)
    overshoot = fl.GradientDescent(1, 1 / math.log(2))
    assert setting(UNIT, overshoot, 2).kappa == pytest.approx(1 / math.log(2))
    assert not holds(hypotheses.INVERSE_LOG, UNIT, overshoot, 2)
    assert not holds(hypotheses.INVERSE_LOG, UNIT, fl.Ridge(1.0), 1)
    assert not holds(hypotheses.INVERSE_LOG, UNIT, fl.Ridge([1.0, 2.0, 3.0, 4.0]), 4)


@pytest.mark.parametrize(
    ("filter_", "inside", "beyond"),
    [
        (fl.Ridge(1e30), True, False),
        (fl.Ridge(5e-12), True, False),
        (fl.Ridge(5e-13), False, True),
        (fl.Ridge(0.0), False, True),
        (fl.GradientDescent(1, 1 - 1.5e-12), True, False),
        (fl.GradientDescent(1, 1.999), False, True),
        (fl.GradientDescent(1, 2.0), False, False),
        (fl.GradientDescent(2, 1.999), True, False),  # (1 − γ)² = 0.998 is left
        (fl.Ridge([1.0, 2.0]), False, False),
        (fl.Ridge([0.0, 1e-3]), False, False),
    ],
    ids=repr,
)
def test_the_share_at_the_radius(filter_, inside, beyond):
    assert holds(hypotheses.INSIDE, UNIT, filter_, 2) is inside
    assert holds(hypotheses.BEYOND, UNIT, filter_, 2) is beyond


def test_a_filter_that_learns_nothing_is_in_no_range():
    assert not holds(hypotheses.INSIDE, [(np.zeros((1, 2)), [0.0])], fl.Ridge(1.0), 2)


@pytest.mark.parametrize(("coefficient", "none"), [(0.0, True), (7e-15, True), (2e-14, False)])
def test_no_regularization_is_meant_to_the_last_digits(coefficient, none):
    assert holds(hypotheses.UNREGULARIZED, UNIT, fl.Ridge(coefficient), 2) is none
    assert holds(hypotheses.UNREGULARIZED, UNIT, fl.Ridge([0.0, coefficient]), 2) is none
    assert holds(hypotheses.UNREGULARIZED, UNIT, fl.GradientDescent(1, 1.0 + coefficient), 2) is none


def test_what_is_said_about_orderings():
    three = [([[1.0]], [1.0])] * 3
    orderings = {
        fl.WithReplacement(): (True, False, False),
        fl.WithReplacement([0.2, 0.3, 0.5]): (False, False, False),
        fl.WithoutReplacement(): (False, True, False),
        fl.RandomReshuffling(): (False, True, False),
        fl.Cyclic(): (False, False, True),
    }
    for ordering, expected in orderings.items():
        known = (hypotheses.UNIFORM, hypotheses.WITHOUT, hypotheses.CYCLIC)
        found = tuple(holds(each, three, fl.Ridge(1.0), 3, ordering=ordering) for each in known)
        assert found == expected, ordering
    assert not holds(hypotheses.WITHOUT, three, fl.Ridge(1.0), 4, ordering=fl.RandomReshuffling())


@pytest.mark.parametrize("at_once", [1, 5, 2**20])
def test_the_filter_factors_of_all_steps(at_once, monkeypatch):
    """Smallest and largest φ at the different eigenvalues, 1/4 and 1 in units of R², in parts of any length."""
    monkeypatch.setattr(hypotheses, "_AT_ONCE", at_once)
    pairs = [([[2.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0]), ([[2.0, 0.0]], [1.0])]
    varying = setting(pairs, fl.Ridge([4.0, 1.0, 12.0, 2.0]), 4)
    np.testing.assert_allclose(varying.eigenvalues, [0.25, 1.0])
    low, high = varying.extremes
    np.testing.assert_allclose(low, [1 / 13, 4 / 16])
    np.testing.assert_allclose(high, [1 / 2, 4 / 5])
    np.testing.assert_allclose(
        np.concatenate([each for each, _ in varying.steps()])[:, 1], [4 / 8, 4 / 5, 4 / 16, 4 / 6]
    )
    np.testing.assert_allclose(setting(pairs, fl.Ridge(4.0), 4).extremes, [[0.2, 0.5]] * 2)


@dataclass(frozen=True, eq=False)
class Bent(fl.Filter):
    """κ at the radius 1 and elsewhere κ·ξ^power."""

    power: float

    def factors(self, eigenvalues):
        return 0.8 * np.minimum(1.0, eigenvalues) ** self.power


@pytest.mark.parametrize(("power", "between"), [(1.0, True), (0.3, True), (1.1, False), (-0.1, False)])
def test_filters_are_looked_at_where_the_tasks_are(power, between):
    """ξ = 1/4 beside 1: only there κξ ≤ φ(ξ) ≤ κ is asked; with ξ = 1 alone every filter has it."""
    pairs = [([[1.0, 0.0]], [1.0]), ([[0.0, 0.5]], [1.0])]
    assert holds(hypotheses.BETWEEN, pairs, Bent(power), 3) is between
    assert holds(hypotheses.BETWEEN, UNIT, Bent(power), 3)
    higher = [([[1.0, 0.0]], [1.0]), ([[0.0, 0.8]], [1.0])]  # φ(0.64) = 0.9984 at γ = 1.5, above φ(1) = 3/4
    assert not holds(hypotheses.BETWEEN, higher, fl.GradientDescent(2, 1.5), 3)


@pytest.mark.parametrize(
    ("filter_", "budget"),
    [(fl.GradientDescent(3, 0.9), True), (fl.GradientDescent(3, 1.0), False), (fl.Ridge(1.0), False)],
)
def test_budgets_have_steps_below_the_inverse_square(filter_, budget):
    assert holds(hypotheses.BUDGET, UNIT, filter_, 3) is budget


def test_how_far_contradictions_move_the_weights():
    """1 and 1 + e asked of one weight, rows of 1 and 2, and two targets in one task; D is nearly 1 from 0."""
    e = 1e-4
    two = [([[1.0]], [1.0]), ([[1.0]], [1.0 + e])]  # w⋆ = 1 + e/2
    for k, filter_, moved in [
        (6, fl.Projection(), 6 * e / 2),
        (8, fl.Ridge(3.0), 8 * e / 2 / 4),
        (2, fl.Ridge(3.0), e / 2),  # not moved by as much as is missed
        (3, fl.Ridge([3.0, 0.0, 1.0]), 3 * e / 2),
    ]:
        assert setting(two, filter_, k).contradiction == pytest.approx(moved / (1 + e / 2), rel=1e-6)
    uneven = [([[2.0]], [2.0]), ([[1.0]], [1.0 + e])]  # w⋆ = 1 + e/5, the second misses 4e/5, half as visible
    assert setting(uneven, fl.Ridge(1e9), 1).contradiction == pytest.approx(0.4 * e / (1 + e / 5), rel=1e-6)
    assert setting(uneven, fl.Ridge(1.0), 7).contradiction == pytest.approx(7 * 0.5 * 0.8 * e / (1 + e / 5), rel=1e-6)
    noisy = [([[1.0], [1.0]], [1.0, 1.0 + e])]  # R² = 2, and no weight avoids e²/2 of squares
    assert setting(noisy, fl.Projection(), 9).contradiction == pytest.approx(e / 2 / (1 + e / 2), rel=1e-6)
    at = setting(two, fl.Projection(), 6, start=[1.0 + e / 2])
    assert at.distance < 1e-15
    assert at.contradiction > 1e10
    assert setting(ONE, fl.Projection(), 6, start=[1.0]).contradiction == 0


@pytest.mark.parametrize("k", [1, 25])
def test_contradictions_are_overlooked_up_to_a_thousandth_of_the_distance_over_root_k(k):
    for part, close in ((0.95, True), (1.05, False)):
        e = part * 1e-3 / math.sqrt(k) / k * 2  # moves by k·e/2
        pairs = [([[1.0]], [1.0]), ([[1.0]], [1.0 + e])]
        assert holds(hypotheses.REALIZABLE, pairs, fl.Projection(), k) is close

"""What bounds ask for, at the borders of it: by the bounds that apply."""

import math

import numpy as np
import pytest

import forgetless as fl
from support.filters import Power

UNIT = [([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])]
STRENGTHS = 13 / 3 * 6 / np.arange(6, 1, -1)  # of the theorem, for k = 5 and R = 1
FREE = np.where(np.arange(5) == 0, 0.0, STRENGTHS)


def holds(name, schedule, k, pairs=UNIT, ordering=None):
    """Return whether a bound applies, or would if it had a value."""
    (check,) = fl.compare_bounds(
        fl.TaskCollection(pairs), schedule, k, ordering=ordering, bounds=[fl.theory.catalogue[name]]
    ).bounds
    return check.applies or "no value is known" in check.reason


@pytest.mark.parametrize(("off", "close"), [(5e-10, True), (-5e-10, True), (5e-9, False), (-5e-9, False)])
def test_schedules_are_those_of_a_theorem_to_nine_digits(off, close):
    last = np.arange(5) == 4
    for change in (1 + off, 1 + off * last):
        assert holds("increasing", fl.Ridge(STRENGTHS * change), 5) is close
        assert holds("increasing, first task free", fl.Ridge(FREE * change), 5) is close
        assert holds("increasing, larger scale", fl.Ridge(2 * STRENGTHS * (1 + off * last)), 5) is close
    # φ(1) = 1/(1 + λ) = 1/ln 5 at λ = ln 5 − 1, and 2MR²√ln(k/M) = 4√ln 2.5.
    assert holds("fixed, near-optimal", fl.Ridge(math.log(5) * (1 + off) - 1), 5) is close
    cai = fl.Ridge(4 * math.sqrt(math.log(2.5)) * (1 + off))
    assert holds("cyclic, fixed", cai, 5, ordering="cyclic") is close
    assert holds("fixed coefficient", fl.Ridge(1.0 + 2 * off * last), 5) is close


def test_strengths_that_are_not_the_theorems():
    assert holds("increasing", fl.schedules.increasing_budget(3), 5)
    assert holds("increasing", fl.schedules.from_coefficients(STRENGTHS), 5)
    assert holds("increasing", fl.Ridge(4 * STRENGTHS), 5, [([[2.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])])
    assert holds("increasing, scale 1, one gradient step, every k", fl.GradientDescent(1, np.arange(6, 1, -1) / 6), 5)
    for schedule in (fl.Ridge(FREE), fl.Ridge(1.0), fl.GradientDescent(1, 1.5), fl.Ridge(0.9 * STRENGTHS)):
        assert not holds("increasing, larger scale", schedule, 5)
    for schedule in (fl.Ridge(STRENGTHS), fl.Ridge(1.01 * FREE), fl.Ridge(np.where(np.arange(5) == 3, 1.0, FREE))):
        assert not holds("increasing, first task free", schedule, 5)
    assert not holds("increasing", fl.Ridge(1.5 * STRENGTHS), 5)
    assert not holds("cyclic, fixed", fl.Ridge(0.0), 2, ordering="cyclic")  # k = M


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
    ],
    ids=repr,
)
def test_the_share_at_the_radius(filter_, inside, beyond):
    """λ > 0 and γR² < 1 are the lemma's; what is beyond is named after the theorem it rests on."""
    assert holds("fixed, any filter", filter_, 2) is inside
    assert holds("fixed, beyond the lemma", filter_, 2) is beyond
    assert holds("one filter, every k", filter_, 2) is (inside or beyond)
    assert holds("fixed budget", filter_, 2) is (inside and bool(np.all(getattr(filter_, "step_size", 9) < 1)))
    assert not holds("fixed, any filter", filter_, 2, [([[0.0]], [0.0])] * 2)


@pytest.mark.parametrize(("coefficient", "none"), [(0.0, True), (7e-15, True), (2e-14, False)])
def test_no_regularization_is_meant_to_the_last_digits(coefficient, none):
    for filter_ in (fl.Ridge(coefficient), fl.Ridge([0.0, coefficient]), fl.GradientDescent(1, 1.0 + coefficient)):
        assert holds("unregularized, by hand", filter_, 2) is none


def test_what_is_said_about_orderings():
    names = {"f": "unregularized, by hand", "w": "any algorithm, without replacement"}
    names |= {"n": "any algorithm, next task", "c": "cyclic, unregularized, lower"}
    for ordering, expected in {  # for 2, 3 and 4 steps on three tasks
        fl.WithReplacement(): ["f", "f", "f"],
        fl.WithReplacement([0.2, 0.3, 0.5]): ["", "", ""],
        fl.WithoutReplacement(): ["wn", "w"],
        fl.RandomReshuffling(): ["wn", "w", ""],
        fl.Cyclic(): ["c", "c", "c"],
    }.items():
        for k, letters in enumerate(expected, start=2):
            found = [each for each in names if holds(names[each], "none", k, [([[1.0]], [1.0])] * 3, ordering)]
            assert "".join(found) == letters, (ordering, k)


@pytest.mark.parametrize(("k", "n", "change"), [(4, 5, 2), (1100, 1101, 2**20 // 1101)])
def test_minimax_shares_are_of_steps_whose_strengths_never_fall(k, n, change):
    """All φ_t(1) are those of the schedule, the number of gradient steps changes; a million factors are one block."""
    pairs = [([[each]], [each]) for each in np.linspace(0.1, 1.0, n)]
    shares = np.arange(k, 0, -1) / (k + 1)
    for first, last in ((5, 1), (1, 5)):
        n_steps = np.where(np.arange(k) < change, first, last)
        filter_ = fl.GradientDescent(n_steps, 1 - (1 - shares) ** (1 / n_steps))
        assert holds("minimax, next task", filter_, k, pairs, "without-replacement") is (first > last)
    pairs = [([[0.76]], [0.76]), ([[1.0]], [1.0])]
    assert holds("minimax", Power(1.0, 0.5), 1, pairs)
    assert not holds("minimax", Power(2.0, 0.5), 1, pairs)
    assert not holds("minimax", fl.GradientDescent(2, 1 + 0.5**0.5), 1, pairs)


@pytest.mark.parametrize(("power", "between"), [(1.0, True), (0.3, True), (1.1, False), (-0.1, False)])
def test_filters_are_looked_at_where_the_tasks_are(power, between):
    """ξ = 1/4 beside 1: only there κξ ≤ φ(ξ) ≤ κ is asked; with ξ = 1 alone every filter has it."""
    pairs = [([[1.0, 0.0]], [1.0]), ([[0.0, 0.5]], [1.0])]
    assert holds("one filter, every k", Power(power, 0.8), 3, pairs) is between
    assert holds("one filter, every k", Power(power, 0.8), 3)


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("k", [1, 25])
def test_contradictions_are_overlooked_up_to_a_thousandth_of_the_distance_over_root_k(k, scale):
    """Of two tasks, which move the weights by e/k at every step, and of two rows of one task, which each miss by e."""
    for part, close in ((0.95, True), (1.05, False)):
        e = part * 1e-3 / math.sqrt(k)
        two = [([[scale]], [scale]), ([[scale]], [scale * (1 + 2 * e / k)])]
        one = [([[scale], [scale]], [scale * (1 - e), scale * (1 + e)])]
        (check,) = fl.compare_bounds(fl.TaskCollection(two), "none", k, bounds=[fl.theory.catalogue["trivial"]]).bounds
        assert check.published == (pytest.approx((scale * (1 + e / k + 2 * e)) ** 2 / 2, rel=1e-5) if close else None)
        assert holds("trivial", "none", k, two) is close
        assert holds("trivial", "none", k, one) is close
    assert not holds("trivial", "none", k, [([[scale]], [1.0]), ([[scale]], [-1.0])])


@pytest.mark.parametrize(("off", "exact"), [(5e-10, True), (-5e-10, True), (-5e-9, False)])
def test_an_eta_of_nearly_one_is_one(off, exact):
    """Labels that one model fits have the bound of η = 1; below it that of the oracle bound holds too."""
    shares = (1 + off) * np.arange(5, 0, -1) / 6
    assert holds("minimax", fl.Ridge(1 / shares - 1), 5)
    assert holds("oracle", fl.Ridge(1 / shares - 1), 5) is not exact

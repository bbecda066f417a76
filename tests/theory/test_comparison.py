"""BoundComparisons: exact losses between every bound that applies."""

import dataclasses
import warnings

import numpy as np
import pytest

import forgetless as fl
from support.campaigns import some_of
from support.collections import random_pairs

s = fl.schedules
CATALOGUE = fl.theory.catalogue
FORMULAS = [bound for bound in CATALOGUE if bound.name.split(",")[0] not in ("computed", "oracle")]


def applying(comparison, kind=None):
    return [check for check in comparison.bounds if check.applies and kind in (None, check.kind)]


def assert_consistent(comparison):
    for check in applying(comparison):
        if check.kind == "upper":
            least = min(check.value, check.published)
            assert least >= getattr(comparison, check.quantity) * (1 - 1e-9), check
            if check.quantity == "average_loss" and check.name not in ORACLE:  # which depends on the labels
                assert least >= comparison.worst_case * (1 - 1e-9), check
        else:  # of some tasks, so that no upper bound of the same loss is below it
            assert check.ratio is None or check.ratio >= 1 - 1e-9, check


MINIMAX = {"minimax", "minimax, next task"}


def first_free(k, radius):
    """The increasing schedule with λ_1 = 0."""
    return fl.Ridge([0.0, *s.increasing()(k, radius).coefficient[1:]])


COROLLARY = {"fixed, any filter", "fixed, near-optimal", "fixed, near-optimal, tight", "one filter, every k"}

KINDS = ("by hand", "dimension-free", "every k", "half", "one third", "seen tasks")
FREE = {"fixed, beyond the lemma", "one filter, every k", *(f"unregularized, {kind}" for kind in KINDS)}
LARGER = {"increasing, larger scale", "increasing, larger scale, seen tasks"}
OWN = ("finite k", "next task", "seen tasks", "seen tasks, tight")
THEOREM = {"increasing", *LARGER, *(f"increasing, {kind}" for kind in OWN)}

PRESETS = {
    "fixed": (s.fixed(), COROLLARY | {"fixed coefficient"}),
    "fixed budget": (s.fixed_budget(4), COROLLARY | {"fixed budget"}),
    "increasing": (s.increasing(), THEOREM | {"increasing, every k"}),
    "increasing budget": (s.increasing_budget(3), THEOREM),
    "strong": (s.increasing(scale=9.0), LARGER),
    "first free": (first_free, {"increasing, first task free"}),
    "none": (fl.Projection(), FREE),
    "weak": (s.increasing(scale=0.5), {"increasing, scale 1/2, every k"}),
    "minimax": (s.minimax(), MINIMAX),
    "minimax budget": (s.minimax_budget(3, eta=0.7), MINIMAX),
}
TRIVIAL = {"trivial", "trivial, seen tasks", "trivial, next task"}

COMPUTED = {"computed", "computed, seen tasks", "computed, next task"}

ORACLE = {"oracle", "oracle, next task"}  # for η below 1


@pytest.mark.parametrize("number", some_of(500, 20))
def test_exact_losses_lie_between_the_bounds(number):
    """5000 comparisons: every schedule on 500 random collections of all ranks, scales, sizes and horizons.

    Every twentieth has 200 steps and more, where the published bounds are below the trivial one.
    """
    rng = np.random.default_rng([11, number])
    d = int(rng.integers(1, 9))
    pairs = random_pairs(
        rng,
        M=int(rng.integers(1, 9)),
        d=d,
        rows=(1, int(rng.integers(1, d + 3))),
        rank=int(rng.integers(1, d + 1)),
        scales=tuple(10.0 ** rng.uniform(-1, 1, 3)) if number % 3 == 0 else None,
    )
    tasks, k = fl.TaskCollection(pairs), int(rng.integers(200, 300) if number % 20 == 0 else rng.integers(3, 20))
    start = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 2)
    for name, (schedule, expected) in PRESETS.items():
        whole = number % 10 == 0  # bounds computed from the schedule cost more than all the rest
        comparison = fl.compare_bounds(tasks.shifted(start), schedule, k, bounds=None if whole else FORMULAS)
        assert_consistent(comparison)
        uppers = {check.name for check in applying(comparison, "upper")}
        more = COMPUTED | (ORACLE if name == "minimax budget" else set()) if whole else set()
        assert uppers == expected | TRIVIAL | more, name


def test_contradictions_are_seen_per_target_and_from_the_start():
    """A second target that no model fits, beside a first of 1e12; and a start from which the noise is all there is."""
    X = [np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]])]
    tasks = fl.TaskCollection([(A, np.array([[1e12, y]])) for A, y in zip(X, (1.0, -1.0), strict=True)])
    assert not tasks.is_realizable()
    assert tasks.residual == pytest.approx(1.0)
    noisy = fl.TaskCollection([(X[0], [1.0]), (X[1], [1.0 + 1e-10])])
    assert noisy.is_realizable()
    assert not noisy.shifted([1.0, 0.0]).is_realizable()
    assert not names(fl.compare_bounds(noisy.shifted([1.0, 0.0]), s.increasing(), 10), "upper")
    assert "increasing" in names(fl.compare_bounds(noisy, s.increasing(), 10))
    far = fl.compare_bounds(noisy.shifted([0.999, 0.0]), s.increasing(), 3000, bounds=CATALOGUE[:1]).bounds[0]
    assert "contradict each other by a part of the distance D = 0.001" in far.reason


def test_seen_losses_of_many_steps_are_not_waited_for():
    two = fl.TaskCollection([([[1.0]], [1.0]), ([[0.5]], [0.5])])
    comparison = fl.compare_bounds(two, fl.Ridge(1e6), 10**6)
    assert comparison.average_loss == pytest.approx(fl.expect(two, fl.Ridge(1e6), 10**6).average_loss[0])
    assert comparison.seen_loss is None
    assert "follows 1,000,000 steps one by one" in comparison.notes[0]
    assert fl.compare_bounds(two, fl.Ridge(1e6), 100).seen_loss > 0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_comparisons_of_very_small_and_large_tasks_do_not_warn(scale):
    tasks = fl.TaskCollection([(scale * np.array([[1.0, 0.5]]), [scale]), (scale * np.array([[0.2, 1.0]]), [scale])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for schedule, _ in PRESETS.values():
            for ordering in (None, fl.Cyclic()):
                fl.compare_bounds(tasks, schedule, 5, ordering=ordering)


@pytest.mark.parametrize("k", [9, 60])
@pytest.mark.parametrize("name", PRESETS)
def test_lower_bounds_are_losses_of_their_constructions(name, k, rng):
    """Some tasks have at least this loss: those of the construction do, whatever the schedule is."""
    schedule = PRESETS[name][0]
    made = fl.theory.constructions
    start = rng.standard_normal(2)
    explicit = "budget" not in name
    assert_consistent(fl.compare_bounds(made.rare_tasks(k), schedule, k))
    for tasks, origin, lower in [
        (made.unseen_task(k + 1), None, ["any algorithm, one task more"]),
        (made.unseen_task(k, -1), None, ["any algorithm", "any filter"]),
        (made.seen_task(k).shifted(-start), start, ["seen tasks, explicit", "seen tasks, explicit, tight"] * explicit),
    ]:
        comparison = fl.compare_bounds(tasks if origin is None else tasks.shifted(origin), schedule, k)
        assert_consistent(comparison)
        found = {check.name: check for check in applying(comparison, "lower")}
        for each in lower:
            assert found[each].value <= getattr(comparison, found[each].quantity) * (1 + 1e-9)
            assert found[each].published == pytest.approx(CATALOGUE[each].at(k))
        assert ("seen tasks, explicit" in found) is explicit


def names(comparison, kind=None):
    return {check.name for check in applying(comparison, kind)}


def test_degenerate_settings_do_not_crash():
    zero = fl.TaskCollection([(np.zeros((1, 2)), [0.0])] * 2)
    for schedule in (fl.Projection(), s.increasing(), first_free):
        comparison = fl.compare_bounds(zero, schedule, 3)
        assert comparison.average_loss == 0.0
        assert "increasing, first task free" not in names(comparison)
    one = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[1.0, 0.0]], [1.0])])
    assert_consistent(fl.compare_bounds(one, fl.Ridge([1e11, 2e11, 5e11]), 3))
    assert "fixed, any filter" not in names(fl.compare_bounds(one, fl.Ridge([1e11, 2e11, 5e11]), 3))
    assert_consistent(fl.compare_bounds(one.shifted([1.0, 0.0]), fl.Ridge(1.0), 3))


def test_reasons_name_the_hypothesis(rng):
    noisy = fl.TaskCollection(random_pairs(rng, M=3, rows=(7, 9), realizable=False))
    reasons = {check.name: check.reason for check in fl.compare_bounds(noisy, s.increasing(), 10).bounds}
    assert "no model fits all tasks" in reasons["increasing"]
    assert "no model fits all tasks" in reasons["trivial"]
    tasks = fl.TaskCollection(random_pairs(rng, M=3))
    uneven = fl.compare_bounds(tasks, s.increasing(), 10, ordering=fl.WithReplacement([0.5, 0.3, 0.2]))
    assert "only if tasks are drawn uniformly" in {check.name: check.reason for check in uneven.bounds}["increasing"]
    cyclic = {check.name: check for check in fl.compare_bounds(tasks, s.cyclic(3), 10, ordering=fl.Cyclic()).bounds}
    assert "no value is known" in cyclic["cyclic, fixed"].reason
    assert not cyclic["cyclic, fixed"].applies
    early = {check.name: check for check in fl.compare_bounds(tasks, s.increasing(), 10).bounds}
    assert "trivial bound" in early["increasing"].reason
    assert early["increasing"].value == pytest.approx(early["trivial"].value)
    assert early["increasing"].published == pytest.approx(20 / 11 / 0.5 * early["trivial"].value)


def test_a_smaller_trivial_bound_is_marked_and_no_bound_at_all_is_said(rng):
    early = fl.compare_bounds(fl.TaskCollection(random_pairs(rng)), s.increasing(), 10)
    for word in ("exact expected average loss", "increasing, finite k", "does not apply:", "paper, tight"):
        assert word in repr(early)
    assert max(len(line) for line in repr(early).splitlines()) <= 100
    assert "to a relative" not in repr(early)  # errors are far below the digits
    assert len(early.to_frame()) == len(CATALOGUE)
    assert {"name", "kind", "quantity", "value", "applies", "reason"} <= set(early.to_frame().columns)
    line = next(line for line in repr(early).splitlines() if line.startswith("increasing, finite k"))
    assert line.split("  ")[-3].strip() == f"{early.bounds[0].value:.6g}*"
    assert "* the trivial bound" in repr(early)
    assert "* the trivial bound" in early._repr_html_()
    noisy = fl.compare_bounds(fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [0.0])]), s.increasing(), 10)
    for shown in (repr(noisy), noisy._repr_html_()):
        assert "no upper bound applies" in shown
        assert "no model fits all tasks" in shown
    assert "does not apply:" not in repr(noisy)  # one sentence instead of the same reason for each of them


def test_what_is_out_of_reach_is_said():
    for n in (40, 1100):
        tasks = fl.TaskCollection([([[1.0]], [1.0])] * n)
        comparison = fl.compare_bounds(tasks, fl.Ridge(1.0), n // 2, ordering=fl.WithoutReplacement())
        assert comparison.average_loss is None
        assert "may be used here" in comparison.notes[0]
        assert "unknown" in repr(comparison)


def test_bounds_of_the_users(rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    mine = dataclasses.replace(CATALOGUE["increasing"], name="mine", quantity="average_loss", value=lambda _: 1.0)
    comparison = fl.compare_bounds(tasks, fl.schedules.increasing(), 50, bounds=[mine])
    (check,) = comparison.bounds
    assert (check.name, check.quantity, check.applies) == ("mine", "average_loss", True)
    assert check.published == pytest.approx(tasks.radius**2 * comparison.distance**2)
    assert len(fl.compare_bounds(tasks, fl.schedules.increasing(), 50, bounds=[]).to_frame()) == 0
    with pytest.raises(ValueError, match="kind must be one of upper, lower"):
        dataclasses.replace(mine, kind="exact")
    with pytest.raises(ValueError, match="quantity must be one of average_loss, seen_loss"):
        dataclasses.replace(mine, quantity="worst_case")

"""Certificates: exact losses between every bound that applies."""

import dataclasses

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs

s = fl.schedules
CATALOGUE = fl.bounds.catalogue


def applying(certificate, kind=None):
    return [check for check in certificate.bounds if check.applies and kind in (None, check.kind)]


def assert_consistent(certificate):
    exact = {"average_loss": certificate.average_loss, "seen_loss": certificate.seen_loss}
    for check in applying(certificate):
        if check.kind == "upper":
            assert check.value >= exact[check.quantity] * (1 - 1e-9) - 1e-15, check
            if check.quantity == "average_loss":
                assert check.value >= certificate.worst_case * (1 - 1e-9) - 1e-15, check
        else:
            assert check.value <= exact[check.quantity] * (1 + 1e-9), check


PRESETS = {
    "fixed": (s.fixed(), {"fixed, general", "fixed, near-optimal", "fixed, near-optimal, tight"}),
    "fixed budget": (s.fixed_budget(4), {"fixed, general", "fixed, near-optimal", "fixed, near-optimal, tight"}),
    "increasing": (
        s.increasing(),
        {
            "increasing",
            "increasing, finite k",
            "increasing, larger scale",
            "increasing, seen tasks",
            "increasing, seen tasks, tight",
        },
    ),
    "increasing budget": (
        s.increasing_budget(3),
        {
            "increasing",
            "increasing, finite k",
            "increasing, larger scale",
            "increasing, seen tasks",
            "increasing, seen tasks, tight",
        },
    ),
    "strong": (s.increasing(scale=9.0), {"increasing, larger scale"}),
    "first free": (s.unregularized_first(s.increasing()), {"increasing, first task free"}),
    "first free budget": (s.unregularized_first(s.increasing_budget(2)), {"increasing, first task free"}),
    "none": (fl.Projection(), {"fixed, general", "unregularized, dimension-free"}),
    "weak": (s.increasing(scale=1.0), set()),
}


@pytest.mark.parametrize("batch", range(25))
def test_exact_losses_lie_between_the_bounds(batch):
    """4500 certificates: every schedule on 500 random collections of all ranks, scales, sizes and horizons."""
    for number in range(20 * batch, 20 * batch + 20):
        check_one_collection(number)


def check_one_collection(number):
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
    tasks, k = fl.TaskCollection(pairs), int(rng.integers(3, 90 if number % 10 == 0 else 20))
    start = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 2)
    for name, (schedule, expected) in PRESETS.items():
        certificate = fl.certify(tasks, schedule, k, start=start)
        assert_consistent(certificate)
        uppers = {check.name for check in applying(certificate, "upper")}
        assert uppers >= expected | {"trivial", "trivial, seen tasks"}, name
        assert uppers <= expected | {"trivial", "trivial, seen tasks"}, name


@pytest.mark.parametrize("k", [9, 60])
@pytest.mark.parametrize("name", PRESETS)
def test_lower_bounds_apply_to_their_constructions(name, k, rng):
    schedule = PRESETS[name][0]
    unseen = fl.certify(fl.constructions.unseen_task(k, -1), schedule, k)
    assert {check.name for check in applying(unseen, "lower")} == {"any algorithm", "any filter"}
    start = rng.standard_normal(3)
    seen = fl.certify(fl.constructions.seen_task(k, start), schedule, k, start=start)
    expected = set() if "budget" in name else {"seen tasks, explicit", "seen tasks, explicit, tight"}
    assert {check.name for check in applying(seen, "lower")} == expected
    for certificate in (unseen, seen):
        assert_consistent(certificate)


def names(certificate, kind=None):
    return {check.name for check in applying(certificate, kind)}


def test_overshooting_budgets_are_not_projections():
    one = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[1.0, 0.0]], [1.0])])
    certificate = fl.certify(one, fl.GradientDescent(1, 1.9999), 1000)
    assert "unregularized, dimension-free" not in names(certificate)
    assert_consistent(certificate)


def test_degenerate_settings_do_not_crash():
    zero = fl.TaskCollection([(np.zeros((1, 2)), [0.0])] * 2)
    for schedule in (fl.Projection(), s.increasing(), s.unregularized_first(s.increasing())):
        certificate = fl.certify(zero, schedule, 3)
        assert certificate.average_loss == 0.0
        assert "increasing, first task free" not in names(certificate)
    one = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[1.0, 0.0]], [1.0])])
    assert_consistent(fl.certify(one, fl.Ridge([1e11, 2e11, 5e11]), 3))
    assert "fixed, general" not in names(fl.certify(one, fl.Ridge([1e11, 2e11, 5e11]), 3))
    assert_consistent(fl.certify(one, fl.Ridge(1.0), 3, start=[1.0, 0.0]))


def test_equal_settings_are_recognised_in_other_dress(rng):
    """The smallest construction, one epoch of reshuffling, λ = 0 as a projection, and a schedule in two stages."""
    unseen = fl.certify(fl.constructions.unseen_task(2), fl.Ridge(0.3), 2)
    assert names(unseen, "lower") == {"any algorithm", "any filter"}
    tasks = fl.TaskCollection(random_pairs(rng, M=4))
    reasons = {
        check.name: check.reason for check in fl.certify(tasks, fl.Ridge(0.3), 3, ordering=fl.Reshuffled()).bounds
    }
    assert "no constant is known" in reasons["fixed, general, without replacement"]
    seen = fl.certify(fl.constructions.seen_task(9), fl.Projection(), 9)
    assert names(seen, "lower") == {"seen tasks, explicit", "seen tasks, explicit, tight"}
    coefficients = s.increasing()(6, tasks.radius).coefficient
    staged = fl.Stages((1, 5), (fl.Ridge(coefficients[:1]), fl.Ridge(coefficients[1:])))
    assert "increasing" in names(fl.certify(tasks, staged, 6))


def test_the_cyclic_rate_needs_its_own_coefficient(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=6))
    reasons = {}
    for schedule, k in ((fl.Ridge(0.001), 3), (fl.Ridge(0.001), 30), (s.cyclic(6), 30)):
        checks = fl.certify(tasks, schedule, k, ordering=fl.Cyclic()).bounds
        reasons[schedule, k] = next(check.reason for check in checks if check.name == "cyclic, fixed")
    expected = ("not above the number of tasks", "coefficient is not 2MR²", "no constant is known")
    for part, reason in zip(expected, reasons.values(), strict=True):
        assert part in reason


def test_worst_collections_stay_below_the_bounds():
    for k in (8, 64, 256):
        rare = fl.constructions.rare_tasks(k)
        for schedule, _ in PRESETS.values():
            assert_consistent(fl.certify(rare, schedule, k))


def test_reasons_name_the_hypothesis(rng):
    noisy = fl.TaskCollection(random_pairs(rng, M=3, rows=(7, 9), realizable=False))
    reasons = {check.name: check.reason for check in fl.certify(noisy, s.increasing(), 10).bounds}
    assert "no model fits all tasks" in reasons["increasing"]
    assert "no model fits all tasks" in reasons["trivial"]
    tasks = fl.TaskCollection(random_pairs(rng, M=3))
    uneven = fl.certify(tasks, s.increasing(), 10, ordering=fl.WithReplacement([0.5, 0.3, 0.2]))
    assert "not drawn uniformly" in {check.name: check.reason for check in uneven.bounds}["increasing"]
    cyclic = {check.name: check for check in fl.certify(tasks, s.cyclic(3), 10, ordering=fl.Cyclic()).bounds}
    assert "no constant is known" in cyclic["cyclic, fixed"].reason
    assert not cyclic["cyclic, fixed"].applies
    early = {check.name: check for check in fl.certify(tasks, s.increasing(), 10).bounds}
    assert "trivial bound" in early["increasing"].reason
    assert early["increasing"].value == pytest.approx(early["trivial"].value)
    assert early["increasing"].published == pytest.approx(20 / 11 / 0.5 * early["trivial"].value)


def test_a_certificate_prints_and_exports(rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    certificate = fl.certify(tasks, s.increasing(), 200)
    text, html, plain = repr(certificate), certificate._repr_html_(), certificate.to_dict()
    for word in ("exact expected average loss", "increasing, finite k", "does not apply:", "same proof"):
        assert word in text
    assert "<table>" in html
    assert max(len(line) for line in text.splitlines()) <= 100
    keys = {"name", "kind", "quantity", "value", "applies", "reason", "citation", "status"}
    assert all(keys <= set(row) for row in plain["bounds"])
    assert plain["average_loss"] == pytest.approx(fl.expect(tasks, s.increasing(), 200).average_loss[0])
    import json

    assert json.loads(json.dumps(plain))["k"] == 200
    frame = certificate.to_frame()
    assert len(frame) == len(CATALOGUE)
    assert keys <= set(frame.columns)


def test_a_smaller_trivial_bound_is_marked_and_no_bound_at_all_is_said(rng):
    early = fl.certify(fl.TaskCollection(random_pairs(rng)), s.increasing(), 10)
    line = next(line for line in repr(early).splitlines() if line.startswith("increasing, finite k"))
    assert line.split("  ")[-3].strip() == f"{early.bounds[0].value:.6g}*"
    assert "* the trivial bound" in repr(early)
    assert "* the trivial bound" in early._repr_html_()
    noisy = fl.certify(fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [0.0])]), s.increasing(), 10)
    for shown in (repr(noisy), noisy._repr_html_()):
        assert "no bound applies" in shown
        assert "no model fits all tasks" in shown
    assert max(len(line) for line in repr(noisy).splitlines()) <= 100


def test_what_is_out_of_reach_is_said():
    tasks = fl.TaskCollection([(np.eye(40)[m : m + 1], [1.0]) for m in range(40)])
    certificate = fl.certify(tasks, fl.Ridge(1.0), 20, ordering=fl.WithoutReplacement())
    assert certificate.average_loss is None
    assert "may be used here" in certificate.notes[0]
    assert "unknown" in repr(certificate)
    assert max(len(line) for line in repr(certificate).splitlines()) <= 100


def test_bounds_of_the_users(rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    mine = dataclasses.replace(CATALOGUE["increasing"], name="mine", quantity="average", per_unit=lambda k: 1.0)
    certificate = fl.certify(tasks, fl.schedules.increasing(), 50, bounds=[mine])
    (check,) = certificate.bounds
    assert (check.name, check.quantity, check.applies) == ("mine", "average_loss", True)
    assert check.published == pytest.approx(tasks.radius**2 * certificate.distance**2)
    assert len(fl.certify(tasks, fl.schedules.increasing(), 50, bounds=[]).to_frame()) == 0
    with pytest.raises(ValueError, match='kind must be "upper" or "lower"'):
        dataclasses.replace(mine, kind="exact")
    with pytest.raises(ValueError, match="quantity must be one of average_loss, seen_loss"):
        dataclasses.replace(mine, quantity="worst_case")

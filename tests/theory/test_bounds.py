"""Bounds: constants, completeness, refused numbers."""

import dataclasses
import math
import sys
from fractions import Fraction
from types import SimpleNamespace

import pytest

import forgetless as fl

CATALOGUE = fl.theory.catalogue


C = math.log(200)
PINNED = {
    # name: least k, value over R²D² at k = 200 by hand, and the numbers it needs
    "trivial": (1, 0.5, {}),
    "trivial, seen tasks": (1, 0.5, {}),
    "fixed coefficient": (1, math.e / (2 * 0.5 * 1.5) / 200 ** (1 - 0.5 * 0.875), {"kappa": 0.5}),
    "fixed budget": (1, math.e / (2 * 0.5 * 1.5) / 200 ** (1 - 0.5 * 0.875), {"kappa": 0.5}),
    "fixed, any filter": (1, math.e / (2 * 0.5 * 1.5) / 200 ** (1 - 0.5 * 0.875), {"kappa": 0.5}),
    "fixed, beyond the lemma": (1, math.e / (2 * 1.5 * 0.5) / 200 ** (1 - 1.5 * 0.625), {"kappa": 1.5}),
    "fixed, near-optimal": (3, 5 * C / 200, {}),
    "fixed, near-optimal, tight": (3, math.exp(2 - 0.25 / C) / (4 - 2 / C) * C / 200, {}),
    "increasing": (2, 20 / 201, {}),
    "increasing, finite k": (2, 19.202223427 / 201, {}),
    "increasing, larger scale": (2, 4.5 * 7 / 201, {"scale": 7.0}),
    "increasing, first task free": (3, 19.5 * 201 / 200**2, {}),
    "increasing, seen tasks": (2, 87 / 201, {}),
    "increasing, larger scale, seen tasks": (2, 20 * 7 / 201, {"scale": 7.0}),
    "increasing, seen tasks, tight": (2, 40.846153846 / 201, {}),
    "increasing, every k": (1, 1.04 / 201, {}),
    "increasing, one gradient step, every k": (1, 0.91 / 201, {}),
    "increasing, scale 1, every k": (1, 0.45 / 201, {}),
    "increasing, scale 1/2, every k": (1, 0.39 / 201, {}),
    "increasing, scale 1, one gradient step, every k": (1, 0.39 / 201, {}),
    "unregularized, dimension-free": (1, math.e / 2 / 200**0.25, {}),
    "unregularized, half": (1, 6.5 / 200**0.5, {}),
    "unregularized, by hand": (1, 0.5 / 200, {}),
    "unregularized, one third": (1, 1 / 600, {}),
    "unregularized, every k": (1, 0.315 / 200, {}),
    "unregularized, seen tasks": (2, 2 / (3 * 199) + 1 / 200, {}),
    "one filter, every k": (1, ((1 / math.e + (0.5 + 0.25) / 1.5) / 1.5) / 200, {"kappa": 0.5}),
    "trivial, next task": (1, 0.5, {}),
    "minimax": (1, 1 / (0.8 * 201), {"eta": 0.4}),
    "minimax, next task": (1, 1 / 402, {"eta": 1.0}),
    "increasing, next task": (2, 20 / 201, {}),
    "mean of unregularized iterates, next task": (1, 1 / 402, {}),
    "unregularized, isotropic teachers": (1, (200 / 201) ** 200 / 402, {}),
    "any algorithm, next task": (1, 1 / 402, {}),
    "any algorithm, without replacement": (1, 1 / 1600, {}),
    "any algorithm": (2, 1 / 3200, {}),
    "any filter": (2, 0.995**200 / 400, {}),
    "any algorithm, one task more": (1, (200 / 201) ** 200 / 402, {}),
    "seen tasks, explicit": (9, 1 / (576 * 200), {}),
    "seen tasks, explicit, tight": (2, 0.995**199 * 199 / (8 * 200 * 399), {}),
}


COMPUTED = {"computed", "oracle"}
"""What the names of bounds begin with that have no formula in k."""


def test_every_constant_and_least_k_is_that_of_its_theorem():
    """By hand, so that a constant or a least k that changes is noticed; v₀²/(2c_{k+1}) from exact rationals."""
    formulas = {bound.name for bound in CATALOGUE if bound.value and bound.name.split(",")[0] not in COMPUTED}
    assert set(PINNED) == formulas
    weights = fl.theory.last_iterate_weights(200, Fraction(3, 13), Fraction(1))
    assert PINNED["increasing, finite k"][1] == pytest.approx(float(weights.bound), rel=1e-6)
    assert CATALOGUE["one filter, every k"].at(1, kappa=1.5) == pytest.approx((1 / math.e + (1.5 + 1) / 0.5) / 0.5 / 3)
    for name, (least, value, numbers) in PINNED.items():
        bound = CATALOGUE[name]
        assert bound.at(200, **numbers) == pytest.approx(value, rel=1e-6), name
        assert bound.at(least, **numbers) > 0
        assert bound.least_k == least
        if least > 1:
            with pytest.raises(ValueError, match=f"k must be at least {least}"):
                bound.at(least - 1, **numbers)


@pytest.mark.parametrize("bound", CATALOGUE, ids=lambda bound: bound.name)
def test_every_bound_is_complete(bound):
    assert CATALOGUE[bound.name] is bound
    assert bound.kind in ("upper", "lower")
    assert bound.quantity in ("average_loss", "seen_loss", "next_loss")
    assert bound.hypotheses
    assert all(each.text for each in bound.hypotheses)
    named = ("Theorem", "Lemma", "Corollary", "Proposition", "Table", "Remark", "theorem", "no step expands")
    assert any(word in bound.place for word in named)
    own = bound.status == "elementary" or bound.citation.startswith("docs/")
    assert own or any(year in bound.citation for year in ("2022", "2023", "2025", "2026"))
    if bound.status.startswith("paper"):
        assert "Levinstein" in bound.citation
    if bound.value is None:
        with pytest.raises(ValueError, match="only the rate"):
            bound.at(100)
    elif bound.name.split(",")[0] in COMPUTED:
        with pytest.raises(TypeError, match=r"ask fl\.compare_bounds"):
            bound.at(100)


@pytest.mark.parametrize(("name", "most"), [("computed", 10_000), ("computed, without replacement", 1000)])
def test_bounds_that_take_long_are_left_to_those_who_ask(name, most):
    last = CATALOGUE[name].hypotheses[-1]
    assert (last.text, last.holds(SimpleNamespace(k=most))) == (f"k ≤ {most:,}; ask fl.upper_bound for more", True)
    assert not last.holds(SimpleNamespace(k=most + 1))


def test_records_cannot_be_changed_and_those_with_arrays_do_not_compare_by_value():
    parts = [vars(module) for name, module in sys.modules.items() if name.startswith("forgetless.theory.")]
    for cls in {each for part in parts for each in part.values() if hasattr(each, "__dataclass_params__")}:
        if isinstance(cls, type) and cls.__module__.startswith("forgetless.theory"):
            fields = str([each.type for each in dataclasses.fields(cls)])
            assert cls.__dataclass_params__.frozen
            assert cls.__dataclass_params__.eq is not ("ndarray" in fields or "Task" in fields), cls
    assert dataclasses.replace(CATALOGUE["increasing"], hypotheses=()).least_k == 1


def test_the_table_has_all_of_them():
    assert len(CATALOGUE.table()) == len(CATALOGUE)
    assert "unregularized, every k" in repr(CATALOGUE)

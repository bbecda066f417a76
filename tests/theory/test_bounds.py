"""Bounds: constants, completeness, refused numbers."""

import math

import numpy as np
import pytest

import forgetless as fl

s = fl.schedules

CATALOGUE = fl.bounds.catalogue


def test_numbers_of_the_bounds():
    """Rows 2, 3, 8 and 14 of the errata."""
    np.testing.assert_allclose(
        [fl.bounds.near_optimal_constant(k) for k in (3, 10, 100)], [2.700, 2.117, 1.963], atol=6e-4
    )
    assert fl.bounds.near_optimal_constant(10**300) == pytest.approx(math.e**2 / 4, rel=2e-3)
    assert all(fl.bounds.near_optimal_constant(k) <= 5 for k in range(3, 2000))
    at = {name: CATALOGUE[name].evaluate for name in ("increasing", "fixed, near-optimal", "increasing, seen tasks")}
    assert at["increasing"](39, 1, 1) == pytest.approx(0.5)
    assert at["fixed, near-optimal"](36, 1, 1) < 0.5 < at["fixed, near-optimal"](35, 1, 1)
    assert at["increasing, seen tasks"](173, 1, 1) == pytest.approx(0.5)
    assert CATALOGUE["increasing, seen tasks, tight"].evaluate(9, 1, 1) == pytest.approx(4.085, abs=1e-3)
    tight, general = CATALOGUE["fixed, near-optimal, tight"], CATALOGUE["fixed, general"]
    for k in (3, 17, 1000):
        assert tight.evaluate(k, 2, 3) == pytest.approx(general.evaluate(k, 2, 3, share=1 / math.log(k)), rel=1e-12)
    assert general.evaluate(50, 1, 1, share=1.0) == pytest.approx(
        CATALOGUE["unregularized, dimension-free"].evaluate(50, 1, 1)
    )
    assert CATALOGUE["increasing"].evaluate(9, 2.0, 3.0) == pytest.approx(
        36 * CATALOGUE["increasing"].evaluate(9, 1, 1)
    )


@pytest.mark.parametrize("bound", CATALOGUE, ids=lambda bound: bound.name)
def test_every_bound_is_complete(bound):
    assert bound.kind in ("upper", "lower")
    assert bound.quantity in ("average_loss", "seen_loss")
    assert bound.status in ("paper", "same proof, tight constant", "derived, unpublished", "literature", "elementary")
    assert bound.hypotheses
    named = ("Theorem", "Lemma", "Corollary", "Table", "Remark", "theorem", "elementary")
    assert any(word in bound.citation for word in named)
    assert bound.status == "elementary" or any(year in bound.citation for year in ("2022", "2023", "2025", "2026"))
    assert CATALOGUE[bound.name] is bound
    if not bound.constant_known:
        with pytest.raises(ValueError, match="constant is not known"):
            bound.evaluate(100, 1.0, 1.0)


def test_bad_numbers_are_refused_with_the_domain():
    increasing, general = CATALOGUE["increasing"], CATALOGUE["fixed, general"]
    for call, error, message in [
        (lambda: increasing.evaluate(1, 1.0, 1.0), ValueError, "k must be at least 2"),
        (lambda: increasing.evaluate(5, -1.0, 1.0), ValueError, "radius must be nonnegative"),
        (lambda: increasing.evaluate(5, 1.0, float("nan")), ValueError, "distance must be nonnegative"),
        (lambda: increasing.evaluate(5, 1.0, 1.0, share=0.5), TypeError, "needs the numbers"),
        (lambda: general.evaluate(5, 1.0, 1.0), TypeError, "share"),
        (lambda: general.evaluate(5, 1.0, 1.0, share=2.0), ValueError, r"share must lie in \(0, 2\)"),
        (lambda: CATALOGUE["nothing"], KeyError, "no bound is called"),
        (lambda: fl.certify(fl.constructions.two_tasks(1.0), [fl.Ridge(1.0)], 3), TypeError, "one schedule"),
    ]:
        with pytest.raises(error, match=message):
            call()

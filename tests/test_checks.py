"""Every leaf of the package and a good filter of a user pass ``support.checks``, and the checks see mistakes."""

import numpy as np
import pytest

import forgetless as fl
from support.checks import check_filter, check_ordering, check_schedule
from support.filters import OwnRidge
from support.registry import FILTERS, ORDERINGS, SCHEDULES, name


@pytest.mark.parametrize("filter_", [*FILTERS, OwnRidge(0.5), OwnRidge(np.array([0.5, 2.0]))], ids=repr)
def test_every_filter_passes(filter_):
    check_filter(filter_)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
def test_every_schedule_passes(schedule):
    # A fixed step size suits small radii only.
    radii = (0.3, 1.0) if isinstance(schedule, fl.GradientDescent) else (0.3, 1.0, 20.0)
    check_schedule(schedule, (5, 10, 101), radii)


@pytest.mark.parametrize("ordering", ORDERINGS, ids=repr)
def test_every_ordering_passes(ordering):
    check_ordering(ordering, n_tasks=4, k=4 if isinstance(ordering, fl.WithoutReplacement) else 8)


def wrong(**methods):
    """A filter as good but for one method."""
    return type("Wrong", (OwnRidge,), methods)(2.0)


RANDOM = np.random.default_rng(0)

MISTAKES = [
    (check_filter, wrong(factors=lambda self, xi: 1 / (1 + xi)), "must be 0 at 0"),
    (check_filter, wrong(factors=lambda self, xi: 3 * xi / (xi + 0.1)), "at most 2"),
    (check_filter, wrong(remaining=lambda self, xi: self.factors(xi)), "Not equal"),
    (check_filter, wrong(derivatives=lambda self, xi: {"pull": xi}), "Not equal"),
    (check_filter, wrong(strength=lambda self: 1 / self.pull), "strength"),
    (check_schedule, lambda k, radius: fl.Ridge(RANDOM.random()), "the same each time"),
    (check_schedule, lambda k, radius: fl.GradientDescent(1, 3 / radius**2), "errors grow"),
]


@pytest.mark.parametrize(("check", "wrong", "said"), MISTAKES)
def test_mistakes_are_named(check, wrong, said):
    with pytest.raises(AssertionError, match=said):
        check(wrong)

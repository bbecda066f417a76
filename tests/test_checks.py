"""The public conformance checks: every leaf of the package passes, and every kind of mistake is named."""

from dataclasses import dataclass

import numpy as np
import pytest

import forgetless as fl
from forgetless.orderings import Draws, Epochs, OneOrder
from support.registry import FILTERS, ORDERINGS, SCHEDULES, name


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
def test_every_filter_passes(filter_):
    fl.checks.check_filter(filter_)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
def test_every_schedule_passes(schedule):
    steps = (5, 10, 101)
    if isinstance(schedule, fl.GradientDescent):
        with pytest.raises(fl.errors.CheckError, match="grow by a factor"):  # a fixed step size suits some radii only
            fl.checks.check_schedule(schedule, steps)
        return
    fl.checks.check_schedule(schedule, steps)


@pytest.mark.parametrize("ordering", ORDERINGS, ids=repr)
def test_every_ordering_passes(ordering):
    fl.checks.check_ordering(ordering, n_tasks=4, k=4 if isinstance(ordering, fl.WithoutReplacement) else 8)


@dataclass(frozen=True, eq=False)
class Good(fl.Filter):
    pull: float

    def formula(self, eigenvalues):
        return eigenvalues / (eigenvalues + self.pull)


class AtZero(Good):
    def formula(self, eigenvalues):
        return 1 / (1 + self.pull * eigenvalues)


class TooLarge(Good):
    def formula(self, eigenvalues):
        return 3 * eigenvalues / (eigenvalues + 0.1)


class NotFinite(Good):
    def formula(self, eigenvalues):
        return np.where(eigenvalues > 0.5, np.nan, eigenvalues)


class WrongShape(Good):
    def formula(self, eigenvalues):
        return np.sum(eigenvalues) + 0 * np.ones(2)


class WrongSingular(Good):
    def formula_of_singular(self, singular_values):
        return self.formula(singular_values)


class WrongKept(Good):
    def residual_formula(self, singular_values):
        return self.formula_of_singular(singular_values)


class WrongDerivative(Good):
    def formula_derivative(self, eigenvalues):
        return eigenvalues


class WrongSlope(Good):
    def slope(self):
        return 7.0


class WrongStrength(Good):
    def strength(self):
        return 7.0


class WrongSensitivity(Good):
    def formula_gradients(self, singular_values):
        return {"pull": singular_values}


class WrongScaling(Good):
    def scaled(self, factor):
        return WrongScaling(self.pull / factor)


class NeverEqual(Good):
    def __eq__(self, other):
        return False

    __hash__ = Good.__hash__


@pytest.mark.parametrize(
    ("filter_", "said"),
    [
        (fl.Ridge, "must inherit from fl.Filter"),
        (AtZero(1.0), "must be 0 at 0"),
        (TooLarge(1.0), "must lie in"),
        (NotFinite(1.0), "must be finite"),
        (WrongShape(1.0), "one factor per eigenvalue"),
        (WrongSingular(1.0), "factors_of_singular.s. must be"),
        (WrongKept(1.0), "residual_factors.s. must be"),
        (WrongDerivative(1.0), "derivative must be"),
        (WrongSlope(1.0), "slope must be"),
        (WrongStrength(2.0), "strength must be"),
        (WrongSensitivity(1.0), "sensitivities.'pull'. must be"),
        (WrongScaling(1.0), "scaled.0.25. at"),
        (NeverEqual(1.0), "compare and hash by value"),
    ],
)
def test_mistakes_of_filters_are_named(filter_, said):
    with pytest.raises(fl.errors.CheckError, match=said):
        fl.checks.check_filter(filter_)


def test_good_filters_of_users_pass():
    fl.checks.check_filter(Good(0.5))
    fl.checks.check_filter(Good(np.array([0.5, 2.0])))


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (lambda k, radius: 3.0, "failed: TypeError: schedule must return a filter"),
        (lambda k, radius: fl.Ridge(np.ones(k + 1)), "failed: ValueError: schedule gives"),
        (lambda k, radius: fl.Ridge(RANDOM.random()), "the same each time"),
        (lambda k, radius: fl.GradientDescent(1, 3 / radius**2), "grow by a factor"),
        (fl.schedules.cyclic(5), "k must be at least 6"),
        (lambda k, radius: fl.Ridge(np.ones(3)[np.arange(k)]), "failed: IndexError"),
    ],
)
def test_mistakes_of_schedules_are_named(schedule, said):
    with pytest.raises(fl.errors.CheckError, match=said):
        fl.checks.check_schedule(schedule)


class Own(fl.orderings.Ordering):
    def __init__(self, like, law=None):
        self.like, self.given = like, law

    def blocks(self, n_tasks, k, n_trials, rng):
        return self.like.blocks(n_tasks, k, n_trials, rng)

    def law(self, n_tasks, k):
        return self.given


class Sticky(fl.orderings.Ordering):
    """Uniform at every step, but not independent: a task comes twice in a row."""

    def blocks(self, n_tasks, k, n_trials, rng):
        for block in fl.WithReplacement().blocks(n_tasks, k, n_trials, rng):
            block[:, 1::2] = block[:, : block.shape[1] // 2 * 2 : 2]
            yield block

    def law(self, n_tasks, k):
        return Draws(np.full(n_tasks, 1 / n_tasks))


class Once(fl.orderings.Ordering):
    """One random order, the same in every epoch."""

    def blocks(self, n_tasks, k, n_trials, rng):
        yield np.tile(rng.permuted(np.tile(np.arange(n_tasks), (n_trials, 1)), axis=1), -(-k // n_tasks))[:, :k]

    def check(self, n_tasks, k):
        if k > 100:
            raise ValueError("k must be at most 100")

    def law(self, n_tasks, k):
        return Epochs()


class TooFew(fl.orderings.Ordering):
    def blocks(self, n_tasks, k, n_trials, rng):
        return iter(())


class Global(fl.orderings.Ordering):
    def blocks(self, n_tasks, k, n_trials, rng):
        return fl.WithReplacement().blocks(n_tasks, k, n_trials, RANDOM)


class OneBlock(fl.orderings.Ordering):
    def blocks(self, n_tasks, k, n_trials, rng):
        yield rng.integers(n_tasks, size=(n_trials, k), dtype=np.uint8)


@pytest.mark.parametrize(
    ("ordering", "said"),
    [
        (fl.Cyclic, "must inherit from fl.orderings.Ordering"),
        (Own(fl.WithReplacement(), Draws([0.4, 0.2, 0.2, 0.2])), "draws tasks with"),
        (Own(fl.WithReplacement(), Draws([0.5, 0.5])), "one probability for each of the 4"),
        (Own(fl.WithReplacement(), Epochs()), "no task comes twice"),
        (Own(fl.RandomReshuffling(), Draws([0.25] * 4)), "independent draws"),
        (Own(fl.Cyclic(), OneOrder(np.array([1, 0, 2, 3]), repeated=True)), "says the order"),
        (Sticky(), "independent draws"),
        (Once(), "epochs are independent"),
        (TooFew(), "blocks failed for k=8: .* must yield integers"),
        (Own(fl.Cyclic(), OneOrder(np.array([0, 1]))), "the tasks of all 8 steps"),
        (Own(fl.Cyclic(), "uniform"), "must give Draws, Epochs, OneOrder or None, got 'uniform'"),
        (fl.WithoutReplacement(), "not defined for 8 steps over 4 tasks"),
        (Global(), "a seed must give the same trials"),
        (OneBlock(), "blocks failed for k=8193"),
    ],
)
def test_mistakes_of_orderings_are_named(ordering, said):
    with pytest.raises(fl.errors.CheckError, match=said):
        fl.checks.check_ordering(ordering)


def test_an_ordering_without_a_law_passes():
    fl.checks.check_ordering(Own(fl.RandomReshuffling()))


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling(), fl.WithoutReplacement()], ids=repr)
def test_a_single_step_passes(ordering):
    fl.checks.check_ordering(ordering, k=1)


@pytest.mark.parametrize("rare", np.geomspace(1e-5, 3e-2, 12))
def test_rare_tasks_pass(rare):
    fl.checks.check_ordering(fl.WithReplacement([1 - 3 * rare, rare, rare, rare]))


@dataclass(frozen=True, eq=False)
class Kinds(Good):
    kind: str = "soft"
    cap: float | None = None


@pytest.mark.parametrize(
    "filter_",
    [
        fl.filters.Scaled(Good(0.5), 4.0),
        fl.filters.Scaled(fl.Ridge(np.array([0.5, 2.0])), 4.0),
        fl.Stages((1, 1), (fl.filters.Scaled(Good(0.5), 4.0), fl.Projection())),
        fl.Ridge(1e-8),
        fl.Ridge(1e-9),
        Kinds(0.5),
    ],
    ids=repr,
)
def test_correct_filters_of_other_kinds_pass(filter_):
    fl.checks.check_filter(filter_)


def test_a_dataclass_that_compares_arrays_is_told_how_not_to():
    @dataclass(frozen=True)
    class Compared(Good):
        pass

    with pytest.raises(fl.errors.CheckError, match="eq=False"):
        fl.checks.check_filter(Compared(np.array([0.5, 2.0])))


def test_a_schedule_for_some_radii():
    fl.checks.check_schedule(fl.GradientDescent(1, 0.5), radii=(0.5, 1.0))

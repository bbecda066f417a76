"""Bounds of filters that the package does not know: what is looked at, and where."""

from dataclasses import dataclass

import numpy as np
import pytest

import forgetless as fl
from forgetless.guarantees._steps import steps_of
from support.filters import Flow


@dataclass(frozen=True, eq=False)
class Dip(fl.Filter):
    """Concave wherever one happens to look, but not at ξ = 0.9651."""

    rate: float

    def formula(self, eigenvalues):
        return self.rate * eigenvalues / (eigenvalues + 1) * np.where(np.abs(eigenvalues - 0.9651) < 0.01, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Knee(fl.Filter):
    """Concave, and a thousand times as steep below 1e-9 as its values elsewhere tell."""

    rate: float

    def formula(self, eigenvalues):
        return 1e-6 * np.minimum(1.0, eigenvalues / 1e-9) + self.rate * eigenvalues


@dataclass(frozen=True, eq=False)
class Slow(fl.Ridge):
    """A class derived from ridge that is none."""

    def formula(self, eigenvalues):
        return 1e-3 * eigenvalues / (eigenvalues + self.coefficient)

    def formula_of_singular(self, singular_values):
        return self.formula(singular_values**2)

    def residual_formula(self, singular_values):
        return 1 - self.formula(singular_values**2)


@pytest.mark.parametrize("rate", [1.0, np.full(20, 1.0)])
def test_comparisons_look_at_a_filter_where_the_tasks_do(rate):
    row = np.sqrt(0.9651)
    tasks = fl.TaskCollection([(3.0 * np.diag([1.0, row]), np.array([0.0, 3.0 * row]))])
    dip = Dip(rate).scaled(9.0)
    checks = {check.name: check for check in fl.compare_bounds(tasks, dip, 20).bounds}
    for name in ("computed", "computed, seen tasks"):
        assert not checks[name].applies
        assert "Scaled is not near ξ = 0.9651 R²" in checks[name].reason
    elsewhere = fl.compare_bounds(fl.theory.constructions.two_tasks(0.5), Flow(rate), 20)
    assert next(check for check in elsewhere.bounds if check.name == "computed").ratio >= 1


def test_slopes_at_zero_are_looked_for_where_they_hide():
    knee = Knee(np.array([0.3, 0.2]))
    m, kappa = 0.75, 0.300001
    theta = knee.factors(np.array([1e-9]))[:, 0] / 1e-9 - kappa
    assert steps_of(knee, 2).price(0, m) >= theta[0] ** 2 / (2 * m * theta[0] + kappa**2)


def test_classes_derived_from_ours_are_taken_by_their_values():
    tasks = fl.theory.constructions.two_tasks(0.5)
    for schedule in (Slow(0.1), Slow(np.linspace(0.1, 1.0, 20))):
        checks = fl.compare_bounds(tasks, schedule, 20).bounds
        assert all(check.ratio >= 1 for check in checks if check.name.startswith("computed") and check.applies)


@pytest.mark.parametrize(
    ("filter_", "base"),
    [
        (fl.GradientDescent(np.array([1, 2, 4, 1]), np.array([0.9, 0.4, 0.2, 0.5])), None),
        (fl.GradientDescent(np.array([2, 3, 4, 2]), np.array([0.5, 0.4, 0.3, 0.9])), fl.GradientDescent(2, 0.3)),
        (fl.Ridge(np.array([0.5, 2.0, 1.0, 0.1])), fl.Ridge(2.0)),
        (Flow(np.array([0.8, 2.0, 0.3, 1.0])), None),
    ],
    ids=["budgets", "larger budgets", "ridge", "custom"],
)
def test_prices_are_suprema_to_the_width_of_a_cell(filter_, base):
    """Of θ²/(θ(2m − φ) + κ(κ − φ)) and of φ²/χ over a dense grid; χ is the base over its value at 1, or ξ."""
    xi, m = np.logspace(-12.0, 0.0, 40_001), 0.75
    chi = xi if base is None else np.asarray(base.factors(xi)) / np.asarray(base.factors(xi))[-1]
    steps = steps_of(filter_, 4)
    for t in range(4):
        phi = np.asarray(filter_.at(t).factors(xi))
        kappa, psi = phi[-1], phi / chi
        theta = np.where(psi - kappa > 1e-12, psi - kappa, 0.0)
        denominator = theta * (2 * m - phi) + kappa * (kappa - phi)
        exact = np.max(theta**2 / np.where(theta > 0, denominator, 1.0))
        assert exact * (1 - 1e-9) <= steps.price(t, m) <= 1.1 * exact + 1e-9, t
        assert np.max(phi * psi) * (1 - 1e-9) <= steps.nu[t] <= 1.1 * np.max(phi * psi), t


@dataclass(frozen=True, eq=False)
class Beyond(fl.Filter):
    """A step that goes beyond the solution of a task."""

    rate: float

    def formula(self, eigenvalues):
        return self.rate * eigenvalues


@pytest.mark.parametrize("rate", [1.03, np.array([0.5, 1.03])])
def test_steps_beyond_the_solution_have_no_bound(rate):
    with pytest.raises(ValueError, match=r"the bound needs κ = φ\(R²\) ≤ 1, got 1\.03 of Beyond"):
        steps_of(Beyond(rate), 2)

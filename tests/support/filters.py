"""Filters of which the package knows nothing but their values."""

from dataclasses import dataclass

import numpy as np

import forgetless as fl


@dataclass(frozen=True, eq=False)
class Flow(fl.Filter):
    """Gradient flow: a concave filter of which the package knows nothing."""

    time: float

    def factors(self, eigenvalues):
        return -np.expm1(-self.time * eigenvalues)


@dataclass(frozen=True, eq=False)
class OwnRidge(fl.Filter):
    """Ridge as a user would write it, so that every number is known."""

    pull: float

    def factors(self, eigenvalues):
        return eigenvalues / (eigenvalues + self.pull)


@dataclass(frozen=True, eq=False)
class Power(fl.Filter):
    """κ at the radius 1 and elsewhere κ·ξ^power."""

    power: float
    kappa: float = 1.0

    def factors(self, eigenvalues):
        return self.kappa * np.minimum(1.0, eigenvalues) ** self.power

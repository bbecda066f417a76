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

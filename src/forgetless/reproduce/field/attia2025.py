"""Attia, Schliserman, Sherman and Koren (NeurIPS 2025), arXiv 2507.11274: 13/√k without
regularization.

As quoted by Tsipory et al. (2025), Section 5, for losses without ½ over R²D²; in the catalogue
6.5/√k.
"""

import numpy as np

from forgetless.engines.expectation import worst_case
from forgetless.filters import Projection
from forgetless.reproduce.field._statement import QUOTED, Statement
from forgetless.theory.bounds import catalogue
from forgetless.theory.constructions import two_tasks

PAPER = "Attia et al. 2025"


def statements() -> list[Statement]:
    """Return the bound beside the worst two tasks at equal probability, exactly."""
    result = []
    for k in (256, 1024, 4096):
        angles = np.geomspace(0.5, 3.0, 12) / np.sqrt(k)
        worst = max(
            float(worst_case(two_tasks(float(angle)), Projection(), k).loss) for angle in angles
        )
        bound = catalogue["unregularized, half"].evaluate(k, 1.0, 1.0)
        result.append(
            Statement(
                f"worst loss of two tasks over R²D², k = {k}", bound, worst, QUOTED, relation="≤"
            )
        )
    return result

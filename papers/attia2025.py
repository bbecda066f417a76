"""Attia, Schliserman, Sherman and Koren (NeurIPS 2025), arXiv 2507.11274: 13/√k without
regularization.

As quoted by Tsipory et al. (2025), Section 5, for losses without ½ over R²D²; in the catalogue
6.5/√k.
"""

import numpy as np

import forgetless as fl
from papers.statement import QUOTED, Statement

PAPER = "Attia et al. 2025"


def statements() -> list[Statement]:
    """Return the bound beside the worst two tasks at equal probability, exactly."""
    result = []
    for k in (256, 1024, 4096):
        angles = np.geomspace(0.5, 3.0, 12) / np.sqrt(k)
        pairs = [fl.theory.constructions.two_tasks(float(angle)) for angle in angles]
        worst = max(
            float(fl.worst_case(tasks, fl.Projection(), k).worst_case[0]) for tasks in pairs
        )
        bound = fl.theory.catalogue["unregularized, half"].at(k)
        text = f"worst loss of two tasks over R²D², k = {k}"
        result.append(Statement(text, bound, worst, QUOTED, relation="≤"))
    return result

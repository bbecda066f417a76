"""Swartworth, Needell, Ward, Kong and Jeong (NeurIPS 2023): M tasks in turn, m rounds; forgetting
is O(M²/m).

The constant was not read. Below: the worst fan of lines in the plane, exactly, in units of M²/m.
"""

import numpy as np

import forgetless as fl
from papers.statement import ABSTRACT, Statement

PAPER = "Swartworth et al. 2023"


def statements() -> list[Statement]:
    """Return m·loss/M² of the worst fan: it does not grow with the number of rounds."""
    result = []
    for n_tasks in (2, 5, 10):
        few, many = (_worst_fan(n_tasks, rounds) * rounds / n_tasks**2 for rounds in (16, 64))
        text = f"m·forgetting/M², worst fan of lines, M = {n_tasks}, m = 64, 16"
        result.append(Statement(text, few, many, ABSTRACT, relation="≤", tolerance=0.02))
    return result


def _worst_fan(n_tasks: int, rounds: int) -> float:
    """Return the largest loss without ½ of lines at equal angles from each to the next, over these
    angles.
    """
    k = n_tasks * rounds
    losses = []
    for step in np.geomspace(0.3, 3.0, 15) / np.sqrt(k):
        angles = step * np.arange(n_tasks)
        tasks = fl.TaskCollection([([[np.cos(a), np.sin(a)]], [0.0]) for a in angles])
        losses.append(
            2.0 * fl.worst_case(tasks, fl.Projection(), k, ordering="cyclic").worst_case[0]
        )
    return float(max(losses))

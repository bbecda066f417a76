"""Swartworth, Needell, Ward, Kong and Jeong (NeurIPS 2023): M tasks in turn, m rounds; forgetting
is O(M²/m).

The constant was not read. Below: the worst fan of lines in the plane, exactly, in units of M²/m.
"""

import numpy as np

from forgetless.engines.expectation import worst_case
from forgetless.filters import Projection
from forgetless.orderings import Cyclic
from forgetless.reproduce.field._statement import ABSTRACT, Statement
from forgetless.tasks import TaskCollection

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
    k, losses = n_tasks * rounds, []
    for step in np.geomspace(0.3, 3.0, 15) / np.sqrt(k):
        tasks = TaskCollection(
            [([[np.cos(i * step), np.sin(i * step)]], [0.0]) for i in range(n_tasks)]
        )
        losses.append(2.0 * worst_case(tasks, Projection(), k, ordering=Cyclic()).loss)
    return float(max(losses))

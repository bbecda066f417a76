"""Evron, Moroshko, Ward, Srebro and Soudry (COLT 2022): two tasks in turn; the worst forgetting
over all angles.

Their loss has no factor ½, and forgetting is the mean loss over both tasks: ½ max (cos²θ)^{k−1} (1
− cos²θ).
"""

import numpy as np

import forgetless as fl
from papers.statement import MEMORY, Statement

PAPER = "Evron et al. 2022"


def statements() -> list[Statement]:
    """Return the worst case at the angle cos²θ = 1 − 1/k, and that it is the worst of some
    angles.
    """
    result = []
    for k in (4, 16, 64, 256):
        published = (1 - 1 / k) ** (k - 1) / (2 * k)
        angle = float(np.arccos(np.sqrt(1 - 1 / k)))
        text = f"worst forgetting of two tasks in turn, k = {k}"
        result.append(Statement(text, published, forgetting(angle, k), MEMORY))
        others = max(forgetting(angle * factor, k) for factor in (0.9, 1.1))
        text = f"at angles 10 % off, k = {k}"
        result.append(Statement(text, published, others, MEMORY, relation="≤"))
    return result


def forgetting(angle: float, k: int) -> float:
    """Return the worst forgetting after k steps of two tasks in turn."""
    tasks = fl.theory.constructions.two_tasks(angle)
    return 2.0 * float(fl.worst_case(tasks, fl.Projection(), k, ordering="cyclic").worst_case[0])

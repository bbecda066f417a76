"""Evron, Moroshko, Ward, Srebro and Soudry (COLT 2022): two tasks in turn; the worst forgetting
over all angles.

Their loss has no factor ½, and forgetting is the mean loss over both tasks: ½ max (cos²θ)^{k−1} (1
− cos²θ).
"""

import numpy as np

from forgetless.engines.expectation import worst_case
from forgetless.filters import Projection
from forgetless.orderings import Cyclic
from forgetless.reproduce.field._statement import MEMORY, Statement
from forgetless.theory.constructions import two_tasks

PAPER = "Evron et al. 2022"


def statements() -> list[Statement]:
    """Return the worst case at the angle cos²θ = 1 − 1/k, and that it is the worst of some
    angles.
    """
    result = []
    for k in (4, 16, 64, 256):
        published = (1 - 1 / k) ** (k - 1) / (2 * k)
        angle = float(np.arccos(np.sqrt(1 - 1 / k)))
        computed = 2.0 * worst_case(two_tasks(angle), Projection(), k, ordering=Cyclic()).loss
        result.append(
            Statement(
                f"worst forgetting of two tasks in turn, k = {k}",
                published,
                float(computed),
                MEMORY,
            )
        )
        others = [
            worst_case(two_tasks(angle * factor), Projection(), k, ordering=Cyclic()).loss
            for factor in (0.9, 1.1)
        ]
        text = f"at angles 10 % off, k = {k}"
        result.append(Statement(text, published, 2.0 * float(max(others)), MEMORY, relation="≤"))
    return result

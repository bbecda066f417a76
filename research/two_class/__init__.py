"""The laboratory of two classes: proximal steps of the hinges and of the logistic loss.

``README.md`` has the theorems, their proofs and what was measured.
"""

from research.two_class.bounds import CATALOGUE, compare_bounds, noise_factor
from research.two_class.laboratory import Runs, max_margin, simulate, step
from research.two_class.losses import LOSSES, Loss, hinge

__all__ = [
    "CATALOGUE",
    "LOSSES",
    "Loss",
    "Runs",
    "compare_bounds",
    "hinge",
    "max_margin",
    "noise_factor",
    "simulate",
    "step",
]

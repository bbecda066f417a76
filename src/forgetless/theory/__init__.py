"""Theory: the catalogue of bounds, constructions of lower bounds, surrogates and the last-iterate
lemma.
"""

from forgetless.theory import constructions
from forgetless.theory.bounds import catalogue
from forgetless.theory.closed_forms import two_task_loss, two_task_optimum
from forgetless.theory.records import Bound
from forgetless.theory.reduction import (
    Surrogate,
    check_reduction,
    descend,
    last_iterate_weights,
    linear_decay,
    surrogate,
)

__all__ = [
    "Bound",
    "Surrogate",
    "catalogue",
    "check_reduction",
    "constructions",
    "descend",
    "last_iterate_weights",
    "linear_decay",
    "surrogate",
    "two_task_loss",
    "two_task_optimum",
]

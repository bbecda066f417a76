"""Theory: the catalogue of bounds, constructions of lower bounds, surrogates and the last-iterate
lemma.
"""

from forgetless.theory import constructions
from forgetless.theory.bound import Bound
from forgetless.theory.bounds import catalogue
from forgetless.theory.last_iterate import descend, last_iterate_weights, linear_decay
from forgetless.theory.surrogates import Surrogate, check_reduction, surrogate
from forgetless.theory.two_tasks import two_task_loss, two_task_optimum

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

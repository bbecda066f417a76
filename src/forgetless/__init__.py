"""forgetless: learn a sequence of regression tasks and forget less."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forgetless import bounds, constructions, filters, metrics, orderings, schedules
from forgetless._krylov import ConvergenceError
from forgetless.advice import Advice
from forgetless.advise import advise
from forgetless.certify import Certificate, certify
from forgetless.descent import check_time_varying, descend, last_iterate_weights, linear_decay
from forgetless.expect import expect
from forgetless.filters import Filter, GradientDescent, Projection, Ridge, Stages
from forgetless.found import BoundConstant, WorstCollection, worst_known
from forgetless.gradients import LossGradient, gradient
from forgetless.optimal import OptimalSchedule, optimal_schedule
from forgetless.orderings import Cyclic, Ordering, Reshuffled, Sequence, WithoutReplacement, WithReplacement
from forgetless.results import Expectation, Trace
from forgetless.simulate import simulate
from forgetless.step import step
from forgetless.surrogates import Surrogate, check_reduction, surrogate
from forgetless.tasks import Task, TaskCollection
from forgetless.two_tasks import two_task_loss, two_task_optimum
from forgetless.worst_case import WorstCase, worst_case
from forgetless.worst_collection import worst_collection

__version__ = "0.1.0"

# Loaded when first asked for: they bring scikit-learn, which takes longer to import than all the rest.
_ESTIMATORS = {
    "ContinualGD": "estimators",
    "ContinualRidge": "estimators",
    "ContinualRidgeClassifier": "estimators",
    "JointRidge": "baselines",
    "RecursiveLeastSquares": "baselines",
}

if TYPE_CHECKING:
    from forgetless.baselines import JointRidge, RecursiveLeastSquares
    from forgetless.estimators import ContinualGD, ContinualRidge, ContinualRidgeClassifier


def __getattr__(name: str) -> Any:
    if name in _ESTIMATORS:
        return getattr(import_module(f"forgetless.{_ESTIMATORS[name]}"), name)
    raise AttributeError(f"module 'forgetless' has no attribute {name!r}")


__all__ = [
    "Advice",
    "BoundConstant",
    "Certificate",
    "ContinualGD",
    "ContinualRidge",
    "ContinualRidgeClassifier",
    "ConvergenceError",
    "Cyclic",
    "Expectation",
    "Filter",
    "GradientDescent",
    "JointRidge",
    "LossGradient",
    "OptimalSchedule",
    "Ordering",
    "Projection",
    "RecursiveLeastSquares",
    "Reshuffled",
    "Ridge",
    "Sequence",
    "Stages",
    "Surrogate",
    "Task",
    "TaskCollection",
    "Trace",
    "WithReplacement",
    "WithoutReplacement",
    "WorstCase",
    "WorstCollection",
    "advise",
    "bounds",
    "certify",
    "check_reduction",
    "check_time_varying",
    "constructions",
    "descend",
    "expect",
    "filters",
    "gradient",
    "last_iterate_weights",
    "linear_decay",
    "metrics",
    "optimal_schedule",
    "orderings",
    "schedules",
    "simulate",
    "step",
    "surrogate",
    "two_task_loss",
    "two_task_optimum",
    "worst_case",
    "worst_collection",
    "worst_known",
]

"""forgetless: learn a sequence of regression tasks and forget less."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forgetless import checks, filters, metrics, orderings, schedules
from forgetless.advice.answer import Advice
from forgetless.advice.optimal import OptimalSchedule, optimal_schedule
from forgetless.advice.which_lambda import advise
from forgetless.engines.adjoint import LossGradient, gradient
from forgetless.engines.expectation import expect
from forgetless.engines.results import Expectation, Trace, WorstCase
from forgetless.engines.simulation import simulate
from forgetless.engines.worst_teacher import worst_case
from forgetless.equation import step
from forgetless.errors import CheckError, ConvergenceError, FileError, NoExactLawError, StoreError
from forgetless.files import load
from forgetless.filters import Filter, GradientDescent, Projection, Ridge, Stages
from forgetless.guarantees.answer import Certificate, Certificates
from forgetless.guarantees.certificate import certify
from forgetless.guarantees.collection import BoundConstant, WorstCollection, worst_known
from forgetless.guarantees.optimal import OptimalCertified, optimal_certified
from forgetless.guarantees.search import worst_collection
from forgetless.guarantees.upper import Certified, certified
from forgetless.orderings import Cyclic, Ordering, Reshuffled, Sequence, WithoutReplacement, WithReplacement
from forgetless.tasks import Task, TaskCollection
from forgetless.theory import bounds, constructions
from forgetless.theory.last_iterate import check_time_varying, descend, last_iterate_weights, linear_decay
from forgetless.theory.surrogates import Surrogate, check_reduction, surrogate
from forgetless.theory.two_tasks import two_task_loss, two_task_optimum

__version__ = "0.1.0"

# Loaded when first asked for: they bring scikit-learn, which takes longer to import than all the rest.
_LATER = {
    "ContinualGD": "estimators.budget",
    "ContinualRidge": "estimators.ridge",
    "ContinualRidgeClassifier": "estimators.classifier",
    "JointRidge": "estimators.baselines",
    "RecursiveLeastSquares": "estimators.baselines",
    "TableEncoder": "tables.encoder",
    "TaskPipeline": "tables.pipeline",
    "explore": "explorer",
    "load_model": "tables.pipeline",
    "make_pipeline": "tables.pipeline",
}

_PARTS = ("plots", "sweeps", "tables")
"""Parts that a program without them need not load."""

if TYPE_CHECKING:
    from forgetless import plots, sweeps, tables
    from forgetless.estimators.baselines import JointRidge, RecursiveLeastSquares
    from forgetless.estimators.budget import ContinualGD
    from forgetless.estimators.classifier import ContinualRidgeClassifier
    from forgetless.estimators.ridge import ContinualRidge
    from forgetless.explorer import explore
    from forgetless.tables.encoder import TableEncoder
    from forgetless.tables.pipeline import TaskPipeline, load_model, make_pipeline


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"forgetless.{name}")
    if name in _LATER:
        return getattr(import_module(f"forgetless.{_LATER[name]}"), name)
    raise AttributeError(f"module 'forgetless' has no attribute {name!r}")


__all__ = [
    "Advice",
    "BoundConstant",
    "Certificate",
    "Certificates",
    "Certified",
    "CheckError",
    "ContinualGD",
    "ContinualRidge",
    "ContinualRidgeClassifier",
    "ConvergenceError",
    "Cyclic",
    "Expectation",
    "FileError",
    "Filter",
    "GradientDescent",
    "JointRidge",
    "LossGradient",
    "NoExactLawError",
    "OptimalCertified",
    "OptimalSchedule",
    "Ordering",
    "Projection",
    "RecursiveLeastSquares",
    "Reshuffled",
    "Ridge",
    "Sequence",
    "Stages",
    "StoreError",
    "Surrogate",
    "TableEncoder",
    "Task",
    "TaskCollection",
    "TaskPipeline",
    "Trace",
    "WithReplacement",
    "WithoutReplacement",
    "WorstCase",
    "WorstCollection",
    "advise",
    "bounds",
    "certified",
    "certify",
    "check_reduction",
    "check_time_varying",
    "checks",
    "constructions",
    "descend",
    "expect",
    "explore",
    "filters",
    "gradient",
    "last_iterate_weights",
    "linear_decay",
    "load",
    "load_model",
    "make_pipeline",
    "metrics",
    "optimal_certified",
    "optimal_schedule",
    "orderings",
    "plots",
    "schedules",
    "simulate",
    "step",
    "surrogate",
    "sweeps",
    "tables",
    "two_task_loss",
    "two_task_optimum",
    "worst_case",
    "worst_collection",
    "worst_known",
]

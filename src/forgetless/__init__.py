"""Continual linear regression with increasing regularization: learn tasks one after another and
forget less.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

# Loaded when first asked for: NumPy and scikit-learn take longer to import than all the rest, and a
# command that is interrupted in the meantime must be able to end without a traceback.
_LATER = {
    "ContinualGD": "estimators.ridge",
    "ContinualLogistic": "estimators.logistic",
    "ContinualRidge": "estimators.ridge",
    "ContinualRidgeClassifier": "estimators.classifier",
    "Cyclic": "orderings",
    "Filter": "filters",
    "FixedOrder": "orderings",
    "GradientDescent": "filters",
    "JointRidge": "estimators.baselines",
    "LowRankMemory": "estimators.low_rank",
    "Projection": "filters",
    "RandomReshuffling": "orderings",
    "RecursiveLeastSquares": "estimators.baselines",
    "Ridge": "filters",
    "Task": "tasks",
    "TaskCollection": "tasks",
    "WithReplacement": "orderings",
    "WithoutReplacement": "orderings",
    "advise": "advice.ranking",
    "compare_bounds": "theory.compare",
    "evaluate_stream": "estimators.evaluation",
    "expect": "lab.exact",
    "explore": "explorer",
    "load": "io",
    "loss_gradient": "lab.exact",
    "optimal_schedule": "advice.optimal",
    "oracle_bound": "theory.oracle",
    "progress": "_progress",
    "simulate": "lab.simulate",
    "step": "equation",
    "upper_bound": "theory.upper",
    "worst_case": "lab.exact",
}

_PARTS = (
    "ensembles",
    "errors",
    "filters",
    "metrics",
    "orderings",
    "plots",
    "schedules",
    "sweeps",
    "tables",
    "theory",
)
"""Modules among the public names."""

if TYPE_CHECKING:
    from forgetless import (
        ensembles,
        errors,
        filters,
        metrics,
        orderings,
        plots,
        schedules,
        sweeps,
        tables,
        theory,
    )
    from forgetless._progress import progress
    from forgetless.advice.optimal import optimal_schedule
    from forgetless.advice.ranking import advise
    from forgetless.equation import step
    from forgetless.estimators.baselines import JointRidge, RecursiveLeastSquares
    from forgetless.estimators.classifier import ContinualRidgeClassifier
    from forgetless.estimators.evaluation import evaluate_stream
    from forgetless.estimators.logistic import ContinualLogistic
    from forgetless.estimators.low_rank import LowRankMemory
    from forgetless.estimators.ridge import ContinualGD, ContinualRidge
    from forgetless.explorer import explore
    from forgetless.filters import Filter, GradientDescent, Projection, Ridge
    from forgetless.io import load
    from forgetless.lab.exact import expect, loss_gradient, worst_case
    from forgetless.lab.simulate import simulate
    from forgetless.orderings import (
        Cyclic,
        FixedOrder,
        RandomReshuffling,
        WithoutReplacement,
        WithReplacement,
    )
    from forgetless.tasks import Task, TaskCollection
    from forgetless.theory.compare import compare_bounds
    from forgetless.theory.oracle import oracle_bound
    from forgetless.theory.upper import upper_bound


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"forgetless.{name}")
    if name in _LATER:
        return getattr(import_module(f"forgetless.{_LATER[name]}"), name)
    raise AttributeError(f"module 'forgetless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


__all__ = [
    "ContinualGD",
    "ContinualLogistic",
    "ContinualRidge",
    "ContinualRidgeClassifier",
    "Cyclic",
    "Filter",
    "FixedOrder",
    "GradientDescent",
    "JointRidge",
    "LowRankMemory",
    "Projection",
    "RandomReshuffling",
    "RecursiveLeastSquares",
    "Ridge",
    "Task",
    "TaskCollection",
    "WithReplacement",
    "WithoutReplacement",
    "advise",
    "compare_bounds",
    "ensembles",
    "errors",
    "evaluate_stream",
    "expect",
    "explore",
    "filters",
    "load",
    "loss_gradient",
    "metrics",
    "optimal_schedule",
    "oracle_bound",
    "orderings",
    "plots",
    "progress",
    "schedules",
    "simulate",
    "step",
    "sweeps",
    "tables",
    "theory",
    "upper_bound",
    "worst_case",
]

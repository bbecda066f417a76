"""Continual linear regression with increasing regularization: learn tasks one after another and
forget less.

A task is a pair (X, y). One step learns it and keeps the rest of what is known,

    w ← w − φ(XᵀX)(w − X⁺y),

with a filter φ that says how much of a task is learned: ridge regression towards the last weights,
a few gradient steps, or no regularization. A schedule gives the filter of each of k steps, and an
ordering the task.

- ``expect``, ``simulate`` and ``worst_case`` compute what is forgotten on given tasks; ``advise``
  and ``optimal_schedule`` choose λ by it.
- ``upper_bound`` and ``compare_bounds`` say what is proved; ``theory`` has the bounds as data.
- ``StreamingRidge`` and the other estimators learn tables task by task, with the interface of
  scikit-learn; ``tables`` reads and encodes them.
- ``forgetless.torch`` has mechanisms for networks; it is imported by name, since it needs PyTorch.

Examples
--------
>>> import forgetless as fl
>>> tasks = fl.theory.constructions.rare_tasks(64)
>>> curves = fl.worst_case(tasks, {"none": "none", "increasing": "increasing"}, k=64)
>>> curves.worst_case.shape
(2, 1)
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

# Loaded when first asked for: NumPy and scikit-learn take longer to import than all the rest, and a
# command that is interrupted in the meantime must be able to end without a traceback.
_LATER = {
    "ContinualGD": "estimators.schemes",
    "ContinualRidge": "estimators.schemes",
    "Cyclic": "orderings",
    "Filter": "filters",
    "FixedOrder": "orderings",
    "GradientDescent": "filters",
    "Projection": "filters",
    "RandomReshuffling": "orderings",
    "Ridge": "filters",
    "StreamingLogistic": "estimators.logistic",
    "StreamingRidge": "estimators.ridge",
    "StreamingRidgeClassifier": "estimators.classifier",
    "Task": "tasks",
    "TaskCollection": "tasks",
    "WithReplacement": "orderings",
    "WithoutReplacement": "orderings",
    "advise": "advice",
    "compare_bounds": "theory.compare",
    "evaluate_stream": "estimators.evaluation",
    "expect": "lab.exact",
    "explore": "explorer",
    "load": "io",
    "loss_gradient": "lab.gradient",
    "optimal_schedule": "advice.optimal",
    "oracle_bound": "theory.oracle",
    "progress": "_running",
    "rows_of": "estimators.inputs",
    "simulate": "lab.simulate",
    "step": "equation",
    "upper_bound": "theory.upper",
    "worst_case": "lab.worst",
}

# For type checkers and editors, which do not run ``__getattr__``.
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
    from forgetless._running import progress
    from forgetless.advice import advise
    from forgetless.advice.optimal import optimal_schedule
    from forgetless.equation import step
    from forgetless.estimators.classifier import StreamingRidgeClassifier
    from forgetless.estimators.evaluation import evaluate_stream
    from forgetless.estimators.inputs import rows_of
    from forgetless.estimators.logistic import StreamingLogistic
    from forgetless.estimators.ridge import StreamingRidge
    from forgetless.estimators.schemes import ContinualGD, ContinualRidge
    from forgetless.explorer import explore
    from forgetless.filters import Filter, GradientDescent, Projection, Ridge
    from forgetless.io import load
    from forgetless.lab.exact import expect
    from forgetless.lab.gradient import loss_gradient
    from forgetless.lab.simulate import simulate
    from forgetless.lab.worst import worst_case
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
    if name in _LATER:
        return getattr(import_module(f"forgetless.{_LATER[name]}"), name)
    # All other public names are modules.
    if name in __all__:
        return import_module(f"forgetless.{name}")
    # With name and obj, Python adds the name that was probably meant to the traceback.
    raise AttributeError(
        f"forgetless has no attribute {name!r}; for networks import forgetless.torch as flt",
        name=name,
        obj=sys.modules[__name__],
    )


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


__all__ = [
    "ContinualGD",
    "ContinualRidge",
    "Cyclic",
    "Filter",
    "FixedOrder",
    "GradientDescent",
    "Projection",
    "RandomReshuffling",
    "Ridge",
    "StreamingLogistic",
    "StreamingRidge",
    "StreamingRidgeClassifier",
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
    "rows_of",
    "schedules",
    "simulate",
    "step",
    "sweeps",
    "tables",
    "theory",
    "upper_bound",
    "worst_case",
]

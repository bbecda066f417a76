"""forgetless: learn a sequence of regression tasks and forget less."""

from forgetless import filters, metrics, orderings, schedules
from forgetless.expect import expect
from forgetless.filters import Filter, GradientDescent, Projection, Ridge, Stages
from forgetless.orderings import Cyclic, Ordering, Reshuffled, Sequence, WithoutReplacement, WithReplacement
from forgetless.results import Expectation, Trace
from forgetless.simulate import simulate
from forgetless.step import step
from forgetless.tasks import Task, TaskCollection

__version__ = "0.1.0"

__all__ = [
    "Cyclic",
    "Expectation",
    "Filter",
    "GradientDescent",
    "Ordering",
    "Projection",
    "Reshuffled",
    "Ridge",
    "Sequence",
    "Stages",
    "Task",
    "TaskCollection",
    "Trace",
    "WithReplacement",
    "WithoutReplacement",
    "expect",
    "filters",
    "metrics",
    "orderings",
    "schedules",
    "simulate",
    "step",
]

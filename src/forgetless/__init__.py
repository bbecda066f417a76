"""forgetless: learn a sequence of regression tasks and forget less."""

from forgetless import filters, metrics, orderings, schedules
from forgetless.expect import expect
from forgetless.filters import Filter, GradientDescent, Projection, Ridge, Stages
from forgetless.gradients import LossGradient, gradient
from forgetless.orderings import Cyclic, Ordering, Reshuffled, Sequence, WithoutReplacement, WithReplacement
from forgetless.results import Expectation, Trace
from forgetless.simulate import simulate
from forgetless.step import step
from forgetless.tasks import Task, TaskCollection
from forgetless.two_tasks import two_task_loss, two_task_optimum
from forgetless.worst_case import WorstCase, worst_case

__version__ = "0.1.0"

__all__ = [
    "Cyclic",
    "Expectation",
    "Filter",
    "GradientDescent",
    "LossGradient",
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
    "WorstCase",
    "expect",
    "filters",
    "gradient",
    "metrics",
    "orderings",
    "schedules",
    "simulate",
    "step",
    "two_task_loss",
    "two_task_optimum",
    "worst_case",
]

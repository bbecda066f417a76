"""forgetless: learn a sequence of regression tasks and forget less."""

from forgetless import bounds, constructions, filters, metrics, orderings, schedules
from forgetless.advice import Advice
from forgetless.advise import advise
from forgetless.certify import Certificate, certify
from forgetless.descent import check_time_varying, descend, last_iterate_weights, linear_decay
from forgetless.expect import expect
from forgetless.filters import Filter, GradientDescent, Projection, Ridge, Stages
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

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Certificate",
    "Cyclic",
    "Expectation",
    "Filter",
    "GradientDescent",
    "LossGradient",
    "OptimalSchedule",
    "Ordering",
    "Projection",
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
]

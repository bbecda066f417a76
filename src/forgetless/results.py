"""Classes of results: the return values of the verbs, for type hints and ``isinstance``."""

from forgetless.advice.results import Advice
from forgetless.advice.schedule import OptimalSchedule
from forgetless.engines.adjoint import LossGradient
from forgetless.engines.results import Expectation, Trace, WorstCase
from forgetless.estimators.evaluation import StreamResult
from forgetless.guarantees.results import BoundComparison, BoundComparisons
from forgetless.guarantees.upper import UpperBound

__all__ = [
    "Advice",
    "BoundComparison",
    "BoundComparisons",
    "Expectation",
    "LossGradient",
    "OptimalSchedule",
    "StreamResult",
    "Trace",
    "UpperBound",
    "WorstCase",
]

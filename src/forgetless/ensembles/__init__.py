"""Ensembles: tasks drawn anew at every step, in place of a task collection in expect, simulate and
optimal_schedule.
"""

from forgetless.ensembles import teachers
from forgetless.ensembles.invariant import Ensemble, Gaussian, Rotated
from forgetless.ensembles.teachers import Teachers

__all__ = ["Ensemble", "Gaussian", "Rotated", "Teachers", "teachers"]

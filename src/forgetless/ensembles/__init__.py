"""Ensembles: laws of tasks drawn anew at every step, with ``expect``, ``simulate`` and
``optimal_schedule``.
"""

from forgetless.ensembles import teachers
from forgetless.ensembles.laws import Ensemble, Gaussian, Rotated
from forgetless.ensembles.teachers import Teachers

__all__ = ["Ensemble", "Gaussian", "Rotated", "Teachers", "teachers"]

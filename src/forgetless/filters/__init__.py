"""Filters: how much of each spectral direction of a task is learned in one step.

A filter is a function φ of an eigenvalue ξ of XᵀX with φ(0) = 0: 1 learns the direction completely, 0 leaves it
alone, and values between are shares (only gradient steps above 1/R² overshoot beyond 1). Its parameters are numbers,
or vectors with one value per step.

=====================  ==================================  ========================================
``Ridge``              φ(ξ) = ξ / (ξ + λ)                  L2 pull towards the previous solution
``GradientDescent``    φ(ξ) = 1 − (1 − γξ)^N               N gradient steps of size γ
``Projection``         φ(ξ) = 1 if ξ > 0 else 0            no regularization: λ → 0 or N → ∞
=====================  ==================================  ========================================
"""

from forgetless.filters.base import Filter, Scaled
from forgetless.filters.composed import Stages
from forgetless.filters.schemes import GradientDescent, Projection, Ridge

__all__ = ["Filter", "GradientDescent", "Projection", "Ridge", "Scaled", "Stages"]

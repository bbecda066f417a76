"""Spectral filters: the fraction of the error along each singular vector of a task that one step
removes.

A filter is a function φ of an eigenvalue ξ of XᵀX with φ(0) = 0. Its values are Hansen's filter
factors: 1 removes the error along a singular vector, 0 leaves it unchanged (gradient steps above
1/R² overshoot beyond 1). Parameters are numbers, or vectors with one value per step.

=====================  ==================================  ========================================
``Ridge``              φ(ξ) = ξ / (ξ + λ)                  L2 towards the previous weights
``GradientDescent``    φ(ξ) = 1 − (1 − γξ)^N               N gradient steps of size γ
``Projection``         φ(ξ) = 1 if ξ > 0 else 0            no regularization: λ → 0 or N → ∞
=====================  ==================================  ========================================
"""

from forgetless.filters.base import Filter
from forgetless.filters.schemes import GradientDescent, Projection, Ridge

__all__ = ["Filter", "GradientDescent", "Projection", "Ridge"]

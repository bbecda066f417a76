"""
Optimal coefficients
====================

All λ_1..λ_k at once, by descent with exact gradients: for two tasks at an angle of π/16 and the worst teacher,
no regularization for most steps, then a ramp, which averages the last iterates.
"""

import numpy as np

import forgetless as fl

fl.optimal_schedule(fl.theory.constructions.two_tasks(np.pi / 16), k=48, objective="worst_case").plot()

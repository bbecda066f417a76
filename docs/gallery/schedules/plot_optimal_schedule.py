"""
Optimal coefficients
====================

Descent with exact gradients finds all λ_1..λ_k at once, here for two tasks at an angle of π/16 and the worst teacher.
The optimum does not regularize most steps. Then λ rises, which averages the last iterates.
"""

import numpy as np

import forgetless as fl

fl.optimal_schedule(fl.theory.constructions.two_tasks(np.pi / 16), k=48, objective="worst_case").plot()

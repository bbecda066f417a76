"""
Forgetting with and without regularization
==========================================

Forgetting is how much the loss of a task has grown since it was learned, averaged over the tasks seen. Solving every
task exactly forgets at first and recovers later. Strong regularization learns less and forgets nothing. Where
forgetting is negative, later tasks improved earlier ones.
"""

import numpy as np

import forgetless as fl

rng = np.random.default_rng(3)
teacher = rng.standard_normal(8)
tasks = fl.TaskCollection([(X := rng.standard_normal((2, 8)), X @ teacher) for _ in range(12)])
schedules = {"no regularization": "none", "λ = 3": 3.0, "increasing": "increasing"}
fl.expect(tasks, schedules, k=60, metrics="forgetting", record="all").plot("forgetting")

"""
The exact expected loss of several schedules
============================================

One model fits twenty random tasks of five rows in fifty dimensions. Each curve is the mean over *all* orders with
replacement, computed rather than sampled. Labels have no noise, and it is best not to regularize. The increasing
schedule protects against the worst case, and a smaller scale of it costs less.
"""

import numpy as np

import forgetless as fl

rng = np.random.default_rng(0)
teacher = rng.standard_normal(50)
tasks = fl.TaskCollection([(X := rng.standard_normal((5, 50)), X @ teacher) for _ in range(20)])

schedules = {
    "no regularization": "none",
    "fixed": "fixed",
    "increasing": "increasing",
    "increasing, ¼": fl.schedules.increasing(1 / 4),
}
fl.expect(tasks, schedules, k=1000, record="log").plot()

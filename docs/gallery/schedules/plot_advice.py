"""
Which λ? The loss over the scale of every shape
===============================================

``fl.advise`` computes the exact loss of some hundred schedules on the given tasks. Each curve is one shape of
schedule at many scales. Here the labels are noisy, and regularization lowers the loss.
"""

import numpy as np

import forgetless as fl

rng = np.random.default_rng(2)
teacher = rng.standard_normal(5)
tasks = fl.TaskCollection(
    [(X := rng.standard_normal((3, 5)), X @ teacher + 0.5 * rng.standard_normal(3)) for _ in range(8)]
)
fl.advise(tasks, k=50).plot()

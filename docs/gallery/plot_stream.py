"""
The history of a stream
=======================

A model that learns one task after the other keeps a history: the error on each task before and after it was
learned, and the strength it was learned with.
"""

import numpy as np

import forgetless as fl

rng = np.random.default_rng(5)
teacher = rng.standard_normal(20)
model = fl.ContinualRidge(schedule="auto")
for _ in range(40):
    X = rng.standard_normal((10, 20))
    model.partial_fit(X, X @ teacher + 0.3 * rng.standard_normal(10))
model.history_.plot()

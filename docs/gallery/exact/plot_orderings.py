"""
Orders of tasks
===============

The same tasks are learned with the same fixed strength in three orders: independent draws, random reshuffling and
cyclic order. All three expectations are exact.
"""

import matplotlib.pyplot as plt
import numpy as np

import forgetless as fl

rng = np.random.default_rng(4)
teacher = rng.standard_normal(6)
tasks = fl.TaskCollection([(X := rng.standard_normal((1, 6)), X @ teacher) for _ in range(6)])

_, ax = plt.subplots()
for i, ordering in enumerate(["with-replacement", "random-reshuffling", "cyclic"]):
    losses = fl.expect(tasks, 0.5, k=120, ordering=ordering, record="all")
    ax.plot(losses.steps, losses.average_loss, label=ordering, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i])
ax.set(xlabel="number of steps", ylabel="expected average loss", yscale="log")
ax.legend()

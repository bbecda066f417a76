"""
Exact and sampled
=================

Two hundred random runs scatter around the exact expectation. The error of their mean decreases as one over the root of
their number. The band contains the central 80 % of the runs.
"""

import matplotlib.pyplot as plt
import numpy as np

import forgetless as fl

rng = np.random.default_rng(1)
teacher = rng.standard_normal(8)
tasks = fl.TaskCollection([(X := rng.standard_normal((2, 8)), X @ teacher) for _ in range(6)])

_, ax = plt.subplots()
schedule = fl.schedules.increasing(1 / 2)
fl.simulate(tasks, {"increasing, ½": schedule}, k=300, n_trials=200, seed=0).plot("average_loss", ax)
exact = fl.expect(tasks, schedule, k=300, record="log")
ax.plot(exact.steps, exact.average_loss, color="black", linewidth=0, marker=".", label="exact")
ax.legend()

"""
Schedules: the strength at each step
====================================

The figure shows schedules of the package for k = 64 steps on tasks of radius 1. The paper's increasing schedule grows
hyperbolically, so that k must be known.
"""

import matplotlib.pyplot as plt
import numpy as np

import forgetless as fl

k = 64
s = fl.schedules
schedules = {
    "fixed": s.fixed(),
    "increasing": s.increasing(),
    "increasing, 1/4": s.increasing(scale=1 / 4),
    "end ramp, 1/8": s.end_ramp(),
    "minimax": s.minimax(),
}
_, ax = plt.subplots()
for i, (name, schedule) in enumerate(schedules.items()):
    strengths = np.broadcast_to(schedule(k, 1.0).coefficient, (k,))
    ax.plot(np.arange(1, k + 1), strengths, label=name, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i])
ax.set(xlabel="step t", ylabel="coefficient λ / R²", yscale="symlog", ylim=(0, None))
ax.legend()

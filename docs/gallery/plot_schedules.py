"""
Schedules: the strength at each step
====================================

The paper's increasing schedule grows hyperbolically and needs the number of steps k; the others that the package
ships, for k = 64 steps on tasks of radius 1.
"""

import matplotlib.pyplot as plt
import numpy as np

import forgetless as fl

k = 64
names = ["fixed", "increasing", "increasing:1/4", "end-ramp:1/8,1"]
_, ax = plt.subplots()
for i, name in enumerate(names):
    schedule = fl.schedules.from_name(name)
    strengths = np.broadcast_to(schedule(k, 1.0).coefficient, (k,))
    ax.plot(np.arange(1, k + 1), strengths, label=name, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i])
ax.set(xlabel="step t", ylabel="coefficient λ / R²", yscale="symlog", ylim=(0, None))
ax.legend()

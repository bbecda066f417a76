"""
Upper bounds for every collection
=================================

``fl.upper_bound`` bounds the expected loss of a schedule on every collection that one model fits. For its increasing
schedule the paper guarantees that k·loss is below 20. The computed bound is near 1, and smaller scales have smaller
bounds.
"""

import matplotlib.pyplot as plt

import forgetless as fl

ks = [8, 16, 32, 64, 128, 256]
_, ax = plt.subplots()
s = fl.schedules
for i, schedule in enumerate([s.fixed(), s.increasing(), s.increasing(1 / 2), s.increasing(1 / 4)]):
    constants = [fl.upper_bound(schedule, k).constant for k in ks]
    ax.plot(ks, constants, label=str(schedule), marker=fl.plots.MARKERS[i], color=fl.plots.COLOURS[i])
ax.set(xscale="log", yscale="log", xlabel="number of steps k", ylabel="proved bound of k · loss / (R²D²)")
ax.legend()

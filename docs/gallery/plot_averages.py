"""
Averages of iterates need neither k nor R
=========================================

The average of unregularized steps with weights t² reaches the rate 1/k without a schedule; the last iterate of the increasing schedule does
it with one.
"""

import matplotlib.pyplot as plt

import forgetless as fl

tasks = fl.constructions.rare_tasks(200)
_, ax = plt.subplots()
fl.worst_case(tasks, {"no pull, last": "none"}, k=200, record="log").plot(ax)
averaged = fl.worst_case(tasks, "none", k=200, record=[1, 2, 4, 8, 16, 32, 64, 128, 200], average=2)
ax.plot(averaged.steps, averaged.loss, color=fl.plots.COLOURS[1], linestyle="--", marker="s", label="no pull, t²-average")
ax.legend()

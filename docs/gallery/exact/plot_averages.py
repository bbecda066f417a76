"""
Averages of iterates need neither k nor R
=========================================

The collection has one frequent task and two rare ones. Three learners are compared after up to 256 steps: the last
iterate without regularization; the average of these iterates with weights t², which needs neither k nor R; and the last
iterate of the increasing schedule, which is planned for 256 steps.
"""

import matplotlib.pyplot as plt

import forgetless as fl

tasks = fl.theory.constructions.rare_tasks(256)
steps = [1, 2, 4, 8, 16, 32, 64, 128, 256]
_, ax = plt.subplots()
fl.worst_case(tasks, {"unregularized, last": "none", "increasing, last": "increasing"}, k=256, record=steps).plot(ax=ax)
averaged = fl.worst_case(tasks, "none", k=256, record=steps, average=2)
ax.plot(
    steps, averaged.worst_case, color=fl.plots.COLOURS[2], linestyle="--", marker="^", label="unregularized, t²-average"
)
ax.legend()

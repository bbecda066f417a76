"""
The worst teacher, planned for each number of steps
===================================================

On a collection with rare tasks: ``worst_case`` takes several k, and plans the schedule for each of them. The
grey line is 1/k, the rate that the increasing schedule guarantees on every collection.
"""

import matplotlib.pyplot as plt

import forgetless as fl

ks = [4, 8, 16, 32, 64, 128, 256]
tasks = fl.theory.constructions.rare_tasks(256)
_, ax = plt.subplots()
schedules = {"fixed": "fixed", "increasing": "increasing", "increasing, 1/4": fl.schedules.increasing(1 / 4)}
fl.worst_case(tasks, schedules, ks).plot(ax)
ax.plot(ks, [1 / k for k in ks], color="0.6", linewidth=0.7, label="1/k")
ax.legend()

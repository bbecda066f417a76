"""
The worst teacher, planned for each number of steps
===================================================

The collection has one frequent task and two rare ones. For each number of steps k the schedules are planned for this k,
and the loss is that of the worst teacher of norm 1. The grey line is 1/k.
"""

import matplotlib.pyplot as plt

import forgetless as fl

ks = [4, 8, 16, 32, 64, 128, 256]
tasks = fl.theory.constructions.rare_tasks(256)
_, ax = plt.subplots()
schedules = {"fixed": "fixed", "increasing": "increasing", "increasing, 1/4": fl.schedules.increasing(1 / 4)}
for label, schedule in schedules.items():
    losses = [fl.worst_case(tasks, schedule, k).worst_case[0] for k in ks]
    ax.loglog(ks, losses, marker="o", label=label)
ax.plot(ks, [1 / k for k in ks], color="0.6", linewidth=0.7, label="1/k")
ax.set(xlabel="k", ylabel="worst-case loss, ‖w⋆‖ = 1")
ax.legend()

"""
The worst teacher, planned for each number of steps
===================================================

On a collection with rare tasks, with the schedule planned for each k of its own. The
grey line is 1/k, the rate that the increasing schedule guarantees on every collection.
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

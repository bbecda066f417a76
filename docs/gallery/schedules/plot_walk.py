"""
A teacher that walks
====================

These are the optimal strengths for fresh Gaussian tasks with label noise. λ rises as long as the teacher stays, and
levels off if the teacher walks. ``distance`` is the mean squared distance from the present teacher, computed over all
tasks.
"""

import matplotlib.pyplot as plt

import forgetless as fl
from forgetless.ensembles import Gaussian, teachers

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
for walk in (0.0, 0.01, 0.1, 1.0):
    tasks = Gaussian(n_features=100, n_rows=20, noise=1.0, teachers=teachers.walk(step=walk))
    schedule = fl.schedules.steady(tasks, noise=1.0, walk=walk)
    strengths = schedule(300, tasks.radius).coefficient
    left.plot(range(1, 301), strengths, label=f"walk {walk:g}")
    result = tasks.expect(schedule, k=300, metrics="distance", record="all")
    right.plot(result.steps, result.distance)
left.set(xscale="log", yscale="log", xlabel="task", ylabel="optimal λ")
right.set(xscale="log", yscale="log", xlabel="task", ylabel="distance")
left.legend()

"""
The gradient of the loss in every coefficient
=============================================

``fl.loss_gradient`` returns the exact derivative of the expected loss with respect to the coefficient of every step.
Where it is negative, a stronger regularization at that step would lower the loss.
"""

import matplotlib.pyplot as plt
import numpy as np

import forgetless as fl

tasks = fl.theory.constructions.two_tasks(np.pi / 16)
k = 64
_, ax = plt.subplots()
for i, coefficient in enumerate([0.2, 1.0]):
    slopes = fl.loss_gradient(tasks, coefficient, k, objective="worst_case").coefficient
    ax.plot(np.arange(1, k + 1), slopes, label=f"at λ = {coefficient}", color=fl.plots.COLOURS[i])
ax.axhline(0, color="0.5", linewidth=0.5)
ax.set(xlabel="step t", ylabel="∂ worst-case loss / ∂λ", yscale="symlog")
ax.set_yscale("symlog", linthresh=1e-6)
ax.legend()

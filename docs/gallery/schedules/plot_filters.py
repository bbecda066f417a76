"""
Filter factors of one step
==========================

A step on a task (X, y) moves the weights by φ(XᵀX)(X⁺y − w). In each direction with squared singular value ξ it removes
the fraction φ(ξ) of the error, the filter factor. Without regularization this is all of it; regularized steps remove
less where ξ is small.
"""

import matplotlib.pyplot as plt
import numpy as np

import forgetless as fl

filters = {
    "Projection()": fl.Projection(),
    "Ridge(0.1)": fl.Ridge(0.1),
    "Ridge(1)": fl.Ridge(1.0),
    "GradientDescent(1, 1)": fl.GradientDescent(1, 1.0),
    "GradientDescent(10, 0.5)": fl.GradientDescent(10, 0.5),
}
xi = np.linspace(1e-6, 1.0, 200)
_, ax = plt.subplots()
for i, (name, filter_) in enumerate(filters.items()):
    ax.plot(xi, filter_.factors(xi), label=name, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i])
ax.set(xlabel="squared singular value ξ", ylabel="filter factor φ(ξ)", ylim=(0, 1.05))
ax.legend()

"""
Learning a task is one gradient step
====================================

Both schemes of the paper, as paths of the weights in the plane, and descent on their surrogate losses as open
markers: the reduction behind the theorems, exact to rounding.
"""

from forgetless import plots, reproduce

with plots.publication():
    plots.plot_reduction(reproduce.reduction())

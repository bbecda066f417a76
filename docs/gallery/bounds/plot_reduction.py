"""
Learning a task is one gradient step
====================================

Both schemes of the paper, as paths of the weights in the plane, and descent on their surrogate losses as open
markers: the reduction behind the theorems, exact to rounding.
"""

from forgetless import plots, reproduce
from forgetless.reproduce import figures

with plots.publication():
    figures.plot_reduction(reproduce.reduction())

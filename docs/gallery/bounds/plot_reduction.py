"""
Learning a task is one gradient step
====================================

The panels show both schemes of the paper as paths of the weights in the plane. Open markers show gradient descent on
the surrogate losses. Both are equal up to rounding, which is the reduction behind the paper's theorems.
"""

from forgetless import plots, reproduce
from forgetless.reproduce import figures

with plots.publication():
    figures.plot_reduction(reproduce.reduction())

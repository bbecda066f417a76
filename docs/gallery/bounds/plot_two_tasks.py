"""
The best fixed strength for two tasks
=====================================

Two tasks of one row each form an angle θ. The best fixed coefficient grows linearly with the number of steps while kθ²
is small, and drops to exactly zero later. This is Figure 2 of the paper, from a closed form.
"""

from forgetless import plots, reproduce
from forgetless.reproduce import figures

with plots.publication():
    figures.plot_optimum(reproduce.optimum(256))

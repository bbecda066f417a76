"""
Forgetting of exactly solved tasks
==================================

Lin et al. (2023) solve fresh Gaussian tasks exactly. Forgetting decreases with overparameterization and with the
similarity of the teachers, and is negative for one teacher.
"""

import matplotlib.pyplot as plt

from papers import figure

figure.lin(plt.subplots()[1])

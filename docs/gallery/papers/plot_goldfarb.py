"""
Which similarity of two tasks is worst?
=======================================

Goldfarb et al. (2024) learn a task and then the same task, rotated in part. Forgetting is worst at intermediate
similarity only with high overparameterization β.
"""

import matplotlib.pyplot as plt

from papers import figure

figure.goldfarb(plt.subplots()[1])

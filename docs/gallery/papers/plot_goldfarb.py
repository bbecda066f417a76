"""
Which similarity of two tasks is worst?
=======================================

Goldfarb et al. (2024): the second task is the first one, rotated in part. Intermediate similarity is worst only with
high overparameterization β.
"""

import matplotlib.pyplot as plt

from papers import figure

figure.goldfarb(plt.subplots()[1])

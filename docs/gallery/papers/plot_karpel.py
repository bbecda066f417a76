"""
The best constant strength grows with the number of tasks
=========================================================

Karpel et al. (2026) learn tasks of one teacher with noisy labels. The best constant λ approaches 2nk/ln(4nk/(dσ²)), a
limit that is derived here.
"""

import matplotlib.pyplot as plt

from papers import figure

figure.karpel(plt.subplots()[1])

"""
An exact loss between its bounds
================================

``fl.compare_bounds`` shows the exact loss beside every published bound that applies.
"""

import forgetless as fl

fl.compare_bounds(fl.theory.constructions.unseen_task(64), "increasing", k=64).plot()

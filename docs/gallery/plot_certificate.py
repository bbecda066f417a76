"""
An exact loss between its bounds
================================

``certify`` puts the exact loss beside every published bound that applies, and says why the others do not.
"""

import forgetless as fl

fl.compare_bounds(fl.theory.constructions.unseen_task(64), "increasing", k=64).plot()

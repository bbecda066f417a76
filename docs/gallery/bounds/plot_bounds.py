"""
An exact loss between its bounds
================================

``fl.compare_bounds`` computes the exact loss of a schedule and every bound whose hypotheses hold. One of the tasks
of this collection is often not drawn, and no algorithm can know its label.
"""

import forgetless as fl

fl.compare_bounds(fl.theory.constructions.unseen_task(64), "increasing", k=64).plot()

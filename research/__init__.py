"""What stands beside the library: searches for worst collections of tasks, schedules that minimise
their own upper bound, the best averages of iterates, computer-assisted proofs, and two classes.

It is in the repository and the source archive, not in the wheel; research/README.md describes it.
"""

from research.averages import optimal_average
from research.descent import minimax_schedule
from research.worst.collection import WorstCollection, load_worst_collection
from research.worst.search import find_worst_collection

__all__ = [
    "WorstCollection",
    "find_worst_collection",
    "load_worst_collection",
    "minimax_schedule",
    "optimal_average",
]

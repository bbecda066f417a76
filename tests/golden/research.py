"""Golden numbers of research: descent to minimax schedules, worst collections, best averages.

They are in ``research.json``; ``values.py`` compares and writes both files.
"""

import forgetless as fl
from golden.inputs import SCHEDULES


def research():
    """Yield all of them."""
    for scheme in ("budget", "ridge"):
        best = fl.minimax_schedule(8, scheme=scheme)
        yield f"minimax_schedule/{scheme}", [best.upper_bound.value, *best.strengths]
    for name in ("none", "fixed", "increasing"):
        worst = fl.load_worst_collection(name, 64)
        yield f"worst_collection/{name}", worst.value
    for schedule in ("fixed", "projection"):
        bound = fl.upper_bound(SCHEDULES[schedule], 16, average="optimal")
        yield f"optimal_average/{schedule}", [bound.value, *bound.weights]

"""Golden numbers of the theory: bounds that are computed; those with a formula are in tests/theory/test_bounds.py."""

import forgetless as fl
from golden.inputs import SCHEDULES, K, tasks


def numbers():
    """Yield upper bounds of schedules for every quantity and order, and of averages."""
    for schedule in ("fixed", "increasing", "increasing-half", "increasing-quarter", "fixed-budget"):
        for quantity in ("average_loss", "seen_loss"):
            bound = fl.upper_bound(SCHEDULES[schedule], 32, quantity=quantity)
            yield f"upper_bound/{schedule}/{quantity}", [bound.value, bound.constant]
    for schedule in ("fixed", "increasing", "increasing-quarter", "minimax", "minimax-budget"):
        value = SCHEDULES[schedule]
        bound = fl.upper_bound(value, 32, quantity="next_loss")
        yield f"upper_bound/{schedule}/next_loss", bound.value
        for quantity in ("average_loss", "seen_loss"):
            options = {"ordering": "without-replacement", "n_tasks": 64}
            bound = fl.upper_bound(value, 32, quantity=quantity, **options)
            yield f"upper_bound/{schedule}/{quantity}/without-replacement", bound.value
    sizes = {"radius": 2.5, "distance": 0.3}
    for schedule in ("minimax", "projection", "gradient-descent", "increasing-budget-3"):
        bound = fl.upper_bound(SCHEDULES[schedule], 20, **sizes)
        yield f"upper_bound/{schedule}/radius", [bound.value, bound.constant]
    overshooting = fl.upper_bound(fl.GradientDescent(1, 1.5), 32, quantity="seen_loss")
    yield "upper_bound/overshooting/seen_loss", overshooting.value
    for scheme in ("budget", "ridge"):
        bound = fl.oracle_bound(tasks(noise=0.5), K, scheme=scheme, eta=0.4)
        yield f"oracle_bound/{scheme}", [bound.value, bound.loss, *bound.weights]

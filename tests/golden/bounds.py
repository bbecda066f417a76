"""Golden numbers of the theory: bounds, alone and beside exact losses."""

import forgetless as fl
from golden.inputs import ORDERINGS, SCHEDULES, K, horizon, tasks

# Steps, and R²D², at which every bound of the catalogue that has a formula is evaluated
SETTINGS = ((12, 1.0), (100, 2.5**2 * 0.3**2), (4097, 0.1**2 * 7.0**2))
NUMBERS = {"kappa": 0.7, "scale": 5.0, "eta": 0.8}
COMPUTED = ("computed", "oracle")


def numbers():
    """Yield all of them."""
    yield from upper_bounds()
    yield from catalogue()
    yield from comparisons()


def upper_bounds():
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
    for scheme in ("budget", "ridge"):
        bound = fl.oracle_bound(tasks(noise=0.5), K, scheme=scheme, eta=0.4)
        yield f"oracle_bound/{scheme}", [bound.value, bound.loss, *bound.weights]


def catalogue():
    """Yield every bound that has a value, at three settings."""
    for bound in fl.theory.catalogue:
        if bound.value is not None and bound.name.split(",")[0] not in COMPUTED:
            yield f"bounds/{bound.name}", [unit * bound.at(k, **NUMBERS) for k, unit in SETTINGS]


def comparisons():
    """Yield exact losses with the bounds that apply to them."""
    collection = tasks()
    for schedule in ("fixed", "increasing", "increasing-budget"):
        yield from compared(schedule, collection, SCHEDULES[schedule], K)
    for schedule in ("projection", "minimax"):
        for ordering in ("with-replacement", "without-replacement", "cyclic", "reshuffling"):
            label = f"{schedule}/{ordering}"
            options = {"ordering": ORDERINGS[ordering]}
            k = horizon(ordering)
            yield from compared(label, collection, SCHEDULES[schedule], k, **options)
    made = fl.theory.constructions
    yield from compared("unseen_task", made.unseen_task(9), SCHEDULES["increasing"], 9)
    yield from compared("seen_task", made.seen_task(9), SCHEDULES["increasing"], 9)
    without = {"ordering": "without-replacement"}
    yield from compared("rows", made.orthonormal_rows(5), SCHEDULES["minimax"], 4, **without)


def compared(label, collection, schedule, k, **options):
    """Yield the numbers of one comparison."""
    comparison = fl.compare_bounds(collection, schedule, k, **options)
    losses = [comparison.average_loss, comparison.seen_loss, comparison.worst_case]
    yield f"compare_bounds/{label}", losses
    for each in comparison.bounds:
        if each.value is not None:
            yield f"compare_bounds/{label}/{each.name}", each.value

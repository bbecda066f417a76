"""Golden numbers of the theory: bounds, constructions, the reduction and the last-iterate lemma."""

from fractions import Fraction

import numpy as np

import forgetless as fl
from forgetless.theory.published import last_iterate_rate
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
    yield from constructions()
    yield from reduction()
    yield from last_iterate()
    yield from formulas()


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
    for k in (3, 10, 100):
        rate = last_iterate_rate
        yield f"near_optimal_constant/{k}", rate(k, 1 / np.log(k)) * k / np.log(k)
        yield f"general_constant/{k}", rate(k, 0.7)


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


def constructions():
    """Yield the claims of the constructions, and the exact losses of the same tasks."""
    made = fl.theory.constructions
    collections = (
        made.two_tasks(np.pi / 5),
        made.two_tasks(2.0),
        made.unseen_task(7),
        made.orthonormal_rows(6),
        made.seen_task(6),
        made.rare_tasks(40),
        made.rare_tasks(30, n_rare=3, weight=4.0, cosine=0.5),
    )
    for i, collection in enumerate(collections):
        for schedule in ("fixed", "increasing", "projection"):
            claim = collection.claim(SCHEDULES[schedule], K)
            yield f"constructions/{i}-{collection.name}/{schedule}", claim
        exact = fl.expect(collection, SCHEDULES["increasing"], K)
        yield f"constructions/{i}-{collection.name}/expect", exact.average_loss


def reduction():
    """Yield the surrogates of steps, and the checks of the reduction."""
    collection = tasks()
    filters = {"ridge": fl.Ridge(0.7), "gradient-descent": fl.GradientDescent(3, 0.02), "projection": fl.Ridge(0.0)}
    w = np.arange(5.0)
    for name, filter_ in filters.items():
        if name != "projection":
            one = fl.theory.surrogate(collection[1], filter_, 0.1, collection.radius)
            yield f"surrogate/{name}", [one.smoothness, one.lower, one.upper, one.value(w)]
            yield f"surrogate/{name}/gradient", one.gradient(w)
            yield f"surrogate/{name}/step", one.step(w)
            check = fl.theory.check_reduction(collection, filter_, 0.1)
            yield f"check_reduction/{name}", [check.smoothness, check.lower, check.upper]
            ratios = [check.smallest_ratio, check.largest_ratio]
            yield f"check_reduction/{name}/ratios", ratios
        factors = filter_.table(np.array([0.0, 0.5, 2.0, 9.0]))
        yield f"filters/{name}", factors


def last_iterate():
    """Yield the sequences of the last-iterate lemma, in floats and in fractions, and a descent."""
    yield "last_iterate", [float(value) for value in fl.theory.linear_decay(6, 0.5)]
    for k in (2, 5, 40):
        weights = fl.theory.last_iterate_weights(k, Fraction(3, 13), Fraction(1))
        values = [*weights.v, *weights.c, weights.bound]
        yield f"last_iterate_weights/{k}", [float(value) for value in values]
        weights = fl.theory.last_iterate_weights(k, 0.1, 2.0)
        yield f"last_iterate_weights/{k}/floats", [*weights.v, *weights.c, weights.bound]
    collection = tasks(noise=0.5)

    def gradient(w, m, step):
        task = collection[m]
        return task.X.T @ (task.X @ w - task.y) / step

    path = fl.theory.descend(gradient, [0, 3, 1, 1, 2], [0.1, 0.08, 0.06, 0.04, 0.02], np.ones(5))
    yield "descend", path


def formulas():
    """Yield the two-task problem at three settings."""
    optimum = fl.theory.two_task_optimum([0.2, 0.7], [3, 9])
    loss = fl.theory.two_task_loss([0.2, 0.7], 0.4, [3, 9])
    yield "two_tasks", [*optimum, loss]
    yield "two_task_loss", fl.theory.two_task_loss([0.1, 1.0, 1.5], [0.0, 0.5, 3.0], [2, 10, 50])
    yield "two_task_optimum", fl.theory.two_task_optimum([0.1, 1.0, 1.5], [2, 10, 50])

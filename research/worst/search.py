"""The adversary: a search for the task collection on which a schedule does worst."""

import math
from typing import Any

import numpy as np

import forgetless as fl
from forgetless import _validate as validate
from forgetless._running import one_blas_thread
from forgetless.lab import check_contraction
from forgetless.orderings import Ordering, OrderingLike, as_ordering
from forgetless.schedules import ScheduleLike
from research.arrays import Floats
from research.worst.collection import WorstCollection
from research.worst.minimize import SIZES, as_copies, in_order, minimize_starts
from research.worst.objective import Adversary
from research.worst.ordered_objective import OrderedAdversary

STARTS = ("mixed", "random", "rare")

SEARCHED = {each: name for name, each in fl.orderings.NAMES.items()}
"""Names of the orderings for which there is a search."""

LARGEST_EPOCH = 12
"""Most tasks in random epochs, whose losses need all sets of tasks."""


@one_blas_thread()
def find_worst_collection(  # noqa: PLR0913
    schedule: ScheduleLike,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    n_features: int = 4,
    n_tasks: int = 6,
    rank: int = 1,
    n_starts: int = 32,
    n_rounds: int = 400,
    starts: str = "mixed",
    seed: int = 0,
) -> WorstCollection:
    """Search for the collection of tasks of low rank on which a schedule has the largest expected
    loss after k steps.

    The exact worst expected loss over unit teachers is maximised over directions, singular values
    (at most 1, and one of them 1) and probabilities, from many starts at once, by limited-memory
    BFGS with the exact gradient: one pass backwards, one forwards. The loss is averaged with the
    same probabilities that tasks are drawn with, as the paper's is for a collection with repeated
    tasks. So that the result is such a collection, probabilities are then rounded to copies of
    equally likely tasks and the rest is optimised again: every theorem for uniform draws applies to
    it.

    Parameters
    ----------
    schedule : schedule, filter, name or number
        Resolved at R = 1.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
        Or ``WithoutReplacement()``, ``RandomReshuffling()`` or ``Cyclic()``: then every task occurs
        once.
    n_features, n_tasks : int
        d and the number of different tasks, at most.
    rank : int, default 1
        Rows of each task, orthogonal and of any norms, from 1 to d. Some schedules do worse on
        ranks 2 and 3, by a percent or so in our searches; the search takes as many times longer.
    n_starts : int, default 32
        Independent searches; a larger number only adds to those of a smaller one.
    n_rounds : int, default 400
        Most gradient evaluations of each.
    starts : "mixed", "random" or "rare", default "mixed"
        Where they begin: random directions and frequencies; one frequent task orthogonal to rare
        ones, perturbed, as in ``constructions.rare_tasks``; or both in turn. The second needs two
        features and three tasks; "mixed" is "random" with fewer.
    seed : int, default 0
        The same seed gives the same collection.

    Returns
    -------
    WorstCollection
        Its value is a lower bound of the worst case of the schedule: the search is local, and there
        may be worse ones.

    Examples
    --------
    >>> import research
    >>> worst = research.find_worst_collection("increasing", k=16, n_features=3, n_tasks=4,
    ...     n_starts=8)
    >>> round(worst.value, 2), abs(worst.evaluate() - worst.value) < 1e-12
    (0.86, True)

    Notes
    -----
    Filter factors are differentiated by a complex step: a filter must accept complex numbers.
    """
    order = as_ordering(ordering)
    adversary = _adversary(schedule, k, (n_features, n_tasks, rank), order)
    n_rounds = validate.integer("n_rounds", n_rounds, 1, "the default is 400")
    points = _points(adversary, n_starts, starts, seed)
    points, values = minimize_starts(adversary, points, n_rounds)
    if np.isinf(values).all():
        raise ValueError(
            f"the loss vanishes at all {n_starts} starts; use at least two tasks and two features,"
            " more starts, or a smaller k"
        )
    best = points[int(np.argmin(values))]
    rows, counts, value = (as_copies if adversary.free else in_order)(adversary, best)
    if adversary.rank == 1:
        rows = rows[:, 0]
    name = "" if adversary.free else f"ordering={SEARCHED[order]!r}, "
    command = (
        f"find_worst_collection({schedule!r}, k={k}, {name}n_features={n_features},"
        f" n_tasks={n_tasks}, rank={rank}, n_starts={n_starts}, n_rounds={n_rounds},"
        f" starts={starts!r}, seed={seed})"
    )
    return WorstCollection(rows, counts, schedule, adversary.k, value, command, order)


def _adversary(schedule: Any, k: int, sizes: tuple[int, int, int], ordering: Ordering) -> Adversary:
    n_features, n_tasks, rank = sizes
    k = validate.integer("k", k, 1, "ask for at least one step")
    d = validate.integer(
        "n_features", n_features, 1, "2 to 6 are enough for the worst known collections"
    )
    M = validate.integer("n_tasks", n_tasks, 1, "3 to 8 are enough for the worst known collections")
    rank = validate.integer("rank", rank, 1, "1 to 3 are enough for the worst known collections")
    if rank > d:
        raise ValueError(
            f"rank must be at most n_features = {d}, got {rank}; a task has no more orthogonal rows"
        )
    if ordering not in SEARCHED:
        raise ValueError(
            f"ordering must be one of {', '.join(SEARCHED.values())} for a search, got"
            f" {ordering!r}; probabilities are searched for"
        )
    ordering.check(M, k)
    filter_ = fl.schedules.resolve(schedule, k, 1.0)
    check_contraction(filter_, fl.TaskCollection([(np.ones((1, 1)), np.zeros(1))]))
    if ordering.stationary:
        return Adversary(filter_, k, M, d, rank)
    if M > LARGEST_EPOCH and not ordering.deterministic:
        raise ValueError(
            f"n_tasks must be at most {LARGEST_EPOCH} for random epochs, got {M}: all sets are"
            " followed"
        )
    return OrderedAdversary(filter_, k, M, d, rank, ordering=ordering)


def _points(a: Adversary, n_starts: int, starts: str, seed: int) -> Floats:
    """Return the starting points, of shape (n_starts, n)."""
    n_starts = validate.integer("n_starts", n_starts, 1, "the default is 32")
    seed = validate.integer("seed", seed, 0, "any whole number will do", math.inf)
    if starts not in STARTS:
        raise ValueError(f'starts must be "mixed", "random" or "rare", got {starts!r}')
    rare_fits = a.n_features >= 2 and a.n_tasks >= 3
    if starts == "rare" and not rare_fits:
        raise ValueError(
            f'starts="rare" needs n_features ≥ 2 and n_tasks ≥ 3, got {a.n_features} and'
            f' {a.n_tasks}; use starts="random"'
        )
    _check_memory(a, n_starts)
    points = []
    for i in range(n_starts):
        # One generator per start, named by its number: more starts leave the others as they are.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(i,)))
        rare = starts == "rare" or (starts == "mixed" and i % 2 == 1 and rare_fits)
        points.append(_rare(a, rng) if rare else _random(a, rng))
    return np.stack(points)


def _check_memory(a: Adversary, n_starts: int) -> None:
    """Raise MemoryError if the gradient of all starts does not fit."""
    d = a.n_features
    n_numbers = float(max(n_starts, SIZES)) * a.k * (2 * d * d + 8 * a.n_tasks * a.rank * d)
    if isinstance(a, OrderedAdversary):
        n_moves = max(len(moves.task) for moves in a.moves)
        n_numbers += n_starts * (a.k * d * d + 8.0 * a.rank * d + 8.0 * d * d) * n_moves
    what = f"the gradient of {n_starts} starts over {a.k} steps"
    validate.check_memory(n_numbers, what, "use fewer starts or a smaller k")


def _random(a: Adversary, rng: np.random.Generator) -> Floats:
    """Random directions; frequencies spread evenly in the logarithm between once in 2k draws and
    every draw.
    """
    directions = rng.standard_normal((a.n_tasks, a.n_features))
    weights = rng.uniform(-np.log(2 * a.k), 0.0, a.n_tasks)
    return _joined(a, rng, directions, rng.uniform(0.2, 0.8, a.n_tasks), weights)


def _rare(a: Adversary, rng: np.random.Generator) -> Floats:
    """Rare tasks around a common direction, each drawn 2 to 8 times in k steps; frequent ones
    orthogonal to them.
    """
    n_rare = int(rng.integers(2, a.n_tasks))
    directions = 0.05 * rng.standard_normal((a.n_tasks, a.n_features))
    around = rng.uniform(0.0, 1.5) * rng.standard_normal(a.n_features - 1)
    spread = around + rng.standard_normal((n_rare, a.n_features - 1))
    directions[:n_rare, 1:] += spread / np.sqrt((spread**2).sum(axis=1, keepdims=True))
    directions[n_rare:, 0] += 1.0
    p = rng.uniform(2.0, 8.0, n_rare) / a.k
    p *= min(1.0, 0.8 / p.sum())
    weights = np.full(a.n_tasks, np.log((1 - p.sum()) / (a.n_tasks - n_rare)))
    weights[:n_rare] = np.log(p)
    return _joined(a, rng, directions, rng.uniform(0.1, 0.3, a.n_tasks), weights)


def _joined(
    a: Adversary, rng: np.random.Generator, directions: Floats, angles: Floats, weights: Floats
) -> Floats:
    """Return the point with these first rows of the tasks; further rows have random directions and
    norms.
    """
    more = rng.standard_normal((a.n_tasks, a.rank - 1, a.n_features))
    directions = np.concatenate([directions[:, None], more], axis=1)
    angles = np.concatenate(
        [angles[:, None], rng.uniform(0.1, 1.5, (a.n_tasks, a.rank - 1))], axis=1
    )
    return np.concatenate([directions.ravel(), angles.ravel(), weights])

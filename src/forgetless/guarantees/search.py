"""The adversary: a search for the task collection on which a schedule does worst."""

import hashlib
import json
import math
import time
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless._core.threads import one_blas_thread
from forgetless._core.validate import check_memory
from forgetless.engines.inputs import OrderingLike, ScheduleLike, as_ordering, as_schedule
from forgetless.engines.problem import check_contraction
from forgetless.errors import FileError
from forgetless.guarantees._minimize import SIZES, Evaluations, as_copies, in_order, minimize_starts
from forgetless.guarantees._objective import Adversary
from forgetless.guarantees._ordered_objective import OrderedAdversary
from forgetless.guarantees.collection import LARGEST_EPOCH, SEARCHED, WorstCollection
from forgetless.io.document import Document, Fields, file_errors, parse_json, read, write
from forgetless.orderings import Draws, Epochs, Ordering, name_of
from forgetless.reporting.progress import Progress, progress_callback
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection

STARTS = ("mixed", "random", "rare")

_SAVE_EVERY = 5.0
"""Seconds between checkpoints; they do not change the result."""


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
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
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
    checkpoint : path, optional
        A file for the state of the search: written every few seconds and on interruption, removed
        at the end.
    resume : bool, default False
        Continue from ``checkpoint`` if it exists: the result is that of an uninterrupted search.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(rounds_done, n_rounds, what)`` after
        every round, ``what`` being the largest k·loss so far.

    Returns
    -------
    WorstCollection
        Its value is a lower bound of the worst case of the schedule: the search is local, and there
        may be worse ones.

    Examples
    --------
    >>> import forgetless as fl
    >>> worst = fl.find_worst_collection(fl.schedules.increasing(), k=16, n_features=3, n_tasks=4,
    ...     n_starts=8)
    >>> round(worst.value, 2), abs(worst.evaluate() - worst.value) < 1e-12
    (0.86, True)

    Notes
    -----
    Filter factors are differentiated by ``filter.derivative``: in closed form for the filters of
    this package, by central differences for others unless they override it.
    """
    chosen = as_schedule(schedule)
    order = as_ordering(ordering)
    search = _Search(
        _adversary(chosen, k, (n_features, n_tasks, rank), order), n_starts, n_rounds, starts, seed
    )
    if checkpoint is None and resume:
        raise ValueError("resume=True needs the file to resume from; give it as checkpoint=path")
    path = None if checkpoint is None else Path(checkpoint)
    with progress_callback(progress) as report_progress:
        x = search.run(path, resume, report_progress)
        rows, counts, value = (as_copies if search.adversary.free else in_order)(
            search.adversary, x
        )
    rows = rows[:, 0] if search.adversary.rank == 1 else rows
    if path is not None:
        path.unlink(missing_ok=True)
    return WorstCollection(
        rows, counts, chosen, search.adversary.k, value, search.call(chosen, order), order
    )


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
    if name_of(ordering) not in SEARCHED:
        names = ", ".join(SEARCHED)
        raise ValueError(
            f"ordering must be one of {names} for a search, got {ordering!r}; probabilities are"
            " searched for"
        )
    ordering.check(M, k)
    filter_ = resolve(schedule, k, 1.0)
    check_contraction(filter_, TaskCollection([(np.ones((1, 1)), np.zeros(1))]))
    law = ordering.law(M, k)
    if law is None or isinstance(law, Draws):
        return Adversary(filter_, k, M, d, rank)
    if M > LARGEST_EPOCH and isinstance(law, Epochs):
        raise ValueError(
            f"n_tasks must be at most {LARGEST_EPOCH} for random epochs, got {M}: all sets are"
            " followed"
        )
    return OrderedAdversary(filter_, k, M, d, rank, law=law)


@dataclass(frozen=True, eq=False)
class _Search:
    """A search from several starts; the arguments are validated."""

    adversary: Adversary
    n_starts: int
    n_rounds: int
    starts: str
    seed: int

    def __post_init__(self) -> None:
        validate.integer("n_starts", self.n_starts, 1, "the default is 32")
        validate.integer("n_rounds", self.n_rounds, 1, "the default is 400")
        validate.integer("seed", self.seed, 0, "any whole number will do", math.inf)
        if self.starts not in STARTS:
            raise ValueError(f'starts must be "mixed", "random" or "rare", got {self.starts!r}')
        k, M, rank, d = (
            self.adversary.k,
            self.adversary.n_tasks,
            self.adversary.rank,
            self.adversary.n_features,
        )
        if self.starts == "rare" and (d < 2 or M < 3):
            raise ValueError(
                f'starts="rare" needs n_features ≥ 2 and n_tasks ≥ 3, got {d} and {M}; use'
                ' starts="random"'
            )
        what = f"the gradient of {self.n_starts} starts over {k} steps"
        n_numbers = float(max(self.n_starts, SIZES)) * k * (2 * d * d + 8 * M * rank * d)
        if isinstance(self.adversary, OrderedAdversary):
            n_moves = max(len(moves.tasks) for moves in self.adversary.moves)
            n_numbers += self.n_starts * (k * d * d + 8.0 * rank * d + 8.0 * d * d) * n_moves
        check_memory(n_numbers, what, "use fewer starts or a smaller k")

    def call(self, schedule: Any, ordering: Ordering) -> str:
        """Return the call of this search as code."""
        order = "" if self.adversary.free else f"ordering={name_of(ordering)!r}, "
        a, source = (
            self.adversary,
            repr(schedule),
        )
        return (
            f"fl.find_worst_collection({source}, k={a.k}, {order}n_features={a.n_features},"
            f" n_tasks={a.n_tasks}, rank={a.rank}, n_starts={self.n_starts},"
            f" n_rounds={self.n_rounds}, starts={self.starts!r}, seed={self.seed})"
        )

    @property
    def key(self) -> str:
        """Everything but the number of rounds, which a checkpoint must agree in; of the filter its
        values.
        """
        a = self.adversary
        factors = np.ascontiguousarray(
            a.filter.factors(np.geomspace(1e-3, 1.0, 13)), dtype=np.float64
        )
        facts = (
            a.k,
            a.n_variables,
            self.n_starts,
            a.n_features,
            a.n_tasks,
            a.rank,
            self.starts,
            self.seed,
        )
        order = [type(a.law).__name__] if isinstance(a, OrderedAdversary) else []
        return json.dumps(
            [*facts, *order, installed("scipy"), hashlib.sha256(factors.tobytes()).hexdigest()]
        )

    def run(self, path: Path | None, resume: bool, report_progress: Progress) -> Floats:
        """Return the best point, of shape (n,)."""
        record = _restored(path, resume, self.key) or Evaluations(self._points())
        saved = time.monotonic()

        def after_round(best: float) -> None:
            nonlocal saved
            report_progress(
                len(record.rounds) - 1, self.n_rounds, f"rounds, best k·loss {np.exp(-best):.6g}"
            )
            if path is not None and time.monotonic() - saved > _SAVE_EVERY:
                _save(record, path, self.key)
                saved = time.monotonic()

        try:
            points, values = minimize_starts(self.adversary, record, self.n_rounds, after_round)
        except BaseException:
            if path is not None:
                _save(record, path, self.key)
            raise
        if np.isinf(values).all():
            raise ValueError(
                f"the loss vanishes at all {self.n_starts} starts; use at least two tasks and two"
                " features, more starts, or a smaller k"
            )
        if path is not None:
            _save(record, path, self.key)
        return np.asarray(points[int(np.argmin(values))])

    def _points(self) -> Floats:
        # One generator per start, named by its number, so that more starts leave the others as they
        # are.
        generators = [
            np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(i,)))
            for i in range(self.n_starts)
        ]
        a = self.adversary
        rare_fits = a.n_features >= 2 and a.n_tasks >= 3
        rare = [
            self.starts == "rare" or (self.starts == "mixed" and i % 2 == 1 and rare_fits)
            for i in range(self.n_starts)
        ]
        return np.stack(
            [(_rare if r else _random)(a, rng) for r, rng in zip(rare, generators, strict=True)]
        )


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


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of an interrupted search, and the key of the search it belongs to."""

    key: str
    record: Evaluations

    def __repr__(self) -> str:
        starts, rounds = len(self.record.points), max(0, len(self.record.rounds) - 1)
        return (
            f"search of {starts} starts after {rounds} rounds; resume it with checkpoint=path,"
            " resume=True"
        )


def from_document(document: Document) -> Checkpoint:
    """Return the checkpoint in a document; ValueError if it holds none."""
    key = document.header["key"]
    _, n_variables, n_starts, *_ = parse_json(key)
    sizes = {"n_variables": n_variables, "n_starts": n_starts}
    n, B = (
        validate.integer(name, value, 1, "as in worst_collection") for name, value in sizes.items()
    )
    return Checkpoint(key, Evaluations.from_fields(Fields(document.arrays), B, n))


def _save(record: Evaluations, path: Path, key: str) -> None:
    write(path, Document("checkpoint", {"key": key}, record.to_arrays()))


def _restored(path: Path | None, resume: bool, key: str) -> Evaluations | None:
    """Return the state in a checkpoint, None where a search begins; raise where it would be lost or
    does not fit.
    """
    if path is not None and not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent} for the checkpoint; create it first"
        )
    if path is None or not path.exists():
        return None
    if not resume:
        raise FileExistsError(f"{path} exists; continue it with resume=True, or remove it")
    document = read(path, "checkpoint")
    with file_errors(path):
        checkpoint = from_document(document)
    if checkpoint.key != key:
        raise FileError(
            f"{path.name} is the checkpoint of another search; give the same arguments, or another"
            " file"
        )
    return checkpoint.record

"""Simulation of many random runs of a continual learner."""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from forgetless import _kernels
from forgetless._core import validate
from forgetless._core.arrays import Array, Floats
from forgetless._core.threads import one_blas_thread
from forgetless._core.validate import check_memory
from forgetless._progress import track
from forgetless._schedule import Schedules
from forgetless.ensembles import Ensemble
from forgetless.lab import fresh
from forgetless.lab.problem import Problem, checked_factors
from forgetless.lab.results import Trace
from forgetless.metrics import METRICS, Metric, Outputs, check_walk, resolve
from forgetless.orderings import BLOCK, TRIALS, Indices, OrderingLike, draws
from forgetless.tasks import TaskCollection

_FACTORS = 2**17
"""Filter factors evaluated at once: they stay in the cache until the steps that use them."""

_NORMALS = 2**20
"""Normal numbers of label noise and of a walking teacher in memory at once."""


def simulate(  # noqa: PLR0913
    tasks: TaskCollection | Ensemble,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    n_trials: int = 1,
    seed: Any = None,
    record: Any = "log",
    average: float | None = None,
    metrics: Any = None,
) -> Trace:
    """Return recorded losses of ``n_trials`` independent runs of k steps.

    Each step t draws a task by ``ordering`` and applies w ← w − φ_t(XᵀX)(w − X⁺y) with the filter
    φ_t of ``schedule``.

    Parameters
    ----------
    tasks : TaskCollection or Ensemble
        For an ensemble (``fl.ensembles``) every trial has fresh random tasks.
    schedule : schedule, filter, name or number; or a list or a dict of these
        A callable (k, radius) → filter, a filter for all steps, a name such as "increasing", or
        a fixed coefficient λ. Several are run on the same orders; the keys of a dict are their
        labels in frames and plots.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
    n_trials : int, default 1
        Independent runs. Trial i gives the same numbers whatever ``n_trials`` is.
    seed : int, SeedSequence, Generator or None
        Source of randomness; the same integer gives the same numbers, up to rounding. A Generator
        is advanced by one draw.
    record : "log", "last", "all" or steps in 0..k, default "log"
        Steps at which metrics are recorded. Memory grows with these, not with k.
    average : float, optional
        Record the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one, from which the iteration
        continues.
    metrics : Metric or name, or several, default the first four
        See ``fl.metrics``. ``average_loss``, ``distance`` and ``task_losses`` alone are faster:
        they do not depend on the path. ``weights`` records the weights themselves, and
        ``fl.metrics.loss_on(tasks)`` is the loss of other tasks.

    Returns
    -------
    Trace
        Arrays of shape (n_trials, n_steps), with an axis for several schedules before them.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
    >>> trace = fl.simulate(tasks, fl.schedules.increasing(), k=100, n_trials=50, seed=0)
    >>> trace.average_loss.shape, bool(trace.average_loss[:, -1].mean() < trace.average_loss[:,
    ...     0].mean())
    ((50, 30), True)
    """
    n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
    if isinstance(tasks, Ensemble):
        fresh.check_unused(ordering=(ordering, None), average=(average, None))
        own = fresh.FreshProblem.of(tasks, schedule, k, record, metrics)
        return fresh.fresh_trials(own, n_trials, _shared(seed))
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    # A walking teacher has no drift: the labels themselves move.
    default = [name for name in METRICS if name != "drift" or not tasks.walk]
    wanted = resolve(default if metrics is None else metrics)
    check_walk(wanted, tasks.walk)
    if any(each.name == "next_loss" for each in wanted):
        problem.next_moves()
    _check_size(problem, n_trials, wanted)
    common = _shared(seed)
    parts = [followed(problem, b, wanted, n_trials, common) for b in range(len(problem.filters))]
    values = {}
    for each in wanted:
        curves = [part[each.name] for part in parts]
        values[each.name] = np.stack(curves) if problem.grid else curves[0]
    return Trace(problem.steps, values, labels=problem.labels)


def _shared(seed: Any) -> Any:
    """Return a seed that gives every schedule the same orders."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return np.random.SeedSequence() if seed is None else seed


def _check_size(problem: Problem, n_trials: int, metrics: list[Metric]) -> None:
    """Raise MemoryError for results that do not fit into memory."""
    tasks = problem.tasks
    sizes = {"task": tasks.n_tasks, "feature": tasks.n_features, "target": tasks.n_targets}
    numbers = sum(math.prod(sizes.get(axis, 1) for axis in each.axes) for each in metrics)
    recorded = float(n_trials) * len(problem.steps) * len(problem.filters)
    what = f"a record of {n_trials:,} runs at {len(problem.steps):,} steps"
    check_memory(recorded * numbers, what, "record fewer steps or metrics")


# Threads of a product spin for a while and would slow down the steps after it.
@one_blas_thread()
def followed(
    problem: Problem, b: int, metrics: list[Metric], n_trials: int, seed: Any
) -> dict[str, Floats]:
    """Return the metrics (n_trials, n_steps, …) of schedule number b."""
    blocks = draws(problem.ordering, problem.tasks.n_tasks, problem.k, n_trials, seed)
    trials = Trials(problem, n_trials, metrics, seed)
    return _recorded(trials, b, track(blocks, "steps", total=-(-problem.k // BLOCK)), metrics)


def _recorded(
    trials: "Trials", b: int, blocks: Iterator[Indices], metrics: list[Metric]
) -> dict[str, Floats]:
    """Return metrics at the recorded steps along blocks of orders."""
    problem = trials.problem
    last_step = int(problem.steps[-1])
    recorded = set(problem.steps.tolist())
    # Steps end where a record is due, where a block of draws ends, or the cache is full.
    at_once = max(1, _FACTORS // max(1, len(problem.tasks.singular_values)))
    curves: dict[str, Floats] = {}

    def record() -> None:
        if trials.n_steps not in recorded:
            return
        i = int(np.searchsorted(problem.steps, trials.n_steps))
        for each in metrics:
            values = np.asarray(each.evaluate(trials))
            if each.name not in curves:
                shape = (len(values), len(problem.steps), *values.shape[1:])
                curves[each.name] = np.empty(shape)
            curves[each.name][:, i] = values

    record()
    for block in blocks:
        done = trials.n_steps
        ends = {*range(done, done + block.shape[1], at_once), done + block.shape[1]}
        between = problem.steps[(problem.steps > done) & (problem.steps < done + block.shape[1])]
        stops = sorted({*ends, *between.tolist()})
        for low, high in pairwise(stops):
            part = problem.filters[b][low:high]
            phi = checked_factors(part, problem.tasks.singular_values)
            trials.advance(block[:, low - done : high - done], phi)
            record()
        if trials.n_steps >= last_step:
            break
    return curves


class Trials(Outputs):
    """The weights of n runs, with statistics of the visits of every task; a snapshot for metrics.

    Every target is a run of its own: arrays of the kernel have n·c rows. The weights are relative
    to the walk of the teacher, so that errors are those of the present labels.
    """

    def __init__(self, problem: Problem, n_trials: int, metrics: list[Metric], seed: Any) -> None:
        tasks = problem.tasks
        self.problem = problem
        self.tasks = tasks
        self.n_steps = 0
        self.n_trials = n_trials
        self.w = np.zeros((n_trials * tasks.n_targets, tasks.n_features))
        self.gains = np.zeros(0) if problem.average is None else problem.gains
        self.mean = self.w.copy() if len(self.gains) else np.zeros((0, 0))
        rows = len(self.w)
        # The next loss of epochs reads the visits, too.
        follow = any(each.path or each.name == "next_loss" for each in metrics)
        M = tasks.n_tasks if follow else 0
        n = len(tasks.singular_values) if follow else 0
        # Visits of each task, mean outputs right after them, and their spreads
        self.statistics = (np.zeros((rows, M)), np.zeros((rows, n)), np.zeros((rows, M)))
        self.offsets = tasks.offsets.astype(np.uint64)
        self.disturbance = Disturbance(problem, n_trials, seed)

    def advance(self, indices: Indices, phi: Floats) -> None:
        """Make the steps of ``indices`` (n, T) with the factors φ (T or 1, Σr)."""
        self.__dict__.pop("losses", None)
        self.__dict__.pop("outputs", None)
        n_steps = indices.shape[1]
        size = self.disturbance.steps_at_once
        for low in range(0, n_steps, size):
            high = min(low + size, n_steps)
            now = phi if len(phi) == 1 else phi[low:high]
            self._advance(indices[:, low:high], now)

    def _advance(self, indices: Indices, phi: Floats) -> None:
        tasks = self.tasks
        n_steps = indices.shape[1]
        c = tasks.n_targets
        # All targets of a trial see the same tasks.
        order = np.ascontiguousarray(indices if c == 1 else np.repeat(indices, c, axis=0))
        gains = self.gains[self.n_steps : self.n_steps + n_steps]
        noise, walk = self.disturbance.drawn(indices, self.n_steps)
        phi = np.ascontiguousarray(phi)

        def work(low: int, high: int) -> None:
            _kernels.run_trials(
                low,
                high,
                self.w,
                order,
                phi,
                tasks.singular_vectors,
                tasks.targets,
                self.offsets,
                tasks.singular_values,
                self.mean,
                gains,
                self.statistics,
                noise,
                walk,
            )

        _kernels.in_threads(work, len(self.w), float(self.w.size) * n_steps)
        self.n_steps += n_steps

    def _by_trial(self, rows: Floats) -> Floats:
        """Return arrays (n, c, …) from arrays with a row for every run and target."""
        return rows.reshape(self.n_trials, self.tasks.n_targets, -1)

    @property
    def _relative(self) -> Floats:
        """The weights less the walk of the teacher, of shape (n, c, d)."""
        return self._by_trial(self.mean if len(self.gains) else self.w)

    @property
    def weights(self) -> Array:
        """The weights of shape (n, d, c)."""
        return np.swapaxes(self._relative + self.disturbance.walked, 1, 2)

    @cached_property
    def outputs(self) -> Floats:  # type: ignore[override]
        """S ∘ (V w − t), of shape (n, c, Σr)."""
        tasks = self.tasks
        errors = self._relative @ tasks.singular_vectors.T - tasks.targets.T
        return np.asarray(errors * tasks.singular_values)

    @property
    def visits(self) -> Floats:  # type: ignore[override]
        """Steps on each task, of shape (n, M)."""
        return self._by_trial(self.statistics[0])[:, 0]

    @property
    def means(self) -> Floats:  # type: ignore[override]
        """Mean outputs right after the visits, of shape (n, c, Σr)."""
        return self._by_trial(self.statistics[1])

    @property
    def spreads(self) -> Floats:  # type: ignore[override]
        """Sums of squared distances from these means, of shape (n, M)."""
        return np.asarray(self._by_trial(self.statistics[2]).sum(1))

    @property
    def next_loss(self) -> Floats:
        """The mean over the next task, given the tasks of each run so far, of shape (n,)."""
        law = self.problem.ordering.following(self.tasks.n_tasks, self.n_steps, self.visits)
        return np.asarray(np.sum(law * self.losses, axis=1))

    @property
    def distance(self) -> Floats:
        """‖w − w⋆‖², of shape (n,)."""
        solution = np.reshape(self.tasks.teacher(), (self.w.shape[1], -1))
        return np.asarray(np.sum((self._relative - solution.T) ** 2, axis=(1, 2)))

    def square(self, A: Any, b: Any) -> Floats:
        """Return ‖A w − b‖², of shape (n,)."""
        A = np.asarray(A, dtype=np.float64)
        b = np.broadcast_to(np.asarray(b, dtype=np.float64), (len(A), self.tasks.n_targets))
        return np.asarray(np.sum((self._relative @ A.T - b.T) ** 2, axis=(1, 2)))


class Disturbance:
    """Fresh label noise and the walk of the teacher, drawn for some steps at a time.

    Both come from generators of their own, one for every ``TRIALS`` trials, so that a trial has the
    same numbers whatever their number is.
    """

    def __init__(self, problem: Problem, n_trials: int, seed: Any) -> None:
        tasks = problem.tasks
        self.problem = problem
        self.n_trials = n_trials
        self.active = bool(tasks.noise or tasks.walk)
        self.generators = _generators(seed, n_trials) if self.active else []
        # LAPACK's versions differ in the signs of singular vectors; a seed should give the same
        # noise with all of them.
        vectors = tasks.singular_vectors
        largest = np.argmax(np.abs(vectors), axis=1)
        self.signs = np.sign(vectors[np.arange(len(vectors)), largest])
        self.width = int(np.max(tasks.ranks, initial=0))
        self.walked = np.zeros((n_trials, tasks.n_targets, tasks.n_features))

    @property
    def steps_at_once(self) -> int:
        """Steps whose random numbers fit into memory."""
        tasks = self.problem.tasks
        numbers = self.n_trials * tasks.n_targets * (self.width + tasks.n_features)
        return max(1, _NORMALS // max(1, numbers)) if self.active else BLOCK

    def drawn(self, indices: Indices, done: int) -> tuple[Floats, Floats]:
        """Return noise (n·c, T, width) of labels and steps (n·c, T, d) of the teacher."""
        tasks = self.problem.tasks
        c = tasks.n_targets
        n_steps = indices.shape[1]
        rows = self.n_trials * c
        noise = np.zeros((rows, n_steps if tasks.noise else 0, self.width))
        walk = np.zeros((rows, n_steps if tasks.walk else 0, tasks.n_features))
        size = tasks.walk / np.sqrt(tasks.n_features * c)
        signs = np.zeros((tasks.n_tasks, self.width))
        for m in range(tasks.n_tasks):
            signs[m, : tasks.ranks[m]] = self.signs[tasks.offsets[m] : tasks.offsets[m + 1]]
        for t in range(n_steps if self.active else 0):
            if tasks.walk and done + t:
                # E‖δ‖² = walk² over all features and targets.
                change = size * self._normals(c, tasks.n_features)
                self.walked = self.walked + change
                walk[:, t] = change.reshape(rows, -1)
            if tasks.noise:
                normals = tasks.noise * self._normals(c, self.width)
                # Tasks of smaller rank ignore the rest of the row.
                own = signs[indices[:, t].astype(np.int64)]
                noise[:, t] = (normals * own[:, None, :]).reshape(rows, -1)
        return noise, walk

    def _normals(self, *shape: int) -> Floats:
        """Return independent normals (n_trials, *shape)."""
        parts = [each.standard_normal((TRIALS, *shape)) for each in self.generators]
        return np.concatenate(parts)[: self.n_trials]


_STREAM = 1
"""The last number of the spawn keys of noise: those of orders end one level above."""


def _generators(seed: Any, n_trials: int) -> list[np.random.Generator]:
    """Return one generator for every few trials, independent of those of the orders."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    generators = []
    for group in range(-(-n_trials // TRIALS)):
        key = (*sequence.spawn_key, group, _STREAM)
        child = np.random.SeedSequence(sequence.entropy, spawn_key=key)
        generators.append(np.random.Generator(np.random.PCG64(child)))
    return generators

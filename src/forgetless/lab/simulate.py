"""Simulation of many random runs of a continual learner.

``Trials`` is to simulated runs what ``coordinates.Snapshot`` is to exact expectations: what metrics
are made of. ``_kernels.run_trials`` makes the steps.

*Paths.* The sums over the visits of a task compare the output x now with the outputs x_t right
after its n visits. With their mean x̄ and spread Σ ‖x_t − x̄‖² they are

    Σ ‖x‖² − ‖x_t‖²  =  n (x − x̄)·(x + x̄) − spread,
    Σ ‖x − x_t‖²     =  n ‖x − x̄‖² + spread,

so that two arrays a task are enough for paths of any length, and nothing large is subtracted.
Mean and spread are updated at every visit by Welford's rule, x̄ ← x̄ + (x − x̄)/n.

*Label noise.* With y = X v + σε the target V X⁺y changes by σ s⁻¹ ∘ (Uᵀε), independent normal
numbers of variance σ²/s² along the singular vectors: only those are drawn.

*A walking teacher* moves all labels by X δ. Weights are kept relative to the walk, w − Σδ, since
then every task stays as it is, and the walk is a step of the weights by −δ.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from forgetless import _kernels
from forgetless import _validate as validate
from forgetless._running import one_blas_thread, track
from forgetless._validate import Array, Floats, check_memory
from forgetless.filters import Filter
from forgetless.lab import Problem, checked_factors
from forgetless.lab.results import Curves
from forgetless.metrics import METRICS, Metric
from forgetless.orderings import OrderingLike
from forgetless.orderings.base import BLOCK, TRIALS, Indices, draws, generators, shared_seed
from forgetless.schedules.named import Schedules
from forgetless.tasks import TaskCollection
from forgetless.tasks.task import Outputs

# no mutant: only the time differs
_FACTORS = 2**17
"""Filter factors evaluated at once: they stay in the cache until the steps that use them."""

# no mutant: only memory and time differ
_NORMALS = 2**20
"""Normal numbers of label noise and of a walking teacher in memory at once."""

_STREAM = 1
"""The last number of the spawn keys of noise: those of orders end one level above."""

# no mutant: only the time differs
_FEW_FEATURES = 3
"""Features up to which loops over them are unrolled: a third less time in two dimensions."""

# no mutant: only the time differs
_GRAM = 10
"""How much faster a matrix product is than the same operations in steps."""


def simulate(  # noqa: PLR0913
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    n_trials: int = 1,
    seed: Any = None,
    metrics: Any = None,
    record: Any = "log",
    average: float | None = None,
) -> Curves:
    """Return metrics of ``n_trials`` independent runs of k steps.

    Use it for what has no closed form, such as medians and single paths, or where there are too
    many features or tasks for ``expect``. Each step t draws a task by ``ordering`` and applies w ←
    w − φ_t(XᵀX)(w − X⁺y) with the filter φ_t of ``schedule``.

    Parameters
    ----------
    tasks : TaskCollection
        As in ``expect``; for fresh random tasks in every trial see ``fl.ensembles``.
    schedule : schedule, filter, name or number; or a list or a dict of these
        As in ``expect``. Several are run on the same orders.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
    n_trials : int, default 1
        Independent runs. Up to rounding, trial i gives the same numbers whatever ``n_trials`` is.
    seed : int, SeedSequence, Generator or None
        Source of randomness; the same integer gives the same numbers, up to rounding. A Generator
        is advanced by one draw.
    metrics : Metric or name, or several, default the first four
        See ``fl.metrics``. ``average_loss``, ``distance`` and ``task_losses`` alone are faster:
        they do not depend on the path. ``weights`` records the weights themselves, and
        ``fl.metrics.loss_on(tasks)`` is the loss of other tasks.
    record : "log", "last", "all" or steps in 0..k, default "log"
        Steps at which metrics are recorded. Memory grows with these, not with k.
    average : float, optional
        Record the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one, from which the iteration
        continues.

    Returns
    -------
    Curves
        Arrays of shape (n_trials, n_steps), with an axis for several schedules before them;
        ``.means(metric)`` and ``.standard_errors(metric)`` are over the trials.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
    >>> trace = fl.simulate(tasks, fl.schedules.increasing(), k=100, n_trials=50, seed=0)
    >>> means = trace.means("average_loss")
    >>> trace.average_loss.shape, bool(means[-1] < means[0])
    ((50, 30), True)
    """
    n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    # A walking teacher has no drift: the labels themselves move.
    default = [name for name in METRICS if name != "drift" or not tasks.walk]
    wanted = problem.resolved(default if metrics is None else metrics)
    # Numbers in the record of one metric at one step of one run.
    sizes = {"task": tasks.n_tasks, "feature": tasks.n_features, "target": tasks.n_targets}
    numbers = sum(math.prod(sizes.get(axis, 1) for axis in each.axes) for each in wanted)
    recorded = n_trials * len(problem.steps) * len(problem.filters)
    what = f"a record of {n_trials:,} runs at {len(problem.steps):,} steps"
    check_memory(recorded * numbers, what, "record fewer steps or metrics")
    values = followed(problem, wanted, n_trials, seed)
    return Curves.of(values, problem.steps, problem.labels, n_trials)


# Threads of a product spin for a while and would slow down the steps after it.
@one_blas_thread()
def followed(
    problem: Problem,
    metrics: list[Metric],
    n_trials: int,
    seed: Any,
) -> dict[str, Floats]:
    """Return the metrics (B, n_trials, n_steps, …) of runs with B schedules, on the same orders."""
    curves: dict[str, Floats] = {}
    shape = (len(problem.filters), n_trials, len(problem.steps))
    seed = shared_seed(seed)
    for b, filter_ in enumerate(problem.filters):
        trials = Trials(problem, n_trials, metrics, seed)
        for i, _ in enumerate(trials.run(filter_, seed)):
            for each in metrics:
                values = np.asarray(each.evaluate(trials))
                if each.name not in curves:
                    curves[each.name] = np.empty((*shape, *values.shape[1:]))
                curves[each.name][b, :, i] = values
    return curves


class Trials(Outputs):
    """The weights of n runs, with statistics of the visits of every task; a snapshot for metrics.

    Every target is a run of its own: arrays of the kernel have n·c rows. The weights are relative
    to the walk of the teacher, so that errors are those of the present labels.

    Noise and walk come from generators of their own, one for every ``TRIALS`` trials, so that a
    trial has the same numbers whatever their number is.

    Attributes
    ----------
    w, average : arrays of shape (n·c, d), or (n·c, Σr) with ``gram``
        Weights, and their running average where one is measured; with ``gram`` their products
        V w with all singular vectors; a step changes them by rows of V Vᵀ.
    walked : array of shape (n·c, d)
        The walk of the teacher so far.
    statistics : tuple of arrays, or None
        Visits (n·c, M), mean outputs (n·c, Σr) and spreads (n·c, M).
    """

    def __init__(
        self,
        problem: Problem,
        n_trials: int,
        metrics: list[Metric],
        seed: Any,
    ) -> None:
        tasks = problem.tasks
        self.problem = problem
        self.tasks = tasks
        self.n_steps = 0
        self.n_trials = n_trials
        rows = n_trials * tasks.n_targets
        # Of few singular vectors in many features the outputs V w are followed: a step costs less
        # than half, and V Vᵀ is worth its cost. The weights themselves are then not known.
        n = len(tasks.singular_values)
        losses_only = not tasks.walk and not any(each.affine for each in metrics)
        # no mutant: both ways compute the same outputs
        worth = n <= tasks.n_features // 2 and n * tasks.n_tasks <= _GRAM * rows * problem.k
        V = tasks.singular_vectors
        self.gram = V @ V.T if losses_only and worth else None
        width = tasks.n_features if self.gram is None else n
        self.w = np.zeros((rows, width))
        # no mutant: only the time differs
        self.axes = tuple(range(width)) if width <= _FEW_FEATURES else None
        self.average = self.w.copy() if len(problem.gains) else None
        # Visits of each task, mean outputs right after them, and their spreads. The next loss of
        # epochs reads the visits, too.
        self.statistics: tuple[Floats, Floats, Floats] | None = None
        if any(each.path or each.name == "next_loss" for each in metrics):
            counts = np.zeros((rows, tasks.n_tasks))
            means = np.zeros((rows, n))
            spreads = np.zeros_like(counts)
            self.statistics = (counts, means, spreads)
            self.visits = self._by_trial(counts)[:, 0]
            self.means = self._by_trial(means)
            self._spreads = self._by_trial(spreads)
        self.offsets = tasks.offsets.astype(np.uint64)
        # Tasks of smaller rank ignore the rest of their noise.
        self.rank = np.max(tasks.ranks)
        self.walked = np.zeros((rows, tasks.n_features))
        disturbed = tasks.noise or tasks.walk
        self.generators = generators(seed, n_trials, _STREAM) if disturbed else []

    def run(self, filter_: Filter, seed: Any) -> Iterator[None]:
        """Make the steps up to the last recorded one; yield at every recorded step."""
        tasks = self.tasks
        recorded = set(self.problem.steps.tolist())
        k = max(recorded)
        # no mutant: only the time differs
        at_once = _FACTORS // max(1, len(tasks.singular_values))
        if self.generators:
            at_once = min(at_once, _NORMALS // (len(self.w) * (self.rank + tasks.n_features)))
        if 0 in recorded:
            yield
        # Orders are those of k steps, whatever is recorded.
        blocks = draws(
            self.problem.ordering,
            tasks.n_tasks,
            self.problem.k,
            self.n_trials,
            seed,
        )
        for first, block in zip(track(range(0, k, BLOCK), "steps"), blocks, strict=False):
            end = min(first + block.shape[1], k)
            # Steps end where a record is due, where a block of draws ends, or the cache is full.
            for low, high in pairwise(self.problem.stretches(first, end, at_once)):
                phi = checked_factors(filter_[low:high], tasks.singular_values)
                self._advance(block[:, low - first : high - first], phi)
                if high in recorded:
                    yield

    def _advance(self, indices: Indices, phi: Floats) -> None:
        """Make the steps of ``indices`` (n, T) with the factors φ (T or 1, Σr)."""
        # Cached values are those of weights before these steps.
        self.__dict__.pop("losses", None)
        self.__dict__.pop("outputs", None)
        tasks = self.tasks
        n_steps = indices.shape[1]
        # All targets of a trial see the same tasks.
        order = np.repeat(indices, tasks.n_targets, axis=0)
        gains = self.problem.gains[self.n_steps : self.n_steps + n_steps]
        average = None if self.average is None else (self.average, gains)
        noise, walk = self._disturbances(n_steps)

        arrays = (
            self.w,
            order,
            phi,
            tasks.singular_vectors if self.gram is None else self.gram,
            tasks.targets,
            self.offsets,
            tasks.singular_values,
            average,
            self.statistics,
            noise,
            walk,
            None if self.gram is None else True,
            self.axes,
        )
        _kernels.in_threads(
            lambda low, high: _kernels.run_trials(low, high, *arrays),
            len(self.w),
            self.w.size * n_steps,
        )
        self.n_steps += n_steps

    def _disturbances(self, n_steps: int) -> tuple[Floats | None, Floats | None]:
        """Return noise (n·c, T, r) of labels and steps (n·c, T, d) of the teacher; None for
        none.
        """
        tasks = self.tasks
        n_rows, n_features = self.walked.shape
        noise = np.zeros((n_rows, n_steps, self.rank)) if tasks.noise else None
        walk = np.zeros((n_rows, n_steps, n_features)) if tasks.walk else None
        # E‖δ‖² = walk² over all features and targets.
        size = tasks.walk / np.sqrt(n_features * tasks.n_targets)
        for t in range(n_steps if self.generators else 0):
            # The teacher stays before the first task.
            if walk is not None and self.n_steps + t:
                walk[:, t] = size * self._normals(n_features)
                self.walked += walk[:, t]
            if noise is not None:
                noise[:, t] = tasks.noise * self._normals(self.rank)
        return noise, walk

    def _normals(self, width: int) -> Floats:
        """Return independent normals (n·c, width)."""
        shape = (TRIALS, self.tasks.n_targets, width)
        parts = [each.standard_normal(shape) for each in self.generators]
        return np.concatenate(parts)[: self.n_trials].reshape(len(self.w), width)

    def _by_trial(self, rows: Floats) -> Floats:
        """Return arrays (n, c, …) from arrays with a row for every run and target."""
        return rows.reshape(self.n_trials, self.tasks.n_targets, -1)

    @property
    def rows(self) -> Floats:  # type: ignore[override]
        """What is measured, less the walk of the teacher, of shape (n, c, d)."""
        return self._by_trial(self.w if self.average is None else self.average)

    @property
    def weights(self) -> Floats:
        """The weights of shape (n, d, c)."""
        return np.swapaxes(self.rows + self._by_trial(self.walked), 1, 2)

    def _times(self, A: Any) -> Array:
        # Products with all singular vectors are followed themselves.
        return super()._times(A) if self.gram is None else self.rows

    @property
    def spreads(self) -> Array:  # type: ignore[override]
        """Sums of squared distances from these means, of shape (n, M)."""
        return self._spreads.sum(axis=1)

    @property
    def next_loss(self) -> Array:
        """The mean over the next task, given the tasks of each run so far, of shape (n,)."""
        # In epochs the tasks that are left follow from the visits.
        law = self.problem.ordering.following(self.tasks.n_tasks, self.n_steps, self.visits)
        return np.sum(law * self.losses, axis=1)

"""Simulation of many random runs of a continual learner at once, and the recorder of their
metrics.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forgetless import _progress as progress
from forgetless._core import validate
from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import compiled, worth_loading
from forgetless._core.threads import one_blas_thread
from forgetless.engines._trials import (
    ArrayRun,
    Coordinates,
    Run,
    Snapshot,
    gram_coordinates,
    part_of,
    span_coordinates,
)
from forgetless.engines.disturbance import NoisyRun
from forgetless.engines.fresh import FreshProblem, check_unused, fresh_trials
from forgetless.engines.inputs import OrderingLike, Schedules
from forgetless.engines.problem import Problem, checked_factors, factor_rows
from forgetless.engines.results import Trace, stacked, together
from forgetless.engines.upcoming import law_of_next, probabilities
from forgetless.ensembles import Ensemble
from forgetless.filters import Filter
from forgetless.metrics import (
    ALL_METRICS,
    METRICS,
    OTHER_LOSS,
    WEIGHT_METRICS,
    Visits,
    average_loss,
    evaluate,
    follows_path,
    shape_of,
)
from forgetless.orderings import BLOCK, Law, draws
from forgetless.tasks import TaskCollection

# filter factors evaluated at once: they stay in the cache until the steps that use them
_FACTORS = 2**17


def simulate(  # noqa: PLR0913
    tasks: TaskCollection | Ensemble,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    n_trials: int = 1,
    seed: Any = None,
    record: Any = "log",
    start: Any = None,
    average: float | None = None,
    metrics: Any = None,
    evaluate: TaskCollection | None = None,
    noise: float = 0.0,
    walk: float = 0.0,
    keep_weights: bool = True,
) -> Trace:
    """Return recorded losses of ``n_trials`` independent runs of k steps.

    Each step t draws a task by ``ordering`` and applies w ← w − φ_t(XᵀX)(w − X⁺y) with the filter
    φ_t of ``schedule``.

    Parameters
    ----------
    tasks : TaskCollection or Ensemble
        For an ensemble (``fl.ensembles``) every trial has fresh random tasks.
    schedule : schedule, filter, name or number; or a list or a dict of these
        A callable (k, radius) → filter, a filter for all steps, a name such as "increasing:0.5", or
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
        Steps at which metrics and weights are recorded. Memory grows with these, not with k.
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    average : float, optional
        Record the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one, from which the iteration
        continues.
    metrics : names, default the first four
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``, ``next_loss`` (the mean
        over the next task, given the tasks of the run), ``distance`` (‖w − w⋆‖², w⋆ being
        ``tasks.teacher(start)``), and per task ``task_losses``, ``task_forgetting``,
        ``task_drift``. ``average_loss``, ``distance`` and ``task_losses`` alone are faster: they do
        not depend on the path.
    evaluate : TaskCollection, optional
        As in ``expect``: other tasks for the ``average_loss``.
    noise, walk : float, default 0
        As in ``expect``, for every ordering: the standard deviation of label noise that is drawn
        anew at every visit, and the root mean square step of a teacher that walks before every task
        but the first.
    keep_weights : bool, default True
        Whether the trace contains the weights at the recorded steps.

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
        check_unused(ordering=(ordering, None), start=(start, None), average=(average, None))
        check_unused(evaluate=(evaluate, None), noise=(noise, 0.0), walk=(walk, 0.0))
        fresh = FreshProblem.of(tasks, schedule, k, record, metrics)
        return fresh_trials(fresh, n_trials, _shared(seed), keep_weights)
    problem = Problem.of(tasks, schedule, k, ordering, record, average).varied(
        evaluate, noise, walk
    )
    if metrics is None:
        undefined = () if problem.disturbance is None else problem.disturbance.undefined
        metrics = tuple(name for name in METRICS if name not in undefined)
    names = problem.names(metrics, ALL_METRICS)
    sampling = Sampling(names, tasks.start(start), n_trials, _shared(seed), keep_weights)
    traces = [simulated(problem, b, sampling) for b in range(len(problem.filters))]
    trace = together(traces, problem.labels) if problem.grid else traces[0]
    return replace(trace, values=problem.public(trace.values))


def _shared(seed: Any) -> Any:
    """Return a seed that gives every schedule the same orders."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return np.random.SeedSequence() if seed is None else seed


@dataclass(frozen=True)
class Sampling:
    """The validated arguments of ``simulate`` that the exact engines do not have."""

    names: tuple[str, ...]
    origin: Array
    n_trials: int = 1
    seed: Any = None
    keep_weights: bool = True


# threads of a product spin for a while and would slow down the steps after it
@one_blas_thread()
def simulated(problem: Problem, b: int, sampling: Sampling) -> Trace:
    """Return the runs of schedule number ``b`` of a problem."""
    tasks, steps, n_trials = problem.tasks, problem.steps, sampling.n_trials
    following = law_of_next(problem) if "next_loss" in sampling.names else None
    track = follows_path(sampling.names) or following is not None
    run = _start(problem, sampling, track)
    recorder = Recorder(run, sampling, problem, following)
    if steps[0] == 0:
        recorder.add([run.snapshot(recorder.keeps_weights)])
    at_once = max(1, _FACTORS // max(1, int(tasks.offsets[-1])))
    done = 0
    blocks = draws(problem.ordering, tasks.n_tasks, problem.k, n_trials, sampling.seed)
    for indices in progress.track(blocks, "steps", total=-(-problem.k // BLOCK)):
        size = indices.shape[1]
        for first in range(0, size, at_once):
            last = min(size, first + at_once)
            part = problem.filters[b][done + first : done + last]
            factors, residuals = _evaluate(part, tasks.singular_values, track)
            marks = (steps[(steps > done + first) & (steps <= done + last)] - done - first).tolist()
            low = 0
            while low < last - first:
                few = marks[: recorder.room]
                marks = marks[len(few) :]
                high = few[-1] if marks else last - first  # as far as there is room for snapshots
                now, ends = indices[:, first + low : first + high], (low, high)
                few = [mark - low for mark in few]
                recorder.add(
                    run.advance(
                        now,
                        part_of(factors, *ends),
                        part_of(residuals, *ends),
                        few,
                        recorder.keeps_weights,
                    )
                )
                low = high
        done += size
        if done < problem.k:
            recorder.flush()
            run.rebase()
    return recorder.trace()


def _evaluate(part: Filter, singular_values: Floats, track: bool) -> tuple[Floats, Floats]:
    """Return φ and 1 − φ of shape (T or 1, Σr); the second only where the path is tracked."""
    factors = checked_factors(part, singular_values)
    if not track:
        return factors, np.zeros((1, 1))
    eigenvalues = singular_values**2
    residuals = part.broadcast(eigenvalues).remaining(eigenvalues)
    return factors, factor_rows(part, residuals)


def _start(problem: Problem, sampling: Sampling, track: bool) -> Run:
    tasks, n_trials = problem.tasks, sampling.n_trials
    gains = None if problem.average is None else problem.gains
    if problem.disturbance is not None:
        source = (problem.disturbance, sampling.seed)
        # an average that is the last iterate
        gains = np.ones(problem.k) if gains is None else gains
        return NoisyRun(span_coordinates(tasks, sampling.origin), n_trials, track, gains, source)
    coordinates = _coordinates(tasks, sampling.origin, problem.k * n_trials)
    pays = worth_loading("engines._trials_numba", _seconds(coordinates, problem.k, n_trials))
    module = compiled("engines._trials_numba") if pays else None
    return (module.CompiledRun if module else ArrayRun)(coordinates, n_trials, track, gains)


def _coordinates(tasks: TaskCollection, origin: Array, n_steps: int) -> Coordinates:
    """Return the coordinates with the cheapest steps: gram where Σr is small, else the span,
    reduced if worth it.
    """
    total, d = int(tasks.offsets[-1]), tasks.n_features
    width = total / tasks.n_tasks
    reduction, stepping = 4.0 * d * min(d, total) * total, 2.0 * n_steps * width * min(d, total)
    if reduction < stepping:
        # A step costs 2rq in the span and rΣr in gram coordinates, whose matrix costs Σr²d.
        gram = total < 2 * tasks.span_dimension and total < d
        return gram_coordinates(tasks, origin) if gram else span_coordinates(tasks, origin)
    # The Gram matrix is one large symmetric product, some 16 times faster per multiplication than
    # the steps.
    if total <= d and total * total * d / 16 < n_steps * width * (2.0 * d - total):
        return gram_coordinates(tasks, origin)
    return span_coordinates(tasks, origin, reduced=False)


def _seconds(coordinates: Coordinates, k: int, n_trials: int) -> float:
    """Return the estimated time of the array backend: calls per step, then products at a few
    GFLOP/s.
    """
    total, Q = coordinates.maps.shape
    width = total / coordinates.tasks.n_tasks
    seconds: float = k * (3e-5 + n_trials * coordinates.tasks.n_targets * (1e-7 + 1e-9 * width * Q))
    return seconds


# Numbers in one batch of snapshots: in most runs all of them, in one product at the end. A threaded
# product between the steps would slow these down, because its threads spin for a while after it.
_TOGETHER = 2**22
_WEIGHTS = 2**18  # temporary weights in memory at once


class Recorder:
    """A buffer of snapshots at the recorded steps: a product for many of them costs little more
    than for one.
    """

    def __init__(
        self, run: Run, sampling: Sampling, problem: Problem, following: Law | None = None
    ) -> None:
        names, n_trials, steps = sampling.names, sampling.n_trials, problem.steps
        self.coordinates, self.names, self.steps, self.n_trials = (
            run.coordinates,
            names,
            steps,
            n_trials,
        )
        self.sums = run.task_sums
        self.track, self.following = follows_path(names) or following is not None, following
        self.done = 0
        self.pending: list[Snapshot] = []
        tasks = run.coordinates.tasks
        per_step = n_trials * (2 * tasks.n_targets * max(1, int(tasks.offsets[-1])) + tasks.n_tasks)
        self.batch = max(1, _TOGETHER // per_step)
        self.values: dict[str, Floats] = {
            name: np.empty((n_trials, len(steps), *shape_of(name, tasks))) for name in names
        }
        shape = (n_trials, len(steps), tasks.n_features, tasks.n_targets)
        self.weights = np.zeros(shape) if sampling.keep_weights else None
        self.teacher = (
            np.reshape(tasks.teacher(sampling.origin), shape[2:]) if "distance" in names else None
        )
        self.other = problem.other if OTHER_LOSS in names else None

    @property
    def keeps_weights(self) -> bool:
        """Whether snapshots must contain the updates from which weights are computed."""
        return self.weights is not None or any(name in WEIGHT_METRICS for name in self.names)

    @property
    def room(self) -> int:
        """Number of snapshots that may be taken before the next ``add``."""
        return self.batch - len(self.pending)

    def add(self, snapshots: list[Snapshot]) -> None:
        """Add snapshots of the next recorded steps."""
        self.pending += snapshots
        if len(self.pending) >= self.batch:
            self.flush()

    def flush(self) -> None:
        """Convert the buffered snapshots to metrics and weights, which depends on the base of the
        updates.
        """
        if not self.pending:
            return
        parts = self.pending
        rows = slice(self.done, self.done + len(parts))
        # Snapshots first, trials second: stacked like that, each is copied as a whole.
        state = np.stack([part.state for part in parts], axis=0)
        outputs = self.coordinates.errors(state) * self.coordinates.tasks.singular_values
        visits = self._visits(parts)
        sums = self.sums(outputs, visits.means, self.names)
        for name in self.names:
            if name in WEIGHT_METRICS:
                continue
            values = evaluate(name, sums, visits, self.coordinates.tasks)
            self.values[name][:, rows] = np.swapaxes(values, 0, 1)
        if self.keeps_weights:
            self._measure_weights(state)
        self.done += len(parts)
        self.pending = []

    def _measure_weights(self, state: Array) -> None:
        """Compute the weights of the buffered snapshots in blocks, for their metrics and for the
        trace.
        """
        parts, tasks = self.pending, self.coordinates.tasks
        at_once = max(1, _WEIGHTS // max(1, self.n_trials * tasks.n_features * tasks.n_targets))
        for first in range(0, len(parts), at_once):
            few = parts[first : first + at_once]
            updates = stacked([part.updates for part in few])
            walks = stacked([part.walk for part in few])
            base = few[0].base if walks is None else stacked([part.base for part in few])
            block = self.coordinates.weights(state[first : first + len(few), ...], updates, base)
            rows = slice(self.done + first, self.done + first + len(few))
            if self.teacher is not None:
                squares = np.sum((block - self.teacher) ** 2, axis=(2, 3))
                self.values["distance"][:, rows] = squares.T
            if self.other is not None:
                shaped = block if tasks.target_shape else block[..., 0]
                self.values[OTHER_LOSS][:, rows] = average_loss(self.other, shaped).T
            if self.weights is not None:
                block = block if walks is None else block + walks
                self.weights[:, rows, :, :] = np.swapaxes(block, 0, 1)

    def _visits(self, parts: list[Snapshot]) -> Visits:
        if not self.track:
            empty = np.zeros((len(parts), self.n_trials, 0))
            return Visits(np.zeros((len(parts), self.n_trials), np.int64), empty, empty, empty)
        steps = np.broadcast_to(
            self.steps[self.done : self.done + len(parts), None], (len(parts), self.n_trials)
        )
        visits = [part.visits for part in parts if part.visits is not None]
        counts, means, spread = (np.stack([each[i] for each in visits], axis=0) for i in range(3))
        upcoming = None if self.following is None else probabilities(self.following, counts, steps)
        return Visits(steps, counts, means, spread, upcoming)

    def trace(self) -> Trace:
        """Return the trace of all recorded steps."""
        self.flush()
        tasks = self.coordinates.tasks
        weights = self.weights
        if weights is not None and not tasks.target_shape:
            weights = weights[..., 0]
        return Trace(self.steps, self.values, weights)

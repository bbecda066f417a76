"""Simulation: many random runs of a continual learner at once, recorded at chosen steps."""

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from array_api_compat import is_numpy_namespace
from numpy.typing import NDArray

from forgetless._base import checks
from forgetless._base.arrays import Array, Floats, from_numpy, zeros
from forgetless._base.compiled import compiled
from forgetless.engines._trials import ArrayRun, Run
from forgetless.engines.coordinates import Coordinates, gram_coordinates, span_coordinates
from forgetless.engines.problem import Progress, _rows, check_contraction, check_tasks, checked_shares, recorded_steps
from forgetless.engines.results import Trace
from forgetless.filters import Filter
from forgetless.metrics import METRICS, Visits, check_metrics, evaluate, follows_path
from forgetless.orderings import Ordering, WithReplacement, draws
from forgetless.schedules import Schedule, resolve
from forgetless.tasks import TaskCollection

_WEIGHTS_LIMIT = 2 * 2**30


_SNAPSHOTS = 2**22


def simulate(
    tasks: TaskCollection,
    schedule: Schedule | Filter,
    k: int,
    *,
    ordering: Ordering | None = None,
    n_trials: int = 1,
    seed: Any = None,
    record: Any = "log",
    start: Any = None,
    metrics: Any = METRICS,
    keep_weights: bool = True,
    backend: Literal["auto", "array", "numba"] = "auto",
    progress: Progress | None = None,
) -> Trace:
    """Return recorded losses of ``n_trials`` independent runs of k steps.

    Each step t draws a task by ``ordering`` and applies w ← w − φ_t(XᵀX)(w − X⁺y) with the filter φ_t of ``schedule``.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule or filter
        A callable (k, radius) → filter, or a filter for all steps.
    k : int
        Number of steps.
    ordering : Ordering, default ``WithReplacement()``
    n_trials : int, default 1
        Independent runs. Trial i gives the same numbers whatever ``n_trials`` is.
    seed : int, SeedSequence, Generator or None
        Source of randomness; the same integer gives the same numbers. A Generator is advanced by one draw.
    record : "log", "last", "all" or steps in 0..k, default "log"
        Where metrics and weights are kept. Memory grows with these, not with k.
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    metrics : names, default all four
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``, and per task ``task_losses``,
        ``task_forgetting``, ``task_drift``. With only ``average_loss`` or ``task_losses`` the path need not be
        followed, which is faster.
    keep_weights : bool, default True
        Whether the trace holds the weights at the recorded steps.
    backend : "auto", "array" or "numba"
        "auto" takes numba for NumPy tasks where it is installed and the work is worth its start-up time.
    progress : callable, optional
        Called as ``progress(steps_done, k)`` now and then.

    Returns
    -------
    Trace

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
    >>> trace = fl.simulate(tasks, fl.schedules.increasing(), k=100, n_trials=50, seed=0)
    >>> trace
    Trace(n_trials=50, steps=30 in 1..100, metrics=average_loss, seen_loss, forgetting, drift)
    >>> bool(trace.average_loss[:, -1].mean() < trace.average_loss[:, 0].mean())
    True
    """
    check_tasks(tasks)
    k = checks.integer("k", k, 1, "ask for at least one step")
    n_trials = checks.integer("n_trials", n_trials, 1, "ask for at least one run")
    ordering = WithReplacement() if ordering is None else ordering
    if not isinstance(ordering, Ordering):
        raise TypeError(f"ordering must be an Ordering such as fl.Cyclic(), got {ordering!r}")
    ordering.check(tasks.n_tasks, k)
    names = check_metrics(metrics)
    steps = recorded_steps(record, k)
    filter_ = resolve(schedule, k, tasks.radius)
    check_contraction(filter_, tasks)
    origin = tasks.start(start)
    if keep_weights:
        _check_size(n_trials, len(steps), tasks)
    track = follows_path(names)
    run = _start(tasks, origin, k, n_trials, track, backend)
    recorder = _Recorder(tasks, names, steps, n_trials, keep_weights)
    done = 0
    if steps[0] == 0:
        recorder.take(run, 0)
    for indices in draws(ordering, tasks.n_tasks, k, n_trials, seed):
        size = indices.shape[1]
        inside = steps[(steps > done) & (steps < done + size)] - done
        for low, high in _pairs([0, *inside.tolist(), size]):
            part = filter_.at(slice(done + low, done + high))
            run.advance(indices[:, low:high], *_evaluate(part, tasks.singular_values, track))
            if recorder.wants(done + high):
                recorder.take(run, done + high)
        done += size
        if done < k:
            run.rebase()
        if progress is not None:
            progress(done, k)
    return recorder.trace()


def _pairs(points: list[int]) -> Iterator[tuple[int, int]]:
    return ((a, b) for a, b in itertools.pairwise(points) if b > a)


def _evaluate(part: Filter, singular_values: Floats, track: bool) -> tuple[Floats, Floats]:
    """Return φ and 1 − φ of shape (T or 1, Σr); the second only where the path is tracked."""
    shares = checked_shares(part, singular_values)
    if not track:
        return shares, np.zeros((1, 1))
    return shares, _rows(part, part.kept(singular_values), len(singular_values))


def _check_size(n_trials: int, n_steps: int, tasks: TaskCollection) -> None:
    size = 8 * n_trials * n_steps * tasks.n_features * tasks.n_targets
    if size > _WEIGHTS_LIMIT:
        raise ValueError(
            f"keep_weights=True would hold {size:,} bytes of weights (n_trials={n_trials} × {n_steps} recorded steps × "
            f"{tasks.n_features * tasks.n_targets} weights); pass keep_weights=False, or record fewer steps"
        )


def _start(tasks: TaskCollection, origin: Array, k: int, n_trials: int, track: bool, backend: str) -> Run:
    coordinates = _coordinates(tasks, origin, k * n_trials)
    if backend not in ("auto", "array", "numba"):
        raise ValueError(f'backend must be "auto", "array" or "numba", got {backend!r}')
    if backend == "numba" and not is_numpy_namespace(tasks.xp):
        raise ValueError('backend="numba" needs NumPy tasks; use backend="array" or convert the tasks')
    if backend == "auto":
        pays = is_numpy_namespace(tasks.xp) and _numba_pays(coordinates, k, n_trials)
        module = compiled("engines._trials_numba") if pays else None
        return (module.CompiledRun if module else ArrayRun)(coordinates, n_trials, track)
    if backend == "array":
        return ArrayRun(coordinates, n_trials, track)
    try:
        from forgetless.engines._trials_numba import CompiledRun
    except ImportError as error:
        problem = f"numba cannot be imported ({error})"
        cure = "install it with pip install 'forgetless[fast]', or use backend=\"array\""
        raise ImportError(f"{problem}; {cure}") from error
    return CompiledRun(coordinates, n_trials, track)


def _coordinates(tasks: TaskCollection, origin: Array, n_steps: int) -> Coordinates:
    """Choose gram coordinates where Σr is small, else the span, reduced where finding it may pay."""
    total, d = int(tasks.offsets[-1]), tasks.n_features
    width = total / tasks.n_tasks
    finding, stepping = 4.0 * d * min(d, total) * total, 2.0 * n_steps * width * min(d, total)
    if finding < stepping:
        # A step costs 2rq in the span and rΣr in gram coordinates, whose matrix costs Σr²d.
        return (
            gram_coordinates(tasks, origin)
            if total < 2 * tasks.span_dimension and total < d
            else span_coordinates(tasks, origin)
        )
    # That matrix is a large symmetric product, which runs some 16 times faster per multiplication than the steps.
    if total <= d and total * total * d / 16 < n_steps * width * (2.0 * d - total):
        return gram_coordinates(tasks, origin)
    return span_coordinates(tasks, origin, reduced=False)


def _numba_pays(coordinates: Coordinates, k: int, n_trials: int) -> bool:
    total, Q = coordinates.maps.shape
    width = total / coordinates.tasks.n_tasks
    # Seconds the array path takes, roughly: calls per step, then products at a few GFLOP/s.
    seconds: float = k * (3e-5 + n_trials * coordinates.tasks.n_targets * (1e-7 + 1e-9 * width * Q))
    return seconds > 1.0


class _Recorder:
    """Collects snapshots at the recorded steps and turns them into metrics, many at a time."""

    def __init__(
        self, tasks: TaskCollection, names: tuple[str, ...], steps: NDArray[np.int64], n_trials: int, weights: bool
    ) -> None:
        self.tasks, self.names, self.steps, self.n_trials = tasks, names, steps, n_trials
        self.track = follows_path(names)
        self.position = 0
        self.pending: list[tuple[Floats, Visits]] = []
        per_step = n_trials * (2 * tasks.n_targets * max(1, int(tasks.offsets[-1])) + tasks.n_tasks)
        self.batch = max(1, _SNAPSHOTS // per_step)
        self.values: dict[str, list[Floats]] = {name: [] for name in names}
        shape = (n_trials, len(steps), tasks.n_features, tasks.n_targets)
        self.weights = zeros(shape, tasks[0].X) if weights else None

    def wants(self, step: int) -> bool:
        return self.position < len(self.steps) and int(self.steps[self.position]) == step

    def take(self, run: Run, step: int) -> None:
        empty = np.zeros((self.n_trials, 0))
        visits = run.visits(step) if self.track else Visits(np.full(self.n_trials, step), empty, empty, empty)
        self.pending.append((run.outputs(), visits))
        if self.weights is not None:
            self.weights[:, self.position, :, :] = run.weights()
        self.position += 1
        if len(self.pending) == self.batch:
            self._flush()

    def _flush(self) -> None:
        outputs = np.stack([outputs for outputs, _ in self.pending], axis=1)
        parts = [visits for _, visits in self.pending]
        visits = Visits(*(np.stack([getattr(part, name) for part in parts], axis=1) for name in _FIELDS))
        for name in self.names:
            self.values[name].append(evaluate(name, outputs, visits, self.tasks))
        self.pending = []

    def trace(self) -> Trace:
        if self.pending:
            self._flush()
        like = self.tasks[0].X
        values = {name: from_numpy(np.concatenate(parts, axis=1), like=like) for name, parts in self.values.items()}
        weights = self.weights
        if weights is not None and not self.tasks.target_shape:
            weights = weights[..., 0]
        return Trace(self.steps, values, weights)


_FIELDS = ("n_steps", "counts", "means", "spread")

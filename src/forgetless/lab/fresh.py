"""Fresh random tasks: exact expectations by the ensemble equation, and simulations of it.

All trials and schedules of a batch of simulations advance together, on the same tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless._core.threads import one_blas_thread
from forgetless._progress import track
from forgetless._schedule import Labels, several
from forgetless.ensembles.invariant import Ensemble, Gaussian, StepMoments
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.lab.problem import recorded_steps
from forgetless.lab.results import Expectation, Trace
from forgetless.metrics import check_metrics
from forgetless.schedules import resolve

_DEFAULTS = ("average_loss", "next_loss", "distance")
_FRESH_METRICS = (*_DEFAULTS, "task_losses", "task_distances", "weights")
"""Metrics of ensembles: losses are means over fresh rows, not over the rows that were learned."""


def check_unused(**arguments: tuple[Any, Any]) -> None:
    """Raise TypeError for an argument (value, default) that ensembles do not have and that is not
    at its default.
    """
    for name, (value, default) in arguments.items():
        if value is not default and (default is None or value != default):
            raise TypeError(
                f"{name} is for task collections, and an ensemble has none; leave it out"
            )


@dataclass(frozen=True, eq=False)
class FreshProblem:
    """The validated arguments of ``expect`` and ``simulate`` for an ensemble."""

    ensemble: Ensemble
    filters: list[Filter]
    labels: Labels
    k: int
    steps: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, ensemble: Ensemble, schedule: Any, k: int, record: Any, metrics: Any
    ) -> "FreshProblem":
        """Return the problem of validated arguments; ``metrics`` may be None for the defaults."""
        k = validate.integer("k", k, 1, "ask for at least one step")
        schedules, labels = several(schedule, k)
        filters = [resolve(each, k, ensemble.radius) for each in schedules]
        names = check_metrics(_DEFAULTS if metrics is None else metrics, _FRESH_METRICS)
        return cls(ensemble, filters, labels, k, recorded_steps(record, k), names)

    def teachers_of_losses(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the teachers of tasks 1..k + 1: of every task learned, and of the
        next one.
        """
        order = self.ensemble.teachers.order(self.k + 1)
        return order[:-1], order[1:]


def expectation(problem: FreshProblem) -> Expectation:
    """Return the expected metrics over fresh tasks."""
    check_metrics(problem.names, _FRESH_METRICS[:-1])
    parts = [_one_schedule(problem, filter_) for filter_ in problem.filters]
    values = {name: np.stack([part[name] for part in parts]) for name in problem.names}
    if not problem.labels:
        values = {name: value[0] for name, value in values.items()}
    error = problem.ensemble.error + 8.0 * problem.k * float(np.finfo(float).eps)
    errors = dict.fromkeys(problem.names, min(1.0, error))
    return Expectation(problem.steps, values, errors, labels=problem.labels)


def second_moments(ensemble: Ensemble, moments: StepMoments, k: int, last: int) -> Floats:
    """Return E‖w_t − v_i‖² of shape (last + 1, P + 1) for t = 0..last, by the ensemble equation.

    Column i = 0 is the distance to the start; the teachers are those of k tasks.
    """
    D = ensemble.teachers.distances(k)
    order = ensemble.teachers.order(k)
    validate.check_memory(
        float(last + 1) * len(D), f"{last} steps and {len(D)} teachers", "use fewer steps"
    )
    noise = np.zeros_like(moments.noise)
    if ensemble.noise:
        noise = ensemble.noise**2 * moments.noise
    result = np.empty((last + 1, len(D)))
    result[0] = D[0]
    for t in range(last):
        s = min(t, len(moments.learned) - 1)
        teacher = order[t]
        a = moments.learned[s]
        error = result[t, teacher]
        if not (np.isfinite(noise[s]) and np.isfinite(error)):
            result[t + 1] = np.inf  # square tasks with noisy labels, solved exactly
            continue
        own = a * error - moments.squared[s] * error
        result[t + 1] = (1.0 - a) * result[t] + a * D[teacher] - own + noise[s]
        # the same without cancellation
        result[t + 1, teacher] = moments.remaining[s] * error + noise[s]
    return np.maximum(result, 0.0)


def _one_schedule(problem: FreshProblem, filter_: Filter) -> dict[str, Floats]:
    ensemble = problem.ensemble
    steps = problem.steps
    every = second_moments(ensemble, ensemble.moments(filter_), problem.k + 1, int(steps[-1]))
    distances = every[steps]  # (n_steps, P + 1)
    floor = ensemble.n_rows * ensemble.noise**2
    losses = 0.5 * (distances * ensemble.mean_square + floor)
    order, following = problem.teachers_of_losses()
    at = np.arange(len(steps))
    last = np.maximum(steps, 1) - 1
    values = {
        "average_loss": losses[:, order].mean(axis=1),
        "next_loss": losses[at, following[last]],
        "distance": distances[at, order[last]],
        "task_losses": losses[:, order],
        "task_distances": distances[:, order],
    }
    if 0 in steps:
        values["next_loss"][0] = losses[0, order[0]]
    return {name: values[name] for name in problem.names}


def trials_of_generator(ensemble: Ensemble) -> int:
    """Return the number of trials that share one generator, which always draws for all of them.

    It is part of the meaning of a seed: more for small tasks, whose numbers take less time than a
    new generator.
    """
    numbers = ensemble.n_rows * ensemble.n_features
    return 128 if numbers < 128 else 64 if numbers < 512 else 16


_NUMBERS = 2**20  # numbers of X in one batch: they stay in the cache between the products of a step


def fresh_trials(problem: FreshProblem, n_trials: int, seed: Any) -> Trace:
    """Return the recorded metrics of independent trials."""
    n_steps, d, B = len(problem.steps), problem.ensemble.n_features, len(problem.filters)
    values = {}
    for name in problem.names:
        per_task = (problem.k,) if name.startswith("task") else ()
        shape = (B, n_trials, n_steps, *((d,) if name == "weights" else per_task))
        what = f"{name} of {n_trials:,} trials at {n_steps:,} steps"
        validate.check_memory(float(np.prod(shape)), what, "record fewer steps")
        values[name] = np.empty(shape)
    done = 0
    with one_blas_thread():
        for groups in track(_batches(problem, n_trials), "batches of trials"):
            batch = _Batch(problem, [_generator(seed, group) for group in groups])
            some = slice(done, min(done + batch.n_trials, n_trials))
            for i, snapshot in batch.run():
                for name in problem.names:
                    values[name][:, some, i] = snapshot[name][:, : some.stop - some.start]
            done = some.stop
    if not problem.labels:
        values = {name: value[0] for name, value in values.items()}
    return Trace(problem.steps, values, labels=problem.labels)


def _batches(problem: FreshProblem, n_trials: int) -> list[range]:
    """Return the numbers of the generators of one batch after another."""
    trials = trials_of_generator(problem.ensemble)
    n_groups = -(-n_trials // trials)
    numbers = trials * problem.ensemble.n_rows * problem.ensemble.n_features
    at_once = max(1, int(_NUMBERS / numbers))
    return [range(i, min(i + at_once, n_groups)) for i in range(0, n_groups, at_once)]


def _generator(seed: Any, group: int) -> np.random.Generator:
    """Return the generator of a group of trials: trial i is the same whatever ``n_trials`` is."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    key = (*sequence.spawn_key, group)
    bits = np.random.SFC64(np.random.SeedSequence(sequence.entropy, spawn_key=key))
    return np.random.Generator(bits)


class _Batch:
    """Some trials, all schedules: weights of shape (B, N, d)."""

    def __init__(self, problem: FreshProblem, generators: list[np.random.Generator]) -> None:
        self.problem, self.ensemble, self.generators = problem, problem.ensemble, generators
        self.group = trials_of_generator(self.ensemble)
        self.n_trials = self.group * len(generators)
        d, k = self.ensemble.n_features, problem.k
        draws = [self.ensemble.teachers.sample(k + 1, d, self.group, rng) for rng in generators]
        self.points = np.concatenate(draws)  # (N, P + 1, d)
        self.order = self.ensemble.teachers.order(k + 1)
        self.weights = np.repeat(self.points[None, :, 0], len(problem.filters), axis=0)

    def run(self) -> Iterator[tuple[int, dict[str, Floats]]]:
        """Yield the position of every recorded step with its metrics (B, N, …)."""
        positions = {int(step): i for i, step in enumerate(self.problem.steps)}
        if 0 in positions:
            yield positions[0], self._metrics(0)
        for t in track(range(int(self.problem.steps[-1])), "steps"):
            X, y = self._task(t)
            for b, filter_ in enumerate(self.problem.filters):
                self.weights[b] = step(self.weights[b], X, y, filter_[t], self.ensemble)
            if t + 1 in positions:
                yield positions[t + 1], self._metrics(t + 1)

    def _task(self, t: int) -> tuple[Floats, Floats]:
        """Return X (N, n, d) and y (N, n) of the task of step t, counted from 0."""
        n, noise = self.ensemble.n_rows, self.ensemble.noise
        X = np.empty((self.n_trials, n, self.ensemble.n_features))
        for i, rng in enumerate(self.generators):
            self.ensemble.fill(X[self.group * i : self.group * (i + 1)], rng)
        y = _product(X, self.points[:, self.order[t]])
        if noise:
            y += noise * np.concatenate(
                [rng.standard_normal((self.group, n)) for rng in self.generators]
            )
        return X, y

    def _metrics(self, n_tasks: int) -> dict[str, Floats]:
        names, k, order = self.problem.names, self.problem.k, self.order
        values: dict[str, Floats] = {}
        if "weights" in names:
            values["weights"] = self.weights
        if "distance" in names:
            values["distance"] = np.sum(self._difference(order[max(n_tasks, 1) - 1]) ** 2, axis=-1)
        if "next_loss" in names:
            values["next_loss"] = self._loss(order[n_tasks])
        if "task_distances" in names:
            parts = {p: np.sum(self._difference(p) ** 2, axis=-1) for p in set(order[:k].tolist())}
            values["task_distances"] = np.stack([parts[p] for p in order[:k].tolist()], axis=-1)
        if {"average_loss", "task_losses"} & set(names):
            parts = {p: self._loss(p) for p in set(order[:k].tolist())}
            values["task_losses"] = np.stack([parts[p] for p in order[:k].tolist()], axis=-1)
            values["average_loss"] = values["task_losses"].mean(axis=-1)
        return values

    def _difference(self, point: int) -> Floats:
        return np.asarray(self.weights - self.points[:, point])

    def _loss(self, point: int) -> Floats:
        """Return the mean loss over fresh rows of a teacher."""
        floor = self.ensemble.n_rows * self.ensemble.noise**2
        distances = np.sum(self._difference(point) ** 2, axis=-1)
        return np.asarray(0.5 * (self.ensemble.mean_square * distances + floor))


def _product(X: Floats, w: Floats) -> Floats:
    return np.asarray((X @ w[:, :, None])[:, :, 0])


def step(w: Floats, X: Floats, y: Floats, filter_: Filter, ensemble: Ensemble) -> Floats:
    """Return the weights (N, d) after one step of every trial on its own task: w − φ(XᵀX)(w −
    X⁺y).
    """
    residual = y - _product(X, w)
    if isinstance(filter_, GradientDescent) and filter_.n_steps <= X.shape[1]:
        return _gradient_steps(w, X, y, filter_)
    tall = X.shape[1] > X.shape[2]
    transposed = np.swapaxes(X, 1, 2)
    gram = transposed @ X if tall else X @ transposed
    rhs = _product(transposed, residual) if tall else residual
    # Normal equations are accurate enough for runs that are sampled; those of Gaussian rows have
    # full rank.
    regular = float(filter_.strength()) > 0 or isinstance(ensemble, Gaussian)
    if isinstance(filter_, Ridge | Projection) and regular:
        gram[:, np.arange(gram.shape[1]), np.arange(gram.shape[1])] += filter_.strength()
        solution = np.asarray(np.linalg.solve(gram, rhs[:, :, None])[:, :, 0], dtype=np.float64)
    else:
        solution = _by_spectrum(gram, rhs, filter_)
    return np.asarray(w + (solution if tall else _product(transposed, solution)))


def _gradient_steps(w: Floats, X: Floats, y: Floats, filter_: GradientDescent) -> Floats:
    for _ in range(int(filter_.n_steps)):
        w = w - float(filter_.step_size) * _product(np.swapaxes(X, 1, 2), _product(X, w) - y)
    return w


def _by_spectrum(gram: Floats, rhs: Floats, filter_: Filter) -> Floats:
    """Return U (φ(ξ)/ξ) Uᵀ rhs for the eigenvalues ξ of Gram matrices, 0 where ξ is."""
    values, vectors = np.linalg.eigh(gram)
    largest = values[:, -1:]
    positive = values > largest * gram.shape[1] * np.finfo(float).eps
    eigenvalues = np.where(positive, values, largest)
    gains = np.where(positive, filter_.table(eigenvalues)[0] / eigenvalues, 0.0)
    return _product(vectors, gains * _product(np.swapaxes(vectors, 1, 2), rhs))

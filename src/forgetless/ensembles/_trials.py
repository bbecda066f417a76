"""Simulated trials on fresh tasks: all trials and schedules of a batch advance together, on the
same tasks.

A step of a trial is w ← w + Xᵀ g(XXᵀ)(y − Xw) = w + g(XᵀX) Xᵀ(y − Xw) with g(ξ) = φ(ξ)/ξ: the
equation of ``equation.py`` on the smaller of both Gram matrices, for many tasks at once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._progress import track
from forgetless._threads import one_blas_thread
from forgetless._validate import Floats
from forgetless.ensembles._law import Problem
from forgetless.filters import Filter, GradientDescent, Projection, Ridge

_NUMBERS = 2**20
"""Numbers of X in one batch: they stay in the cache between the products of a step."""


def trials_of_generator(size: int) -> int:
    """Return the number of trials that share one generator, for tasks of ``size`` = n·d numbers.

    The generator always draws for all of them, so that this number is part of the meaning of a
    seed. It is larger for small tasks, whose numbers take less time than a new generator.
    """
    if size < 512:
        return 128 if size < 128 else 64
    return 16


@one_blas_thread()
def simulated(problem: Problem, n_trials: int, seed: np.random.SeedSequence) -> dict[str, Floats]:
    """Return metrics of shape (B, n_trials, n_steps, …) of independent trials of B schedules."""
    law = problem.law
    size = law.n_rows * law.n_features
    widths = {"weights": law.n_features, "task_losses": problem.k, "task_distances": problem.k}
    width = sum(widths.get(name, 1) for name in problem.metrics)
    n_recorded = n_trials * len(problem.steps)
    what = f"metrics of {n_trials:,} trials at {len(problem.steps):,} steps"
    n_numbers = 2.0 * len(problem.filters) * n_recorded * width
    validate.check_memory(n_numbers, what, "record fewer steps")
    group = trials_of_generator(size)
    generators = [_generator(seed, i) for i in range(-(-n_trials // group))]
    at_once = max(1, int(_NUMBERS / (group * size)))
    batches = [
        list(_recorded(problem, generators[first : first + at_once], group))
        for first in track(range(0, len(generators), at_once), "batches of trials")
    ]
    values = {}
    for name in problem.metrics:
        parts = [np.stack([step[name] for step in batch], axis=2) for batch in batches]
        # Generators draw for whole groups of trials.
        values[name] = np.concatenate(parts, axis=1)[:, :n_trials]
    return values


def _generator(seed: np.random.SeedSequence, group: int) -> np.random.Generator:
    """Return the generator of a group of trials: trial i is the same whatever ``n_trials`` is."""
    child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, group))
    return np.random.Generator(np.random.SFC64(child))


def _recorded(
    problem: Problem, generators: list[np.random.Generator], group: int
) -> Iterator[dict[str, Floats]]:
    """Yield the metrics (B, N, …) of all schedules and N trials at every recorded step."""
    law = problem.law
    order = law.teachers.order(problem.k + 1)
    full_rank = law.spectrum.rank == min(law.n_rows, law.n_features)

    def normal(*shape: int) -> Floats:
        numbers = [rng.standard_normal((group, *shape)) for rng in generators]
        return np.concatenate(numbers)

    # The start and the teachers (N, P + 1, d); weights of shape (B, N, d)
    points = law.teachers.sample(problem.k + 1, law.n_features, normal)
    weights = np.repeat(points[None, :, 0], len(problem.filters), axis=0)

    def squares(numbers: Any) -> Floats:
        distinct, places = np.unique(numbers, return_inverse=True)
        found = [np.sum((weights - points[:, i]) ** 2, axis=-1) for i in distinct]
        return np.stack(found, axis=-1)[..., places]

    done = 0
    for step in problem.steps:
        for t in range(done, step):
            X = law.sample(normal)
            y = _product(X, points[:, order[t]])
            if law.noise:
                y += law.noise * normal(law.n_rows)
            for b, filter_ in enumerate(problem.filters):
                weights[b] = stepped(weights[b], X, y, filter_[t], full_rank=full_rank)
        done = step
        yield {
            name: weights.copy() if name == "weights" else problem.values(name, step, squares)
            for name in problem.metrics
        }


def stepped(w: Floats, X: Floats, y: Floats, filter_: Filter, *, full_rank: bool) -> Floats:
    """Return the weights (N, d) after one step of every trial on its own task."""
    transposed = np.swapaxes(X, 1, 2)
    # Few gradient steps and solved systems take a fourth of the time of eigenvalues.
    if isinstance(filter_, GradientDescent) and filter_.n_steps <= X.shape[1]:
        for _ in range(int(filter_.n_steps)):
            w = w - filter_.step_size * _product(transposed, _product(X, w) - y)
        return w
    gained = _by_eigenvalues
    if isinstance(filter_, Ridge | Projection) and (full_rank or filter_.strength() > 0):
        gained = _solved
    residual = y - _product(X, w)
    if X.shape[1] > X.shape[2]:
        return w + gained(transposed @ X, _product(transposed, residual), filter_)
    return w + _product(transposed, gained(X @ transposed, residual, filter_))


def _product(X: Floats, w: Floats) -> Floats:
    return np.asarray((X @ w[:, :, None])[:, :, 0])


def _solved(gram: Floats, right: Floats, filter_: Filter) -> Floats:
    """Return g(G) r for g(ξ) = 1/(ξ + λ)."""
    shifted = gram + filter_.strength() * np.eye(gram.shape[1])
    return np.asarray(np.linalg.solve(shifted, right[:, :, None])[:, :, 0])


def _by_eigenvalues(gram: Floats, right: Floats, filter_: Filter) -> Floats:
    """Return g(G) r for g(ξ) = φ(ξ)/ξ, with g(0) = 0."""
    values, vectors = np.linalg.eigh(gram)
    largest = values[:, -1:]
    positive = values > largest * gram.shape[1] * np.finfo(float).eps
    eigenvalues = np.where(positive, values, largest)
    gains = np.where(positive, filter_.table(eigenvalues)[0] / eigenvalues, 0.0)
    return _product(vectors, gains * _product(np.swapaxes(vectors, 1, 2), right))

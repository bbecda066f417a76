"""Simulated trials on fresh tasks: all trials and schedules of a batch advance together, on the
same tasks.
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
def simulated(problem: Problem, n_trials: int, seed: Any) -> dict[str, Floats]:
    """Return metrics of shape (B, n_trials, n_steps, …) of independent trials of B schedules."""
    law = problem.law
    size = law.n_rows * law.n_features
    widths = {"weights": law.n_features, "task_losses": problem.k, "task_distances": problem.k}
    width = sum(widths.get(name, 1) for name in problem.metrics)
    numbers = float(len(problem.filters)) * n_trials * len(problem.steps) * width
    what = f"metrics of {n_trials:,} trials at {len(problem.steps):,} steps"
    validate.check_memory(2.0 * numbers, what, "record fewer steps")
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


def _generator(seed: Any, group: int) -> np.random.Generator:
    """Return the generator of a group of trials: trial i is the same whatever ``n_trials`` is."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    key = (*sequence.spawn_key, group)
    bits = np.random.SFC64(np.random.SeedSequence(sequence.entropy, spawn_key=key))
    return np.random.Generator(bits)


def _recorded(
    problem: Problem, generators: list[np.random.Generator], group: int
) -> Iterator[dict[str, Floats]]:
    """Yield the metrics (B, N, …) of all schedules and N trials at every recorded step."""
    law = problem.law
    order = law.teachers.order(problem.k + 1)

    def normal(*shape: int) -> Floats:
        numbers = np.empty((len(generators), group, *shape))
        for rng, part in zip(generators, numbers, strict=True):
            rng.standard_normal(out=part)
        return numbers.reshape(len(generators) * group, *shape)

    # The start and the teachers (N, P + 1, d); weights of shape (B, N, d)
    points = law.teachers.sample(problem.k + 1, law.n_features, normal)
    weights = np.repeat(points[None, :, 0], len(problem.filters), axis=0)

    def squares(numbers: Any) -> Floats:
        distinct, places = np.unique(numbers, return_inverse=True)
        found = [np.sum((weights - points[:, i]) ** 2, axis=-1) for i in distinct]
        return np.stack(found, axis=-1)[..., places]

    done = 0
    for step in problem.steps.tolist():
        for t in range(done, step):
            X = law.sample(normal)
            y = _product(X, points[:, order[t]])
            if law.noise:
                y += law.noise * normal(law.n_rows)
            for b, filter_ in enumerate(problem.filters):
                weights[b] = stepped(weights[b], X, y, filter_[t], full_rank=law.full_rank)
        done = step
        yield {
            name: weights.copy() if name == "weights" else problem.measured(name, step, squares)
            for name in problem.metrics
        }


def _product(X: Floats, w: Floats) -> Floats:
    return np.asarray((X @ w[:, :, None])[:, :, 0])


def stepped(w: Floats, X: Floats, y: Floats, filter_: Filter, *, full_rank: bool) -> Floats:
    """Return the weights (N, d) after one step of every trial on its own task: w − φ(XᵀX)(w −
    X⁺y).
    """
    transposed = np.swapaxes(X, 1, 2)
    if isinstance(filter_, GradientDescent) and filter_.n_steps <= X.shape[1]:
        for _ in range(int(filter_.n_steps)):
            w = w - filter_.step_size * _product(transposed, _product(X, w) - y)
        return w
    # The change is Xᵀ g(XXᵀ) r = g(XᵀX) Xᵀ r with g(ξ) = φ(ξ)/ξ; the smaller of both matrices.
    tall = X.shape[1] > X.shape[2]
    gram = transposed @ X if tall else X @ transposed
    residual = y - _product(X, w)
    right = _product(transposed, residual) if tall else residual
    if isinstance(filter_, Ridge | Projection) and (full_rank or filter_.strength() > 0):
        # g(G) = (G + λ)⁻¹
        diagonal = np.arange(gram.shape[1])
        gram[:, diagonal, diagonal] += filter_.strength()
        change = np.asarray(np.linalg.solve(gram, right[:, :, None])[:, :, 0])
    else:
        change = _by_eigenvalues(gram, right, filter_)
    return w + (change if tall else _product(transposed, change))


def _by_eigenvalues(gram: Floats, right: Floats, filter_: Filter) -> Floats:
    """Return g(G) r for g(ξ) = φ(ξ)/ξ, with g(0) = 0."""
    values, vectors = np.linalg.eigh(gram)
    largest = values[:, -1:]
    positive = values > largest * gram.shape[1] * np.finfo(float).eps
    eigenvalues = np.where(positive, values, largest)
    gains = np.where(positive, filter_.table(eigenvalues)[0] / eigenvalues, 0.0)
    return _product(vectors, gains * _product(np.swapaxes(vectors, 1, 2), right))

"""Simulated trials on fresh tasks: all trials and schedules of a batch advance together, on the
same tasks.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless._core.threads import one_blas_thread
from forgetless._progress import track
from forgetless.ensembles._law import Problem
from forgetless.filters import Filter, Projection, Ridge

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
    size = problem.law.n_rows * problem.law.n_features
    group = trials_of_generator(size)
    n_groups = -(-n_trials // group)
    at_once = max(1, int(_NUMBERS / (group * size)))
    values: dict[str, Floats] = {}
    for first in track(range(0, n_groups, at_once), "batches of trials"):
        last = min(first + at_once, n_groups)
        some = slice(first * group, min(last * group, n_trials))
        snapshots = _recorded(problem, [_generator(seed, j) for j in range(first, last)])
        for i, snapshot in enumerate(snapshots):
            for name, found in snapshot.items():
                if name not in values:
                    shape = (len(found), n_trials, len(problem.steps), *found.shape[2:])
                    what = f"{name} of {n_trials:,} trials at {len(problem.steps):,} steps"
                    validate.check_memory(float(np.prod(shape)), what, "record fewer steps")
                    values[name] = np.empty(shape)
                values[name][:, some, i] = found[:, : some.stop - some.start]
    return values


def _generator(seed: Any, group: int) -> np.random.Generator:
    """Return the generator of a group of trials: trial i is the same whatever ``n_trials`` is."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    key = (*sequence.spawn_key, group)
    bits = np.random.SFC64(np.random.SeedSequence(sequence.entropy, spawn_key=key))
    return np.random.Generator(bits)


def _recorded(
    problem: Problem, generators: list[np.random.Generator]
) -> Iterator[dict[str, Floats]]:
    """Yield the metrics (B, N, …) of all schedules and N trials at every recorded step."""
    law = problem.law
    group = trials_of_generator(law.n_rows * law.n_features)
    order = law.teachers.order(problem.k + 1)

    def drawn(draw: Callable[[np.random.Generator], Floats]) -> Floats:
        return np.concatenate([draw(rng) for rng in generators])

    def teachers(rng: np.random.Generator) -> Floats:
        d = law.n_features
        return law.teachers.sample(
            problem.k + 1, lambda q: rng.standard_normal((group, q, d)) / np.sqrt(d)
        )

    # The start and the teachers (N, P + 1, d); weights of shape (B, N, d)
    points = drawn(teachers)
    weights = np.repeat(points[None, :, 0], len(problem.filters), axis=0)

    def squares(numbers: Any) -> Floats:
        distinct, places = np.unique(numbers, return_inverse=True)
        found = [np.sum((weights - points[:, i]) ** 2, axis=-1) for i in distinct]
        return np.stack(found, axis=-1)[..., places]

    done = 0
    for step in problem.steps.tolist():
        for t in range(done, step):
            X = drawn(lambda rng: law.sample(group, rng))
            y = _product(X, points[:, order[t]])
            if law.noise:
                y += law.noise * drawn(lambda rng: rng.standard_normal((group, law.n_rows)))
            for b, filter_ in enumerate(problem.filters):
                weights[b] = stepped(weights[b], X, y, filter_[t], full_rank=law.full_rank)
        done = step
        yield {
            name: weights if name == "weights" else problem.measured(name, step, squares)
            for name in problem.metrics
        }


def _product(X: Floats, w: Floats) -> Floats:
    return np.asarray((X @ w[:, :, None])[:, :, 0])


def stepped(w: Floats, X: Floats, y: Floats, filter_: Filter, *, full_rank: bool) -> Floats:
    """Return the weights (N, d) after one step of every trial on its own task: w − φ(XᵀX)(w −
    X⁺y).
    """
    # The change is Xᵀ g(XXᵀ) r = g(XᵀX) Xᵀ r with g(ξ) = φ(ξ)/ξ; the smaller of both matrices.
    tall = X.shape[1] > X.shape[2]
    transposed = np.swapaxes(X, 1, 2)
    gram = transposed @ X if tall else X @ transposed
    residual = y - _product(X, w)
    right = _product(transposed, residual) if tall else residual
    if isinstance(filter_, Ridge | Projection) and (full_rank or filter_.strength() > 0):
        # g(G) = (G + λ)⁻¹
        gram += filter_.strength() * np.eye(gram.shape[1])
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

"""Simulated trials on fresh tasks: all trials and schedules of a batch advance together, on the
same tasks.

A step of a trial is w ← w + Xᵀ g(XXᵀ)(y − Xw) = w + g(XᵀX) Xᵀ(y − Xw) with g(ξ) = φ(ξ)/ξ: the
equation of ``equation.py`` on the smaller of both Gram matrices, for many tasks at once. For a
ridge step g(ξ) = 1/(ξ + λ), and for a projection 1/ξ: one linear system a trial. Any other filter
needs the eigenvalues, which take four times as long.

The order of draws, which a seed stands for: start and teachers of all tasks; then for every step X
and the noise of its labels.
"""

from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._running import one_blas_thread, track
from forgetless._validate import Floats
from forgetless.ensembles._law import Problem
from forgetless.filters import Filter, Projection, Ridge


@one_blas_thread()
def simulated(problem: Problem, n_trials: int, seed: np.random.SeedSequence) -> dict[str, Floats]:
    """Return metrics of shape (B, n_trials, n_steps, …) of independent trials of B schedules.

    A group of trials shares one generator, which always draws for all of them, so that trial i is
    the same whatever their number is: the size of a group is part of the meaning of a seed. They
    advance together: for small tasks more of them, since a call of NumPy costs as much as a
    thousand numbers.
    """
    size = problem.law.n_rows * problem.law.n_features
    group = 16 if size >= 512 else 64 if size >= 128 else 128
    per_task = any(name.startswith("task") for name in problem.metrics)
    recorded = float(n_trials) * len(problem.filters) * len(problem.steps)
    numbers = recorded * (problem.k if per_task else 1)
    validate.check_memory(numbers, f"a record of {n_trials:,} trials", "record fewer steps")
    groups = []
    for i in track(range(-(-n_trials // group)), "trials"):
        child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i))
        rng = np.random.Generator(np.random.SFC64(child))
        groups.append(_recorded(problem, rng, group))
    return {
        name: np.concatenate([curves[name] for curves in groups], axis=1)[:, :n_trials]
        for name in problem.metrics
    }


def _recorded(problem: Problem, rng: np.random.Generator, group: int) -> dict[str, Floats]:
    """Return the metrics (B, N, n_steps, …) of all schedules and N trials at the recorded steps.

    The N trials of a group share the generator ``rng``; all schedules learn the same tasks.
    """
    law = problem.law
    order = law.teachers.order(problem.k + 1)

    def normal(*shape: int) -> Floats:
        return rng.standard_normal((group, *shape))

    # The start and the teachers (N, P + 1, d); weights are columns, of shape (B, N, d, 1)
    points = law.teachers.sample(problem.k + 1, law.n_features, normal)
    weights = np.repeat(points[None, :, 0, :, None], len(problem.filters), axis=0)

    def squares(numbers: Any) -> Floats:
        distinct, places = np.unique(numbers, return_inverse=True)
        found = [np.sum((weights[..., 0] - points[:, i]) ** 2, axis=-1) for i in distinct]
        return np.stack(found, axis=-1)[..., places]

    curves: dict[str, list[Floats]] = {name: [] for name in problem.metrics}
    done = 0
    for step in problem.steps:
        for t in range(done, step):
            X = law.sample(normal)
            y = X @ points[:, order[t], :, None]
            if law.noise:
                y += law.noise * normal(law.n_rows, 1)
            for b, filter_ in enumerate(problem.filters):
                weights[b] = _stepped(weights[b], X, y, filter_[t], law.spectrum.rank)
        done = step
        for name, curve in curves.items():
            measured = name != "weights"
            now = (
                law.evaluate(name, problem.k, step, squares) if measured else weights[..., 0].copy()
            )
            curve.append(now)
    return {name: np.stack(curve, axis=2) for name, curve in curves.items()}


def _stepped(
    w: Floats,
    X: Floats,
    y: Floats,
    filter_: Filter,
    rank: int,
) -> Floats:
    """Return the weights (N, d, 1) after one step of every trial on its own task of some rank.

    Parameters
    ----------
    w, X, y : arrays of shape (N, d, 1), (N, n, d) and (N, n, 1)
    filter_ : Filter
        Of one step.
    rank : int
        Of X: below min(n, d) the smaller Gram matrix is singular.
    """
    transposed = np.swapaxes(X, 1, 2)
    residual = y - X @ w
    tall = X.shape[1] > X.shape[2]
    gram = transposed @ X if tall else X @ transposed
    right = transposed @ residual if tall else residual
    n = gram.shape[1]
    strength = filter_.strength()
    if isinstance(filter_, Ridge | Projection) and (rank == n or strength > 0):
        # g(ξ) = 1/(ξ + λ): a fourth of the time of eigenvalues
        gained = np.linalg.solve(gram + strength * np.eye(n), right)
    else:
        # g(0) = 0
        values, vectors = np.linalg.eigh(gram)
        largest = values[:, -1:]
        positive = values > largest * n * np.finfo(float).eps
        eigenvalues = np.where(positive, values, largest)
        gains = np.where(positive, filter_.table(eigenvalues)[0] / eigenvalues, 0.0)
        gained = vectors @ (gains[:, :, None] * (np.swapaxes(vectors, 1, 2) @ right))
    return w + (gained if tall else transposed @ gained)

"""The law of fresh random tasks: expectations by one equation, and simulated trials.

Task t is drawn anew: X_t with n rows, y_t = X_t v_t + σε with a teacher v_t. A step is w ← w −
Φ_t(w − X_t⁺y_t), Φ_t = φ_t(X_tᵀX_t). No rotation of the features changes the law of X. The mean
squares E_t[i] = E‖w_t − v_i‖² then obey **the ensemble equation**

    E_t[i] = (1 − a) E_{t−1}[i] + a D_ti − (a − a₂) E_{t−1}[t] + σ²ν,                  (1)

with a = E tr Φ/d, a₂ = E tr Φ²/d, ν = E Σφ²/ξ over the eigenvalues ξ of XᵀX, and D_ti = E‖v_t −
v_i‖². Proof: w_t − v_i = (I − Φ)z + Φu plus noise, with z = w_{t−1} − v_i and u = v_t − v_i. By the
invariance E Φ = aI and E Φ² = a₂I, so that E‖(I − Φ)z + Φu‖² = (1 − 2a + a₂)‖z‖² + a₂‖u‖² + 2(a −
a₂)⟨z, u⟩, and 2⟨z, u⟩ = ‖z‖² + ‖u‖² − ‖w_{t−1} − v_t‖². For i = t this is

    E_t[t] = (1 − 2a + a₂) E_{t−1}[t] + σ²ν.                                           (2)

A fresh row x has the error xᵀ(w − v) − σε, and E xxᵀ summed over the rows of a task is E‖X‖_F²/d·I:
the loss on a fresh task of teacher i is

    ½(E‖X‖_F²/d · E‖w − v_i‖² + nσ²).                                                  (3)

A step of a simulated trial is w ← w + Xᵀ g(XXᵀ)(y − Xw) = w + g(XᵀX) Xᵀ(y − Xw) with g(ξ) = φ(ξ)/ξ:
the equation of ``equation.py`` on the smaller of both Gram matrices, for many tasks at once. For a
ridge step g(ξ) = 1/(ξ + λ), and for a projection 1/ξ: one linear system a trial. Any other filter
needs the eigenvalues, which take four times as long.

The order of draws, which a seed stands for: start and teachers of all tasks; then for every step X
and the noise of its labels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from forgetless import _validate as validate
from forgetless._running import one_blas_thread, track
from forgetless._validate import Floats
from forgetless.ensembles.spectra import Spectrum
from forgetless.ensembles.teachers import Normal, Teachers
from forgetless.filters import Filter, Projection, Ridge
from forgetless.lab import recorded_steps
from forgetless.metrics import check_metrics
from forgetless.schedules import resolve
from forgetless.schedules.named import several

METRICS = ("average_loss", "next_loss", "distance", "task_losses", "task_distances", "weights")
"""Metrics of ensembles: losses are means over fresh rows, not over the rows that were learned."""

_NEGLIGIBLE = 1e-13
"""The part of a mean that the outermost nodes may contribute."""


class StepMoments(NamedTuple):
    """Moments of T steps, T being 1 for a fixed filter, each of shape (T,)."""

    learned: Floats  # a
    squared: Floats  # a₂
    noise: Floats  # ν
    remaining: Floats  # 1 − 2a + a₂, a sum of squares, which does not cancel


class Law(ABC):
    """What is known of a fresh random task: its sizes, noise, teachers and singular values."""

    n_features: int
    n_rows: int
    noise: float
    teachers: Teachers

    @property
    def radius(self) -> float:
        """The norm of X that schedules are scaled by: the largest singular value."""
        return float(self.spectrum.singular_values.max(initial=0.0))

    @property
    @abstractmethod
    def spectrum(self) -> Spectrum:
        """The law of the singular values of X."""

    @abstractmethod
    def sample(self, normal: Normal) -> Floats:
        """Return draws of X, of shape (n_trials, n, d)."""

    @property
    def span_dimension(self) -> int:
        """Number of dimensions in which tasks have rows."""
        return self.n_features

    def mean_remaining(self, coefficient: float) -> float:
        """Return 1 − a(λ), where a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d of a task."""
        spectrum = self.spectrum
        left = spectrum.sum(coefficient / (coefficient + spectrum.singular_values**2))
        # The d − r dimensions that the task leaves alone remain whole.
        untouched = self.n_features - spectrum.rank
        return float(left + untouched) / self.n_features

    def moments(self, filter_: Filter) -> StepMoments:
        """Return the moments of the steps of a filter; ValueError where the nodes have no means.

        With the singular values s and ξ = s², a = E Σφ(ξ)/d, a₂ = E Σφ(ξ)²/d and ν = E Σφ(ξ)²/ξ.
        1 − 2a + a₂ is E Σ(1 − φ)²/d, plus the d − r dimensions that the task leaves alone.
        """
        spectrum = self.spectrum
        d = self.n_features
        xi = spectrum.singular_values**2
        factors = filter_.table(xi)
        residuals = np.atleast_2d(filter_.broadcast(xi).remaining(xi))
        left = residuals**2 * spectrum.weights
        remaining = left.sum(axis=1)
        # What lies beyond the nodes is less than what the outermost ones contribute.
        outer = np.abs(left[:, len(xi) - spectrum.outer :].sum(axis=1))
        if (outer > _NEGLIGIBLE * remaining).any():
            raise ValueError(
                f"schedule multiplies errors by up to {np.abs(residuals).max():.2g} in rare tasks,"
                f" which dominate the expectation; use step sizes of at most {2 / xi[-1]:.3g}"
            )
        noise = spectrum.sum(factors**2 / xi)
        # A filter that jumps at 0, as a projection, has φ(0+)² E Σ1/ξ: the nodes are not dense
        # enough near 0.
        jumps = filter_.strength() == 0.0
        jump = np.where(jumps, factors[:, 0], 1.0)
        return StepMoments(
            learned=spectrum.sum(factors) / d,
            squared=spectrum.sum(factors**2) / d,
            noise=np.where(jumps, jump**2 * spectrum.mean_inverse, noise),
            remaining=(remaining + (d - spectrum.rank)) / d,
        )

    def evaluate(
        self,
        metric: str,
        k: int,
        step: int,
        squares: Callable[[Any], Floats],
    ) -> Floats:
        """Return a metric after a step of k, from a function that takes i to ‖w − v_i‖²."""
        order = self.teachers.order(k + 1)
        asked = order[:k]
        # One teacher: that of the next task, or that of the last one, at step 0 of the first.
        if metric == "next_loss":
            asked = order[[step]]
        if metric == "distance":
            asked = order[[max(step, 1) - 1]]
        values = squares(asked)
        if "loss" in metric:
            # Equation (3), with E‖X‖_F² = E Σs².
            trace = self.spectrum.sum(self.spectrum.singular_values**2)
            values = (trace / self.n_features * values + self.n_rows * self.noise**2) / 2.0
        if metric.startswith("task"):
            return values
        return np.asarray(values.mean(axis=-1))


def second_moments(
    law: Law,
    moments: StepMoments,
    k: int,
    last: int,
) -> Floats:
    """Return E‖w_t − v_i‖² of shape (last + 1, P + 1) for t = 0..last, by the ensemble equation.

    Column i = 0 is the distance to the start; the teachers are those of k tasks. A step takes a row
    of P + 1 numbers to the next one, by equation (1); for its own teacher by equation (2).
    """
    order = law.teachers.order(k)
    n_points = int(order.max()) + 1
    what = f"{last:,} steps and {n_points:,} teachers"
    validate.check_memory((last + 2.0 * n_points) * n_points, what, "use fewer steps")
    distances = law.teachers.distances(k)
    result = np.tile(distances[0], (last + 1, 1))
    # Exact solutions of square tasks with noisy labels have no finite mean square.
    noise = np.zeros_like(moments.noise)
    if law.noise:
        noise = law.noise**2 * moments.noise
    with np.errstate(invalid="ignore"):
        for t in range(last):
            # 0 for a fixed filter, whose moments are those of one step.
            s = t % len(noise)
            a = moments.learned[s]
            error = result[t, order[t]]
            # Equation (1) for all teachers.
            moved = a * distances[order[t]] - (a - moments.squared[s]) * error
            result[t + 1] = (1.0 - a) * result[t] + moved + noise[s]
            # Equation (2) for the task's own, which does not cancel.
            result[t + 1, order[t]] = moments.remaining[s] * error + noise[s]
    return np.where(np.isnan(result), np.inf, np.maximum(result, 0.0))


class Problem:
    """The validated arguments of ``expect`` and ``simulate``, with a filter for every schedule."""

    def __init__(
        self,
        law: Law,
        schedule: Any,
        k: int,
        metrics: Any,
        record: Any,
    ) -> None:
        self.law = law
        self.k = validate.steps(k)
        schedules, self.labels = several(schedule, self.k)
        self.filters = [resolve(each, self.k, law.radius) for each in schedules]
        self.metrics = check_metrics(metrics, METRICS)
        self.steps = recorded_steps(record, self.k).tolist()


# ---- simulated trials ----


@one_blas_thread()
def simulated(problem: Problem, n_trials: int, seed: np.random.SeedSequence) -> dict[str, Floats]:
    """Return metrics of shape (B, n_trials, n_steps, …) of independent trials of B schedules.

    A group of trials shares one generator, which always draws for all of them, so that trial i is
    the same whatever their number is: the size of a group is part of the meaning of a seed. They
    advance together: for small tasks more of them, since a call of NumPy costs as much as a
    thousand numbers.
    """
    size = problem.law.n_rows * problem.law.n_features
    group = 128
    if size >= 128:
        group = 64
    if size >= 512:
        group = 16
    per_task = any(name.startswith("task") for name in problem.metrics)
    numbers = float(n_trials) * len(problem.filters) * len(problem.steps)
    if per_task:
        numbers *= problem.k
    validate.check_memory(numbers, f"a record of {n_trials:,} trials", "record fewer steps")
    groups = []
    for i in track(range(-(-n_trials // group)), "trials"):
        # The stream of a group depends on the seed and on its number alone.
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
        # ‖w − v_i‖² once for every teacher, of which many tasks may have the same.
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
            if name == "weights":
                curve.append(weights[..., 0].copy())
            else:
                curve.append(law.evaluate(name, problem.k, step, squares))
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
    right = y - X @ w
    # w + Xᵀ g(XXᵀ)(y − Xw), or w + g(XᵀX) Xᵀ(y − Xw) where there are more rows than features.
    tall = X.shape[1] > X.shape[2]
    if tall:
        gram = transposed @ X
        right = transposed @ right
    else:
        gram = X @ transposed
    n = gram.shape[1]
    strength = filter_.strength()
    if isinstance(filter_, Ridge | Projection) and (rank == n or strength > 0):
        # g(ξ) = 1/(ξ + λ): a fourth of the time of eigenvalues.
        gained = np.linalg.solve(gram + strength * np.eye(n), right)
    else:
        # g(ξ) = φ(ξ)/ξ on the eigenvalues, and 0 where they are rounding of 0.
        values, vectors = np.linalg.eigh(gram)
        largest = values[:, -1:]
        positive = values > largest * n * np.finfo(float).eps
        eigenvalues = np.where(positive, values, largest)
        gains = np.where(positive, filter_.table(eigenvalues)[0] / eigenvalues, 0.0)
        along = np.swapaxes(vectors, 1, 2) @ right
        gained = vectors @ (gains[:, :, None] * along)
    if not tall:
        gained = transposed @ gained
    return w + gained

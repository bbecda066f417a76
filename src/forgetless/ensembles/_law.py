"""The law of fresh random tasks, and the equation that its expectations obey.

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
the loss on a fresh task of teacher i is ½(E‖X‖_F²/d · E‖w − v_i‖² + nσ²).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from forgetless import _validate as validate
from forgetless._validate import Floats
from forgetless.ensembles.spectra import Spectrum
from forgetless.ensembles.teachers import Normal, Teachers
from forgetless.filters import Filter
from forgetless.lab.problem import recorded_steps
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
    @abstractmethod
    def radius(self) -> float:
        """The norm of X that schedules are scaled by."""

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
        return float(left + (self.n_features - spectrum.rank)) / self.n_features

    def moments(self, filter_: Filter) -> StepMoments:
        """Return the moments of the steps of a filter; ValueError where the nodes have no means.

        With the singular values s and ξ = s², a = E Σφ(ξ)/d, a₂ = E Σφ(ξ)²/d and ν = E Σφ(ξ)²/ξ.
        1 − 2a + a₂ is E Σ(1 − φ)²/d, plus the d − r dimensions that the task leaves alone.
        """
        spectrum = self.spectrum
        xi = spectrum.singular_values**2
        factors = filter_.table(xi)
        residuals = np.atleast_2d(filter_.broadcast(xi).remaining(xi))
        strengths = np.atleast_1d(filter_.strength())
        left = residuals**2 * spectrum.weights
        remaining = left.sum(axis=1)
        # What lies beyond the nodes is less than what the outermost ones contribute.
        outer = np.abs(left[:, len(xi) - spectrum.outer :].sum(axis=1))
        if (outer > _NEGLIGIBLE * remaining).any():
            raise ValueError(
                f"schedule multiplies errors by up to {np.abs(residuals).max():.2g} in rare tasks,"
                f" which dominate the expectation; use step sizes of at most {2 / xi[-1]:.3g}"
            )
        return StepMoments(
            learned=spectrum.sum(factors) / self.n_features,
            squared=spectrum.sum(factors**2) / self.n_features,
            noise=np.where(strengths == 0, spectrum.mean_inverse, spectrum.sum(factors**2 / xi)),
            remaining=(remaining + (self.n_features - spectrum.rank)) / self.n_features,
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
        # The distance is from the teacher of the last task, at step 0 of the first.
        one = {"next_loss": step, "distance": max(step, 1) - 1}.get(metric)
        values = squares(order[:k] if one is None else order[[one]])
        if "loss" in metric:
            trace = float(self.spectrum.sum(self.spectrum.singular_values**2))
            values = (trace / self.n_features * values + self.n_rows * self.noise**2) / 2.0
        return values if metric.startswith("task") else np.asarray(values.mean(axis=-1))


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
    noise = law.noise**2 * moments.noise if law.noise else np.zeros_like(moments.noise)
    with np.errstate(invalid="ignore"):
        for t in range(last):
            s = t % len(noise)  # 0 for a fixed filter
            a = moments.learned[s]
            error = result[t, order[t]]
            moved = a * distances[order[t]] - (a - moments.squared[s]) * error
            result[t + 1] = (1.0 - a) * result[t] + moved + noise[s]  # (1)
            # (2), which does not cancel
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
        self.k = validate.integer("k", k, 1, "ask for at least one step")
        schedules, self.labels = several(schedule, self.k)
        self.filters = [resolve(each, self.k, law.radius) for each in schedules]
        self.metrics = check_metrics(metrics, METRICS)
        self.steps = recorded_steps(record, self.k).tolist()

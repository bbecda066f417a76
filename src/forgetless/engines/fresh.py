"""Exact expectations over fresh random tasks: the ensemble equation, and metrics on rows that were
learned.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.engines.inputs import Labels, as_schedules
from forgetless.engines.problem import recorded_steps
from forgetless.engines.results import Expectation
from forgetless.ensembles.base import Ensemble, StepMoments
from forgetless.ensembles.invariant import Invariant
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.io.provenance import Origin
from forgetless.metrics import ENSEMBLE_METRICS, METRICS, ROW_METRICS, check_metrics
from forgetless.schedules import resolve


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
    schedules: tuple[Any, ...] = ()
    normalize: bool = False

    @classmethod
    def of(
        cls,
        ensemble: Ensemble,
        schedule: Any,
        k: int,
        record: Any,
        metrics: Any,
        normalize: bool = False,
    ) -> "FreshProblem":
        """Return the problem of validated arguments."""
        k = validate.integer("k", k, 1, "ask for at least one step")
        schedules, labels = as_schedules(schedule, None, k)
        filters = [resolve(each, k, ensemble.radius, ensemble) for each in schedules]
        names = check_metrics(METRICS if metrics is None else metrics, ENSEMBLE_METRICS)
        return cls(
            ensemble,
            filters,
            labels,
            k,
            recorded_steps(record, k),
            names,
            tuple(schedules),
            bool(normalize),
        )

    def origin(self, call: str, **arguments: Any) -> Origin:
        """Return the origin of a result of this problem."""

        def resolved() -> dict[str, Any]:
            codes = [repr(each) for each in self.schedules]
            schedule = (
                dict(zip(map(str, self.labels), codes, strict=True)) if self.labels else codes[0]
            )
            return {"ensemble": repr(self.ensemble), "schedule": schedule, "k": self.k, **arguments}

        return Origin(call, resolved)

    def teachers_of_losses(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the teachers of tasks 1..k + 1: of every task learned, and of the
        next one.
        """
        order = self.ensemble.teachers.order(self.k + 1)
        return order[:-1], order[1:]

    def scaled(self, name: str, values: Floats) -> Floats:
        """Return a metric as it is, or with ``normalize`` without ½ and over R²D², a distance over
        D².

        D² is the mean squared distance of the start from the first teacher.
        """
        if not self.normalize:
            return values
        first = float(
            self.ensemble.teachers.distances(self.k)[0, self.ensemble.teachers.order(1)[0]]
        )
        if not (first > 0 and self.ensemble.radius > 0):
            raise ValueError(
                "normalize=True divides by R² and the squared distance of the start from the first"
                f" teacher, of which one is 0: R = {self.ensemble.radius:.3g}, distance² ="
                f" {first:.3g}"
            )
        factor = (
            1.0 / first
            if name.endswith(("distance", "distances"))
            else 2.0 / (self.ensemble.radius**2 * first)
        )
        return values * (factor / 2.0 if name.endswith("drift") else factor)


def expectation(problem: FreshProblem) -> Expectation:
    """Return the expected metrics over fresh tasks."""
    parts = [_one_schedule(problem, filter_) for filter_ in problem.filters]
    values = {
        name: problem.scaled(name, np.stack([part[name] for part in parts]))
        for name in problem.names
    }
    shaped = {name: value if problem.labels else value[0] for name, value in values.items()}
    error = problem.ensemble.error + 8.0 * problem.k * float(np.finfo(float).eps)
    errors = dict.fromkeys(problem.names, min(1.0, error))
    return Expectation(
        problem.steps,
        shaped,
        problem.ensemble.method,
        errors,
        labels=problem.labels,
        origin=problem.origin("expect"),
    )


def second_moments(ensemble: Ensemble, moments: StepMoments, k: int, last: int) -> Floats:
    """Return E (w_t − v_i)² of shape (last + 1, P + 1, c) for t = 0..last, by the ensemble
    equation.

    Row i = 0 is the distance to the start; the teachers are those of k tasks.
    """
    D, order = ensemble.distances(k), ensemble.teachers.order(k)
    validate.check_memory(
        float(last + 1) * D[0].size, f"{last} steps and {len(D)} teachers", "use fewer steps"
    )
    noise = (
        np.zeros_like(moments.noise) if ensemble.noise == 0 else ensemble.noise**2 * moments.noise
    )
    result = np.empty((last + 1, *D.shape[1:]))
    result[0] = D[0]
    n_steps = len(moments.learned)
    for t in range(last):
        s, teacher = min(t, n_steps - 1), order[t]
        a, error = moments.learned[s], result[t, teacher]
        if not (np.isfinite(noise[s]).all() and np.isfinite(error).all()):
            result[t + 1] = np.inf  # square tasks with noisy labels, solved exactly
            continue
        own = a * error - moments.squared[s] @ error
        result[t + 1] = (1.0 - a) * result[t] + a * D[teacher] - own + noise[s]
        # the same without cancellation
        result[t + 1, teacher] = moments.remaining[s] @ error + noise[s]
    return np.maximum(result, 0.0)


def _one_schedule(problem: FreshProblem, filter_: Filter) -> dict[str, Floats]:
    ensemble, k, steps = problem.ensemble, problem.k, problem.steps
    # (n_steps, P + 1, c)
    errors = second_moments(ensemble, ensemble.moments(filter_), k + 1, int(steps[-1]))[steps]
    distances, losses = (
        errors.sum(axis=2),
        0.5 * (errors @ ensemble.row_weights + ensemble.n_rows * ensemble.noise**2),
    )
    order, following = problem.teachers_of_losses()
    values = {
        "average_loss": losses[:, order].mean(axis=1),
        "next_loss": losses[np.arange(len(steps)), following[np.maximum(steps, 1) - 1]],
        "distance": distances[np.arange(len(steps)), order[np.maximum(steps, 1) - 1]],
        "task_losses": losses[:, order],
        "task_distances": distances[:, order],
    }
    if 0 in steps:
        values["next_loss"][0] = losses[0, order[0]]
    if any(name in ROW_METRICS for name in problem.names):
        values |= _on_rows(problem, filter_)
    return {name: values[name] for name in problem.names}


def _on_rows(problem: FreshProblem, filter_: Filter) -> dict[str, Floats]:
    """Return metrics on the rows that were learned, of all tasks so far and of every task."""
    if not isinstance(problem.ensemble, Invariant):
        raise NoExactLawError(
            "metrics on rows that were learned have no exact expectation over anisotropic tasks;"
            " use simulate, or average_loss, next_loss and distance"
        )
    rows = _Rows(problem.ensemble, filter_, problem.k)
    shape = (len(problem.steps), problem.k)
    values = {name: np.full(shape, np.nan) for name in ("seen", "forgetting", "drift")}
    positions = {int(step): i for i, step in enumerate(problem.steps)}
    for t in range(int(problem.steps[-1])):
        rows.advance(t)
        if t + 1 in positions:
            for name, column in rows.metrics(t + 1).items():
                values[name][positions[t + 1], : t + 1] = column
    means = {
        name: np.array(
            [
                row[:step].mean() if step else np.nan
                for row, step in zip(value, problem.steps, strict=True)
            ]
        )
        for name, value in values.items()
    }
    return {
        "seen_loss": means["seen"],
        "forgetting": means["forgetting"],
        "drift": means["drift"],
        "task_forgetting": values["forgetting"],
        "task_drift": values["drift"],
    }


class _Rows:
    """Moments of z = w_t − v_i on the rows A = X_iᵀX_i of every task i learned so far, advanced
    step by step.

    ``quadratic`` E zᵀAz and ``traced`` E (tr A/d)‖z‖²; ``linear`` E zᵀAu_j and ``traced_linear`` E
    (tr A/d) zᵀu_j for the differences u_j = v_j − v_i of teachers; ``noisy`` E σεᵀXz with the noise
    in the labels; ``change`` E zᵀAz_i with z_i right after the task's own step; ``first``,
    ``first_linear``, ``first_noisy`` the values there.
    """

    def __init__(self, ensemble: Invariant, filter_: Filter, k: int) -> None:
        self.ensemble, self.k = ensemble, k
        self.moments, self.rows = ensemble.moments(filter_), ensemble.row_moments(filter_)
        self.order, self.distances = ensemble.teachers.order(k), ensemble.distances(k)[:, :, 0]
        n_points = len(self.distances)
        validate.check_memory(
            5.0 * k * n_points, f"rows of {k} tasks and {n_points} teachers", "use fewer steps"
        )
        self.errors = second_moments(ensemble, self.moments, k, k)[:, :, 0]  # E‖w_t − v_i‖²
        self.quadratic, self.traced, self.noisy, self.change, self.first, self.first_noisy = (
            np.zeros((6, k))
        )
        self.linear, self.traced_linear, self.first_linear = np.zeros((3, k, n_points))

    def advance(self, t: int) -> None:
        """Make step t, counted from 0."""
        s = min(t, len(self.moments.learned) - 1)
        a, a2, nu = (float(each[s].ravel()[0]) for each in self.moments[:3])
        self._later_step(t, s, a, a2, self.ensemble.noise**2 * nu if self.ensemble.noise else 0.0)
        self._own_step(t, s)

    def _later_step(self, t: int, s: int, a: float, a2: float, noise: float) -> None:
        """Advance the moments of the tasks before t."""
        p, q = float(self.rows.p[s]), float(self.rows.q[s]) * self.ensemble.n_features
        tau, teacher, before = self.ensemble.mean_square, int(self.order[t]), slice(0, t)
        D, own = self.distances, self.order[before]
        linear, traced_linear = self.linear[before, teacher], self.traced_linear[before, teacher]
        quadratic, traced = self.quadratic[before], self.traced[before]
        square = tau * (a2 * D[own, teacher] + noise)
        if np.isfinite(noise):
            mixed = (a - p) * linear - q * traced_linear
            spread = q * traced if q else 0.0
            with np.errstate(invalid="ignore"):  # means that are infinite already stay so
                self.quadratic[before] = (
                    (1.0 - 2.0 * a + p) * quadratic + spread + 2.0 * mixed + square
                )
                self.traced[before] = (
                    (1.0 - 2.0 * a + a2) * traced + 2.0 * (a - a2) * traced_linear + square
                )
            for moment in (self.quadratic, self.traced):
                moment[before][np.isnan(moment[before])] = np.inf
        else:
            self.quadratic[before] = self.traced[before] = np.inf
        self.change[before] = (1.0 - a) * self.change[before] + a * self.first_linear[
            before, teacher
        ]
        # E⟨v_t − v_i, v_j − v_i⟩ for every task i and point j
        products = 0.5 * a * tau * (D[own, teacher][:, None] + D[own] - D[teacher])
        for moment in (self.linear, self.traced_linear):
            moment[before] = (1.0 - a) * moment[before] + products
        self.noisy[before] *= 1.0 - a

    def _own_step(self, t: int, s: int) -> None:
        """Set the moments of task t right after its own step, from those of the weights before
        it.
        """
        rows, teacher, variance = self.rows, int(self.order[t]), self.ensemble.noise**2
        error = self.errors[t, teacher]
        noise_trace = variance * rows.noise_trace[s] if variance else 0.0
        self.quadratic[t] = variance * rows.factor_squares[s]
        self.traced[t] = (
            error * rows.residual_square_trace[s] + noise_trace if np.isfinite(error) else np.inf
        )
        products = np.zeros_like(self.errors[t])
        if np.isfinite(error):
            self.quadratic[t] += error * rows.residual_squares[s]
            # E⟨w − v_i, v_j − v_i⟩ before the step
            products = 0.5 * (error + self.distances[teacher] - self.errors[t])
        elif rows.residual_squares[s] > 0:
            self.quadratic[t] = np.inf
        self.linear[t], self.traced_linear[t] = (
            products * rows.residual_rows[s],
            products * rows.residual_trace[s],
        )
        self.noisy[t] = variance * rows.factor_sum[s]
        self.change[t] = self.first[t] = self.quadratic[t]
        self.first_linear[t], self.first_noisy[t] = self.linear[t], self.noisy[t]

    def metrics(self, n_tasks: int) -> dict[str, Floats]:
        """Return loss, forgetting and drift on the rows of each task learned so far."""
        part = slice(0, n_tasks)
        quadratic, finite = self.quadratic[part], np.isfinite(self.quadratic[part])
        square, first = (
            quadratic - 2.0 * self.noisy[part],
            self.first[part] - 2.0 * self.first_noisy[part],
        )
        # An infinite mean stays infinite; the task just learned has neither forgetting nor drift.
        forgetting, change = np.full((2, n_tasks), np.inf)
        forgetting[finite] = 0.5 * (square[finite] - first[finite])
        change[finite] = (
            quadratic[finite] - 2.0 * self.change[part][finite] + self.first[part][finite]
        )
        forgetting[-1] = change[-1] = 0.0
        seen = 0.5 * (square + self.ensemble.n_rows * self.ensemble.noise**2)
        return {"seen": seen, "forgetting": forgetting, "drift": np.maximum(change, 0.0)}

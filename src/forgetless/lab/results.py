"""Results of the engines: curves of metrics over recorded steps, and worst cases; their
documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array
from forgetless._schedule import Labels
from forgetless.io import Document, Fields, write
from forgetless.metrics import ENSEMBLE_METRICS
from forgetless.reporting.table import Noted, Printed, Table, frame

_LINES = 6  # Recorded steps of one schedule that are printed, and schedules at their last step


def _metric(name: str, text: str) -> Any:
    """Return a property of ``Curves`` for one metric."""
    return property(lambda curves: curves._value(name), doc=text)


@dataclass(frozen=True, eq=False, repr=False)
class Curves(Printed):
    """Metrics at recorded steps; each metric is an attribute.

    Attributes
    ----------
    steps : array of shape (n_steps,)
        The recorded steps, in increasing order; 0 is before the first task.
    values : mapping from metric name to array
    labels : tuple
        Of several schedules, along the first axis of every array: the keys of a dict, or positions
        in a list. Empty for one schedule, without such an axis.
    """

    steps: NDArray[np.int64]
    values: Mapping[str, Array] = field(repr=False)
    labels: Labels = field(default=(), kw_only=True)

    average_loss = _metric("average_loss", "Mean loss over all tasks.")
    seen_loss = _metric("seen_loss", "Mean loss over the tasks seen so far; NaN at step 0.")
    forgetting = _metric(
        "forgetting", "Mean loss degradation since each task was learned; NaN at step 0."
    )
    drift = _metric(
        "drift", "Mean squared change of outputs since each task was learned; NaN at step 0."
    )
    next_loss = _metric("next_loss", "Mean loss over the next task, given the tasks so far.")
    distance = _metric(
        "distance",
        "Mean squared distance of the weights from the teacher, for ensembles of the last task.",
    )
    task_distances = _metric(
        "task_distances", "Mean squared distance from every task's teacher, along the last axis."
    )
    task_losses = _metric("task_losses", "Loss of every task, with the tasks along the last axis.")
    task_forgetting = _metric(
        "task_forgetting", "Mean loss degradation of every task; NaN before its first visit."
    )
    task_drift = _metric(
        "task_drift", "Mean squared change of every task's outputs; NaN before its first visit."
    )
    weights = _metric("weights", "The weights, along the last axis, or the last two.")

    def _value(self, name: str) -> Array:
        if name not in self.values:
            raise AttributeError(f"{name} was not computed; pass metrics=({name!r}, …)")
        return self.values[name]

    def __getitem__(self, label: str | int) -> Self:
        """Return the curves of one of several schedules, by its label."""
        if label not in self.labels:
            labels = ", ".join(map(repr, self.labels)) or "none: one schedule was given"
            raise KeyError(f"{label!r} is not among the labels: {labels}")
        return self._alone(self.labels.index(label))

    def _alone(self, b: int) -> Self:
        return replace(
            self, values={name: value[b, ...] for name, value in self.values.items()}, labels=()
        )

    def _each(self) -> list[Self]:
        """Return the curves of every schedule."""
        return [self._alone(b) for b in range(len(self.labels))] if self.labels else [self]

    def _names(self) -> list[str]:
        """Return the names of the metrics that are one number."""
        return [name for name in self.values if not name.startswith(("task", "weights"))]

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: self.values[name] for name in self._names()}

    def means(self, metric: str) -> NDArray[np.float64]:
        """Return a metric of one schedule as NumPy array of shape (n_steps,)."""
        return np.asarray(self._value(metric))

    def _cells(self, metric: str, rows: Sequence[int]) -> list[Any]:
        return [float(self.means(metric)[i]) for i in rows]

    def table(self) -> Table:
        """Return the printed table: some of the recorded steps of one schedule, the last step of
        several.
        """
        several = bool(self.labels)
        each, n = self._each(), len(self.steps)
        rows = (
            [n - 1]
            if several
            else np.unique(np.linspace(0, n - 1, min(n, _LINES)).round().astype(int)).tolist()
        )
        columns: dict[str, list[Any]] = {"schedule": [*self.labels]} if several else {}
        columns["step"] = [int(self.steps[i]) for _ in each for i in rows]
        for name in self._names():
            columns[name] = [cell for curves in each for cell in curves._cells(name, rows)]
        return Table(self._title(), columns)

    def _title(self) -> str:
        n, schedules = len(self.steps), f"{len(self.labels)} schedules, " if self.labels else ""
        recorded = (
            f"{n} steps in {self.steps[0]}..{self.steps[-1]}"
            if n > 1
            else f"after {self.steps[0]} steps"
        )
        return f"{type(self).__name__}: {schedules}{recorded}"

    def plot(self, metric: str | None = None, ax: Any = None) -> Any:
        """Draw a metric, by default the first, against the steps, one line for every schedule;
        returns the axes.
        """
        from forgetless.plots.results import plot_metric

        return plot_metric(self, metric or self._names()[0], ax)

    def save(self, path: str | Path) -> None:
        """Write it to a file; ``fl.load`` reads it, as NumPy arrays."""
        arrays = {f"value.{name}": value for name, value in self.values.items()}
        header = {"labels": list(self.labels), **self._facts()}
        write(path, type(self).__name__.lower(), header, {"steps": self.steps, **arrays})

    def _facts(self) -> dict[str, Any]:
        """Return what its file has in the header beside labels."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Curves):
    """The result of a simulation: each metric is an array of shape (n_trials, n_steps).

    Several schedules are along an axis before these. Prints as means with their standard errors.

    Attributes
    ----------
    steps, values, labels
        As in ``Curves``.
    """

    @property
    def n_trials(self) -> int:
        """Number of independent runs."""
        return int(next(iter(self.values.values())).shape[1 if self.labels else 0])

    def means(self, metric: str) -> NDArray[np.float64]:
        """Return the mean of a metric over the trials, of shape (n_steps,), for one schedule."""
        return np.asarray(self._value(metric).mean(axis=0))

    def standard_errors(self, metric: str) -> NDArray[np.float64]:
        """Return the standard errors of these means; NaN for one trial."""
        values = self._value(metric)
        if len(values) == 1:
            return np.full(values.shape[1:], np.nan)
        with np.errstate(invalid="ignore"):  # runs whose losses overflowed
            return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))

    def _cells(self, metric: str, rows: Sequence[int]) -> list[Any]:
        means, errors = self.means(metric), self.standard_errors(metric)
        return [
            Noted(float(means[i]), "" if not errors[i] > 0 else f" ± {errors[i]:.1g}") for i in rows
        ]

    def _title(self) -> str:
        return (
            f"{super()._title()},"
            f" {'1 run' if self.n_trials == 1 else f'mean of {self.n_trials} runs'}"
        )

    def to_frame(self) -> Any:
        """Return a tidy pandas data frame: one row per schedule, trial and step, one column per
        metric.
        """
        shape = (max(1, len(self.labels)), self.n_trials, len(self.steps))
        trials = np.broadcast_to(np.arange(shape[1])[:, None], shape)
        columns = {"trial": trials, "step": np.broadcast_to(self.steps, shape), **self._columns()}
        return frame(_labelled(self.labels, shape, columns))


@dataclass(frozen=True, eq=False, repr=False)
class Expectation(Curves):
    """Exact expected metrics: arrays of shape (n_steps,), or (n_schedules, n_steps) for several
    schedules.

    Attributes
    ----------
    steps, values, labels
        As in ``Curves``.
    estimate : function from values to errors, or a mapping
        Where ``errors`` come from.
    """

    estimate: Any = field(default_factory=dict, repr=False)

    @cached_property
    def errors(self) -> dict[str, float]:
        """Estimates of relative errors by metric, the largest over all else; 1 if no digit is sure.

        Of losses and their differences; computed when first asked for, which takes some times as
        long as the call itself.
        """
        return dict(self.estimate(self.values) if callable(self.estimate) else self.estimate)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "estimate": self.errors}

    @property
    def error(self) -> float:
        """The largest of the errors of the losses; of the other metrics if there is no loss."""
        losses = [error for name, error in self.errors.items() if name.endswith("loss")]
        return max(losses or self.errors.values(), default=0.0)

    def _facts(self) -> dict[str, Any]:
        return {"errors": self.errors}

    def _title(self) -> str:
        return f"{super()._title()}, exact up to rounding"

    def to_frame(self) -> Any:
        """Return a tidy pandas data frame: one row per schedule and step, one column per metric."""
        shape = (max(1, len(self.labels)), len(self.steps))
        return frame(
            _labelled(
                self.labels, shape, {"step": np.broadcast_to(self.steps, shape), **self._columns()}
            )
        )


def from_document(document: Document) -> Trace | Expectation:
    """Return the trace or expectation in a document; ValueError if it holds none."""
    header = document.header
    fields = Fields(document.arrays)
    labels = tuple(header["labels"])
    steps = fields.array("steps", "i", (None,), low=0)
    # The axes of a metric: schedules, runs, steps, and tasks where it is one of every task.
    shape: tuple[int | None, ...] = (len(steps),)
    if document.kind == "trace":
        shape = (None, *shape)
    if labels:
        shape = (len(labels), *shape)
    values = {}
    stored = fields.part("value.")
    for name in ENSEMBLE_METRICS:
        if name == "weights" and name in stored:
            values[name] = stored.array(name, "f", finite=False)
        elif name in stored:
            tasks = (None,) if name.startswith("task") else ()
            values[name] = stored.array(name, "f", (*shape, *tasks), finite=False)
    stored.end()
    sizes = {value.shape[: len(shape)] for value in values.values()}
    if len(sizes) != 1 or 0 in min(sizes):
        raise ValueError("it has no metrics, or metrics of different numbers of runs")
    result: Trace | Expectation
    if document.kind == "trace":
        result = Trace(steps, values, labels=labels)
    else:
        errors = {str(name): float(error) for name, error in header["errors"].items()}
        result = Expectation(steps, values, errors, labels=labels)
    fields.end()
    repr(result)  # raises where a label is not of its type
    return result


@dataclass(frozen=True, eq=False, repr=False)
class WorstCase(Printed):
    """The largest expected average loss over all teachers of unit norm, and a teacher that attains
    it.

    Attributes
    ----------
    loss : float, or array with the schedules and then the steps along its axes
        For data y_m = X_m w⋆, ‖w⋆‖ = 1, learned from the origin; for ‖w₀ − w⋆‖ = D it scales with
        D².
    teacher : array of shape loss.shape + (d,)
    steps : array of shape (n_steps,)
        The recorded steps, or several k, with schedules built for each of them.
    labels : tuple
        Of several schedules, as in ``Curves``.
    """

    loss: Any
    teacher: Array = field(repr=False)
    steps: NDArray[np.int64] = field(repr=False)
    labels: Labels = ()

    @property
    def curves(self) -> NDArray[np.float64]:
        """The losses of shape (n_schedules or 1, n_steps)."""
        values = np.array(self.loss) if isinstance(self.loss, float) else self.loss
        return values.reshape(max(1, len(self.labels)), len(self.steps))

    def to_frame(self) -> Any:
        """Return a tidy pandas data frame: one row per schedule and step."""
        shape = self.curves.shape
        columns = {"step": np.broadcast_to(self.steps, shape), "worst_case": self.curves}
        return frame(_labelled(self.labels, shape, columns))

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss against the steps, one line for every schedule; returns the axes."""
        from forgetless.plots.results import plot_worst

        return plot_worst(self, ax)

    def table(self) -> Table:
        """Return the printed table."""
        steps = range(len(self.steps)) if len(self.steps) <= 2 * _LINES else range(-_LINES, 0)
        columns: dict[str, list[Any]] = {}
        if self.labels:
            columns["schedule"] = [label for label in self.labels for _ in steps]
        columns["step"] = [int(self.steps[i]) for _ in self.curves for i in steps]
        columns["worst-case loss"] = [float(row[i]) for row in self.curves for i in steps]
        return Table("WorstCase: over all unit teachers, exact up to rounding", columns)


def _labelled(labels: Labels, shape: tuple[int, ...], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns with the labels of several schedules, along the first axis, before them."""
    if not labels:
        return dict(columns)
    names = np.array(labels, dtype=object if isinstance(labels[0], str) else None)
    return {
        "schedule": np.broadcast_to(names.reshape(-1, *[1] * (len(shape) - 1)), shape),
        **columns,
    }

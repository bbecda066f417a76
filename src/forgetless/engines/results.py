"""Results: curves of metrics over recorded steps, and which steps are recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._base.arrays import Array, to_numpy
from forgetless._base.tables import frame


@dataclass(frozen=True, eq=False)
class Curves:
    """Metrics at recorded steps; each metric is an attribute.

    Attributes
    ----------
    steps : array of shape (n_steps,)
        The recorded steps, in increasing order; 0 is before the first task.
    values : mapping from metric name to array
    """

    steps: NDArray[np.int64]
    values: Mapping[str, Array] = field(repr=False)

    @property
    def average_loss(self) -> Array:
        """Mean loss over all tasks."""
        return self._value("average_loss")

    @property
    def seen_loss(self) -> Array:
        """Mean loss over the tasks seen so far; NaN at step 0."""
        return self._value("seen_loss")

    @property
    def forgetting(self) -> Array:
        """Mean loss degradation since each task was learned; NaN at step 0."""
        return self._value("forgetting")

    @property
    def drift(self) -> Array:
        """Mean squared change of outputs since each task was learned; NaN at step 0."""
        return self._value("drift")

    @property
    def task_losses(self) -> Array:
        """Loss of every task, with the tasks along the last axis."""
        return self._value("task_losses")

    @property
    def task_forgetting(self) -> Array:
        """Mean loss degradation of every task over its own visits; NaN until it is first seen."""
        return self._value("task_forgetting")

    @property
    def task_drift(self) -> Array:
        """Mean squared change of outputs of every task over its own visits; NaN until it is first seen."""
        return self._value("task_drift")

    def _value(self, name: str) -> Array:
        if name not in self.values:
            raise AttributeError(f"{name} was not computed; pass metrics=({name!r}, …)")
        return self.values[name]

    def _columns(self) -> dict[str, NDArray[Any]]:
        """Return the curves as NumPy columns, without those per task."""
        return {name: to_numpy(value) for name, value in self.values.items() if not name.startswith("task")}


@dataclass(frozen=True, eq=False)
class Trace(Curves):
    """What a simulation recorded: each metric is an array of shape (n_trials, n_steps).

    Attributes
    ----------
    weights : array of shape (n_trials, n_steps, d) or (n_trials, n_steps, d, c), or None
        The weights at the recorded steps; None with ``keep_weights=False``.
    """

    weights: Array | None = field(default=None, repr=False)

    @property
    def n_trials(self) -> int:
        """Number of independent runs."""
        return int(next(iter(self.values.values())).shape[0])

    def to_frame(self) -> Any:
        """Return a tidy pandas data frame: one row per trial and step, one column per metric."""
        shape = (self.n_trials, len(self.steps))
        trials = np.broadcast_to(np.arange(shape[0])[:, None], shape)
        return frame({"trial": trials, "step": np.broadcast_to(self.steps, shape), **self._columns()})

    def __repr__(self) -> str:
        shown = f"{len(self.steps)} in {self.steps[0]}..{self.steps[-1]}"
        return f"Trace(n_trials={self.n_trials}, steps={shown}, metrics={', '.join(self.values)})"


@dataclass(frozen=True, eq=False)
class Expectation(Curves):
    """Exact expected metrics: arrays of shape (n_steps,), or (n_schedules, n_steps) for several schedules.

    Attributes
    ----------
    method : str
        How the values were computed.
    errors : mapping from metric name to float
        Bound on the relative error of every recorded value of the metric, from rounding and, where one was used, from
        an iteration; 1 says that rounding may be all there is.
    """

    method: str = ""
    errors: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def error(self) -> float:
        """The largest of the errors of the losses; of the other metrics where no loss was asked for."""
        losses = [error for name, error in self.errors.items() if name.endswith("loss")]
        return max(losses or self.errors.values(), default=0.0)

    def to_frame(self) -> Any:
        """Return a tidy pandas data frame: one row per schedule and step, one column per metric."""
        columns = self._columns()
        shape = next(iter(columns.values())).shape
        steps = np.broadcast_to(self.steps, shape)
        if len(shape) == 1:
            return frame({"step": steps, **columns})
        schedules = np.broadcast_to(np.arange(shape[0])[:, None], shape)
        return frame({"schedule": schedules, "step": steps, **columns})

    def __repr__(self) -> str:
        shape = next(iter(self.values.values())).shape
        schedules = "" if len(shape) == 1 else f"n_schedules={shape[0]}, "
        shown = f"{len(self.steps)} in {self.steps[0]}..{self.steps[-1]}" if len(self.steps) > 1 else f"{self.steps[0]}"
        return f"Expectation({schedules}steps={shown}, metrics={', '.join(self.values)}, method={self.method!r})"

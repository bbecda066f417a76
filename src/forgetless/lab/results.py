"""The one result of the laboratory: metrics as arrays with named axes.

``expect``, ``simulate`` and ``worst_case`` return ``Curves``. An array has some of the axes
"schedule", "trial", "step", "task", "feature" and "target", in this order; of the first three the
coordinates are known: the labels of the schedules, the numbers of the trials, the recorded steps.
One schedule has no axis "schedule", and an exact expectation none of trials, so that the most
frequent results are vectors over the steps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._table import Noted, Printed, Table, frame
from forgetless._text import closest
from forgetless._validate import Array, Floats
from forgetless.io import Document, Fields, write
from forgetless.metrics import NAMED
from forgetless.schedules.named import Labels

AXES = ("schedule", "trial", "step", "task", "feature", "target")

# no mutant: a matter of taste
_LINES = 6
"""Recorded steps that are printed of one schedule; of several, the last one."""


@dataclass(frozen=True, eq=False, repr=False)
class Curves(Printed):
    """Metrics over steps. Each metric is an attribute: ``curves.average_loss``.

    Attributes
    ----------
    values : dict of arrays
        The metrics by name.
    axes : dict of tuples
        The names of the axes of each array.
    coordinates : dict of sequences
        The labels along the axes "schedule", "trial" and "step", as far as there are such axes.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [1.0])])
    >>> curves = fl.expect(tasks, {"none": "none", "λ = 1": 1.0}, k=20, record=[10, 20])
    >>> curves.average_loss.shape, curves.axes["average_loss"]
    ((2, 2), ('schedule', 'step'))
    >>> curves.sel(schedule="λ = 1", step=20).average_loss.round(6).item()
    0.000239
    """

    values: Mapping[str, Floats]
    axes: Mapping[str, tuple[str, ...]]
    coordinates: Mapping[str, Sequence[Any]]
    estimate: Callable[[], Mapping[str, float]] | None = None

    @classmethod
    def of(
        cls,
        values: Mapping[str, Floats],
        steps: Any,
        labels: Labels = (),
        n_trials: int | None = None,
        estimate: Callable[[], Mapping[str, float]] | None = None,
    ) -> "Curves":
        """Return the curves of metrics (B, …) of B schedules, of which a single one has no axis.

        Before the steps there may be trials. Further axes are those of the metric; unknown metrics
        have one value per task if their name begins with "task", else one per feature.
        """
        # The three axes with coordinates come first, in the order of AXES.
        coordinates: dict[str, Sequence[Any]] = {"schedule": labels} if labels else {}
        if n_trials is not None:
            coordinates["trial"] = range(n_trials)
        coordinates["step"] = np.asarray(steps).tolist()
        # One schedule has no axis of schedules.
        if not labels:
            values = {name: value[0] for name, value in values.items()}
        axes = {}
        for name, value in values.items():
            own = ("task",) if name.startswith("task") else ("feature", "target")
            # A metric that is one number has none of its own axes.
            axes[name] = (*coordinates, *own)[: value.ndim]
        return cls(values, axes, coordinates, estimate)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The recorded steps, in increasing order; 0 is before the first task."""
        return np.asarray(self.coordinates.get("step", ()), dtype=np.int64)

    @property
    def labels(self) -> Labels:
        """The labels of several schedules; empty for one."""
        return tuple(self.coordinates.get("schedule", ()))

    @cached_property
    def errors(self) -> dict[str, float]:
        """Estimates of relative rounding errors by metric, each the largest over all else.

        1 means that no digit is certain. They are computed when they are first read, which takes
        some times as long as the call itself. Simulated runs have none: see ``standard_errors``.
        """
        return {} if self.estimate is None else dict(self.estimate())

    def sel(self, **coordinates: Any) -> "Curves":
        """Return the part at some coordinates, as in ``curves.sel(schedule="mine", step=[1, 10])``.

        One coordinate drops its axis, a list of them keeps it.

        Examples
        --------
        >>> import forgetless as fl
        >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [1.0])])
        >>> runs = fl.simulate(tasks, [0.1, 1.0], k=9, n_trials=4, seed=0, record=[3, 9])
        >>> runs.sel(schedule=1, step=9).average_loss.shape
        (4,)
        >>> runs.sel(schedule=1, trial=[0, 3]).average_loss.shape
        (2, 2)
        """
        part = self
        for axis, wanted in coordinates.items():
            part = part._at(axis, wanted)
        return part

    def _at(self, axis: str, wanted: Any) -> "Curves":
        known = list(self.coordinates.get(axis, ()))
        several = isinstance(wanted, list | tuple | np.ndarray)
        asked = list(wanted) if several else [wanted]
        for each in asked:
            if each not in known:
                shown = ", ".join(map(repr, known[:20])) or f"none; axes are {[*self.coordinates]}"
                raise KeyError(f"{axis}={each!r} is not among the coordinates: {shown}")
        # A single place drops the axis, a list of one place keeps it.
        places = [known.index(each) for each in asked]
        at = places if several else places[0]
        values = {}
        axes = {}
        for name, own in self.axes.items():
            values[name] = np.asarray(np.take(self.values[name], at, axis=own.index(axis)))
            axes[name] = tuple(each for each in own if several or each != axis)
        # Later selections see the coordinates that are left.
        coordinates = {**self.coordinates, axis: asked}
        if not several:
            del coordinates[axis]
        return Curves(values, axes, coordinates, lambda: self.errors)

    def means(self, metric: str) -> Array:
        """Return the mean of a metric over trials; the metric itself if there are none."""
        return np.mean(self._by_trials(metric), axis=0)

    def standard_errors(self, metric: str) -> Array:
        """Return the standard errors of these means: NaN for one trial, 0 for exact values."""
        trials = self._by_trials(metric)
        if "trial" not in self.axes[metric]:
            return np.zeros(trials.shape[1:])
        with np.errstate(invalid="ignore", divide="ignore"):  # overflowed losses; a single run
            # The variance of a mean: s²/n with s² = Σ (x − x̄)²/(n − 1), and ``std`` divides by n.
            return np.asarray(trials.std(axis=0) / np.sqrt(len(trials) - 1.0))

    def _by_trials(self, metric: str) -> Array:
        """Return a metric with the axis of trials first; of length 1 if there is none."""
        value = getattr(self, metric)
        axes = self.axes[metric]
        return np.moveaxis(value, axes.index("trial"), 0) if "trial" in axes else value[None]

    @property
    def scalars(self) -> list[str]:
        """The names of the metrics that are one number for every coordinate."""
        return [name for name, axes in self.axes.items() if axes == tuple(self.coordinates)]

    def to_frame(self) -> Any:
        """Return a tidy pandas data frame: one row per schedule, trial and step, one column per
        metric that is one number.

        Metrics with a value for every task, feature or target are left out; they are in ``values``.
        """
        arrays = []
        for known in self.coordinates.values():
            # Strings of NumPy would be cut to one length in later assignments.
            kind = object if isinstance(known[0], str) else None
            arrays.append(np.array(known, dtype=kind))
        # Rows in the order of the flattened arrays: the last axis varies fastest.
        grids = np.meshgrid(*arrays, indexing="ij")
        columns = dict(zip(self.coordinates, grids, strict=True))
        return frame(columns | {name: self.values[name] for name in self.scalars})

    def table(self) -> Table:
        """Return the printed table: some of the recorded steps of one schedule, the last step of
        several.
        """
        part = self
        columns: dict[str, list[Any]] = {}
        n_steps = len(self.steps)
        if self.labels:
            columns["schedule"] = list(self.labels)
        if n_steps:
            # Of one schedule some steps from the first to the last, of several the last.
            spread = np.linspace(0, n_steps - 1, min(n_steps, _LINES)).round().astype(int)
            rows = spread[-1:] if self.labels else spread
            part = self.sel(step=self.steps[rows].tolist())
            columns["step"] = part.steps.tolist() * max(1, len(self.labels))
        # A metric with a value for every task or feature is in the title, by its shape.
        for name in self.scalars:
            means = part.means(name).ravel()
            errors = part.standard_errors(name).ravel()
            columns[name.replace("worst_case", "worst-case loss")] = [
                Noted(float(mean), f" ± {error:.1g}" if error > 0 else "")
                for mean, error in zip(means, errors, strict=True)
            ]
        return Table(f"Curves: {', '.join(self._title())}", columns)

    def _title(self) -> Iterator[str]:
        """Yield the parts of a line that says what was recorded."""
        if self.labels:
            yield f"{len(self.labels)} schedules"
        steps = self.steps
        if len(steps) > 1:
            yield f"{len(steps)} steps in {steps[0]}..{steps[-1]}"
        elif len(steps):
            yield f"after {steps[0]} steps"
        if "worst_case" in self.values:
            yield "over all unit teachers"
        runs = len(self.coordinates.get("trial", ()))
        exact = "exact up to rounding" if runs == 0 else "1 run"
        yield f"mean of {runs} runs" if runs > 1 else exact
        for name, value in self.values.items():
            if name not in self.scalars:
                yield f"{name} {value.shape}"

    def plot(self, metric: str | None = None, ax: Any = None) -> Any:
        """Draw a metric, by default the first, against the steps, one line for every schedule;
        returns the axes.
        """
        from forgetless.plots import plot_metric

        return plot_metric(self, metric or self.scalars[0], ax)

    def save(self, path: str | Path) -> None:
        """Write it to a file, with its errors; ``fl.load`` reads it."""
        header = {
            "axes": self.axes,
            "coordinates": {axis: list(known) for axis, known in self.coordinates.items()},
            "errors": self.errors,
        }
        write(path, "curves", header, self.values)

    def __getattr__(self, name: str) -> Any:
        # Called for what is no field. A copy that is being made has no values yet.
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        # A metric that exists was not asked for; any other name is a mistake.
        if name in NAMED:
            raise AttributeError(f"{name} was not computed; pass metrics=({name!r}, …)")
        raise AttributeError(
            f"curves have no {name!r}; {closest(name, values)}they have {', '.join(values)}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.values]

    def __getstate__(self) -> dict[str, Any]:
        # The errors travel instead of what computes them.
        return {**self.__dict__, "errors": self.errors, "estimate": None}


def from_document(document: Document) -> Curves:
    """Return the curves in a document; ValueError if it holds none."""
    header = document.header
    fields = Fields(document.arrays)
    coordinates = {axis: tuple(known) for axis, known in header["coordinates"].items()}
    axes = {name: tuple(own) for name, own in header["axes"].items()}
    # An axis has the same length in all arrays, and that of its coordinates.
    sizes = {axis: len(known) for axis, known in coordinates.items()}
    values = {}
    for name, own in axes.items():
        # Axes that are unknown, repeated or in another order.
        if own != tuple(axis for axis in AXES if axis in own):
            raise ValueError(f"{name} has the axes {own}")
        shape = tuple(sizes.get(axis) for axis in own)
        values[name] = fields.array(name, "f", shape, finite=False)
        sizes |= dict(zip(own, values[name].shape, strict=True))
    fields.end()
    # Coordinates of an axis that no array has would be lost in the next file.
    used = set().union(*axes.values())
    if not values or 0 in sizes.values() or not coordinates.keys() <= used:
        raise ValueError("it has no metrics, or empty ones")
    errors = {name: float(error) for name, error in header["errors"].items()}
    result = Curves(values, axes, coordinates, lambda: errors)
    repr(result)  # raises where a label is not of its type
    return result

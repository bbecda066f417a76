"""Worst collections: results of an adversarial search, and those that are recorded here."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import forgetless as fl
from forgetless._table import Table
from research.arrays import Floats

_RECORDED = Path(__file__).with_name("collections.json")


@dataclass(frozen=True, eq=False)
class WorstCollection:
    """A task collection that is bad for a schedule, with its value; prints as a summary.

    Attributes
    ----------
    rows : array of shape (m, d) or (m, r, d)
        The different tasks, of one row or of r orthogonal rows each; the longest has norm 1, up to
        rounding.
    counts : array of shape (m,)
        How often each is in the collection; it is drawn with probability counts/sum(counts).
    schedule : schedule, filter or name
    k : int
    value : float
        k·loss/(R²D²) after k steps over all copies, for the worst teacher.
    command : str
        The call that computed it.
    ordering : Ordering
        Uniform draws with replacement, unless another one was searched for.

    Examples
    --------
    >>> import research
    >>> worst = research.load_worst_collection("increasing", k=256)
    >>> worst.counts.tolist(), worst.rows.shape
    ([1, 1, 1, 1, 25], (5, 6))
    >>> comparison = worst.compare_bounds()
    >>> round(256 * comparison.average_loss, 4), round(comparison.distance, 6)
    (0.9792, 1.0)
    """

    rows: Floats
    counts: NDArray[np.int64]
    schedule: Any
    k: int
    value: float
    command: str = field(repr=False, default="")
    ordering: fl.orderings.Ordering = field(default_factory=fl.WithReplacement)

    @property
    def probabilities(self) -> Floats:
        """The probability of each task, of shape (m,)."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def gram(self) -> Floats:
        """Inner products of all rows, of shape (m, m) or (m·r, m·r)."""
        flat = self.rows.reshape(-1, self.rows.shape[-1])
        return np.asarray(flat @ flat.T)

    @cached_property
    def teacher(self) -> Floats:
        """The unit teacher that attains the value, of shape (d,)."""
        tasks = self._taught(np.zeros(self.rows.shape[-1]))
        worst = fl.worst_case(tasks, self.schedule, self.k, ordering=self.ordering)
        return np.asarray(worst.teacher[0])

    @cached_property
    def tasks(self) -> fl.TaskCollection:
        """Every copy as a task of its own, taught by the worst teacher.

        Plain means, and for collections of copies uniform draws, are then the right ones.
        """
        return self._taught(self.teacher)

    def _taught(self, teacher: Floats) -> fl.TaskCollection:
        matrices = self.rows.reshape(len(self.counts), -1, self.rows.shape[-1])
        copies = np.repeat(matrices, self.counts, axis=0)
        return fl.TaskCollection([(X, X @ teacher) for X in copies])

    @property
    def loss(self) -> float:
        """The expected average loss of the worst unit teacher after k steps."""
        return self.value * self.tasks.radius**2 / self.k

    def evaluate(self) -> float:
        """Return k·loss/(R²D²) computed from scratch by ``worst_case``, which shares no code with
        the search.
        """
        loss = fl.worst_case(self.tasks, self.schedule, self.k, ordering=self.ordering).worst_case[
            0
        ]
        return self.k * float(loss) / self.tasks.radius**2

    def compare_bounds(self) -> Any:
        """Return the exact losses beside every bound that applies, by ``fl.compare_bounds``."""
        return fl.compare_bounds(self.tasks, self.schedule, self.k, ordering=self.ordering)

    def __repr__(self) -> str:
        lines = [
            f"k·loss/(R²D²) = {self.value:.6g} after k = {self.k} steps of {self.schedule!r}",
            f"tasks in the order {self.ordering!r}",
            f"{len(self.counts)} different tasks in {self.rows.shape[-1]} features,"
            f" {self.counts.sum()} copies in all",
            "",
            self._summary().text(),
        ]
        if self.command:
            lines += ["", f"found by {self.command}"]
        return "\n".join(lines)

    def _summary(self) -> Table:
        """Return the rows of the different tasks: copies, probabilities, norms and inner
        products.
        """
        products = (self.gram.round(3) + 0.0).T.tolist()  # no -0.000
        rank = len(products) // len(self.counts)
        columns = {
            "task": np.repeat(np.arange(1, len(self.counts) + 1), rank).tolist(),
            "copies": np.repeat(self.counts, rank).tolist(),
            "k·p": np.repeat(self.k * self.probabilities, rank).tolist(),
            "norm": np.sqrt(np.diag(self.gram)).tolist(),
        }
        if rank == 1:  # else too wide
            columns |= {f"⟨·, {i}⟩": column for i, column in enumerate(products, start=1)}
        return Table("Worst collection", columns, number=".3f", formats={"norm": ".4f"})

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON has, as the file of recorded collections holds them."""
        return {
            "schedule": self.schedule if isinstance(self.schedule, str) else repr(self.schedule),
            "k": self.k,
            "value": self.value,
            "command": self.command,
            "ordering": repr(self.ordering),
            "counts": self.counts.tolist(),
            "rows": self.rows.tolist(),
        }


def load_worst_collection(schedule: str, k: int) -> WorstCollection:
    """Return the recorded worst collection for a schedule and a number of steps.

    Parameters
    ----------
    schedule : "none", "fixed" or "increasing"
        No regularization, ``schedules.fixed()`` or ``schedules.increasing()``.
    k : int
        64 or 256.

    Returns
    -------
    WorstCollection
        With the call that found it in ``.command``.

    Examples
    --------
    >>> import research
    >>> round(research.load_worst_collection("increasing", k=64).value, 3)
    0.952
    """
    recorded = json.loads(_RECORDED.read_text(encoding="utf-8"))
    for each in recorded:
        if (each["schedule"], each["k"]) == (schedule, k):
            rows = np.array(each["rows"])
            counts = np.array(each["counts"])
            return WorstCollection(rows, counts, schedule, k, each["value"], each["command"])
    known = ", ".join(f"{each['schedule']!r} with {each['k']}" for each in recorded)
    raise ValueError(
        f"schedule and k must be one of {known}, got {schedule!r} and {k!r}; search for others"
        " with research.find_worst_collection"
    )

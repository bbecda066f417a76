"""Worst collections: results of an adversarial search, with the bounds of their losses, and their
files.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.engines.expectation import worst_case
from forgetless.filters import Filter
from forgetless.guarantees.comparison import BOUNDS, compare_bounds
from forgetless.guarantees.results import BoundComparison
from forgetless.io.document import Document, Fields, file_errors, read, write
from forgetless.orderings import NAMES, Epochs, Ordering, WithReplacement, name_of
from forgetless.reporting.table import Table
from forgetless.schedules import Schedule, resolve
from forgetless.schedules.names import describe, from_plain
from forgetless.tasks import Task, TaskCollection, make_task
from forgetless.theory import constructions
from forgetless.theory.bounds import Bound
from forgetless.theory.hypotheses import Setting

_MAX_STEPS, _MAX_WORK, _MAX_COPIES = 10**5, 10**10, 10**5
"""Limits of k, of k·m·d² and of copies (or 8k) in a file, since its value is computed again when it
is read."""

SEARCHED = ("with-replacement", "without-replacement", "random-reshuffling", "cyclic")
"""Names of the orderings for which there is a search."""

LARGEST_EPOCH = 12
"""Most tasks in random epochs, whose losses need all sets of tasks."""

_UNPUBLISHED = ("derived", "same proof, tight constant")


@dataclass(frozen=True)
class BoundConstant:
    """A bound as a constant: k times its value over R²D².

    Attributes
    ----------
    name, kind, status : str
        Of the bound; ``kind`` is "upper" or "lower".
    value : float
    """

    name: str
    kind: str
    value: float
    status: str


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
    schedule : schedule or filter
    k : int
    value : float
        k·loss/(R²D²) after k steps over all copies, for the worst teacher.
    command : str
        The call or command that computed it.
    ordering : Ordering
        Uniform draws with replacement, unless another one was searched for.

    Examples
    --------
    >>> import forgetless as fl
    >>> worst = fl.load_worst_collection("increasing", k=256)
    >>> worst.counts.tolist(), worst.rows.shape
    ([1, 1, 1, 1, 25], (5, 6))
    >>> comparison = worst.compare_bounds()
    >>> round(256 * comparison.average_loss, 4), round(comparison.distance, 6)
    (0.9792, 1.0)
    """

    rows: Floats
    counts: NDArray[np.int64]
    schedule: Schedule | Filter
    k: int
    value: float
    command: str = field(repr=False, default="")
    ordering: Ordering = field(default_factory=WithReplacement)

    @property
    def probabilities(self) -> Floats:
        """The probability of each row, of shape (m,)."""
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
        return np.asarray(worst_case(tasks, self.schedule, self.k, ordering=self.ordering).teacher)

    @cached_property
    def tasks(self) -> TaskCollection:
        """Every copy as a task of its own, taught by the worst teacher.

        Plain means, and for collections of copies uniform draws, are then the right ones.
        """
        return self._taught(self.teacher)

    def _taught(self, teacher: Floats) -> TaskCollection:
        copies: list[Task] = []
        matrices = self.rows.reshape(len(self.counts), -1, self.rows.shape[-1])
        for X, count in zip(matrices, self.counts.tolist(), strict=True):
            copies += [make_task(X, X @ teacher)] * count
        return TaskCollection(copies)

    @property
    def loss(self) -> float:
        """The expected average loss of the worst unit teacher after k steps."""
        return self.value * self.tasks.radius**2 / self.k

    def evaluate(self) -> float:
        """Return k·loss/(R²D²) computed from scratch by ``worst_case``, which shares no code with
        the search.
        """
        loss = worst_case(self.tasks, self.schedule, self.k, ordering=self.ordering).loss
        return self.k * float(loss) / self.tasks.radius**2

    def compare_bounds(self) -> BoundComparison:
        """Return the exact losses beside every bound that applies, as ``fl.compare_bounds(tasks,
        schedule, k)``.
        """
        return compare_bounds(self.tasks, self.schedule, self.k, ordering=self.ordering)

    @cached_property
    def constants(self) -> tuple[BoundConstant, ...]:
        """The bounds of the average loss that hold for this schedule and k, tightest first, lower
        ones at the end.

        Upper bounds are those that apply to this collection. Lower bounds hold for the worst
        collection, and are checked on those they are proved with, ``constructions.unseen_task`` of
        k and of k + 1 tasks.
        """
        upper, constants = [self._setting(self.tasks)], []
        lower = [self._setting(constructions.unseen_task(M)) for M in (self.k, self.k + 1) if M > 1]
        for bound in BOUNDS:
            for setting in upper if bound.kind == "upper" else lower:
                if self._holds(bound, setting):
                    scale = self.k / (setting.radius * setting.distance) ** 2
                    constants.append(
                        BoundConstant(
                            bound.name, bound.kind, scale * bound.value(setting), bound.status
                        )
                    )
        return tuple(
            sorted(
                constants,
                key=lambda c: (c.kind == "lower", c.value if c.kind == "upper" else -c.value),
            )
        )

    @staticmethod
    def _holds(bound: Bound, setting: Setting) -> bool:
        return (
            bound.quantity == "average_loss"
            and bound.constant_known
            and not bound.failures(setting)
        )

    def _setting(self, tasks: TaskCollection) -> Setting:
        start, teacher = tasks.start(), tasks.teacher()
        filter_ = resolve(self.schedule, self.k, tasks.radius)
        return Setting(
            tasks, filter_, self.k, self.ordering, start, teacher, float(np.linalg.norm(teacher))
        )

    def best(self, kind: str, *, published: bool = True) -> BoundConstant | None:
        """Return the tightest "upper" or "lower" constant, by default a published one; None if
        there is none.
        """
        if kind not in ("upper", "lower"):
            raise ValueError(f'kind must be "upper" or "lower", got {kind!r}')
        constants = (
            c
            for c in self.constants
            if c.kind == kind and not (published and c.status in _UNPUBLISHED)
        )
        return next(constants, None)

    @property
    def upper(self) -> BoundConstant | None:
        """The tightest published upper constant."""
        return self.best("upper")

    @property
    def lower(self) -> BoundConstant | None:
        """The tightest published lower constant."""
        return self.best("lower")

    def __repr__(self) -> str:
        lines = [
            (
                f"k·loss/(R²D²) = {self.value:.6g} after k = {self.k} {self._steps()}, schedule"
                f" {self.schedule!r}"
            ),
            *self._bound_lines(),
            (
                f"{len(self.counts)} different tasks in {self.rows.shape[-1]} features,"
                f" {self.counts.sum()} copies in all"
            ),
            "",
            self._summary().text(),
        ]
        return "\n".join([*lines, "", f"found by {self.command}"] if self.command else lines)

    def _steps(self) -> str:
        return (
            "uniform draws"
            if isinstance(self.ordering, WithReplacement)
            else f"steps, {name_of(self.ordering)}"
        )

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
            columns |= {
                f"Gram matrix\n{i}" if i == 1 else f"{i}": column
                for i, column in enumerate(products, start=1)
            }
        return Table("Worst collection", columns, number=".3f", formats={"norm": ".4f"})

    def _bound_lines(self) -> list[str]:
        lines = []
        for kind in ("upper", "lower"):
            best = dict.fromkeys([self.best(kind), self.best(kind, published=False)])
            lines += [
                f"{kind} bound {c.value:>10.6g}   {c.name} ({c.status})"
                for c in best
                if c is not None
            ]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON has."""
        return {**self._header(), "counts": self.counts.tolist(), "rows": self.rows.tolist()}

    def _header(self) -> dict[str, Any]:
        schedule = describe(self.schedule)
        header = {"command": self.command, "schedule": schedule, "k": self.k, "value": self.value}
        return (
            header
            if isinstance(self.ordering, WithReplacement)
            else {**header, "ordering": name_of(self.ordering)}
        )

    def save(self, path: str | Path) -> None:
        """Write the collection to a file; ``fl.load`` reads it, and computes its value again to
        compare.
        """
        write(
            path,
            Document(
                "worst-collection", self._header(), {"rows": self.rows, "counts": self.counts}
            ),
        )


def from_document(document: Document) -> WorstCollection:
    """Return the collection in a document; ValueError if it holds none, or if its value is not that
    of its tasks.
    """
    header = document.header
    k = validate.integer("k", header["k"], 1, "the number of steps")
    if k > _MAX_STEPS:
        raise ValueError(f"k must be at most {_MAX_STEPS} in a file, got {k}")
    value = validate.number("value", header["value"], "k·loss/(R²D²)", positive=True)
    rows, counts = _arrays(Fields(document.arrays), k)
    ordering = _ordering(header.get("ordering", SEARCHED[0]), counts, k)
    schedule = from_plain(header["schedule"])
    collection = WorstCollection(rows, counts, schedule, k, value, str(header["command"]), ordering)
    computed = collection.evaluate()
    if not abs(computed - value) <= 1e-9 * value:
        raise ValueError(
            f"its value {value!r} is not that of its tasks, {computed!r}; some number was changed"
        )
    return collection


def _ordering(name: Any, counts: NDArray[np.int64], k: int) -> Ordering:
    """Return the ordering of a file; ValueError if it has none of this name, or not for these
    tasks.
    """
    if name not in SEARCHED:
        raise ValueError(f"its ordering is {name!r}, not one of {', '.join(SEARCHED)}")
    ordering = NAMES[name]
    ordering.check(int(counts.sum()), k)
    if isinstance(ordering.law(len(counts), k), Epochs) and counts.sum() > LARGEST_EPOCH:
        raise ValueError(f"random epochs of {counts.sum()} tasks are too many to be checked")
    return ordering


def _arrays(fields: Fields, k: int) -> tuple[Floats, NDArray[np.int64]]:
    rows, max_copies = fields.array("rows", "f"), max(_MAX_COPIES, 8 * k)
    if rows.ndim not in (2, 3) or 0 in rows.shape:
        raise ValueError(f"rows must have one row or table per task, got shape {rows.shape}")
    counts = fields.array("counts", "i", rows.shape[:1], low=1, high=max_copies).astype(np.int64)
    fields.end()
    longest = float(np.sqrt((rows**2).sum(axis=-1)).max())
    if abs(longest - 1) > 1e-9:
        raise ValueError(
            f"the longest of the rows must have norm 1, got {longest!r}; divide all of them by it"
        )
    if rows.ndim == 3 and (rows.shape[1] > rows.shape[2] or not _orthogonal(rows)):
        raise ValueError("the rows of a task must be orthogonal, and no more than features")
    if k * rows.size * rows.shape[-1] > _MAX_WORK:
        raise ValueError(f"rows of shape {rows.shape} and k = {k} are too many to be checked")
    if counts.sum() > max_copies:
        raise ValueError(f"counts must have a sum of at most {max_copies}, got {counts.sum()}")
    return rows.astype(np.float64, copy=False), counts


def _orthogonal(tasks: Floats) -> bool:
    products = tasks @ tasks.swapaxes(1, 2)
    return bool(np.abs(products - products * np.eye(tasks.shape[1])).max() <= 1e-9)


def load_worst_collection(schedule: str, k: int) -> WorstCollection:
    """Return the worst collection shipped with the package for a schedule and a number of steps.

    Parameters
    ----------
    schedule : "none", "fixed" or "increasing"
        No regularization, ``schedules.fixed()`` or ``schedules.increasing()``.
    k : int
        64 or 256.

    Returns
    -------
    WorstCollection
        With the command that found it in ``.command``.

    Examples
    --------
    >>> import forgetless as fl
    >>> worst = fl.load_worst_collection("increasing", k=64)
    >>> round(worst.value, 3), round(worst.upper.value, 1), worst.upper.name
    (0.952, 19.2, 'increasing, larger scale')
    """
    folder = Path(__file__).with_name("data")
    names = sorted(path.stem for path in folder.glob("*.fl"))
    if f"{schedule}-{k}" not in names:
        shipped = ", ".join(names)
        raise ValueError(
            f"schedule and k must be one of {shipped}, got {schedule!r} and {k!r}; "
            "search for others with fl.find_worst_collection"
        )
    path = folder / f"{schedule}-{k}.fl"
    with file_errors(path):
        return from_document(read(path))

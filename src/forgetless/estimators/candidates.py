"""What ``schedule="auto"`` keeps: a few weight vectors, each of its own strength, and how well each of them does.

Candidate j learns task t with the penalty c_j·t·τ Σ_i u_i²(w_i − w_i′)²/2, which grows with t as remembering asks for.
The units u_i² = √(m_i·m̄) lie half way between one for all features and the mean square m_i of each, so that other
units of a column change little; τ is the size of the first task in them. All candidates share what the model remembers
beside its weights, and the model predicts with the one whose errors are smallest:

- on the next task: Σ‖y_t − X_t w_{t−1}‖², every row predicted before it was learned;
- on all tasks seen: Σ‖y_t − X_t w‖² for the present weights, estimated from a sketch, ``SKETCH`` random sums ±1 of all
  rows of all tasks, whose expected squared error is the sum over all rows; and a quarter of the former.

Nothing here grows with the number of tasks, and no row is stored.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy, with_zeros, zeros
from forgetless.estimators._units import UnitChange
from forgetless.solvers.rows import is_sparse

STRENGTHS = 10.0 ** np.arange(-7.0, 1.0)
"""c_j: what a penalty of the first task's size is multiplied with."""

SKETCH = 64
"""Number of sums of rows: the squared error is estimated to a fifth, differences of similar candidates better."""

SMALLEST = 1e-14
"""Columns whose mean square is a smaller share of the largest one are taken for rounding."""

LARGEST = 1e140
"""Tasks with a larger ‖X‖² or squared error are learned but not counted: they would decide for good."""

BEFORE = 0.25
"""What the error on rows before they were learned counts for where those seen are asked for: the sketch is rough."""


class Candidates(NamedTuple):
    """The candidates after some tasks.

    Attributes
    ----------
    weights : array of shape (J, d, c)
    squares : array of shape (d,)
        Σ over tasks of the squares of every column, divided like the loss of the task.
    before : array of shape (J,)
        Squared error of every row before it was learned, from the second task on, divided likewise.
    sketch, targets : arrays of shape (K, d) and (K, c)
        Random sums of rows and of their targets.
    unit : float
        τ; NaN before the first task.
    tasks : int
        Tasks that the candidates have learned.
    chosen : int
    """

    weights: Array
    squares: Array
    before: Floats
    sketch: Array
    targets: Array
    unit: float = math.nan
    tasks: int = 0
    chosen: int = len(STRENGTHS) // 2

    @classmethod
    def starting_from(cls, weights: Array) -> "Candidates":
        """Return candidates that all begin with the weights (d, c) of a model."""
        xp, (d, c) = namespace_of(weights), weights.shape
        few = xp.float32
        return cls(
            xp.stack([weights] * len(STRENGTHS)),
            xp.astype(weights[:, 0] * 0, xp.float64, copy=False),
            np.zeros(len(STRENGTHS)),
            xp.astype(zeros((SKETCH, int(d)), weights), few, copy=False),
            xp.astype(zeros((SKETCH, int(c)), weights), few, copy=False),
        )

    def measured(self, squares: Array) -> "Candidates":
        """Return the candidates with the columns of the next task added, whose squares sum up to ``squares``."""
        candidates = self._replace(squares=self.squares + squares, tasks=self.tasks + 1)
        if math.isnan(self.unit):
            xp = namespace_of(squares)
            return candidates._replace(unit=float(xp.sum(squares / candidates.units() ** 2)))
        return candidates

    def units(self) -> Array:
        """Return u (d,), in which each column is measured."""
        xp = namespace_of(self.squares)
        mean = self.squares / max(self.tasks, 1)
        floor = SMALLEST * float(xp.max(mean))
        mean = xp.where(mean > floor, mean, mean * 0 + floor)
        return mean**0.25 * float(xp.mean(mean)) ** 0.25

    def each(self) -> list[Array]:
        """Return the weights (d, c) of every candidate."""
        return [self.weights[j, ...] for j in range(len(STRENGTHS))]

    @property
    def coefficients(self) -> Floats:
        """The penalties c_j·t·τ of the coming task."""
        return STRENGTHS * self.tasks * self.unit

    def in_units(self, change: UnitChange) -> "Candidates":
        """Return the same candidates in other units of the columns."""
        return self._replace(
            weights=change.weights(self.weights),
            squares=change.squares(self.squares),
            sketch=change.rows(self.sketch),
        )

    def widened(self, d: int, count: int) -> "Candidates":
        """Return the candidates with ``count`` more features behind the first d, zero in every row."""
        return self._replace(
            weights=with_zeros(self.weights, d, count, 1),
            squares=with_zeros(self.squares, d, count, 0),
            sketch=with_zeros(self.sketch, d, count, 1),
        )

    def after(self, weights: Array, task: Any, scale: float, errors: Floats, size: float) -> "Candidates":
        """Return the candidates with new weights (J, d, c) after a task (``TaskData``) of ‖X‖² = ``size``.

        ``errors`` are the squared errors of all candidates before it.
        """
        if not max(float(np.max(errors)), size) < LARGEST * scale:
            return self._replace(weights=weights)
        xp = namespace_of(weights)
        old, new = (self.sketch, self.targets), _sketched(task, scale, self.tasks)
        # In double from the first task on for which single precision has no room.
        single = old[0].dtype == xp.float32 and all(_fits(each) for each in new)
        dtype = xp.float32 if single else xp.float64
        rows, targets = (xp.astype(a, dtype) + xp.astype(b, dtype) for a, b in zip(old, new, strict=True))
        before = self.before + (errors / scale if self.tasks > 1 else 0.0)
        return self._replace(weights=weights, before=before, sketch=rows, targets=targets)

    def choosing(self, objective: str, *, classes: bool = False) -> "Candidates":
        """Return the candidates with the best one chosen, for the objective "seen" or "next".

        Where targets are ``classes``, the next task may have new ones, which says nothing about those seen.
        """
        if objective == "next":
            scores = self.before
        else:
            scores = self.seen_errors() if classes else self.seen_errors() + BEFORE * self.before
        return self._replace(chosen=int(np.nanargmin(scores))) if np.isfinite(scores).any() else self

    def seen_errors(self) -> Floats:
        """Return about Σ‖y_t − X_t w‖² over all tasks, of every candidate."""
        xp = namespace_of(self.weights)
        wide = xp.astype(self.sketch, self.weights.dtype, copy=False)
        residual = wide @ self.weights - xp.astype(self.targets, self.weights.dtype, copy=False)
        with np.errstate(over="ignore"):
            return np.asarray(to_numpy(xp.sum(residual**2, axis=(1, 2))), dtype=np.float64)


def _fits(sums: Array) -> bool:
    """Return whether single precision has room for sums of rows, and for those of many tasks."""
    xp = namespace_of(sums)
    largest = float(xp.max(xp.abs(sums)))
    return largest == 0.0 or 1e-30 < largest < 1e30


def _sketched(task: Any, scale: float, number: int) -> tuple[Array, Array]:
    """Return random sums of the rows of a task and of their targets: its squared error in ``SKETCH`` rows, on average.

    Of rows that were read once XᵀX is left, and any matrix with the same XᵀX will do. Its eigenvectors point to the
    side on which they are largest, so that the last digit does not turn them round.
    """
    start, residual, rows = task.start, task.residual, task.rows
    xp = namespace_of(start)
    if not rows.readable:
        inner = to_numpy(task.right)
        gram = np.block([[rows.gram, inner], [inner.T, np.diag(to_numpy(residual)[0] ** 2)]])
        values, vectors = np.linalg.eigh(gram)
        vectors *= np.sign(np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=0)[None, :], axis=0))
        side = np.random.default_rng([number, 2]).choice([-1.0, 1.0], (SKETCH, len(values)))
        sums = (side / math.sqrt(SKETCH * scale) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        d = rows.shape[1]
        return sums[:, :d], sums[:, d:] + sums[:, :d] @ to_numpy(start)
    n = rows.shape[0]
    bits = np.random.default_rng([number, 1]).bytes(SKETCH // 8 * n)
    signs = np.unpackbits(np.frombuffer(bits, dtype=np.uint8)).reshape(SKETCH, n)
    size = 1.0 / math.sqrt(SKETCH * scale)
    total = xp.astype(zeros((SKETCH, rows.shape[1]), start), start.dtype, copy=False)
    targets: Any = 0.0
    first, dtype = 0, to_numpy(start[:1, :1]).dtype
    for block in rows.blocks():
        n = int(block.shape[0])
        part = from_numpy((signs[:, first : first + n] * (2 * size) - size).astype(dtype), like=start)
        mixed = (block.T @ part.T).T if is_sparse(block) else part @ block
        total = total + mixed
        targets = targets + part @ residual[first : first + n, :] + mixed @ start
        first += n
    return total, targets

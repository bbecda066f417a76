"""Streaming advice: which λ would have predicted the last tasks best, found by replaying them exactly.

A window of past tasks is kept as rows, at most ``TASK_ROWS`` of each and ``WINDOW_ROWS`` in all, with the weights from
before its first task. Everything a replay needs is the Gram matrix K of these rows: in the errors e = Aw − y of all of
them, learning task m with coefficient λ is e ← e − K[:, m] (K[m, m] + λ)⁻¹ e[m], for all λ of a grid together. The
score of λ is the prequential one, Σ ‖e[m]‖² before learning m. The best λ is used until the next replay.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forgetless._base.arrays import Floats, to_numpy
from forgetless._base.products import one_blas_thread
from forgetless.solvers.rows import Rows, is_sparse, rows_of

TASK_ROWS = 64


WINDOW_ROWS = 1024


EVERY_ROWS = 64
"""After the first eight tasks the window is replayed whenever this many rows have come."""


DECADES = (-7, 5)
"""How far below the smallest and above the largest task coefficients are tried, in decades of tr XᵀX."""


TARGETS = 32
"""More targets are replaced by as many random combinations, which have the same squared error on average."""


NUMBERS = 2**22
"""Numbers that the rows of a window may hold, 32 MB."""


PRIOR, DOUBT = 0.1, 0.5
"""What is thought best, relative to the trace of a typical task, before any task was seen, and how firmly."""


LARGEST = 1e300
"""The largest coefficient advised."""


@dataclass(frozen=True, eq=False)
class Window:
    """Past tasks as errors and Gram matrix of their rows; adding one gives a new window.

    Attributes
    ----------
    rows : list of matrices
        Sampled rows of each task, scaled so that their Gram matrix stands for that of all rows.
    targets : list of arrays (n_m, c)
    weights : list of float
        What λ is multiplied with for each task: its number of rows for the mean loss, else 1.
    anchor, middle : arrays of shape (d, c)
        Weights before the first task, and before task number ``half`` of the window, from where it goes on when full.
    gram : array of shape (Σn, Σn)
    errors : array of shape (Σn, c)
        Aw − y at the anchor.
    """

    anchor: Floats
    rows: list[Any] = field(default_factory=list)
    targets: list[Floats] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    errors: Floats | None = None
    middle: Floats | None = None
    half: int = 0

    @property
    def bounds(self) -> list[slice]:
        """Where each task lies among the rows."""
        ends = np.cumsum([len(target) for target in self.targets]).tolist()
        return [slice(end - len(target), end) for end, target in zip(ends, self.targets, strict=True)]

    def added(self, A: Any, target: Floats, weight: float, start: Floats) -> "Window":
        """Return the window with one more task, learned from the weights ``start``."""
        window, room = self, min(WINDOW_ROWS, max(2 * TASK_ROWS, NUMBERS * len(target) // max(_stored(A), 1)))
        while len(window.gram) + len(target) > room and window.targets:
            window = window._second_half(start)
        middle, half = window.middle, window.half
        if middle is None and window.targets and len(window.gram) + len(target) > room // 2:
            middle, half = start, len(window.targets)
        cross = [np.asarray(_dense(B @ A.T)) for B in window.rows]
        own = np.asarray(_dense(A @ A.T))
        side = np.concatenate(cross) if cross else np.zeros((0, len(target)))
        error = np.asarray(A @ window.anchor) - target
        return Window(
            anchor=window.anchor,
            rows=[*window.rows, A],
            targets=[*window.targets, target],
            weights=[*window.weights, weight],
            gram=np.block([[window.gram, side], [side.T, own]]),
            errors=error if window.errors is None else np.concatenate([window.errors, error]),
            middle=middle,
            half=half,
        )

    def _second_half(self, now: Floats) -> "Window":
        if self.middle is None:  # a single stretch that is too long: begin anew
            return Window(now)
        half = self.half
        start = sum(len(target) for target in self.targets[:half])
        anchor = self.middle
        errors = [np.asarray(A @ anchor) - y for A, y in zip(self.rows[half:], self.targets[half:], strict=True)]
        return Window(
            anchor=anchor,
            rows=self.rows[half:],
            targets=self.targets[half:],
            weights=self.weights[half:],
            gram=self.gram[start:, start:],
            errors=np.concatenate(errors) if errors else None,
        )

    def scores(self, coefficients: Floats) -> Floats:
        """Return the prequential squared error of every coefficient over the window, but for its first task."""
        assert self.errors is not None
        c, count = self.errors.shape[1], len(coefficients)
        e = np.repeat(self.errors[:, :, None], count, axis=2)
        total = np.zeros(count)
        for i, (at, weight) in enumerate(zip(self.bounds, self.weights, strict=True)):
            now = e[at]
            if i:
                total += np.einsum("ncg,ncg->g", now, now)
            if at.stop == len(e):
                break
            theta, U = np.linalg.eigh(self.gram[at, at])
            damp = np.maximum(theta, 0.0)[:, None] + weight * coefficients
            a = np.tensordot(U.T, now, axes=1) / np.maximum(damp, np.finfo(float).tiny)[:, None, :]
            later = slice(at.stop, None)  # what was learned before is not looked at again
            lift = self.gram[later, at] @ U
            e[later] -= (lift @ a.reshape(len(theta), c * count)).reshape(-1, c, count)
        return total


@dataclass(frozen=True, eq=False)
class Advisor:
    """What ``schedule="auto"`` knows: a window of past tasks, and the coefficient that would have been best in it.

    The window holds rows of the user's, so it does not leave the process: what is pickled or saved is the coefficient
    ``kept``. A window that begins anew, after loading or after a task that cannot be sampled, starts from there.
    """

    window: Window | None = None
    coefficient: float = math.nan
    pending: int = 0
    kept: float = math.nan

    def advised(self, radius: float) -> float:
        """Return λ for the next task: the best so far, or before two tasks were seen a tenth of R²."""
        return self.coefficient if math.isfinite(self.coefficient) else min(PRIOR * radius * radius, LARGEST)

    def without_rows(self) -> "Advisor":
        """Return an advisor that begins another window, from the coefficient that was best so far."""
        return Advisor(None, self.coefficient, 0, self.coefficient)

    def __reduce__(self) -> tuple[Any, ...]:
        bare = self.without_rows()
        return Advisor, (None, bare.coefficient, 0, bare.kept)

    def __deepcopy__(self, _memo: Any) -> "Advisor":
        return self  # nothing in it is ever changed

    def observed(self, rows: Rows, residual: Any, scale: float, start: Any, task: int) -> "Advisor":
        """Return the advisor after task number ``task``, which was learned from ``start`` with this residual."""
        # Many small products: BLAS threads would take longer to wake than to compute.
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            A, r, w = _sampled(rows, residual, start, task)
            if A is None:  # the window would lack a task: begin another
                return self.without_rows()
            window = (Window(w) if self.window is None else self.window).added(A, r + np.asarray(A @ w), scale, w)
            # Rows too large to be squared cannot be replayed, and would spoil all that come after them.
            if not np.isfinite(window.gram[-len(r) :]).all() or not np.isfinite(window.errors).all():  # type: ignore[arg-type]
                return self.without_rows()
            pending = self.pending + len(r)
            if len(window.targets) < 2 or (task > 8 and pending < EVERY_ROWS):
                return dataclasses.replace(self, window=window, pending=pending)
            found = _best(window, self.kept)
        return Advisor(window, found, 0, self.kept) if math.isfinite(found) else self.without_rows()


def _best(window: Window, kept: float = math.nan) -> float:
    """Return the coefficient with the best score: over a grid, then between the neighbours of its best point.

    The grid reaches from far below the smallest task to far above the largest. With m tasks scored, m·ln(score) +
    (decades from ``PRIOR``, or from what an earlier window has found)²·``DOUBT`` is minimised: one or two tasks alone
    would often ask for no regularization, or for not learning at all. NaN where no score is finite.
    """
    sizes = [float(np.trace(window.gram[at, at])) / w for at, w in zip(window.bounds, window.weights, strict=True)]
    sizes = sorted(size for size in sizes if 1e-280 < size < 1e280)
    if not sizes:
        return math.nan
    typical, count = sizes[len(sizes) // 2], len(window.targets) - 1
    low, high = math.log10(sizes[0]) + DECADES[0], math.log10(sizes[-1]) + DECADES[1]
    grid: Floats = np.logspace(low, high, int(4 * (high - low)) + 1)
    centre = kept if kept > 0 else PRIOR * typical
    best = centre
    for _ in range(2):
        scores = np.maximum(window.scores(grid), np.finfo(float).tiny)
        values = count * np.log(scores) + DOUBT * np.log10(grid / centre) ** 2
        if not np.isfinite(values).any():
            return math.nan
        at = int(np.nanargmin(values))
        best = float(grid[at])
        grid = np.geomspace(grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)], 9)
    return best


def _sampled(rows: Rows, residual: Any, start: Any, task: int) -> tuple[Any, Any, Any]:
    """Return rows of a task, their residuals and the weights they were learned from; None for blocks.

    Of long tasks a sample, scaled up for the rows left out; of wide ones fewer, so that memory is bounded; of many
    targets as many random combinations.
    """
    if rows.single is None:
        return None, None, None
    X, r = rows.single, np.asarray(to_numpy(residual), dtype=np.float64)
    w = np.asarray(to_numpy(start), dtype=np.float64)
    n = rows.shape[0]
    most = int(min(TASK_ROWS, max(4, NUMBERS // 16 * n // max(rows.stored, 1))))
    at = np.arange(n)
    if n > most:
        at = np.sort(np.random.default_rng([task, n]).choice(n, most, replace=False))
    factor = math.sqrt(n / len(at))
    A = rows_of(X, at)
    A = A.astype(np.float64) if is_sparse(A) else np.asarray(to_numpy(A), dtype=np.float64)
    r = r[at]
    if r.shape[1] > TARGETS:
        mix = np.random.default_rng(r.shape[1]).standard_normal((r.shape[1], TARGETS)) / math.sqrt(TARGETS)
        r, w = r @ mix, w @ mix
    return A * factor, r * factor, w


def _stored(A: Any) -> int:
    return int(A.nnz) if is_sparse(A) else int(A.size)


def _dense(product: Any) -> Any:
    return product.toarray() if is_sparse(product) else product

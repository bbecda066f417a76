"""Sketch of the truncation residual of a low-rank memory, from which the untuned strength of the classifier follows.

Truncations leave E = Σ XᵀX − BᵀB behind. A step penalized by B alone moves too far along the rows of E. The penalty λ
has to replace E there, and its natural size is the overlap of the task with E: the mean of xᵀE x/‖x‖² over its rows x,
less their part in the span of B. E itself has d² numbers. Stored is TᵀET, where T adds up the columns with random signs
in k ≈ √d places (a count sketch, Charikar, Chen and Farach-Colton 2002). For symmetric A

    tr(EA) ≈ (⟨TᵀET, TᵀAT⟩ − tr(TᵀET)·tr(TᵀAT)/k)/(1 + 1/k − 2/k²),

in the mean over T up to a share of 2/k, that of the diagonal of E and A.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy
from forgetless.io.document import Fields
from forgetless.solvers.rows import Rows, is_sparse

PLACES = 32, 256
"""Fewest and most columns of a sketch: eight kilobytes, and as many numbers as 65 536 features have weights."""

NOTHING = 1e-3
"""Fraction of the trace below which the residual is taken for rounding."""

UnitRows = tuple[Array, Floats]
"""B as rows of norm 1 and their norms."""


class Residual(NamedTuple):
    """Sketch of E, and its mean overlap with tasks.

    Attributes
    ----------
    sketch : array of shape (k, k)
        TᵀET.
    overlap, size : float
        Sums over the tasks, for A = XᵀX off the span of B: of tr(EA)/tr(E), and of tr(A).
    """

    sketch: Floats
    overlap: float = 0.0
    size: float = 0.0

    @classmethod
    def empty(cls, d: int) -> "Residual":
        """Return the sketch before the first task, of d features."""
        k = min(max(math.isqrt(d), PLACES[0]), PLACES[1])
        return cls(np.zeros((k, k)))

    @classmethod
    def from_fields(cls, fields: Fields) -> "Residual":
        """Return the sketch in the arrays of a file; ValueError where one is not valid."""
        sketch = fields.array("sketch", "f", (None, None)).astype(np.float64)
        if sketch.shape[0] != sketch.shape[1] or not PLACES[0] <= len(sketch) <= PLACES[1]:
            raise ValueError(f"residual.sketch has the shape {sketch.shape}")
        overlap, size = (float(fields.array(name, "f", ())) for name in ("overlap", "size"))
        fields.end()
        return cls(sketch, overlap, size)

    def scaled(self, factor: float) -> "Residual":
        """Return the sketch with all tasks so far multiplied by a factor."""
        return Residual(factor * self.sketch, factor * self.overlap, factor * self.size)

    def with_overlap(self, rows: Rows, units: Array, features: int, trace: float) -> "Residual":
        """Return the sketch with the overlap of the next task; ``units`` (q, d) span the rows of B.

        ``features`` columns are sketched, all but the intercept's; ``trace`` is Σ‖X‖² of the tasks so far.
        """
        residual_trace = float(np.trace(self.sketch))
        if not residual_trace > NOTHING * trace:
            return self
        A = _off(rows, units, _Places(features, len(self.sketch)))
        # Divided first: the product of the two is a fourth power of entries of X, which may overflow.
        overlap = self.overlap + inner(self.sketch / residual_trace, A)
        return self._replace(overlap=overlap, size=self.size + float(np.trace(A)))

    def after(self, rows: Rows, scale: float, old: "UnitRows", new: "UnitRows", features: int) -> "Residual":
        """Return the sketch after a task whose loss is divided by ``scale``, with B before and after it."""
        places = _Places(features, len(self.sketch))
        # Norms come last: unit rows are in the range of float32, B may not be.
        before, now = (places.of(units) * sizes[:, None] for units, sizes in (old, new))
        return self._replace(sketch=self.sketch + _gram(rows, places) / scale + before.T @ before - now.T @ now)

    @property
    def mean_overlap(self) -> float:
        """Mean of xᵀE x/(‖x‖² tr E) over the rows of all tasks: one over the number of directions in common."""
        return min(max(self.overlap / self.size, 0.0), 1.0) if self.size > 0 else 0.0


class _Places:
    """T: the place and the sign of every feature, the same for all streams, machines and versions of NumPy.

    Files hold sketches computed with it. Features that come later do not change those of others.
    """

    def __init__(self, features: int, k: int, seed: int = 0) -> None:
        self.features, self.k = features, k
        bits = _mixed_bits(np.arange(features, dtype=np.uint64) + np.uint64(seed << 40))
        self.at = ((bits >> np.uint64(1)) % np.uint64(k)).astype(np.int64)
        self.sign = 1.0 - 2.0 * (bits & np.uint64(1)).astype(np.float64)

    def of(self, X: Any) -> Floats:
        """Return X·T, in float64."""
        if not (isinstance(X, np.ndarray) or is_sparse(X)):
            T = namespace_of(X).astype(from_numpy(self.dense(int(X.shape[1])), like=X), X.dtype, copy=False)
            return to_numpy(X @ T).astype(np.float64)
        from scipy import sparse

        entries = (self.sign.astype(X.dtype), (np.arange(self.features), self.at))
        sums = X @ sparse.csr_array(entries, shape=(X.shape[1], self.k))
        return np.asarray(sums.toarray() if is_sparse(sums) else sums, dtype=np.float64)

    def dense(self, d: int) -> Floats:
        """Return T with d rows."""
        T = np.zeros((d, self.k))
        T[np.arange(self.features), self.at] = self.sign
        return T


def _mixed_bits(numbers: Any) -> Any:
    """Return 64 bits for each number, as good as random (splitmix64; Steele, Lea and Flood 2014)."""
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def inner(E: Floats, A: Floats) -> float:
    """Return about tr(EA) of two matrices whose sketches are given."""
    k = len(E)
    return float((np.sum(E * A) - np.trace(E) * np.trace(A) / k) / (1 + 1 / k - 2 / k**2))


def _gram(rows: Rows, places: _Places) -> Floats:
    """Return TᵀXᵀXT."""
    if not rows.readable:
        return places.of(np.ascontiguousarray(places.of(to_numpy(rows.gram)).T))
    total = np.zeros((places.k, places.k))
    for block in rows.blocks():
        sketched = places.of(block)
        total += sketched.T @ sketched
    return total


def _off(rows: Rows, units: Array, places: _Places) -> Floats:
    """Return TᵀPXᵀXPT, where P takes away what lies in the span of ``units``."""
    xp = namespace_of(units)
    wide = xp.astype(units, xp.float64, copy=False)
    products = to_numpy(wide @ wide.T)
    # Rows may be nearly the same: what they have in common is then taken away by any of them.
    inside = np.linalg.solve(products + 1e-6 * np.eye(len(products)), places.of(units))
    if not rows.readable:
        W = places.dense(rows.shape[1]) - to_numpy(wide).T @ inside
        return np.asarray(W.T @ to_numpy(rows.gram) @ W)
    total = np.zeros((places.k, places.k))
    for block in rows.blocks():
        along = block @ (units if is_sparse(block) else xp.astype(units, block.dtype, copy=False)).T
        left = places.of(block) - to_numpy(along) @ inside
        total += left.T @ left
    return total

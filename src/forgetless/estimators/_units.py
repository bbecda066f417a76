"""Units of columns for ``standardize=True``: the mean and scale of every column so far, in O(d).

Inside a model a column x is (x − m)/s. Statistics change with every task, and weights and memory
are then converted from the old units to the new ones (``UnitChange``), so that the function and the
memory stay as they were. Only dense rows with an intercept are centred: without an intercept the
function could not be converted, and sparse rows would become dense. A column that never varied has
no scale yet; it counts as zero until it has one.
"""

from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless.solvers.rows import is_sparse

ROUNDING = 1e-10
"""A standard deviation below this share of the root mean square of a column is taken for
rounding."""


class Units(NamedTuple):
    """Statistics of the columns over all rows learned.

    Attributes
    ----------
    total : float
        The number of rows, or the sum of their weights.
    mean, spread : arrays of shape (d,)
        The mean m of every column, and Σ(x − m)².
    scale : array of shape (d,)
        s, the root mean square of x − m, or of x where columns are not centred; 0 where it is not
        known yet.
    centred : bool
    """

    total: float
    mean: Floats
    spread: Floats
    scale: Floats
    centred: bool

    @classmethod
    def none(cls, d: int, *, centred: bool) -> "Units":
        """Return the units before the first row."""
        return cls(0.0, np.zeros(d), np.zeros(d), np.zeros(d), centred)

    @classmethod
    def of(cls, state: Any, X: Any) -> "Units":
        """Return the units of a state; before the first rows X those of no row."""
        if state.units is not None:
            return state.units  # type: ignore[no-any-return]
        return cls.none(int(X.shape[1]), centred=state.fit_intercept and not is_sparse(X))

    @property
    def center(self) -> Floats:
        """What is subtracted from every column."""
        return self.mean if self.centred else np.zeros_like(self.mean)

    def with_rows(self, X: Any, weight: Any) -> "Units":
        """Return the units that know some more rows (Chan, Golub and LeVeque's update)."""
        return self.with_moments(*_moments(X, weight), dense=not is_sparse(X))

    def with_moments(self, n: float, mean: Floats, spread: Floats, *, dense: bool) -> "Units":
        """Return the same from the weight of the rows, their mean, and the sum of squares around
        it.
        """
        if n == 0:
            return self
        total = self.total + n
        apart = mean - self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            spread = self.spread + spread + apart**2 * (self.total * n / total)
            mean = self.mean + apart * (n / total)
            size = np.sqrt(spread / total + mean**2)
        if not np.all(np.isfinite(size)):
            raise OverflowError("a column of X is too large to be squared; rescale X towards 1")
        centred = self.centred and dense
        scale = np.sqrt(spread / total) if centred else size
        # What was measured once stays: a mean that grows cannot make a column constant again.
        scale = np.where(scale > ROUNDING * size, scale, self.scale)
        return Units(total, mean, spread, scale, centred)

    def inward(self, X: Any) -> Any:
        """Return rows in these units."""
        if is_sparse(X):
            from scipy import sparse

            if self.centred:  # a block among others that are dense
                return self.inward(X.toarray())
            return sparse.csr_array(X.multiply(_inverse(self.scale)[None, :].astype(X.dtype)))
        if isinstance(X, np.ndarray) and X.dtype == np.float64:
            return _inward(X, self.center, _inverse(self.scale))
        center = self.center
        inverse = _inverse(self.scale)
        # Rows in single precision lose what lies below a large mean if that is subtracted in single
        # precision.
        wide = X.astype(center.dtype, copy=False)
        return ((wide - center[None, :]) * inverse[None, :]).astype(X.dtype, copy=False)

    def product(self, X: Any, coef: Any) -> Any:
        """Return the product of rows in these units with coefficients (d,) or (c, d)."""
        if not (isinstance(X, np.ndarray) and X.dtype == coef.dtype == np.float64):
            return self.inward(X) @ coef.T
        # As X times weights in the user's units, but for columns whose mean would take their
        # digits.
        slope = coef * _inverse(self.scale)
        far = np.flatnonzero(far_from_zero(self.center, self.scale))
        near = slope.copy()
        near[..., far] = 0.0
        return X @ near.T - near @ self.center + (X[:, far] - self.center[far]) @ slope[..., far].T

    def outward(self, weights: Array) -> Array:
        """Return weights (d, c), the last row being the intercept where columns are centred, in the
        user's units.
        """
        return UnitChange(_inverse(self.scale), -self.center).weights(weights)

    def widened(self, count: int) -> "Units":
        """Return the units of ``count`` more columns, which were zero in all rows so far."""
        zero = np.zeros(count)
        mean, spread, scale = (
            np.concatenate([each, zero]) for each in (self.mean, self.spread, self.scale)
        )
        return self._replace(mean=mean, spread=spread, scale=scale)


class UnitChange(NamedTuple):
    """From units (m, s) to (m′, s′): what weights are multiplied with, s′/s, and the shift (m′ −
    m)/s′.
    """

    ratio: Floats
    shift: Floats

    @classmethod
    def between(cls, old: Units, new: Units) -> "UnitChange":
        """Return the way from old units to new ones.

        Where a column had no scale its weights and rows are zero, and every scale is as good.
        """
        ratio = np.where(old.scale > 0, new.scale * _inverse(old.scale), 1.0)
        return cls(ratio, (new.center - old.center) * _inverse(new.scale))

    def weights(self, weights: Array) -> Array:
        """Return weights (…, d, c) of the same function; the last row is the intercept, where there
        is one.
        """
        ratio, shift = self._like(weights)
        d = len(self.ratio)
        columns = weights[..., :d, :] * ratio[:, None]
        if weights.shape[-2] == d:
            return columns
        added = np.sum(columns * shift[:, None], axis=-2, keepdims=True)
        return np.concatenate([columns, weights[..., d:, :] + added], axis=-2)

    def rows(self, rows: Array) -> Array:
        """Return sums of rows (n, d), the last column being that of the intercept, where there is
        one.
        """
        ratio, shift = self._like(rows)
        d = len(self.ratio)
        columns = rows[:, :d] / ratio[None, :]
        if rows.shape[1] == d:
            return columns
        return np.concatenate([columns - rows[:, d:] * shift[None, :], rows[:, d:]], axis=1)

    def gram(self, gram: Array) -> Array:
        """Return XᵀX."""
        return self.rows(self.rows(gram).T)

    def squares(self, squares: Array) -> Array:
        """Return Σx² of every column, taking Σ(x − m) for zero, as it is where all rows count the
        same.
        """
        ratio, shift = self._like(squares)
        d = len(self.ratio)
        columns = squares[:d] / ratio**2
        if squares.shape[0] == d:
            return columns
        return np.concatenate([columns + shift**2 * squares[d:], squares[d:]])

    def _like(self, array: Array) -> tuple[Array, Array]:
        dtype = array.dtype
        return self.ratio.astype(dtype, copy=False), self.shift.astype(dtype, copy=False)


def far_from_zero(mean: Floats, scale: Floats) -> Any:
    """Return which columns lie so far from zero that XᵀX about zero would lose more than four of
    its sixteen digits.
    """
    return np.abs(mean) > 100.0 * scale


def _inward(X: Floats, center: Floats, inverse: Floats) -> Floats:
    """Return (X − m)/s, with as little work as it takes; X itself where there is none."""
    scaled, shifted = bool(np.any(inverse != 1.0)), np.flatnonzero(center)
    if scaled or 4 * len(shifted) > len(center):
        rows = X - center
        return np.multiply(rows, inverse, out=rows) if scaled else rows
    if len(shifted) == 0:
        return X
    rows = X.copy()
    for column in shifted.tolist():
        rows[:, column] -= center[column]
    return rows


def _moments(X: Any, weight: Any) -> tuple[float, Floats, Floats]:
    """Return the weight of some rows, their mean, and the sum of squares around it."""
    n = float(X.shape[0]) if weight is None else float(weight.sum())
    if n == 0:
        return n, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    if is_sparse(X):
        w = np.ones(X.shape[0]) if weight is None else weight
        values = X.astype(np.float64)
        mean = np.asarray(values.T @ w) / n
        with np.errstate(over="ignore"):
            about_zero = np.asarray(values.multiply(values).T @ w)
            return n, mean, np.maximum(about_zero - n * mean**2, 0.0)
    wide = X.astype(np.float64, copy=False)
    w = None if weight is None else weight.astype(np.float64, copy=False)[:, None]
    mean = np.sum(wide if w is None else wide * w, axis=0) / n
    with np.errstate(over="ignore"):
        apart = wide - mean[None, :]
        if w is None:
            return n, mean, np.einsum("ij,ij->j", apart, apart)
        return n, mean, np.sum(apart**2 * w, axis=0)


def _inverse(scale: Floats) -> Floats:
    """Return 1/s, and 0 for columns without a scale."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def mean_of(y: Array, weight: Any) -> Array:
    """Return the mean of targets (n,) or (n, c)."""
    if weight is None:
        return np.mean(y, axis=0)
    w = weight.astype(y.dtype, copy=False)
    shares = w / max(float(np.sum(w)), np.finfo(np.float64).tiny)
    return np.sum(y * (shares if y.ndim == 1 else shares[:, None]), axis=0)

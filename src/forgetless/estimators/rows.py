"""Weighted rows [X y] as sufficient statistics of linear regression: a commutative monoid.

``Rows.of(X, y)`` of two blocks added is that of both blocks together, so that blocks, weights,
dask, models of several machines and recursive least squares are sums. Everything is centred on the
means (Chan, Golub and LeVeque 1979), so that columns may be far from zero, and in the units of the
user: to standardize is to penalize λs² with the present standard deviations s.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from forgetless._validate import Array, Floats
from forgetless.estimators.moments import (
    Dense,
    LowRank,
    Moments,
    check_squares,
    column_range,
    in_blocks,
    inverse_scale,
)
from forgetless.estimators.systems import STRENGTHS, Evidence, dots

DENSE = 500
"""Features up to which Σ xxᵀ is stored as a matrix: 2 MB, whose eigenvectors take 50 ms."""

CONSTANT = 1e-10
"""A column whose standard deviation is below this fraction of its mean has not varied."""


class Fit(NamedTuple):
    """A ridge solution.

    Attributes
    ----------
    coef, intercept : arrays of shape (d, c) and (c,)
    strength, scale : float and array of shape (d,)
        λ and the units s of its penalty λ Σ_j s_j² w_j².
    minimum : array of shape (c,)
        The squared error with its penalty.
    noise : array of shape (c,)
        Posterior mean of the variance of the noise, also over λ where it was chosen.
    freedom : float
        Degrees of freedom when λ was chosen; NaN where they were not computed.
    n, n_chosen : float
        Numbers of rows of the solution, and of the choice of λ.
    """

    coef: Floats
    intercept: Floats
    strength: float
    scale: Floats
    minimum: Floats
    noise: Floats
    freedom: float
    n: float
    n_chosen: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Number, means and centred sums of products of weighted rows [X y], and the range of every
    column.

    ``forgetless.rows_of`` makes one from arrays or dask arrays. ``a + b`` are the rows of both.

    Attributes
    ----------
    n : float
        Sum of the weights.
    mean, target : arrays of shape (d,) and (c,)
        Weighted means; zeros where rows are not centred.
    gram : Dense or LowRank
        Σ (x − x̄)(x − x̄)ᵀ.
    cross, squares : arrays of shape (d, c) and (c,)
        Σ (x − x̄)(y − ȳ)ᵀ and Σ (y − ȳ)².
    low, high : arrays of shape (d,)
        Smallest and largest value of every column.
    centered : bool
    near : float
        λ of the last truncation, 0 if nothing was lost.
    """

    n: float
    mean: Floats
    target: Floats
    gram: Moments
    cross: Floats
    squares: Floats
    low: Floats
    high: Floats
    centered: bool = True
    near: float = 0.0

    @classmethod
    def of(
        cls, X: Any, y: Floats, weight: Any = None, *, center: bool = True, dense: int = DENSE
    ) -> "Rows":
        """Return the statistics of rows X (n, d), dense or sparse, targets y (n, c) and positive
        weights (n,).
        """
        m, d = X.shape
        w = np.ones(m) if weight is None else weight
        n = float(w.sum())
        low, high = column_range(X)
        check_squares(low, high, y)
        mean = np.zeros(d)
        target = np.zeros(y.shape[1])
        if center:
            mean = w @ X / n
            target = w @ y / n
        Y = y - target
        # A few rows are cheaper to keep as they are than to write down as a d × d matrix.
        is_matrix = 2 * m >= d and d <= dense
        gram: Moments
        if sparse.issparse(X) and is_matrix:
            # Columns of a sparse matrix are near zero, so subtracting x̄x̄ᵀ loses no digits.
            weighted = X.multiply(w[:, None]).tocsr()
            products = (X.T @ weighted).toarray()
            gram = Dense(products - n * np.outer(mean, mean))
            # Σ ω(y − ȳ) = 0, so that x̄ does not matter here.
            cross = weighted.T @ Y
            squares = w @ Y**2
        else:
            if sparse.issparse(X):
                X = X.toarray()
            A = X - mean
            if weight is not None:
                # Σ ω aaᵀ is that of the rows √ω·a.
                root = np.sqrt(w)[:, None]
                A = root * A
                Y = root * Y
            gram = Dense.of(A) if is_matrix else LowRank.of(A)
            cross = A.T @ Y
            squares = dots(Y, Y)
        return cls(n, mean, target, gram, cross, squares, low, high, center)

    def __add__(self, other: "Rows") -> "Rows":
        if self.centered != other.centered:
            raise ValueError(
                "rows must be all centred or all not, got some of both; call rows_of with the same"
                " center= for all blocks"
            )
        n = self.n + other.n
        share = other.n / n  # n₂/n
        gap = other.mean - self.mean
        apart = other.target - self.target
        # The means of both parts are two more rows of weights n₁ and n₂, whose spread around the
        # common mean is that of one row √(n₁n₂/n)(x̄₂ − x̄₁).
        between = self.n * share
        more = other.gram
        if gap.any():
            more = more + LowRank.of(np.sqrt(between) * gap[None])
        return Rows(
            n,
            self.mean + share * gap,
            self.target + share * apart,
            self.gram + more,
            self.cross + other.cross + between * np.outer(gap, apart),
            self.squares + other.squares + between * apart**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.centered,
            max(self.near, other.near),
        )

    def __radd__(self, other: Any) -> "Rows":
        return self if other == 0 else NotImplemented  # sum() adds to 0

    def stored(self, dense: int) -> "Rows":
        """Return the rows with a matrix of second moments up to ``dense`` features, else
        vectors.
        """
        gram = self.gram.dense() if len(self.mean) <= dense else self.gram.low_rank()
        return replace(self, gram=gram)

    @property
    def scale(self) -> Floats:
        """Standard deviation of every column; 0 where it has not varied."""
        variances = np.maximum(self.gram.diagonal, 0.0) / self.n
        s = np.sqrt(variances)
        # What rounding leaves of a constant column is no unit.
        varies = s > CONSTANT * np.abs(self.mean)
        return np.where(varies, s, 0.0)

    # --- solutions ---

    def solve(self, strength: float, scale: Floats | None = None) -> Fit:
        """Return argmin Σ‖y − xᵀw − b‖² + λ Σ_j s_j²‖w_j‖² with a free b; s is the present scale
        if omitted.

        A weight with s_j = 0 is zero: its column has not varied.
        """
        if scale is None:
            scale = self.scale
        u = inverse_scale(scale)
        # With v = s·w this is ridge regression on U(x − x̄), U = diag(u): (UGU + λ)v = Uc.
        c = u[:, None] * self.cross
        standardized = self.gram.solve(u, strength, c)
        return self._fit(standardized, strength, scale)

    def by_evidence(self, scale: Floats, grid: Floats = STRENGTHS) -> Fit:
        """Return the solution with the λ of largest evidence, of those in ``grid``."""
        u = inverse_scale(scale)
        c = u[:, None] * self.cross
        system = self.gram.system(u)
        evidence = Evidence(system, c, self.squares, self.n - self.centered)
        if self.near:
            strength = evidence.downhill(grid, self.near)
            return self._fit(system.solve(c, strength), strength, scale)
        strength, noise = evidence.best(grid)
        fit = self._fit(system.solve(c, strength), strength, scale)
        # The eigenvalues are known here: later the degrees of freedom would cost another system.
        freedom = system.freedom(strength)
        return fit._replace(noise=noise, freedom=freedom)

    def _fit(self, standardized: Floats, strength: float, scale: Floats) -> Fit:
        """Return the solution with the weights v = s·w."""
        coef = inverse_scale(scale)[:, None] * standardized
        # The best level for given weights takes the means to each other: b = ȳ − x̄ᵀw.
        intercept = self.target - self.mean @ coef
        # min ‖y − Xw‖² + λ‖v‖² = q − cᵀw. The error without its penalty is not negative; after
        # truncations this must be said.
        penalty = strength * dots(standardized, standardized)
        minimum = self.squares - dots(self.cross, coef)
        minimum = np.maximum(minimum, penalty)
        # The mean of the posterior of σ², an inverse gamma law with n degrees of freedom, less the
        # one that the level takes.
        noise = minimum / max(self.n - self.centered - 2.0, 1.0)
        return Fit(
            coef,
            intercept,
            strength,
            scale,
            minimum,
            noise,
            freedom=np.nan,
            n=self.n,
            n_chosen=self.n,
        )

    # --- forgetting ---

    def truncated(self, rank: int, fit: Fit) -> "Rows":
        """Return the rows with at most ``rank`` vectors; the solution ``fit`` and its minimum stay.

        The gradient of the solution is moved into ``cross``: an exact ``cross`` beside a truncated
        matrix would let the diagonal alone explain the directions that were lost.
        """
        if isinstance(self.gram, Dense) or len(self.gram.vectors) <= rank:
            return self
        gram, lost = self.gram.truncated(rank, inverse_scale(fit.scale))
        rows = self._about(gram, fit, fit.strength)
        return replace(rows, near=lost * fit.strength)

    def drifted(self, g: float, fit: Fit) -> "Rows":
        """Return the rows as evidence for weights that have walked since.

        The posterior covariance σ²(G + λ)⁻¹ of the weights in the units of ``fit`` becomes
        σ²((G + λ)⁻¹ + g), and that of the level σ²(1/n + g): the prediction of a Kalman filter,
        after which λ is λ/(1 + gλ). The solution stays what it is.
        """
        gram = self.gram.drifted(g, fit.strength, fit.scale)
        strength = fit.strength / (1.0 + g * fit.strength)
        rows = self._about(gram, fit, strength)
        # 1/n grows by g.
        n = self.n / (1.0 + g * self.n)
        return replace(rows, n=n)

    def _about(self, gram: Moments, fit: Fit, strength: float) -> "Rows":
        """Return the rows with other second moments for which ``fit`` solves with a penalty
        ``strength``: from (G + λs²)w = c, and min = q − cᵀw.
        """
        penalties = strength * fit.scale**2
        cross = gram.dot(fit.coef) + penalties[:, None] * fit.coef
        squares = fit.minimum + dots(cross, fit.coef)
        return replace(self, gram=gram, cross=cross, squares=squares)

    # --- errors ---

    def error(self, coef: Floats, intercept: Floats) -> Array:
        """Return Σ(y − xᵀw − b)² of any weights w (d, c) and b (c,), of shape (c,)."""
        bias = self.target - self.mean @ coef - intercept
        # Σ(y − ȳ − (x − x̄)ᵀw)² = q − 2wᵀc + wᵀGw, and the means add n·bias².
        centred = self.squares - 2.0 * dots(coef, self.cross)
        centred += dots(coef, self.gram.dot(coef))
        return np.maximum(centred, 0.0) + self.n * bias**2

    def residual(self, fit: Fit) -> Array:
        """Return the squared error of a solution without its penalty, of shape (c,)."""
        standardized = fit.scale[:, None] * fit.coef
        penalty = fit.strength * dots(standardized, standardized)
        return np.maximum(fit.minimum - penalty, 0.0)

    def freedom(self, fit: Fit) -> float:
        """Return the degrees of freedom of a solution, tr G(G + λ)⁻¹."""
        if not np.isnan(fit.freedom):
            return fit.freedom
        system = self.gram.system(inverse_scale(fit.scale))
        return system.freedom(fit.strength)

    def mean_leverage(self, fit: Fit) -> float:
        """Return the mean over the rows of the weight that a target has in its own prediction."""
        return (self.centered + self.freedom(fit)) / max(self.n, 1.0)

    def error_left_out(self, fit: Fit) -> Array:
        """Return the mean squared error to expect of rows left out (GCV), of shape (c,)."""
        left = 1.0 - min(self.mean_leverage(fit), 0.95)
        # Left out, a row has the residual r/(1 − h), h its leverage, here the mean one.
        return self.residual(fit) / self.n / left**2

    def noise(self, fit: Fit) -> Array:
        """Return the variance of the noise, of shape (c,).

        The larger one of two estimates. The posterior of σ², whose mean is min/(n − 3) for one λ,
        is right for few rows, where residuals are nearly zero; residuals over n − 1 − freedom are
        right where λ is too small for the weights. Without an intercept n takes the place of n − 1.
        """
        left = max(self.n - self.centered - self.freedom(fit), 0.05 * self.n)
        return np.maximum(fit.noise, self.residual(fit) / left)

    def leverages(self, X: Floats, fit: Fit, origin: Any = 0.0) -> Array:
        """Return zᵀ(G + λs²)⁻¹z of z = x − origin for rows x of X (m, d): var(zᵀw)/σ² of the
        solution.
        """
        u = inverse_scale(fit.scale)
        system = self.gram.system(u)
        return in_blocks(lambda part: system.leverages((part - origin) * u, fit.strength), X)

    def variances(self, X: Any, fit: Fit, noise: Floats) -> Array:
        """Return the variances σ²(1 + 1/n + xᵀ(G + λs²)⁻¹x), (n, c), of new targets of rows X."""
        if sparse.issparse(X):
            X = X.toarray()
        leverages = self.leverages(X, fit, self.mean)
        # The noise of the target itself, the level, and the weights.
        factors = 1.0 + self.centered / self.n + leverages
        return np.outer(factors, noise)

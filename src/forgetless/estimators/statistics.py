"""Statistics of all rows of a stream of bounded size, and the solution of largest evidence of ridge
regression on them.

The statistics are a quadratic model of the squared error of all rows so far, centred on their
means, about the weights w₀ of the last solution:

    Q(w) = s − 2 gᵀ(w − w₀) + (w − w₀)ᵀ G (w − w₀)

with s the squared error of w₀, g = λw₀, as w₀ minimized Q(w) + λ‖w‖², and G the centred Σ XᵀX. A
task adds its own terms, and the new weights minimize Q(w) + λ‖w‖² in the present units of the
columns; the intercept is not penalized. G is a matrix while d ≤ rank. Beyond that it is BᵀB +
diag(rest), with the ``rank`` leading singular vectors B and the rest of the exact diagonal: a
truncation changes neither the present solution nor its error.

λ minimizes −2 log of the evidence of w ~ N(0, σ²/λ) and a flat prior of log σ, (n − 1) log min_w(Q
+ λ‖w‖²) + log det(I + G/λ), over a grid of half decades (MacKay 1992).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats, with_zeros
from forgetless.estimators._units import UnitChange
from forgetless.estimators.low_rank import LowRankMemory, leading
from forgetless.io import Fields

STRENGTHS = 10.0 ** np.arange(-2.0, 5.01, 0.5)
"""λ in units of the mean variance of the columns times the mean weight of a row."""

GROWTH = 1.1
"""λ is chosen again once the number of rows has grown by this factor."""

EXACT = 1e-6
"""Share of the trace up to which a truncation counts as none."""

TINY = 1e-300


class Sums(NamedTuple):
    """A task, or some rows of it, relative to weights w₀ and centred on its own mean.

    Attributes
    ----------
    total, rows : float
        The weight of the rows, divided as the loss is, and their number: the sum of their weights.
    mean : array of shape (d,)
    residual : array of shape (c,)
        The mean of y − Xw₀.
    matrix : array of shape (d, d) or (n, d)
        XᵀX, or X itself where there are fewer rows than features.
    right : array of shape (d, c)
        Xᵀ(y − Xw₀).
    squares : array of shape (c,)
        Squared error of w₀ beside its mean.
    """

    total: float
    rows: float
    mean: Floats
    residual: Floats
    matrix: Floats
    right: Floats
    squares: Floats

    @property
    def gram(self) -> Floats:
        """XᵀX."""
        return self.matrix if self._squared else self.matrix.T @ self.matrix

    @property
    def trace(self) -> float:
        """The sum of the squares of X; infinite where that is no number."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(
                np.trace(self.matrix)
                if self._squared
                else np.einsum("ij,ij->", self.matrix, self.matrix)
            )

    @property
    def _squared(self) -> bool:
        return self.matrix.shape == (len(self.mean),) * 2


class Path(NamedTuple):
    """Solutions with several λ, ``strengths``, by the eigenvalues (d,) and eigenvectors of G.

    ``steps`` are the changes of the weights in their coordinates, of shape (λ, d, c), and ``costs``
    −2 log evidence.
    """

    strengths: Floats
    values: Floats
    vectors: Floats
    steps: Floats
    costs: Floats


class Statistics(NamedTuple):
    """Statistics of all rows so far, weighted, in the present units of the columns.

    Attributes
    ----------
    weights : array of shape (d + intercept, c)
        w₀, and the intercept.
    mean : array of shape (d,)
        Mean of the rows; zeros without an intercept.
    gradient : array of shape (d, c)
    squares : array of shape (c,)
    gram : array of shape (d, d) or None
        G where it is stored in full.
    vectors : array of shape (q, d)
        B, otherwise.
    rest : array of shape (d,)
        Diagonal of G − BᵀB.
    total, rows : float
        Weight and number of the rows.
    strength : float
        λ.
    least : float
        Smallest λ that the next choice may take: after a truncation smaller ones are not known.
    chosen : float
        Number of rows when λ was chosen.
    unit : float
        Unit of λ; 0 for the mean variance of the columns.
    freedom : float
        Degrees of freedom of the slopes, Σ e/(e + λ) of the eigenvalues e of G, when these were
        last computed.
    """

    weights: Floats
    mean: Floats
    gradient: Floats
    squares: Floats
    gram: Floats | None
    vectors: Floats
    rest: Floats
    total: float = 0.0
    rows: float = 0.0
    strength: float = 0.0
    least: float = 0.0
    chosen: float = 0.0
    unit: float = 0.0
    freedom: float = 0.0

    @classmethod
    def empty(cls, start: Floats, d: int, rank: int) -> "Statistics":
        """Return the statistics before the first row, with the solution ``start`` (d + intercept,
        c).
        """
        c = start.shape[1]
        gram = np.zeros((d, d)) if d <= rank else None
        return cls(
            start, np.zeros(d), np.zeros((d, c)), np.zeros(c), gram, np.zeros((0, d)), np.zeros(d)
        )

    @classmethod
    def from_fields(
        cls, fields: Fields, memory: LowRankMemory, d: int, c: int, intercept: bool
    ) -> "Statistics":
        """Return the statistics in the arrays of a file; ValueError where one is not valid."""
        gram = fields.array("gram", "f", (d, d)) if "gram" in fields else None
        vectors = fields.array("vectors", "f", (None, d))
        if len(vectors) > memory.rank or (gram is not None and len(vectors)):
            raise ValueError(f"memory.vectors are {len(vectors)} rows, which {memory} contradicts")
        numbers = {
            name: fields.number(name)
            for name in ("total", "rows", "strength", "least", "chosen", "unit", "freedom")
        }
        return cls(
            fields.array("weights", "f", (d + intercept, c)),
            fields.array("mean", "f", (d,)),
            fields.array("gradient", "f", (d, c)),
            fields.array("squares", "f", (c,), low=0.0),
            gram,
            vectors,
            fields.array("rest", "f", (d,), low=0.0),
            **numbers,
        )

    @property
    def intercept(self) -> bool:
        """Whether the last of the weights is an intercept."""
        return len(self.weights) > len(self.mean)

    @property
    def retained_fraction(self) -> float:
        """Fraction of the trace of G that is stored beside the diagonal."""
        if self.gram is not None:
            return 1.0
        size = float(np.einsum("ij,ij->", self.vectors, self.vectors))
        return size / (size + float(self.rest.sum())) if size > 0 else float(not self.rest.any())

    @property
    def diagonal(self) -> Floats:
        """The diagonal of G."""
        if self.gram is not None:
            return np.asarray(self.gram.diagonal())
        return np.asarray(
            self.rest + np.einsum("ij,ij->j", self.vectors, self.vectors, dtype=np.float64)
        )

    @property
    def mean_weights(self) -> Floats:
        """The model that predicts the mean of all targets."""
        weights = np.zeros_like(self.weights)
        if self.intercept:
            weights[-1] = self.weights[-1] + self.mean @ self.weights[:-1]
        return weights

    def in_units(self, change: UnitChange, total: float) -> "Statistics":
        """Return the same statistics in other units of the columns."""
        ratio = change.ratio
        mean = self.mean / ratio - change.shift if self.intercept else self.mean
        return self._replace(
            weights=change.weights(self.weights),
            mean=mean,
            gradient=self.gradient / ratio[:, None],
            gram=None if self.gram is None else self.gram / ratio / ratio[:, None],
            vectors=(self.vectors / ratio).astype(self.vectors.dtype),
            rest=self.rest / ratio**2,
        )

    def widened(self, d: int, count: int) -> "Statistics":
        """Return the statistics with ``count`` more features behind the first d, zero in every
        row.
        """
        gram = (
            None
            if self.gram is None
            else with_zeros(with_zeros(self.gram, d, count, 0), d, count, 1)
        )
        return self._replace(
            weights=with_zeros(self.weights, d, count, 0),
            mean=with_zeros(self.mean, d, count, 0),
            gradient=with_zeros(self.gradient, d, count, 0),
            gram=gram,
            vectors=with_zeros(self.vectors, d, count, 1),
            rest=with_zeros(self.rest, d, count, 0),
        )

    def decayed(self, left: float) -> "Statistics":
        """Return the statistics with the weight of all rows so far multiplied by ``left``."""
        if left == 1.0:
            return self
        scaled = {
            name: left * getattr(self, name)
            for name in ("gradient", "squares", "rest", "total", "rows")
        }
        gram = None if self.gram is None else left * self.gram
        return self._replace(
            **scaled,
            gram=gram,
            vectors=self.vectors * self.vectors.dtype.type(math.sqrt(left)),
            chosen=left * self.chosen,
        )

    def stored(self, dtype: str) -> "Statistics":
        """Return the statistics with vectors of a dtype: the solution does not depend on their last
        digits.
        """
        with np.errstate(over="ignore"):
            vectors = self.vectors.astype(dtype, copy=False)
            trace = float(np.einsum("ij,ij->", vectors, vectors))
        if not math.isfinite(trace):  # the next task multiplies the vectors in their own dtype
            raise OverflowError(f"X is too large to be remembered as {dtype}; rescale X towards 1")
        parts = (
            self.squares,
            self.gradient,
            self.rest,
            *(() if self.gram is None else (self.gram,)),
        )
        # which a small share in a mixture would not show
        if not all(np.isfinite(part).all() for part in parts):
            raise OverflowError(
                "sums of squares of the tasks are too large for a number; rescale X and y towards 1"
            )
        return self._replace(vectors=vectors)

    def after(self, sums: Sums, rank: int) -> "Statistics":
        """Return the statistics after some rows, with the solution on all of them."""
        if not math.isfinite(sums.trace):
            raise OverflowError("X is too large to be squared; rescale X towards 1")
        d, total = len(self.mean), self.total + sums.total
        # of the means, as if they were rows of this weight
        between = self.total * sums.total / total
        apart = math.sqrt(between) * (sums.mean - self.mean) if self.intercept else np.zeros(d)
        weights = self.weights
        if self.intercept:  # the mean residual of the rows before was zero
            weights = weights.copy()
            weights[-1] += sums.residual * (sums.total / total)
        added = self._replace(
            weights=weights,
            mean=(
                self.mean + (sums.mean - self.mean) * (sums.total / total)
                if self.intercept
                else self.mean
            ),
            gradient=self.gradient
            + sums.right
            + np.outer(math.sqrt(between) * apart, sums.residual),
            squares=self.squares + sums.squares + between * sums.residual**2,
            total=total,
            rows=self.rows + sums.rows,
        )
        if added.gram is not None and d <= rank:
            return added._replace(
                gram=added.gram + sums.gram + np.outer(apart, apart)
            )._solved_in_full()
        if added.gram is not None:  # new features have come
            values, V = leading(added.gram)
            added = added._replace(gram=None, vectors=np.sqrt(values)[:, None] * V.T)
        if sums.matrix.shape == (d, d):
            gram = added.vectors.T @ added.vectors + sums.matrix + np.outer(apart, apart)
            solved = added._replace(gram=gram + np.diag(self.rest))._solved_in_full()
            values, V = leading(gram)
            rows = np.sqrt(values)[:rank, None] * V[:, :rank].T
            return solved._replace(gram=None)._truncated(rows, np.diag(gram))
        rows = np.concatenate([added.vectors, sums.matrix, apart[None, :]])
        inner = rows @ rows.T
        solved = added._solved(rows, inner)
        values, U = leading(inner)
        solved = solved._replace(freedom=float(np.sum(values / (values + solved.strength))))
        return solved._truncated(U[:, :rank].T @ rows, np.einsum("ij,ij->j", rows, rows))

    def _choices(self, diagonal: Floats) -> Floats:
        """Return the values of λ to choose from, for the diagonal of G."""
        if self.strength > 0 and self.rows < GROWTH * self.chosen:
            return np.array([self.strength])
        grid = STRENGTHS * (self.unit or mean_variance(diagonal, self.rows))
        return grid[grid >= 0.99 * self.least] if self.least <= grid[-1] else grid[-1:]

    def _target_squares(self, product: Floats) -> Floats:
        """Return Σ(y − ȳ)² of every target, Gw₀ being ``product``."""
        slopes = self.weights[: len(self.mean)]
        return np.asarray(self.squares + np.sum((2 * self.gradient + product) * slopes, axis=0))

    def _cost(self, quadratic: Floats, logdet: Floats, targets: Floats) -> Floats:
        """Return −2 log evidence; ``quadratic`` is min Q + λ‖w‖² of every λ and target, shape (...,
        c).
        """
        varies = targets > 0
        floor = 1e-12 * targets[varies] + TINY
        logs = np.log(np.maximum(quadratic[..., varies], floor)).sum(axis=-1)
        return np.asarray(max(self.rows - 1.0, 1e-9) * logs + np.count_nonzero(varies) * logdet)

    def _solved_in_full(self) -> "Statistics":
        """Return the statistics with the solution, from the eigenvalues of the matrix G."""
        assert self.gram is not None
        d = len(self.mean)
        slopes, choices = self.weights[:d], self._choices(self.diagonal)
        if len(choices) == 1:
            strength = float(choices[0])
            system = self.gram + strength * np.eye(d)
            change = _solve(_cholesky(system), self.gradient - strength * slopes)
            return self._moved(strength, change)
        path = self.path(choices)
        best = int(np.argmin(path.costs))
        freedom = float(np.sum(path.values / (path.values + choices[best])))
        solved = self._moved(float(choices[best]), path.vectors @ path.steps[best])
        return solved._replace(chosen=self.rows, freedom=freedom)

    def path(self, strengths: Floats | None = None) -> "Path":
        """Return the solutions with several λ, all of the grid if omitted, from the eigenvalues of
        the matrix G.
        """
        assert self.gram is not None
        if strengths is None:
            strengths = self._replace(chosen=0.0)._choices(self.diagonal)
        values, V = np.linalg.eigh(self.gram)
        e, each = np.maximum(values, 0.0), strengths[:, None, None]
        g, w = V.T @ self.gradient, V.T @ self.weights[: len(self.mean)]
        force = g - each * w  # (λ, d, c)
        steps = force / (e[:, None] + each)
        quadratic = self.squares + np.sum(each * w**2 - force * steps, axis=1)
        logdet = np.log1p(e / strengths[:, None]).sum(axis=1)
        return Path(
            strengths,
            e,
            V,
            steps,
            self._cost(quadratic, logdet, self._target_squares(V @ (e[:, None] * w))),
        )

    def _solved(self, rows: Floats, inner: Floats) -> "Statistics":
        """Return the statistics with the solution, G being rowsᵀ·rows + diag(rest) with fewer rows
        than features.
        """
        slopes, isotropic = self.weights[: len(self.mean)], not self.rest.any()
        choices = self._choices(self.rest + np.einsum("ij,ij->j", rows, rows))
        targets = self._target_squares(rows.T @ (rows @ slopes) + self.rest[:, None] * slopes)

        def solution(strength: float) -> tuple[float, Floats]:
            D = (self.rest + strength)[:, None]
            system = inner / strength if isotropic else rows @ (rows.T / D)
            system.flat[:: len(system) + 1] += 1.0
            factor = _cholesky(system)
            force = self.gradient - strength * slopes
            change = (force - rows.T @ _solve(factor, rows @ (force / D))) / D
            quadratic = self.squares + np.sum(strength * slopes**2 - force * change, axis=0)
            logdet = np.log(D / strength).sum() + 2.0 * np.log(np.diag(factor)).sum()
            return float(self._cost(quadratic, logdet, targets)), change

        best, (_, change) = _smallest(choices, self.strength, solution)
        chosen = self.chosen if len(choices) == 1 else self.rows
        return self._moved(best, change)._replace(chosen=chosen)

    def _moved(self, strength: float, change: Floats) -> "Statistics":
        """Return the statistics about the weights after a change (d, c), which minimize Q +
        λ‖w‖².
        """
        d = len(self.mean)
        weights = self.weights.copy()
        weights[:d] += change
        if self.intercept:
            weights[-1] -= self.mean @ change
        gradient = strength * weights[:d]
        squares = np.maximum(
            self.squares - np.sum(change * (self.gradient + gradient), axis=0), 0.0
        )
        return self._replace(weights=weights, gradient=gradient, squares=squares, strength=strength)

    def _truncated(self, rows: Floats, diagonal: Floats) -> "Statistics":
        """Return the statistics with the vectors B = ``rows``, where the diagonal was ``rest`` +
        ``diagonal``.
        """
        norms = np.einsum("ij,ij->i", rows, rows)
        rows = rows[norms > 1e-15 * norms.max(initial=0.0)]
        rest = np.maximum(self.rest + diagonal - np.einsum("ij,ij->j", rows, rows), 0.0)
        if rest.sum() <= EXACT * (rest.sum() + norms.sum()):
            return self._replace(vectors=rows, rest=np.zeros_like(rest), least=0.0)
        return self._replace(vectors=rows, rest=rest, least=self.strength / math.sqrt(10.0))

    def leave_out_errors(self) -> tuple[float, float]:
        """Return the squared errors to expect of rows left out, of the solution and of the mean
        (GCV), with full G.
        """
        n = max(self.rows, 1.0)
        freedom = min(self.intercept + self.freedom, 0.95 * n)
        slopes = self.weights[: len(self.mean)]
        product = self.gram @ slopes if self.gram is not None else self._product(slopes)
        targets = float(np.maximum(self._target_squares(product), 0.0).sum())
        return (
            float(self.squares.sum()) / (1 - freedom / n) ** 2,
            targets / max(1 - 1 / n, 0.05) ** 2,
        )

    def _product(self, slopes: Floats) -> Floats:
        return np.asarray(self.vectors.T @ (self.vectors @ slopes) + self.rest[:, None] * slopes)

    def variances(self, directions: Floats, noise: float, reference: Floats) -> Floats:
        """Return E(vᵀ(w − reference))² of directions v (n, d), given the rows, for one target with
        variance ``noise``.

        Over the posterior of the slopes w, and of λ where G is a matrix: one λ alone may be sure of
        small weights.
        """
        d = len(self.mean)
        slopes = self.weights[:d, 0]
        if self.gram is None:
            padded = np.column_stack([directions, np.zeros((len(directions), int(self.intercept)))])
            return np.asarray(
                noise * self.leverage(padded) + (directions @ (slopes - reference)) ** 2
            )
        path = self.path()
        weights = np.exp(0.5 * (path.costs.min() - path.costs))
        along, away = directions @ path.vectors, directions @ (slopes - reference)
        spread = noise * (along**2) @ (1.0 / (path.values[:, None] + path.strengths))  # (n, λ)
        offset = away[:, None] + along @ path.steps[:, :, 0].T
        return np.asarray((spread + offset**2) @ (weights / weights.sum()))

    def leverage(self, rows: Floats) -> Floats:
        """Return xᵀ(G + λ)⁻¹x of rows (n, d) about the mean, and 1/n for the intercept, where there
        is one.
        """
        d, constant = len(self.mean), np.zeros(len(rows))
        if self.intercept:
            constant = rows[:, -1] ** 2 / max(self.total, TINY)
            rows = rows[:, :d] - rows[:, -1:] * self.mean
        if self.gram is not None:
            solution = _solve(_cholesky(self.gram + self.strength * np.eye(d)), rows.T).T
        else:
            D, B = self.rest + self.strength, self.vectors
            system = (B / D) @ B.T
            system.flat[:: len(system) + 1] += 1.0
            inner = (
                _solve(_cholesky(system), (B / D) @ rows.T) if len(B) else np.zeros((0, len(rows)))
            )
            solution = (rows - inner.T @ B) / D
        return np.asarray(np.maximum(np.einsum("ij,ij->i", rows, solution), 0.0) + constant)


def mean_variance(diagonal: Floats, rows: float) -> float:
    """Return the mean variance of the columns that vary, times the weight of a row, by the diagonal
    of G.
    """
    varying = diagonal > 0
    return float(diagonal[varying].mean()) / rows if varying.any() else 1.0


def _cholesky(A: Floats) -> Floats:
    """Return the lower Cholesky factor of a positive definite matrix."""
    return np.asarray(np.linalg.cholesky(A))


def _solve(factor: Floats, right: Floats) -> Floats:
    """Return A⁻¹·right for the Cholesky factor of A."""
    from scipy.linalg import lapack

    return np.asarray(lapack.dpotrs(factor, right, lower=1)[0]) if len(factor) else right


def _smallest(choices: Floats, previous: float, solution: Any) -> tuple[float, Any]:
    """Return the λ of smallest cost and its solution (cost, ...); all are compared where there is
    no previous one.

    From a previous λ on, the cost is followed downwards.
    """
    values = choices.tolist()
    if not previous > 0:
        solutions = [solution(value) for value in values]
        best = min(range(len(values)), key=lambda j: solutions[j][0])
        return values[best], solutions[best]
    best = int(np.argmin(np.abs(np.log(choices / previous))))
    current = solution(values[best])
    for step in (1, -1):
        moved = False
        while 0 <= best + step < len(values):
            other = solution(values[best + step])
            if not other[0] < current[0]:
                break
            best, current, moved = best + step, other, True
        if moved:
            break
    return values[best], current

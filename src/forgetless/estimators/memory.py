"""All rows so far and the ridge solution on them, learned block by block.

A solution costs as much as many rows, so that learning does not always need one: the weights are
computed again once the rows have grown by 1 %, their λ once they have grown by 10 %. Reading the
model solves on all rows. The λ is chosen again as well where the matrix is stored; vectors keep the
one for which they were cut off, until rows have grown.

For the next task of a stream that changes there is a mixture: all rows, two memories that forget,
and the mean. A memory forgets as the Kalman filter of weights that walk at random does: before a
task the covariance of the standardized weights grows by gσ². Directions that are known well forget
much and others little, where a decay of all rows would also forget what no new row tells. The
shares follow from the squared errors of the parts on every task before it was learned (exponential
weights with a fixed share, Herbster and Warmuth 1998). All parts are linear, and so is the mixture.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from forgetless._running import one_blas_thread
from forgetless._validate import Array, Floats
from forgetless.estimators import Streaming
from forgetless.estimators.moments import Dense
from forgetless.estimators.rows import DENSE, Fit, Rows

RANK = 100
"""Vectors that are stored beyond ``DENSE`` features, if no rank is given."""

GROWTH = 1.1
"""λ is chosen again once the rows have grown by this factor, or when the model is read: an evidence
costs ten solutions, and its λ hardly moves with a tenth more rows."""

FRESH = 1.01
"""The solution is computed again once the rows have grown by this factor, or when it is read …"""

SLOW = 16
"""… but d/16 new rows may wait until ``GROWTH``: a factorization costs as much as adding d/6."""

CHUNK = 2**26
"""Bytes of a block of dense rows where vectors are stored, which are cut off after every block."""

WIDEST_SPARSE = 20_000
"""Features of sparse rows up to which a stream is learned: vectors of all rows are dense."""


class Options(NamedTuple):
    """How rows are kept and solved.

    Attributes
    ----------
    strength : float or None
        λ; None for the evidence.
    dense, vectors : int
        Features up to which a matrix is stored, and vectors that are stored beyond.
    center, standardize : bool
    """

    strength: float | None
    dense: int
    vectors: int
    center: bool
    standardize: bool

    def scale(self, rows: Rows) -> Floats:
        """Return the units s of the penalty λ Σ s_j² w_j²."""
        if self.standardize:
            return rows.scale
        return np.ones(len(rows.mean))

    def blocks(self, X: Any, y: Floats, weight: Any) -> Iterator[Rows]:
        """Yield the statistics of a task: one, or some of bounded size beyond ``dense``
        features.
        """
        m, d = X.shape
        if sparse.issparse(X) and d > max(WIDEST_SPARSE, self.dense):
            raise ValueError(
                f"X has {d:,} sparse features, and the statistics of rows are dense: at most"
                f" {WIDEST_SPARSE:,}; use ContinualRidge(alpha), which keeps weights only (with"
                " one-hot targets for classes), or fewer features"
            )
        # A matrix takes all rows at once; vectors are cut off after every block.
        step = m
        if d > self.dense:  # no mutant: a matrix of blocks is that of all rows
            step = max(self.vectors, CHUNK // (8 * d))
        for first in range(0, m, step):
            part = slice(first, first + step)
            weights = None if weight is None else weight[part]
            yield Rows.of(X[part], y[part], weights, center=self.center, dense=self.dense)


class Memory(NamedTuple):
    """All rows so far and a solution, which may be of slightly fewer of them (``fit.n``)."""

    rows: Rows
    fit: Fit

    @classmethod
    def solved(cls, rows: Rows, before: Fit | None, options: Options) -> "Memory":
        """Return the memory with a solution on all rows, and no more vectors than allowed; the λ is
        that of ``before`` where rows have hardly grown since it was chosen.
        """
        rows = rows.stored(options.dense)
        scale = options.scale(rows)
        if options.strength is not None:
            fit = rows.solve(options.strength, scale)._replace(n_chosen=0.0)
        elif before is None or rows.n >= GROWTH * before.n_chosen:
            fit = rows.by_evidence(scale)
        else:
            fit = rows.solve(before.strength, scale)
            fit = fit._replace(freedom=before.freedom, n_chosen=before.n_chosen)
        return cls(rows.truncated(options.vectors, fit), fit)

    def plus(self, block: Rows, options: Options) -> "Memory":
        """Return the memory after a block, solved again where it has grown enough.

        Otherwise the old solution stays beside the new rows. It judges the next task, with up to
        1 % of the rows missing, or up to d/16 rows if that is more, but never 10 %.
        """
        rows = self.rows + block
        # Rows that the solution does not know yet are left to later ones where they are few beside
        # all others, or beside the features.
        known = self.fit.n
        few_beside_rows = rows.n < FRESH * known
        few_beside_features = SLOW * (rows.n - known) < len(rows.mean) and rows.n < GROWTH * known
        # A truncation needs the solution at once.
        if isinstance(rows.gram, Dense) and (few_beside_rows or few_beside_features):
            return Memory(rows, self.fit)
        return Memory.solved(rows, self.fit, options)

    def current(self, options: Options) -> "Memory":
        """Return the memory for readers: the solution on all rows with the λ of their evidence,
        however they came.
        """
        rows, fit = self
        # A λ that was given holds as long as it is given, and one by evidence as long as none is.
        has_strength = options.strength == (None if fit.n_chosen else fit.strength)
        # Vectors were cut off for the λ of their solution, which they keep until rows have grown.
        is_chosen = fit.n_chosen in (0.0, rows.n) or not isinstance(rows.gram, Dense)
        if has_strength and fit.n == rows.n and is_chosen:
            return self
        return Memory.solved(rows, None, options)


def learned(memory: Any, blocks: Iterable[Rows], options: Options) -> Any:
    """Return the memory after the blocks of a task; the first task has none before it."""
    for block in blocks:
        if memory is None:
            memory = Memory.solved(block, None, options)
        else:
            memory = memory.plus(block, options)
    return memory


class Remembering(Streaming):
    """Base of the estimators with a memory of all rows, which is solved when it is read.

    The state has a field ``memory``. ``_fitted`` is the state with rows that waited, which is what
    goes into files; ``_read`` is the same with the solution on all rows, which is what attributes
    and predictions show.
    """

    alpha: float | None
    rank: int | None
    fit_intercept: bool = True
    standardize: bool

    def _options(self) -> Options:
        """Return how rows are kept and solved."""
        alpha = self.alpha
        # With λ = 0 columns that determine each other would have no unique solution.
        if alpha is not None and not alpha > 0:
            raise ValueError(
                f"alpha must be positive, got {alpha!r}; use a small number, None for the evidence,"
                " or ContinualRidge(0)"
            )
        dense = self.rank or DENSE
        vectors = self.rank or RANK
        return Options(alpha, dense, vectors, self.fit_intercept, self.standardize)

    def _merged(self) -> Any:
        """Return the state with rows that wait, where there are any."""
        return self._state

    def _solved(self) -> Any:
        """Return the state with waiting rows, and the same with the solution on all rows, computed
        when first read.
        """
        check_is_fitted(self)
        # A thread that learns replaces the attributes as a whole: these belong together.
        held = self.__dict__
        cache = held["_cache"]
        if not cache or cache[0][0] != held["alpha"]:
            reader = copy.copy(self)
            reader.__dict__ = dict(held)
            with one_blas_thread():
                state = reader._merged()
                memory = state.memory.current(reader._options())
            current = state._replace(memory=memory)
            # Threads that meet here have computed the same.
            cache[:] = [(held["alpha"], state, current)]
        return cache[0][1:]

    def _fitted(self) -> Any:
        return self._solved()[0]

    def _read(self) -> Any:
        """Return the state with the solution on all rows."""
        return self._solved()[1]

    @property
    def alpha_(self) -> float:
        """λ of the present solution."""
        return float(self._read().memory.fit.strength)

    @property
    def rows_(self) -> Rows:
        """The statistics of all rows."""
        rows: Rows = self._fitted().memory.rows
        return rows

    def _beside_coefficients(self) -> dict[str, Floats]:
        return {"scale": self.rows_.scale}

    @property
    def retained_fraction_(self) -> float:
        """Fraction of the variance of the columns that the vectors hold."""
        gram = self.rows_.gram
        lost = np.sum(getattr(gram, "rest", 0.0))
        total = max(gram.diagonal.sum(), 1e-300)
        return float(1.0 - lost / total)


# --- forgetting ---

DRIFTS = (0.01, 0.1)
"""g of the memories that forget: squared drift of a standardized weight per task over the variance
of the noise."""

PRIOR = np.array([8.0, 2.0, 2.0, 1.0]) / 13.0
"""Shares before the first task: all rows, the memories that forget, the mean."""

SHARED = 0.05
"""Fraction of the shares that returns to the prior before each task, so that a part can recover."""

LEAST = 0.01
"""Smallest λ of a memory that forgets."""

FEWEST = 3
"""Rows below which the evidence cannot tell λ."""

STARTING = 1.0
"""λ of a memory that forgets after fewer rows. The evidence would take the largest λ, which a walk
brings down to 1 only after some 1/g tasks."""

Loss = Callable[[Floats, Floats], Array]
"""The squared errors on a task of coefficients (d, c) and an intercept (c,), whose sum counts."""


class Mixture(NamedTuple):
    """Memories that forget, and the shares of all parts; all rows are passed to every method."""

    memories: tuple[Memory, ...] = ()
    shares: Floats = PRIOR

    def parts(self, memory: Memory) -> list[tuple[Floats, Floats]]:
        """Return coefficients and intercept of every part."""
        fits = [each.fit[:2] for each in (memory, *self.memories)]
        # Without features the mean is the best prediction.
        mean = (np.zeros_like(memory.fit.coef), memory.rows.target)
        return [*fits, mean]

    def weights(self, memory: Memory) -> tuple[Floats, Floats]:
        """Return the coefficients and the intercept of the mixture."""
        coefs, intercepts = zip(*self.parts(memory), strict=True)
        coef = np.tensordot(self.shares, coefs, 1)
        return coef, self.shares @ intercepts

    def judged(self, memory: Memory, loss: Loss) -> "Mixture":
        """Return the mixture with shares after the errors on a task that is not learned yet."""
        errors = [loss(*part).sum() for part in self.parts(memory)]
        # A part without any share could never come back.
        shares = (1.0 - SHARED) * self.shares + SHARED * PRIOR
        return self._replace(shares=_updated(shares, np.array(errors), 0.5))

    def after(self, memory: Memory, blocks: list[Rows], options: Options) -> "Mixture":
        """Return the mixture after a task; ``memory`` has learned it already."""
        if self.memories:
            # In the units of all rows: those of few rows would let a constant column explode.
            scale = options.scale(memory.rows)
            pairs = zip(self.memories, DRIFTS, strict=True)
            memories = [_forgotten(each, g, blocks, scale, options) for each, g in pairs]
            return self._replace(memories=tuple(memories))
        # After the first task leave-one-out errors tell the solution from the mean.
        rows = memory.rows
        error = rows.error_left_out(memory.fit).sum()
        # The mean is left out of its own error as well: the leverage of a row is 1/n, and without
        # an intercept 0 is predicted, which no row has a part in.
        left = max(1.0 - rows.centered / rows.n, 0.05)
        mean = rows.squares.sum() / rows.n / left**2
        errors = np.array([error, error, error, mean])
        shares = _updated(PRIOR, errors, 2.0)
        if rows.n < FEWEST and options.strength is None:
            fit = rows.solve(STARTING, options.scale(rows))
            memory = Memory(rows, fit)
        return Mixture((memory,) * len(DRIFTS), shares)


def _forgotten(
    memory: Memory, g: float, blocks: list[Rows], scale: Floats, options: Options
) -> Memory:
    """Return a memory after a walk of variance g and a task, solved in the units ``scale`` of all
    rows.
    """
    fit = memory.fit
    rows = memory.rows.drifted(g, fit)
    # What the walk leaves of the penalty (see Rows.drifted): evidence would need all rows. A λ that
    # was given may be smaller than LEAST.
    walked = fit.strength / (1.0 + g * fit.strength)
    strength = max(walked, min(LEAST, fit.strength))
    for block in blocks:
        rows = (rows + block).stored(options.dense)
        fit = rows.solve(strength, scale)
        rows = rows.truncated(options.vectors, fit)
    return Memory(rows, fit)


def _updated(shares: Floats, errors: Floats, power: float) -> Array:
    """Return shares after squared errors of the parts, which count by their logarithms: no unit,
    and no rules for outliers.
    """
    errors = np.maximum(errors, 1e-300)
    relative = errors.min() / errors
    shares = shares * relative**power
    return shares / shares.sum()

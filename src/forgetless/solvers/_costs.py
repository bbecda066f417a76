"""The cost model of the solvers of one task.

Times are in units of one dense pass over one entry, an entry being read twice, by X v and by Xᵀu.
The constants are ratios measured by ``benchmarks/streaming.py`` on a machine of two cores; a factor
of two in them hardly matters.
"""

import math

import numpy as np

from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.solvers import _krylov
from forgetless.solvers.rows import Limits, OneTask, Operated, Rows

# side up to which a Gram matrix is always cheapest: a solve costs less than a few calls from Python
SMALL_SIDE = 200
# a multiplication in XᵀX of a tall X, or in XXᵀ of a wide one
GEMM = {"tall": 1 / 40, "wide": 1 / 20}
FACTOR = 1 / 42  # m³ of a Cholesky factorisation
EIGH = 0.5  # m³ of all eigenvectors
SPARSE_ENTRY = 10.0  # a stored entry of a sparse matrix, per pass
VECTOR_ENTRY = 10.0  # an entry of the vectors of the bidiagonalisation, per pass
NORM_PASSES = 25  # passes to compute ‖X‖₂
# passes from which on an iteration is tried before a factorisation; three are lost if it is slow
TRIAL = 16


def passes_needed(filter: Ridge | GradientDescent, norm: float, tol: float) -> float:
    """Return the number of passes of the bidiagonalisation, from ‖X‖₂.

    Explicit regularization: three quarters (measured) of the worst case of conjugate gradients at
    the condition 1 + ‖X‖²/λ. Budget: the degree of a polynomial near exp(−τx) on [0, 1], τ =
    Nγ‖X‖², and never more than N.
    """
    digits = math.log(2 / tol)
    if isinstance(filter, Ridge):
        root = math.sqrt(1 + norm * norm / float(filter.coefficient))
        return 1 + 0.75 * digits / math.log((root + 1) / (root - 1)) if root > 1 else 1.0
    steps = float(filter.n_steps)
    return min(steps, 4 + math.sqrt(steps * float(filter.step_size) * norm * norm * digits))


def one_pass(rows: Rows, columns: int) -> float:
    """Return the cost of one pass for a number of targets."""
    n, d = rows.shape
    entries = SPARSE_ENTRY * columns if rows.sparse else 1 + GEMM["tall"] * columns
    return rows.stored * entries + VECTOR_ENTRY * (n + d) * columns


def by_gram(rows: Rows, filter: Filter) -> float:
    """Return the cost of the smaller Gram matrix and its factorisation."""
    m = rows.small_side
    return (0.0 if rows.has_gram else gram_product(rows)) + m**3 * (
        FACTOR if isinstance(filter, Ridge) else EIGH
    )


def gram_product(rows: Rows) -> float:
    """Return the cost of the product X·Xᵀ or XᵀX alone."""
    if isinstance(rows, Operated):
        return rows.small_side * one_pass(rows, 1)
    if rows.sparse:
        # XXᵀ multiplies the entries of each column with each other, XᵀX those of each row.
        X = rows.single
        counts = np.bincount(X.indices, minlength=1) if rows.dual else np.diff(X.indptr)
        return float(np.sum(counts.astype(np.float64) ** 2)) * SPARSE_ENTRY
    return rows.stored * rows.small_side * GEMM["wide" if rows.dual else "tall"]


def gram_bytes(rows: Rows) -> int:
    """Return the memory of the Gram matrix and its factorisation."""
    return 3 * 8 * rows.small_side**2


def spectrum_bytes(rows: Rows) -> int:
    """Return the memory of a singular value decomposition."""
    return 3 * 8 * rows.shape[0] * rows.shape[1]


def norm_by_gram(rows: Rows, memory: int) -> bool:
    """Return whether ‖X‖₂ is cheaper from the Gram matrix, which is reused by the step."""
    operated = isinstance(rows, Operated)
    if rows.has_gram or (rows.small_side <= SMALL_SIDE and not operated):
        return True
    if gram_bytes(rows) > memory or rows.remote:
        return False
    return (rows.single is None and not operated) or gram_product(rows) < NORM_PASSES * one_pass(
        rows, 1
    )


def rough_norm(rows: Rows) -> float:
    """Return an estimate of ‖X‖₂ from an eighth of the rows or columns, scaled up, for the choice
    of a solver.

    Accurate where these are alike; up to a few times too large for X without structure.
    """
    sample, fraction = rows.sample(1 / 8)
    return _krylov.norm(Rows.of(sample), tol=0.1, passes=4) / math.sqrt(fraction)


def patience(task: OneTask, filter: Filter, memory: int) -> int | None:
    """Return the number of passes after which a factorisation replaces an iteration; None where
    none can.
    """
    rows, unit = task.rows, one_pass(task.rows, task.n_targets)
    if not filter.is_projection:
        if gram_bytes(rows) > memory or not (rows.readable or rows.remote):
            return None
        return 3 + int(by_gram(rows, filter) / unit)
    if rows.single is None or spectrum_bytes(rows) > memory:
        return None
    # A spectrum costs some twenty times the product of a Gram matrix.
    return 4 + int(40 * rows.shape[0] * rows.shape[1] * rows.small_side * GEMM["wide"] / unit)


def _for_projections(rows: Rows, memory: int) -> str:
    if not rows.readable:
        return "gram"
    if rows.sparse and rows.small_side > SMALL_SIDE // 4:
        return "krylov"
    return "svd" if rows.single is not None and spectrum_bytes(rows) <= memory else "krylov"


def choose(task: OneTask, filter: Filter, limits: Limits) -> str:
    """Return the solver: ``"gram"``, ``"krylov"`` or ``"svd"``."""
    rows, memory = task.rows, limits.memory
    if filter.is_projection:
        return _for_projections(rows, memory)
    if not isinstance(filter, Ridge | GradientDescent):
        return "svd"
    if (
        gram_bytes(rows) > memory
        or isinstance(rows, Operated)
        or (rows.remote and not rows.has_gram)
    ):
        return "krylov"
    # Blocks are read again at every pass: one pass for a Gram matrix is cheaper than many.
    if rows.small_side <= SMALL_SIDE or rows.in_parts:
        return "gram"
    direct, unit = by_gram(rows, filter), one_pass(rows, task.n_targets)
    if isinstance(filter, Ridge) and direct > TRIAL * unit:
        # The speed of convergence shows in three passes: the whole spectrum matters, not only its
        # ends.
        return "krylov"
    if 4 * unit > direct:
        return "gram"
    norm = rough_norm(rows) if task.norm is None else task.norm
    return "krylov" if passes_needed(filter, norm, limits.tol) * unit < direct else "gram"

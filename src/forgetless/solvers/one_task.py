"""One step on a one-shot task, g(XᵀX) Xᵀr by the cheapest solver, and several from one
decomposition.
"""

import functools
import math
import operator
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, eps_of, namespace_of, to_numpy, zeros
from forgetless.errors import ConvergenceError
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.solvers import _costs, _direct, _krylov
from forgetless.solvers.remote import RemoteRows
from forgetless.solvers.rows import DEFAULT, Limits, OneTask, Operated, Rows


class Learned(NamedTuple):
    """The result of one step on a task."""

    change: Array  # (d, c)
    solver: str  # the one that was used
    passes: int  # passes over X of an iterative solver
    error: float  # relative error of the change: a bound (iterative) or an estimate (direct)
    after: NDArray[np.float64]  # ‖r − X·change‖² per column


# smaller side up to which the norm of a task is a by-product of its solution
SMALL_SIDE = _costs.SMALL_SIDE
SOLVERS = ("auto", "gram", "krylov", "svd")


def learn(task: OneTask, filter: Filter, solver: str = "auto", limits: Limits = DEFAULT) -> Learned:
    """Return the change g(XᵀX) Xᵀr of the weights in one step on a one-shot task.

    Of the solvers "gram" factors the smaller of XᵀX and XXᵀ; "krylov" needs only products with X
    and Xᵀ and O(n + d) memory; "svd" is for any filter. "auto" selects the cheapest by the model of
    ``_costs`` and continues with the next one where the condition of the task requires it.
    """
    rows, residual, right, norm = task
    size = _largest(residual) if rows.stored else 0.0
    if not math.isfinite(size):
        raise OverflowError("the residuals y − Xw exceed the largest float; rescale X or y")
    if size == 0.0:
        nothing = zeros((rows.shape[1], residual.shape[1]), residual)
        return Learned(nothing, "none", 0, 0.0, _direct.squares(residual))
    if rows.used_columns is not None:
        few, columns = rows.used_columns
        solution = learn(OneTask(few, residual, norm=norm), filter, solver, limits)
        change = np.zeros((rows.shape[1], residual.shape[1]), dtype=residual.dtype)
        change[columns] = solution.change
        return solution._replace(change=change)
    filter = Ridge(0.0) if filter.is_projection else filter
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        task = OneTask(rows, residual, rows.adjoint(residual) if right is None else right, norm)
        a, b, c = powers = _exponents(task, filter)
        if not any(powers):
            return _learn(task, filter, solver, limits)
        # Powers of two, so that nothing is rounded: X = 2^a X', r = 2^b r', φ' = 2^c φ, δ =
        # 2^(b−a−c) δ'.
        scaled, left = (
            Rows.of(_times_power(rows.single, -a)) if a else rows,
            _times_power(residual, -b),
        )
        right = scaled.adjoint(left) if rows.readable else _times_power(task.right, -b)
        part = _learn(OneTask(scaled, left, right), _rescaled(filter, -2 * a - c), solver, limits)
        change = _scaled_back(part.change, b - a - c, exact=_largest(right) == 0.0)
        return part._replace(change=change, after=_times_power(part.after, 2 * b))


def _learn(task: OneTask, filter: Filter, solver: str, limits: Limits) -> Learned:
    """Return the step of the chosen solver, or of the next one in the order iteration, Gram matrix,
    spectrum.
    """
    chosen = _costs.choose(task, filter, limits) if solver == "auto" else solver
    remote = isinstance(task.rows, RemoteRows)
    if not task.rows.readable and chosen != "gram" and not remote:
        raise ConvergenceError(
            f"solver={solver!r} with {filter!r} reads the rows several times, which a generator"
            " does not allow; give blocks that can be read again (a list, or a function that"
            " returns an iterator)"
        )
    if chosen == "krylov":
        step = _by_iteration(task, filter, solver, limits)
        if step is not None:
            return step
        chosen = "svd" if filter.is_projection else "gram"
    if chosen == "gram":
        direct = (
            _by_remote_gram(task, filter, limits.memory)
            if remote
            else _by_gram(task, filter, limits.memory)
        )
        if direct is not None:
            return Learned(direct.change, "gram", 0, direct.error, direct.after)
    return (
        _reduced(task, filter, solver, limits)
        if remote
        else _by_spectrum(task, filter, limits.memory)
    )


def _by_iteration(task: OneTask, filter: Filter, solver: str, limits: Limits) -> Learned | None:
    """Return the step of an iteration; None where a factorisation is to replace it."""
    patience = _costs.patience(task, filter, limits.memory) if solver == "auto" else None
    iterated = _iterate(task, filter, limits, patience)
    if iterated is not None and not iterated.error > max(2 * limits.tol, _promised(task.residual)):
        return Learned(iterated.change, "krylov", iterated.passes, iterated.error, iterated.after)
    if patience is None:
        raise _not_converged(
            task.rows, filter, limits, None if iterated is None else iterated.error
        )
    return None


# relative error up to which a Gram matrix from a cluster is accepted; beyond, the rows are reduced
REMOTE = 1e-11


def _by_remote_gram(task: OneTask, filter: Filter, memory: int) -> _direct.Solved | None:
    try:
        solved = _by_gram(task, filter, memory)
    except ConvergenceError:
        return None
    return (
        solved
        if solved is not None and solved.error <= max(REMOTE, 30 * eps_of(task.residual))
        else None
    )


def _reduced(task: OneTask, filter: Filter, solver: str, limits: Limits) -> Learned:
    """Return the step on an equivalent task of few rows, in memory."""
    assert isinstance(task.rows, RemoteRows)
    if _costs.gram_bytes(task.rows) > limits.memory:
        raise _not_converged(task.rows, filter, limits, None)
    X, residual = task.rows.reduced()
    return learn(OneTask(Rows.of(X), residual, norm=task.norm), filter, solver, limits)


def _promised(residual: Array) -> float:
    """Return the relative error up to which an iteration is accepted; larger for float32."""
    return _direct.ACCURACY if eps_of(residual) < 1e-10 else 1e-4


def _not_converged(
    rows: Rows, filter: Filter, limits: Limits, error: float | None
) -> ConvergenceError:
    hint = (
        "use a larger coefficient or fewer steps, a larger tol, or more memory for a factorisation"
    )
    if error is None:
        return ConvergenceError(
            f"{limits.passes} passes over a task of shape {rows.shape} did not reach a relative"
            f" error of {limits.tol:g}; {hint}"
        )
    return ConvergenceError(
        f"the iteration for {filter!r} on a task of shape {rows.shape} has a relative error of"
        f" {error:.1g}; {hint}, with solver='auto'"
    )


def _by_spectrum(task: OneTask, filter: Filter, memory: int) -> Learned:
    rows = task.rows
    if rows.in_parts:
        raise ConvergenceError(
            f"the filter {filter!r} needs a spectrum of all rows together, which blocks and"
            " operators do not give; use a larger coefficient, or give the task as one array"
        )
    needed = _costs.spectrum_bytes(rows)
    if needed > memory:
        raise ConvergenceError(
            f"{filter!r} on a task of shape {rows.shape} needs its spectrum, which takes {needed:,}"
            f" bytes, more than memory={memory:,}; use a larger coefficient, or allow more"
        )
    direct, unknown = _direct.spectral(task, filter)
    if unknown > _direct.ACCURACY:
        from scipy.linalg import LinAlgWarning

        warnings.warn(
            f"the step is known to a relative {unknown:.1g} only: the task is ill-conditioned and"
            f" {filter!r} hardly regularizes it; use a larger coefficient, or drop features that"
            " repeat others",
            LinAlgWarning,
            stacklevel=4,
        )
    return Learned(direct.change, "svd", 0, direct.error, direct.after)


def _iterate(
    task: OneTask, filter: Filter, limits: Limits, patience: int | None
) -> _krylov.Iterated | None:
    """Return the result of an iteration within its limits, or within the passes after which it is
    replaced.
    """
    passes = limits.passes if patience is None else patience
    tol = max(limits.tol, 30 * eps_of(task.residual))  # the accuracy of float32 rows
    limits = Limits(tol, limits.memory, passes)
    if isinstance(filter, Ridge):
        # The Gram matrix of an operator takes a pass for each of its rows: iterating up to there at
        # most doubles that.
        patient = patience is None or filter.is_projection or isinstance(task.rows, Operated)
        promise = math.inf if patient else float(patience or 0)
        return _krylov.ridge(task, float(filter.coefficient), limits, promise)
    if isinstance(filter, GradientDescent):
        n_steps, step_size = int(filter.n_steps), float(filter.step_size)
        if n_steps <= 6 and not task.rows.remote:
            return _krylov.gradient_steps(task, n_steps, step_size)
        return _krylov.budget(task, n_steps, step_size, limits)
    raise ValueError(
        f"solver='krylov' serves fl.Ridge and fl.GradientDescent, not {filter!r}; use 'auto' or"
        " 'svd'"
    )


def _by_gram(task: OneTask, filter: Filter, memory: int) -> _direct.Solved | None:
    if isinstance(filter, Ridge) and isinstance(task.rows.gram, np.ndarray):
        return _direct.cholesky(task, float(filter.coefficient), memory)
    if isinstance(filter, Ridge | GradientDescent) and not filter.is_projection:
        solved = _direct.eigen(task, filter)
        return solved if solved.error <= max(1e-9, _promised(task.residual)) else None
    return None


def task_norm(rows: Rows, memory: int = 2**31) -> float:
    """Return ‖X‖₂: exact to rounding where the smaller Gram matrix is small, else to three digits
    from some passes.
    """
    largest = _largest_entry(rows) if rows.single is not None else 1.0
    if largest == 0.0:
        return 0.0
    a = (
        _exponent(largest, rows.single.data if rows.sparse else rows.single)
        if rows.single is not None
        else 0
    )
    if a:
        return float(_times_power(task_norm(Rows.of(_times_power(rows.single, -a)), memory), a))
    if rows.used_columns is not None:
        return task_norm(rows.used_columns[0], memory)
    if not _costs.norm_by_gram(rows, memory):
        return _krylov.norm(rows)
    if rows.small_side > _costs.SMALL_SIDE:
        return math.sqrt(_krylov.norm(Rows.of(rows.gram)))
    return math.sqrt(max(float(namespace_of(rows.gram).linalg.eigvalsh(rows.gram)[-1]), 0.0))


# Tasks whose squares overflow or underflow are scaled by powers of two, which is exact.


# steps with φ up to 2^−90 are as good as linear in φ, and still far from the smallest floats
WEAK = 90


def _exponents(task: OneTask, filter: Filter) -> tuple[int, int, int]:
    """Return the powers of two by which X, r and 1/φ are scaled down; 0 where all squares are
    floats anyway.
    """
    rows, residual, right, _ = task
    if rows.remote:
        # the residuals are on the workers; ``reduced`` returns rows in memory, which are scaled
        return 0, 0, 0
    size, product = _largest(residual), _largest(right)
    b = _exponent(size, residual)
    if rows.single is None or not isinstance(filter, Ridge | GradientDescent):
        return 0, b, 0  # other filters are solved by the spectrum, which scales X itself
    # The quotient is at most √n‖X‖: without it X and r may be far apart while neither r nor Xᵀr is
    # unusual. φ'(0)·Xᵀr is the size of a weak step.
    weak = 0 < float(filter.slope()) * product < 1e-100
    if not (b or weak or _exponent(product, right) or _exponent(product / size, right)):
        return 0, 0, 0
    # All of X is read only now; an entry without effect on Xᵀr would show as an infinite Gram
    # matrix later.
    largest = _largest_entry(rows)
    # log₂ φ, roughly
    power = math.log2(float(filter.slope())) + 2 * math.log2(largest) if largest else math.inf
    return _exponent(largest, residual), b, max(0, -WEAK - math.ceil(power)) if power < 0 else 0


def _exponent(size: float, like: Array) -> int:
    """Return the exponent of a size that is too large or small to be squared and summed in the
    dtype of ``like``.
    """
    # The step is of the size of r/X, and its square must be a float too: 1e30 leaves room for
    # strengths of any size.
    limit = 1e30 if eps_of(like) < 1e-10 else 1e12
    if not math.isfinite(size):
        return 1  # only Xᵀr can be infinite, and it is not scaled itself
    return 0 if size == 0 or 1 / limit < size < limit else math.frexp(size)[1]


def _largest_entry(rows: Rows) -> float:
    """Return the largest absolute entry of X, which must be one matrix."""
    return _largest(rows.single.data if rows.sparse else rows.single) if rows.stored else 0.0


def _largest(array: Array) -> float:
    """Return the largest absolute value; NaN stays NaN."""
    xp = namespace_of(array)
    return max(float(xp.max(array)), -float(xp.min(array)))


def _times_power(array: Any, power: int) -> Any:
    """Return array · 2^power."""
    return functools.reduce(operator.mul, _powers_of_two(power), array)


def _rescaled(filter: Filter, power: int) -> Filter:
    """Return the filter with its strength times 2^power, which acts on 2^(power/2) X as ``filter``
    does on X.
    """
    return functools.reduce(
        lambda scaled, factor: scaled.scaled(factor), _powers_of_two(power), filter
    )


def _powers_of_two(power: int) -> list[float]:
    """Return factors of 2^power, which may itself overflow."""
    step = 1000 if power > 0 else -1000
    return [2.0**step] * (power // step) + [2.0 ** (power - power // step * step)]


def _scaled_back(change: Array, power: int, exact: bool) -> Array:
    """Return 2^power · change; raises an error where it left the range of a float, before or
    after.
    """
    smallest = 0.0 if exact else float(np.finfo(to_numpy(change).dtype).tiny)
    if not _largest(change) >= smallest:
        raise ConvergenceError(
            "X, y and the strength are of sizes too far apart for a step; rescale X or y"
        )
    result = _times_power(change, power)
    if not math.isfinite(_largest(result)):
        raise OverflowError("the weights after this step exceed the largest float; rescale X or y")
    return result

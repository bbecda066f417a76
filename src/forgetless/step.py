"""THE equation: one task and one filter make an affine map of the weights.

    w  ←  w − φ(XᵀX) (w − X⁺y)

In the spectrum X = U·diag(s)·V of the task this is w ← w − Vᵀ φ(s²) ∘ (V w − V X⁺y). The engines apply this map many
times to the same tasks, in other coordinates, through :class:`Coordinates`. A task that is met once needs no spectrum:
with g(ξ) = φ(ξ)/ξ the same step is w ← w + g(XᵀX) Xᵀ(y − Xw), which :func:`learn` computes by whatever is cheapest.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless import _costs, _direct, _krylov, _scaling
from forgetless._arrays import Array, as_float, from_numpy, namespace_of, same_library, to_numpy, zeros
from forgetless._krylov import ConvergenceError
from forgetless._rows import Rows, is_sparse, plain
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.tasks import Task, TaskCollection


def check_single(task: Any, filter: Any) -> None:
    """Refuse anything but one task and the filter of one step."""
    if not isinstance(task, Task) or not isinstance(filter, Filter):
        raise TypeError(
            f"this needs a Task, such as tasks[0], and a filter, such as fl.Ridge(1.0); got {type(task).__name__} and "
            f"{type(filter).__name__}"
        )
    if filter.horizon is not None:
        raise ValueError(f"filter must be that of a single step, got {filter.horizon} steps; use filter.at(t - 1)")


def step(w: Any, task: Task | tuple[Any, Any], filter: Filter) -> Array:
    """Return the weights after learning one task.

    Parameters
    ----------
    w : array of shape (d,) or (d, c)
        Weights before the step.
    task : Task or (X, y)
        An element of a ``TaskCollection``, whose spectrum is used; or a pair of X, dense or sparse, and y, for a task
        that is met once: then nothing is decomposed that need not be.
    filter : Filter
        How much of each direction is learned; constant, or ``schedule(k, radius).at(t - 1)`` for step t.

    Returns
    -------
    array of the shape of ``w``

    Examples
    --------
    >>> import forgetless as fl
    >>> task = fl.TaskCollection([([[1.0, 0.0]], [2.0])])[0]
    >>> fl.step([0.0, 5.0], task, fl.Ridge(1.0)).tolist()
    [1.0, 5.0]
    >>> fl.step([0.0, 5.0], ([[1.0, 0.0]], [2.0]), fl.Ridge(1.0)).tolist()
    [1.0, 5.0]
    """
    if isinstance(task, tuple) and len(task) == 2:
        return _step_once(w, *task, filter)
    check_single(task, filter)
    w = same_library(as_float("w", w), like=task.X)
    expected = (task.X.shape[1], *task.y.shape[1:])
    if tuple(w.shape) != expected:
        raise ValueError(f"w must have shape {expected} for this task, got {tuple(w.shape)}")
    share = from_numpy(np.asarray(filter.learned(to_numpy(task.singular_values))), like=task.X)
    error = task.directions @ w - task.targets
    return w - task.directions.T @ (error * (share if w.ndim == 1 else share[:, None]))


def _step_once(w: Any, X: Any, y: Any, filter: Filter) -> Array:
    if not isinstance(filter, Filter) or filter.horizon is not None:
        raise TypeError(f"filter must be that of a single step, such as fl.Ridge(1.0), got {filter!r}")
    if is_sparse(X):
        X = plain(X, None, False, np.float64)
        if not np.all(np.isfinite(X.data)):
            raise ValueError("X contains NaN or infinity; only finite values are allowed, so drop or impute them")
    else:
        X = as_float("X", X)
    y = as_float("y", y)
    w = as_float("w", w) if is_sparse(X) else same_library(as_float("w", w), like=X)
    if X.ndim != 2 or tuple(y.shape) != (X.shape[0], *w.shape[1:]) or w.shape[0] != X.shape[1]:
        raise ValueError(
            f"X (n, d), y (n,) or (n, c) and w (d,) or (d, c) must fit together, got shapes {tuple(X.shape)}, "
            f"{tuple(y.shape)} and {tuple(w.shape)}"
        )
    residual = y - X @ w
    xp = namespace_of(residual)
    made = learn(Rows.of(X), xp.reshape(residual, (X.shape[0], -1)), filter)
    return w + xp.reshape(made.change, w.shape)


class Learned(NamedTuple):
    """What one step on a task did: see :func:`learn`."""

    change: Array
    solver: str
    passes: int
    error: float
    after: NDArray[np.float64]


SOLVERS = ("auto", "gram", "krylov", "svd")


def learn(
    rows: Rows,
    residual: Array,
    filter: Filter,
    *,
    solver: str = "auto",
    tol: float = 1e-10,
    memory: int = 2**31,
    norm: float | None = None,
    right: Array | None = None,
) -> Learned:
    """Return the change g(XᵀX) Xᵀr that one step on a task met once makes to the weights.

    Parameters
    ----------
    rows : Rows
        X, of shape (n, d).
    residual : array of shape (n, c)
        r = y − Xw, one column per target.
    filter : Filter
        The filter of a single step.
    solver : {"auto", "gram", "krylov", "svd"}
        ``"gram"`` factors the smaller of XᵀX and XXᵀ; ``"krylov"`` needs only products with X and Xᵀ and O(n + d)
        memory; ``"svd"`` serves any filter. ``"auto"`` takes the cheapest by the model of ``_costs`` and goes on to
        the next one where conditioning demands it.
    tol : float
        Bound of the relative error at which ``"krylov"`` stops.
    memory : int
        Bytes that a Gram matrix, a spectrum or a stored basis may take.
    norm : float, optional
        ‖X‖₂ where it is known.
    right : array of shape (d, c), optional
        Xᵀr where it is known.

    Returns
    -------
    Learned
        ``change`` (d, c), ``solver`` used, ``passes`` over X of an iterative one, ``error``: bound (iterative) or
        estimate (direct) of the relative error of the change, ``after``: ‖r − X·change‖² per column.
    """
    if rows.stored == 0 or _scaling.largest(residual) == 0.0:
        nothing = zeros((rows.shape[1], residual.shape[1]), residual)
        return Learned(nothing, "none", 0, 0.0, _direct.squares(residual))
    if rows.used_columns is not None:
        few, columns = rows.used_columns
        made = learn(few, residual, filter, solver=solver, tol=tol, memory=memory, norm=norm)
        change = np.zeros((rows.shape[1], residual.shape[1]), dtype=residual.dtype)
        change[columns] = made.change
        return made._replace(change=change)
    filter = Ridge(0.0) if isinstance(filter, Projection) else filter
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        right = rows.adjoint(residual) if right is None else right
        a, b = _scaling.exponents(rows, residual, right, filter)
        if a == b == 0:
            return _learn(rows, residual, right, filter, solver, tol, memory, norm)
        # Powers of two, so that nothing is rounded: X = 2^a X', r = 2^b r', δ = 2^(b−a) δ'.
        scaled, left = Rows.of(_scaling.times_power(rows.single, -a)) if a else rows, _scaling.times_power(residual, -b)
        part = _learn(scaled, left, scaled.adjoint(left), _scaling.rescaled(filter, a), solver, tol, memory, None)
        return part._replace(
            change=_scaling.times_power(part.change, b - a), after=_scaling.times_power(part.after, 2 * b)
        )


def _learn(
    rows: Rows,
    residual: Array,
    right: Array,
    filter: Filter,
    solver: str,
    tol: float,
    memory: int,
    norm: float | None,
) -> Learned:
    """Try the chosen solver, then those that come after it: iteration, Gram matrix, spectrum."""

    def known_norm() -> float:
        return norm if norm is not None else _costs.rough_norm(rows)

    columns, auto = residual.shape[1], solver == "auto"
    chosen = _costs.choose(rows, filter, columns, tol, memory, known_norm) if auto else solver
    if not rows.readable and chosen != "gram":
        raise ConvergenceError(
            f"solver={solver!r} with {filter!r} reads the rows several times, which a generator does not allow; give "
            "blocks that can be read again (a list, or a function that returns an iterator)"
        )
    if chosen == "krylov":
        replaceable, limit = _costs.patience(rows, filter, columns, memory) if auto else (False, _krylov.MAX_PASSES)
        found = _iterate(rows, residual, right, filter, tol, limit, memory, give_up=replaceable)
        if found is not None and not found.error > max(2 * tol, _promised(residual)):
            return Learned(found.change, "krylov", found.passes, found.error, found.after)
        if not replaceable:
            raise _not_converged(rows, filter, tol, limit, None if found is None else found.error)
        chosen = "gram" if _costs.regularizes(filter) else "svd"
    if chosen == "gram":
        direct = _by_gram(rows, residual, right, filter, memory)
        if direct is not None:
            return Learned(direct.change, "gram", 0, direct.error, direct.after)
    return _by_spectrum(rows, residual, filter, memory)


def _promised(residual: Array) -> float:
    """Return the relative error up to which a step is accepted: less for float32, where a factorisation knows more."""
    return _direct.ACCURACY if float(namespace_of(residual).finfo(residual.dtype).eps) < 1e-10 else 1e-4


def _not_converged(rows: Rows, filter: Filter, tol: float, limit: int, error: float | None) -> ConvergenceError:
    cure = "use a larger coefficient or fewer steps, a larger tol, or more memory for a factorisation"
    if error is None:
        return ConvergenceError(
            f"{limit} passes over a task of shape {rows.shape} did not reach a relative error of {tol:g}; {cure}"
        )
    return ConvergenceError(
        f"iteration knows the step of {filter!r} on a task of shape {rows.shape} to a relative {error:.1g} only; "
        f"{cure}, with solver='auto'"
    )


def _by_spectrum(rows: Rows, residual: Array, filter: Filter, memory: int) -> Learned:
    if rows.single is None:
        raise ConvergenceError(
            f"the filter {filter!r} on row blocks needs a spectrum of all rows together, which blocks do not give; "
            "use a larger coefficient, or give the task as one array"
        )
    needed = _costs.spectrum_bytes(rows)
    if needed > memory:
        raise ConvergenceError(
            f"{filter!r} on a task of shape {rows.shape} needs its spectrum, which takes {needed:,} bytes, more than "
            f"memory={memory:,}; use a larger coefficient, or allow more"
        )
    direct = _direct.spectral(rows, residual, filter)
    if direct.error > _direct.ACCURACY:
        from scipy.linalg import LinAlgWarning

        warnings.warn(
            f"the step is known to a relative {direct.error:.1g} only: the task is ill-conditioned and {filter!r} "
            "hardly regularizes it; use a larger coefficient, or drop features that repeat others",
            LinAlgWarning,
            stacklevel=4,
        )
    return Learned(direct.change, "svd", 0, direct.error, direct.after)


def _iterate(
    rows: Rows, residual: Array, right: Array, filter: Filter, tol: float, limit: int, memory: int, give_up: bool
) -> _krylov.Iterated | None:
    tol = max(tol, 30 * float(namespace_of(residual).finfo(residual.dtype).eps))  # float32 rows cannot tell more
    if isinstance(filter, Ridge):
        promise = float(limit) if give_up and _costs.regularizes(filter) else math.inf
        return _krylov.ridge(rows, residual, right, float(filter.coefficient), tol, limit, promise)
    if isinstance(filter, GradientDescent):
        n_steps, step_size = int(filter.n_steps), float(filter.step_size)
        if n_steps <= 6:
            return _krylov.gradient_steps(rows, residual, right, n_steps, step_size)
        return _krylov.budget(rows, residual, right, n_steps, step_size, tol, limit, memory)
    raise ValueError(f"solver='krylov' serves fl.Ridge and fl.GradientDescent, not {filter!r}; use 'auto' or 'svd'")


def _by_gram(rows: Rows, residual: Array, right: Array, filter: Filter, memory: int) -> _direct.Solved | None:
    if isinstance(filter, Ridge) and isinstance(rows.gram, np.ndarray):
        return _direct.cholesky(rows, residual, right, float(filter.coefficient), memory)
    if isinstance(filter, Ridge | GradientDescent) and _costs.regularizes(filter):
        found = _direct.eigen(rows, residual, right, filter)
        return found if found.error <= max(1e-9, _promised(residual)) else None
    return None


def task_norm(rows: Rows, memory: int = 2**31) -> float:
    """Return ‖X‖₂: exact to rounding where the smaller Gram matrix is small, else from some passes (three digits)."""
    largest = _scaling.largest_entry(rows) if rows.single is not None else 1.0
    if largest == 0.0:
        return 0.0
    a = _scaling.exponent(largest, rows.single.data if rows.sparse else rows.single) if rows.single is not None else 0
    if a:
        return math.ldexp(task_norm(Rows.of(_scaling.times_power(rows.single, -a)), memory), a)
    if rows.used_columns is not None:
        return task_norm(rows.used_columns[0], memory)
    if not _costs.norm_by_gram(rows, memory):
        return _krylov.norm(rows)
    if rows.small_side > _costs.SMALL_SIDE:
        return math.sqrt(_krylov.norm(Rows.of(rows.gram)))
    return math.sqrt(max(float(namespace_of(rows.gram).linalg.eigvalsh(rows.gram)[-1]), 0.0))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Small coordinates in which the equation is applied to a whole collection.

    Both kinds track a state with rows of length Q per target and know the error e = V w − V X⁺y of every direction
    of every task, Σr in number. A step on task m takes a = e on the rows of m and subtracts (φ ∘ a) @ maps[rows].

    * *span*: the state is w − w₀ in an orthonormal basis of the joint span, Q = q; maps are the directions there.
    * *gram*: the state is e itself, Q = Σr; maps is the Gram matrix V Vᵀ. One product less per step, for Σr ≪ d.

    Attributes
    ----------
    maps : array of shape (Σr, Q)
    missing : array of shape (Σr, c)
        V X⁺y − V w₀, minus the errors at the start.
    gram : bool
    basis : array of shape (d, Q) or None
        Span coordinates only: None if they are the features themselves.
    """

    tasks: TaskCollection
    origin: Array
    maps: Array
    missing: Array
    gram: bool
    basis: Array | None

    def initial(self, n_trials: int) -> Array:
        """Return the state at the start, of shape (n_trials, c, Q)."""
        xp = namespace_of(self.maps)
        shape = (n_trials, self.missing.shape[1], self.maps.shape[1])
        if not self.gram:
            return zeros(shape, self.maps)
        return xp.asarray(xp.broadcast_to(-self.missing.T, shape), copy=True)

    def errors(self, state: Array) -> Array:
        """Return e of shape (n_trials, c, Σr) from a state."""
        return state if self.gram else state @ self.maps.T - self.missing.T

    def weights(self, state: Array, moved: Array | None, base: Array | None = None) -> Array:
        """Return weights of shape (n_trials, d, c).

        In gram coordinates the state does not hold them: ``moved`` is the sum of φ ∘ a over the steps made since the
        weights were ``base`` (w₀ if None), each at its task's rows.
        """
        xp = namespace_of(self.maps)
        if self.gram:
            change = -(moved @ self.tasks.directions)
        else:
            change = state if self.basis is None else state @ self.basis.T
        return (self.origin if base is None else base) + xp.matrix_transpose(change)

    def errors_of(self, weights: Array) -> Array:
        """Return e of shape (n_trials, c, Σr) from weights of shape (n_trials, d, c)."""
        xp = namespace_of(self.maps)
        return xp.matrix_transpose(self.tasks.directions @ weights - self.tasks.targets)


def span_coordinates(tasks: TaskCollection, start: Array, *, reduced: bool = True) -> Coordinates:
    """Return span coordinates; ``reduced=False`` keeps the features, which costs no set-up."""
    basis = tasks.span if reduced else None
    maps = tasks.directions if basis is None else tasks.directions @ basis
    origin, missing = _origin(tasks, start)
    return Coordinates(tasks, origin, maps, missing, gram=False, basis=basis)


def gram_coordinates(tasks: TaskCollection, start: Array) -> Coordinates:
    """Return gram coordinates."""
    origin, missing = _origin(tasks, start)
    return Coordinates(tasks, origin, tasks.gram, missing, gram=True, basis=None)


def _origin(tasks: TaskCollection, start: Array) -> tuple[Array, Array]:
    origin = tasks.xp.reshape(start, (tasks.n_features, tasks.n_targets))
    return origin, tasks.targets - tasks.directions @ origin

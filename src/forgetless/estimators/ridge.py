"""Regression on a stream with explicit L2 to the previous weights: scheme 1 of the paper.

``partial_fit`` learns one task; ``fit`` forgets everything and learns one task per group of rows. The state is O(d):
the weights, and the r directions that are remembered. What a task does is in ``_scheme`` and ``_remembering``, how its
step is computed in ``solvers.one_task``.
"""

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from forgetless._core.averages import next_total
from forgetless.estimators._remembering import Remembering
from forgetless.estimators._scheme import alpha_filter, ridge_named
from forgetless.estimators._single_rows import Row, learn_row
from forgetless.estimators.directions import Directions
from forgetless.estimators.model import store
from forgetless.estimators.state import Iterate, State


class ContinualRidge(RegressorMixin, Remembering):  # type: ignore[misc]
    """Ridge regression on a stream of tasks that is pulled to the previous solution instead of to zero.

    Task t minimises ½‖X_t w − y_t‖² + (λ_t/2)‖w − w_{t−1}‖² from w_0 = 0 in O(d) memory.

    Parameters
    ----------
    alpha : float, default 1.0
        λ_t = alpha at every task, if no schedule is given. For one task from zero this is scikit-learn's ``Ridge``.
    rank : int, default 0
        How many directions of everything seen are remembered, beside the weights: r·d numbers. Step t then minimises
        ½‖X_t w − y_t‖² + ½‖B(w − w_{t−1})‖² + (λ_t/2)‖w − w_{t−1}‖², where the rows of B stand for those of all tasks
        so far. Once it reaches the rank of all rows, the solution is that of joint ridge regression. Needs λ_t > 0.
    metric : {"isotropic", "diagonal"}, default "isotropic"
        ``"diagonal"`` adds to λ_t, feature by feature, the size of that feature in all tasks so far, as far as B does
        not hold it: for sparse, hashed or one-hot columns. It takes O(d) more memory.
    forget : float, default 0.0
        Share of what is remembered that every task takes away, for streams that change.
    precision : {"float16", "float32", "float64"}, default "float16"
        Of the directions. ``"float64"`` where joint ridge regression must be met to many digits; ``"float32"`` is
        faster for tasks of a single row.
    schedule : str, schedule, filter or callable, optional
        λ_t from a schedule of :mod:`forgetless.schedules`, e.g. ``schedules.increasing(scale=0.01)`` or by its name,
        ``"increasing:0.01"``, or any callable ``(k, radius) → filter``. ``"auto"`` learns with eight strengths at once
        and answers with the weights that do best so far; it needs neither horizon nor scaled features, eight times the
        weights and 64 sums of rows.
    objective : {"seen", "next"}, default "seen"
        What ``"auto"`` asks of the weights: small errors on all tasks seen, those of rows before they were learned
        counting for a quarter; or these alone, for streams where only the next task counts. With ``holdout`` the former
        are those on held-out rows.
    n_tasks : int, optional
        The horizon k that schedules need. If omitted, ``fit`` with groups takes their number, and ``partial_fit`` goes
        in epochs of doubling length: a heuristic without a theorem, since the schedule starts anew in every epoch.
    radius : float, optional
        R, for schedules. If omitted, the largest ‖X_t‖₂ so far, the current task included: the true R is reached with
        the largest task, and the strengths before it are smaller than the theorem's.
    beyond : {"error", "anytime"}, default "error"
        What happens to tasks after ``n_tasks``: an error, or epochs of doubling length as above.
    average : float, optional
        Answer with the average of the weights after every task, those after task t weighed by t^average: ``coef_`` and
        ``predict`` are of the average, while learning goes on from the last weights. Needs no horizon: 2, with
        ``alpha=0``, has the best guarantee where it is unknown, for tasks that one model fits. Not for streams that
        change, since an average remembers old solutions. It takes O(d) more memory.
    loss : {"sum", "mean"}, default "sum"
        ``"mean"`` divides the loss of a task by its number of rows (the sum of their weights), so that λ_t means the
        same for tasks of different sizes; R is then that of X_t/√n.
    fit_intercept : bool, default False
        Adds a feature that is always 1. Like every other weight the intercept is pulled to its previous value.
    standardize : bool, default False
        Learn in units in which every column has mean 0 and standard deviation 1 over all rows so far. When these
        statistics change, weights and all that is remembered are expressed in the new units, so that the function
        stays as it was; ``coef_`` and ``intercept_`` are in the user's units. With an intercept the first task starts
        from the mean of its targets. Columns are scaled but not centred without an intercept, or where X is sparse. It
        takes O(d) more memory, and a copy of every task.
    solver : {"auto", "gram", "krylov", "svd"}, default "auto"
        How the step is computed: see :func:`forgetless.solvers.one_task.learn`.
    tol : float, default 1e-10
        Bound of the relative error of a step of ``"krylov"``.
    memory : int, default 2**31
        Bytes that one factorisation may take; larger tasks are solved by ``"krylov"``.
    history_size : int, default 1000
        How many tasks ``history_`` keeps.
    holdout : float, default 0.0
        Share of the rows of each task that is kept for ``seen_mse_`` and never trained on; what was saved or pickled
        then holds these rows.
    holdout_size : int, default 10000
        How many held-out rows are kept in all.
    random_state : int, optional
        Chooses the held-out rows.

    Attributes
    ----------
    coef_ : array of shape (d,) or (c, d)
    intercept_ : float or array of shape (c,)
    n_tasks_seen_ : int
    radius_ : float
        The running maximum of ‖X_t‖₂, over the tasks for which it was needed or came with the solution (smaller side
        up to 200).
    history_ : dict of arrays
        Per task: ``task``, ``n_rows``, ``strength`` (λ_t), ``radius`` (R; NaN where not known), ``mse_before`` and
        ``mse_after`` learning it (with ``average`` by the average, and by the last weights), ``error`` of the step
        (relative; bound or estimate), ``seen_mse`` on held-out rows.
    prequential_mse_ : float
        Mean squared error of predicting every row before learning it.
    seen_mse_ : float
        Mean squared error on the held-out rows of the tasks seen, each task counting the same.
    kept_ : float
        Share of what was seen that is remembered: of the trace of Σ XᵀX. Where it is far below 1, a larger ``rank``
        may help.
    nbytes_ : int
        Bytes of what is kept from one task to the next.

    Notes
    -----
    One thread may learn while others read. Learning replaces all of the state at once, so an error or an interruption
    leaves the model as it was before the task, and ``predict``, ``save``, pickling and copying see one state whole. Two
    attributes read one after the other may be of two states: take both from ``copy.copy(model)``.

    Examples
    --------
    >>> import numpy as np
    >>> from forgetless import ContinualRidge
    >>> model = ContinualRidge(alpha=1.0)
    >>> for X, y in [([[1.0, 0.0]], [2.0]), ([[0.0, 1.0]], [4.0])]:
    ...     model = model.partial_fit(X, y)
    >>> model.coef_.tolist(), model.n_tasks_seen_
    ([1.0, 2.0], 2)

    With a memory, the second task does not undo the first:

    >>> tasks = [([[1.0, 0.0]], [2.0]), ([[1.0, 1.0]], [0.0])]
    >>> for rank in (0, 1):
    ...     model = ContinualRidge(alpha=0.01, rank=rank, precision="float64")
    ...     for X, y in tasks:
    ...         model = model.partial_fit(X, y)
    ...     print(model.coef_.round(2).tolist(), round(model.kept_, 2))
    [1.0, -0.99] 0.0
    [1.96, -1.94] 0.87

    References
    ----------
    Levinstein et al. (2025), Algorithm 1 (regularized continual linear regression).
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        rank: int = 0,
        metric: str = "isotropic",
        forget: float = 0.0,
        precision: str = "float16",
        schedule: Any = None,
        objective: str = "seen",
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
        average: float | None = None,
        loss: str = "sum",
        fit_intercept: bool = False,
        standardize: bool = False,
        solver: str = "auto",
        tol: float = 1e-10,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        store(self, locals())

    def _own_schedule(self) -> Any:
        return alpha_filter(self.alpha)

    def _named(self, text: str) -> Any:
        return ridge_named(text)

    def _key(self) -> tuple[Any, ...]:
        return (
            self.alpha,
            self.schedule,
            self.n_tasks,
            self.beyond,
            self.radius,
            self.fit_intercept,
            self.standardize,
            self.loss,
            self.holdout,
            self.history_size,
            self.rank,
            self.metric,
            self.forget,
            self.precision,
            self.objective,
            self.average,
        )

    def _after_row(self, X: Any, y: Any) -> State | None:
        # Compared with what the usual path has established: type, dtype, shape, the parameters behind the strength;
        # finiteness shows in the two inner products. Whatever is unusual goes the usual path, which says what is wrong.
        state = self._state
        if state is None or type(X) is not np.ndarray or type(y) is not np.ndarray:
            return None
        origin, history, holdout, coef, intercept, n_tasks, radius, advisor, memory, plan, iterate, known, units = state
        dtype = coef.dtype
        if (
            plan is None
            or type(coef) is not np.ndarray
            or coef.ndim != 1
            or X.shape != (1, origin.n_features)
            or X.dtype != dtype
            or y.dtype != dtype
            or y.shape != (1,)
            or plan.key != self._key()
            or holdout is not None
            or advisor is not None
            or units is not None
            or origin.feature_names is not None
            or (known is None) == self._remembers
        ):
            return None
        x = X[0]
        square = float(x.dot(x))  # a method is found faster than an operator
        if not 1e-10 < square < 1e30:
            return None
        shown, before = (coef, intercept), y.item() - float(x.dot(coef))
        told = before - float(intercept)  # how far off the answer is; the same where it is the last iterate
        if iterate is not None:
            weights = iterate.weights[:, 0]
            coef, intercept = (weights[:-1], weights[-1]) if self.fit_intercept else (weights, 0.0)
            before = y.item() - float(x.dot(coef))
        if not (-1e20 < before < 1e20 and -1e20 < told < 1e20):
            return None
        if self.fit_intercept:
            before -= float(intercept)
            square += 1.0
        radius = max(radius, math.sqrt(square))
        used = radius if self.radius is None else self.radius
        task = n_tasks + 1
        coefficient = plan.strength.ready_coefficient(task, used)
        if not 0.0 <= coefficient < 1e30:
            return None
        if known is None:
            gain = before / (square + coefficient)
            if -1e-290 < gain < 1e-290 and before != 0.0:  # digits would be lost below the range of a float
                return None
            after = before - gain * square
            coef = coef + x * gain
            if self.fit_intercept:
                intercept = dtype.type(intercept + gain)
        else:
            row = self._with_memory(known, x, square, before, coefficient)
            if row is None:
                return None
            change, after, known = row
            coef = (coef + (change[:-1] if self.fit_intercept else change)).astype(dtype, copy=False)
            if self.fit_intercept:
                intercept = dtype.type(intercept + change[-1])
        history = history.with_row((task, 1, coefficient, used, told * told, after * after, 0.0, math.nan), 1.0)
        if iterate is not None:
            total = next_total(iterate.total, plan.key[-1], task)
            weights = np.append(coef, intercept) if self.fit_intercept else coef
            iterate = Iterate(weights[:, None], total)
            coef = shown[0] + (coef - shown[0]) / total
            intercept = dtype.type(shown[1] + (intercept - shown[1]) / total) if self.fit_intercept else 0.0
        learned = (origin, history, None, coef, intercept, task, radius, None, memory, plan, iterate, known, None)
        return tuple.__new__(State, learned)

    def _with_memory(self, known: Directions, x: Any, square: float, residual: float, strength: float) -> Row | None:
        """Return what a row does where directions are remembered; None where the usual path should learn it."""
        if self.metric != "isotropic" or not strength > 0 or residual == 0.0:
            return None
        if self.fit_intercept:
            x = np.append(x, x.dtype.type(1.0))
        return learn_row(known.faded(self.forget), x, square, residual, strength, self.rank)

"""Ridge regression on all rows of a stream: the estimator to begin with."""

from typing import Any, NamedTuple, Self

import numpy as np

from forgetless._running import few_threads, gram_work
from forgetless._validate import Array, Floats
from forgetless.estimators import Before, StreamingRegressor, inputs
from forgetless.estimators.inputs import Linear, rows_of
from forgetless.estimators.memory import Loss, Memory, Mixture, Remembering, learned
from forgetless.estimators.moments import check_squares
from forgetless.estimators.rows import Rows

WAITING = 64  # no mutant: one row more or less
"""Rows of small tasks that may wait, if they are at most 1 % of all rows."""


class State(NamedTuple):
    """Everything learned.

    Attributes
    ----------
    memory : Memory or None
        None before the first task.
    mixture : Mixture or None
    before : Before
        Squared errors of tasks before they were learned.
    waiting : tuple of (X, y)
        The last, small tasks: learned together, which gives the same sums at a tenth of the cost of
        single rows.
    n_waiting : int
        Their rows.
    """

    memory: Any
    mixture: Mixture | None
    before: Before
    waiting: tuple[Any, ...] = ()
    n_waiting: int = 0


class StreamingRidge(StreamingRegressor, Remembering):
    """Ridge regression on all rows of a stream of tasks, from statistics of bounded size.

    For ordinary data, with nothing to tune. Every call of ``partial_fit`` adds a task.

    Which question: the default is for *all* tasks seen, ``adaptive=True`` for the *next* task of a
    stream that drifts. By default the weights minimize

        Σ (y − wᵀx − b)² + λ Σ_j s_j² w_j²

    over all rows so far, with their standard deviations s: what scikit-learn's ``Ridge`` gives on
    standardized columns when it is refitted on everything. λ has the largest evidence. Up to
    ``rank`` features (500) the result does not depend on how rows are cut into tasks or on their
    order; beyond, it depends on both through the vectors that are kept.

    ``StreamingRidge(alpha, standardize=False, fit_intercept=False)`` is joint ridge regression,
    which is what recursive least squares computes.

    Parameters
    ----------
    alpha : float, optional
        λ > 0; chosen by evidence if omitted.
    adaptive : bool, default False
        Predict the next task: a mixture of this model, two memories that forget, and the mean,
        weighted by their errors before learning.
    rank : int, optional
        Up to so many features the second moments are a d × d matrix; beyond, they are so many
        vectors and the exact diagonal. If omitted, 500 features, and 100 vectors beyond them.
    fit_intercept : bool, default True
    standardize : bool, default True
        Penalize every weight in units of the standard deviation of its column.
    guard : float or None, default 1.0
        For predictions features are clipped to the range seen, extended by so many times its width.

    Attributes
    ----------
    coef_ : array of shape (d,) or (c, d)
    intercept_ : float or array of shape (c,)
    alpha_ : float
        λ of the present solution.
    rows_ : Rows
        The statistics of all rows; ``partial_fit_rows`` learns such an object.
    n_tasks_seen_ : int
    prequential_mse_ : float
        Mean squared error of predicting rows before they were learned, from the second task on, by
        the solution at that time. It may lack the last rows: up to 1 % of all, or d/16 if more.
    retained_fraction_ : float
        Fraction of the variance of the columns that the vectors hold; 1 where the matrix is stored.

    Examples
    --------
    >>> import numpy as np, forgetless as fl
    >>> rng = np.random.default_rng(0)
    >>> model = fl.StreamingRidge()
    >>> for _ in range(20):
    ...     X = rng.standard_normal((10, 3))
    ...     model = model.partial_fit(X, X @ [1.0, 2.0, 3.0] + 5.0)
    >>> model.coef_.round(1).tolist(), round(float(model.intercept_), 1)
    ([1.0, 2.0, 3.0], 5.0)
    """

    _fixed = ("adaptive", "rank", "fit_intercept", "standardize")

    def __init__(
        self,
        alpha: float | None = None,
        *,
        adaptive: bool = False,
        rank: int | None = None,
        fit_intercept: bool = True,
        standardize: bool = True,
        guard: float | None = 1.0,
    ) -> None:
        self.alpha = alpha
        self.adaptive = adaptive
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.guard = guard

    # --- learning ---

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            A dask array is never loaded: the statistics of its blocks are added up.
        y : array of shape (n,) or (n, c)
        sample_weight : array of shape (n,), optional
            Nonnegative weights; a weight of 2 is the same as the row twice.
        """
        if not hasattr(X, "__dask_graph__"):
            return super().partial_fit(X, y, sample_weight)
        center = self.fit_intercept
        dense = self._options().dense
        rows = rows_of(X, y, sample_weight, center=center, dense=dense)
        return self.partial_fit_rows(rows)

    def partial_fit_rows(self, rows: Rows) -> Self:
        """Learn one task given as statistics of its rows: from ``forgetless.rows_of``, or a sum of
        such over blocks or machines.

        With ``adaptive`` the parts are judged by their errors on the task, which are known from the
        statistics only where no feature leaves the range that the guard allows.
        """
        if not isinstance(rows, Rows):
            raise TypeError(
                f"rows must be the statistics of rows, got {type(rows).__name__}; make them with"
                " forgetless.rows_of(X, y), or use partial_fit(X, y)"
            )
        if rows.centered != self.fit_intercept:
            raise ValueError(
                f"rows must be centred as fit_intercept={self.fit_intercept} says, got"
                f" centered={rows.centered}; use rows_of(X, y, center={self.fit_intercept})"
            )
        draft = self._draft()
        state = self._merged()
        loss = None
        d, n_targets = shape = rows.cross.shape
        if state.memory is None:
            draft.n_features_in_ = d
            draft._y_shape = () if n_targets == 1 else (n_targets,)
        elif shape != (known := state.memory.rows.cross.shape):
            raise ValueError(
                f"rows have {shape} features and targets, the tasks before {known}; use fit to"
                " start again"
            )
        elif self._model(state).allows(rows.low, rows.high):
            # No row would be clipped, so that predictions are linear in the rows.
            loss = rows.error
        elif self.adaptive:
            raise ValueError(
                "rows leave the range that guard allows, so adaptive=True cannot judge predictions"
                " of them from their statistics; use partial_fit(X, y), or guard=None"
            )
        return self._commit(draft, self._after(state, [rows], loss))

    def _learned(self, X: Any, y: Floats, weight: Any) -> State:
        state: State | None = self._state
        if state is not None and not self.adaptive and weight is None and type(X) is np.ndarray:
            # Sums do not depend on when rows are added: a few of them beside many others wait.
            count = state.n_waiting + len(X)
            # Before it waits: an error belongs to the call that brought the row.
            check_squares(X, X, y)
            if count <= min(WAITING, 0.01 * state.memory.rows.n):
                # Copies, since the caller may write on the arrays.
                task = (X.copy(), y.copy())
                waiting = (*state.waiting, task)
                return state._replace(waiting=waiting, n_waiting=count)
        return self._with(self._merged(), X, y, weight)

    def _merged(self) -> State:
        """Return the state with waiting rows learned; one without a memory before the first
        task.
        """
        state: State | None = self._state
        if state is None:
            return State(None, Mixture() if self.adaptive else None, Before())
        if not state.waiting:
            return state
        tasks = zip(*state.waiting, strict=True)
        X, y = map(np.concatenate, tasks)
        return self._with(state, X, y, None)

    @few_threads(lambda *call: gram_work(call[2].shape))
    def _with(self, state: State, X: Any, y: Floats, weight: Any) -> State:
        """Return a state without waiting rows after a task given as arrays."""
        blocks = self._options().blocks(X, y, weight)
        inside = X
        if state.memory is not None:
            inside = self._model(state).held(X)

        def loss(coef: Floats, intercept: Floats) -> Array:
            errors = (inside @ coef + intercept - y) ** 2
            if weight is None:
                return errors.sum()
            return weight @ errors

        return self._after(state, blocks, loss)

    def _after(self, state: State, blocks: Any, loss: Loss | None) -> State:
        """Return the state after a task given as blocks, with its squared error before learning,
        where it is known.
        """
        options = self._options()
        memory, mixture, before, *_ = state
        error = None
        if memory is not None and loss is not None:
            # What was predicted, by all parts together, and then by each.
            error = loss(*self._model(state)[:2]).sum()
            if mixture is not None:
                mixture = mixture.judged(memory, loss)
        if mixture is not None:
            blocks = list(blocks)  # every memory learns them
        memory = learned(memory, blocks, options)
        if mixture is not None:
            # The parts compete with solutions on all rows.
            if memory.fit.n < memory.rows.n:
                memory = Memory.solved(memory.rows, memory.fit, options)
            mixture = mixture.after(memory, blocks, options)
        if error is not None:
            n = state.memory.rows.n
            before = before.plus(error, memory.rows.n - n, n)
        return State(memory, mixture, before)

    # --- reading ---

    def _model(self, state: State) -> Linear:
        """Return the model of a state as it is solved."""
        memory, mixture, *_ = state
        weights = memory.fit[:2]
        if mixture is not None:
            weights = mixture.weights(memory)
        return Linear(*weights).guarded(memory.rows, self.guard)

    def _linear(self) -> Linear:
        return self._model(self._read())

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        return_std : bool, default False
            Also return the standard deviation of a new target around its prediction. The variance
            of the noise is that of the residuals, or the mean error of late tasks before they were
            learned where that is larger; a single row says nothing of it, so that the standard
            deviation is 0, and intervals of 95 % cover 70 % after two rows. With ``adaptive`` the
            rest is that of the model of all rows.

        Returns
        -------
        array of shape (n,) or (n, c), and with ``return_std`` another one
        """
        state = self._read()
        model = self._model(state)
        X = inputs.rows(self, X)
        mean = self._shaped(model.predict(X))
        if not return_std:
            return mean
        # A mixture has no posterior of its own: that of all rows, with the errors of late tasks.
        rows, fit = state.memory
        noise = _noise(state.memory, state.before)
        variances = rows.variances(model.held(X), fit, noise)
        return mean, self._shaped(np.sqrt(variances))

    def standard_errors(self) -> Floats:
        """Return the standard errors of the coefficients of one target, the first of several.

        The noise is as in ``predict``. NaN where a column has not varied. With ``adaptive`` they
        are those of the model of all rows.
        """
        state = self._read()
        rows, fit = state.memory
        # The posterior variance of w_j is σ² times entry (j, j) of (G + λs²)⁻¹.
        leverages = rows.leverages(np.eye(len(fit.coef)), fit)
        noise = _noise(state.memory, state.before)
        errors = np.sqrt(leverages * noise[0])
        return np.where(fit.scale > 0, errors, np.nan)

    def _beside_coefficients(self) -> dict[str, Floats]:
        # A mixture has no standard errors, and several targets have several.
        beside = super()._beside_coefficients()
        if self.adaptive or self._y_shape not in ((), (1,)):
            return beside
        return {"±": self.standard_errors()} | beside


def _noise(memory: Memory, before: Before) -> Array:
    """Return the variance of the noise, (c,): that of all rows, or larger where late tasks were
    predicted worse.

    Tasks differ more than rows do: errors of a task before it was learned are larger than those of
    rows left out. Their mean over late tasks is a lower limit for the mean over targets.
    """
    noise = memory.rows.noise(memory.fit)
    if not before.recent_rows:
        return noise
    late = before.recent / before.recent_rows / len(noise)
    ratio = late / max(noise.mean(), 1e-300)
    return noise * max(1.0, ratio)

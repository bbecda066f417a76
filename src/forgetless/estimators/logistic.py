"""Logistic regression on a stream of tasks; the computation of a step is in ``softmax``."""

from typing import Any

import numpy as np
from scipy import sparse

from forgetless._core import validate
from forgetless._schedule import as_schedule
from forgetless.estimators._input import triple
from forgetless.estimators.classifier import StreamingClassifier
from forgetless.estimators.low_rank import LowRankMemory
from forgetless.estimators.regressor import RETAINED_FRACTION, store
from forgetless.estimators.rules import Rule, Strength
from forgetless.estimators.softmax import CURVATURES, SoftmaxStep
from forgetless.estimators.state import State
from forgetless.filters import Ridge
from forgetless.solvers.rows import is_sparse


class ContinualLogistic(StreamingClassifier):
    """Logistic regression on a stream of tasks: softmax of linear scores, with a low-rank memory of
    all tasks.

    One call of ``partial_fit`` is one task. Classes may come at any time, with zero weights until
    then; for declared ones scores are learned from the first row on. A first class alone is learned
    against any other that may follow.

    Parameters
    ----------
    alpha : float, default 3.0
        λ at every task, if no schedule is given. For one task from zero this is scikit-learn's
        ``LogisticRegression`` with C = 1/alpha, for two classes C = 2/alpha, where the intercept is
        regularized too.
    curvature : {"auto", "fisher", "mean", "bound"}, default "auto"
        The second derivative h of a row in the memory. With p its class probabilities, ``"fisher"``
        is Σ_c p_c(1 − p_c) over c − 1 after its task was learned, ``"bound"`` the largest possible
        one, ½, and ``"mean"`` the mean of "fisher" before and after the task. ``"auto"`` is
        "fisher" for two classes and "mean" for more.
    schedule : str, schedule, filter or callable, optional
        λ_t from a schedule of :mod:`forgetless.schedules` or by its name; the smoothness R²/2 of
        the loss takes the place of R².
    n_tasks, radius
        As in :class:`forgetless.ContinualRidge`.
    memory : int, LowRankMemory or None, default 100
        Low-rank memory of all tasks beside the weights, by its rank or as
        :class:`forgetless.LowRankMemory`. Nothing of it is lost up to 100 features.
    fit_intercept : bool, default True
        Adds a feature that is always 1; it is regularized like every other weight.
    standardize : bool, default False
        As in :class:`forgetless.ContinualRidge`; for columns of different units. Where the tasks
        lie apart, units of the first ones fit the others badly: scale columns beforehand if you
        can.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_counts_ : array of shape (c,)
    coef_ : array of shape (c, d)
        Its sum over the classes is zero.
    intercept_ : array of shape (c,)
    n_tasks_seen_, radius_, retained_fraction_, nbytes_
        As in :class:`forgetless.ContinualRidge`.
    history_, prequential_mse_
        As there; squared errors are those of the class probabilities (Brier scores over c).

    Examples
    --------
    >>> from forgetless import ContinualLogistic
    >>> model = ContinualLogistic(alpha=0.1)
    >>> model = model.partial_fit([[-1.0], [1.0], [2.0]], ["no", "yes", "yes"])
    >>> model.predict([[1.9]]).tolist(), model.predict_proba([[0.5]]).round(2).tolist()
    (['yes'], [[0.2, 0.8]])
    >>> model.partial_fit([[9.0]], ["maybe"]).classes_.tolist()
    ['maybe', 'no', 'yes']
    """

    retained_fraction_ = RETAINED_FRACTION

    def __init__(
        self,
        alpha: float = 3.0,
        *,
        curvature: str = "auto",
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        memory: Any = 100,
        fit_intercept: bool = True,
        standardize: bool = False,
    ) -> None:
        store(self, locals())

    def _make_rule(self, n_groups: int | None) -> Rule:
        if self.curvature not in CURVATURES:
            raise ValueError(
                f"curvature must be one of {', '.join(CURVATURES)}, got {self.curvature!r}"
            )
        if self.radius is not None:
            validate.number(
                "radius", self.radius, "leave it out for the running maximum", positive=True
            )
        schedule = self.schedule
        if isinstance(schedule, str):
            schedule = as_schedule(schedule, self.n_tasks)
        elif schedule is None:
            schedule = Ridge(validate.number("alpha", self.alpha, "use e.g. 3.0", positive=True))
        strength = Strength(schedule, self.n_tasks, n_groups)
        return SoftmaxStep(strength, LowRankMemory.of(self.memory), self.curvature, self.radius)

    def _with_classes(self, state: State, labels: Any) -> State:
        """Return the state with the classes among ``labels`` added, which the first one alone was
        learned against.
        """
        after = super()._with_classes(state, labels)
        old = state.origin.classes
        new = after.origin.classes
        if state.coef is None or len(old) > 1 or len(new) == 1:
            return after
        signs = np.where(new == old, 1.0, -1.0)
        signs = (signs - signs.mean()).astype(state.coef.dtype)
        return after._replace(coef=signs[:, None] * state.coef, intercept=signs * state.intercept)

    def _after_blocks(self, state: State, blocks: Any) -> State:
        """Return the state after a task given as row blocks, which are held together: curvatures
        need all of them.
        """
        parts = []
        for block in blocks() if callable(blocks) else blocks:
            *rows, state = self._validated_block(state, *triple(block))
            parts.append(rows)
        if not parts:
            raise ValueError("blocks must hold at least one row, got none; leave this task out")
        X, y, weights = zip(*parts, strict=True)
        stack = sparse.vstack if any(map(is_sparse, X)) else np.concatenate
        weight = None
        if any(each is not None for each in weights):
            ones = (
                np.ones(len(part)) if each is None else each
                for each, part in zip(weights, y, strict=True)
            )
            weight = np.concatenate(list(ones))
        return self._after(state, stack(X), np.concatenate(y), weight)

    def _after_cluster(self, state: State, X: Any, y: Any, weight: Any) -> State:
        raise TypeError(
            "ContinualLogistic learns a task from rows in memory, got a dask array; use X.compute()"
        )

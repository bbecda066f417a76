"""The two schemes of the paper as streaming estimators: a schedule, the running radius, and the step itself."""

import math
from abc import abstractmethod
from typing import Any

from sklearn.base import RegressorMixin

from forgetless import schedules
from forgetless._base import checks
from forgetless._base.arrays import Array
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.solvers.one_task import SMALL_SIDE, SOLVERS, learn, task_norm
from forgetless.solvers.rows import Rows
from forgetless.streams._model import Change, StreamingModel
from forgetless.streams._replay import Advisor
from forgetless.streams._strength import Strength

LOSSES = ("sum", "mean")


class Continual(StreamingModel):
    """What both schemes share."""

    schedule: Any
    n_tasks: int | None
    radius: float | None
    beyond: str
    loss: str
    solver: str
    tol: float

    _array_api = True

    @abstractmethod
    def _own_schedule(self) -> Any:
        """Return the schedule that the parameters stand for."""

    @abstractmethod
    def _names(self) -> dict[str, Any]:
        """Return what each schedule name stands for."""

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """Return the parameters behind the strength and the short path: when one changes, all is checked again."""

    def _strength_now(self) -> Strength:
        """Return the strength of the stream, made again whenever a parameter behind it was changed."""
        key = self._key()
        known = self.__dict__.get("_strength")
        if known is None or known[0] != key:
            chosen = self._own_schedule() if self.schedule is None else self.schedule
            if isinstance(chosen, str):
                if chosen not in self._names():
                    names = ", ".join(self._names())
                    raise ValueError(
                        f"schedule of {type(self).__name__} must be {names}, a filter or a callable, got {chosen!r}"
                    )
                chosen = self._names()[chosen]()
            known = (key, Strength(chosen, self.n_tasks, self.beyond, self.__dict__.get("_n_groups")))
            self._strength = known
        strength: Strength = known[1]
        return strength

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, value, allowed in (("loss", self.loss, LOSSES), ("solver", self.solver, SOLVERS)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        checks.number("tol", self.tol, "the default is 1e-10", positive=True)
        if self.radius is not None:
            checks.number("radius", self.radius, "leave it out for the running maximum", positive=True)
        self._strength_now()

    def _reset(self) -> None:
        super()._reset()
        self.radius_ = 0.0

    def _change(self, rows: Rows, residual: Array, weight: float, right: Array | None, start: Array) -> Change:
        scale = weight if self.loss == "mean" else 1.0
        strength = self._strength_now()
        norm: float | None = None
        if self._must_know_norm(strength) or rows.small_side <= SMALL_SIDE:
            norm = task_norm(rows, self.memory)
        radius = self.radius_ if norm is None else max(self.radius_, norm / math.sqrt(scale))
        given = self.radius if self.radius is not None else radius
        filter = self._next_filter(strength, given)
        if isinstance(filter, GradientDescent):
            norm = task_norm(rows, self.memory) if norm is None else norm
            _check_contraction(filter, norm / math.sqrt(scale))
        made = learn(
            rows, residual, filter.scaled(scale), solver=self.solver, tol=self.tol, memory=self.memory, norm=norm,
            right=right,
        )  # fmt: skip
        keep = {"radius_": radius, **self._observed(rows, residual, scale, start)}
        recorded = math.nan if norm is None else given
        return Change(made.change, made.after, float(filter.strength()), recorded, made.error, keep)

    def _must_know_norm(self, strength: Strength) -> bool:
        return strength.needs_radius and self.radius is None

    def _next_filter(self, strength: Strength, radius: float) -> Filter:
        """Return the filter of the coming task."""
        return strength.at(self.n_tasks_seen_ + 1, radius)

    def _observed(self, rows: Rows, residual: Array, scale: float, start: Array) -> dict[str, Any]:
        """Return what is kept of a task that was learned from ``start``."""
        return {}


def _check_contraction(filter: GradientDescent, norm: float) -> None:
    if float(filter.step_size) * norm * norm >= 2:
        raise ValueError(
            f"step_size={float(filter.step_size):.3g} diverges on this task, whose squared norm is {norm * norm:.3g}; "
            f"it must be below 2/‖X‖² = {2 / norm / norm:.3g}, and the theorems need half of that"
        )


class Regressor(RegressorMixin, Continual):  # type: ignore[misc]
    """A scheme that predicts numbers."""

    def predict(self, X: Any) -> Array:
        """Return X·coef_ + intercept_.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, c)
        """
        return self._linear(X, "predict")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class RidgeStrength(Continual):
    """Scheme 1: names, default strength, streaming advice, and a short path for tasks of one row."""

    alpha: float

    def _own_schedule(self) -> Any:
        return Ridge(checks.number("alpha", self.alpha, "use 0 for no regularization"))

    def _names(self) -> dict[str, Any]:
        # "auto" overrides the filter of every task; what stands here only says that it needs no horizon.
        return {
            "none": Projection, "fixed": schedules.fixed, "increasing": schedules.increasing,
            "auto": lambda: Ridge(0.0),
        }  # fmt: skip

    def _key(self) -> tuple[Any, ...]:
        return (
            self.alpha, self.schedule, self.n_tasks, self.beyond, self.radius, self.fit_intercept, self.loss,
            self.holdout, self.history_size, self.__dict__.get("_n_groups"),
        )  # fmt: skip

    def _is_auto(self) -> bool:
        return isinstance(self.schedule, str) and self.schedule == "auto"

    def _reset(self) -> None:
        super()._reset()
        self.__dict__.pop("_advisor", None)

    def _must_know_norm(self, strength: Strength) -> bool:
        # Streaming advice knows nothing before it has seen two tasks, and starts from the norm.
        return (self._is_auto() and self.n_tasks_seen_ < 2) or super()._must_know_norm(strength)

    def _next_filter(self, strength: Strength, radius: float) -> Filter:
        filter = super()._next_filter(strength, radius)
        return Ridge(self._advisor_now().advised(radius)) if self._is_auto() else filter

    def _observed(self, rows: Rows, residual: Array, scale: float, start: Array) -> dict[str, Any]:
        if not self._is_auto():
            return {"_advisor": None}  # a window that lacks a task cannot be replayed
        return {"_advisor": self._advisor_now().observed(rows, residual, scale, start, self.n_tasks_seen_ + 1)}

    def _advisor_now(self) -> Advisor:
        return self.__dict__.get("_advisor") or Advisor()

    def _learn_row(self, X: Array, y: Array) -> bool:
        # Compared with what the usual path has established: type, dtype, shape, the parameters behind the strength;
        # finiteness shows in the two inner products. Whatever is unusual goes the usual path, which says what is wrong.
        state = self.__dict__
        coef = state.get("coef_")
        known = state.get("_strength")
        if (
            coef is None
            or known is None
            or type(coef) is not type(X)
            or X.shape != (1, *coef.shape)
            or X.dtype != coef.dtype
            or y.dtype != coef.dtype
            or y.shape != (1,)
            or known[0] != self._key()
            or state["_holdout"] is not None
            or state.get("_advisor") is not None
            or "feature_names_in_" in state
        ):
            return False
        x = X[0]
        square = float(x @ x)
        if not 1e-10 < square < 1e30:
            return False
        before = float(y[0]) - float(x @ coef)
        if not -1e20 < before < 1e20:
            return False
        if self.fit_intercept:
            before -= float(self.intercept_)
            square += 1.0
        radius = max(self.radius_, math.sqrt(square))
        used = radius if self.radius is None else self.radius
        task = self.n_tasks_seen_ + 1
        coefficient = known[1].ready_coefficient(task, used)
        if not 0.0 <= coefficient < 1e30:
            return False
        gain = before / (square + coefficient)
        after = before - gain * square
        # One call, so that an interruption finds either the old model or the new one.
        if self.fit_intercept:
            new = coef.dtype.type(self.intercept_ + gain)
            state.update(coef_=coef + x * gain, intercept_=new, n_tasks_seen_=task, radius_=radius)
        else:
            state.update(coef_=coef + x * gain, n_tasks_seen_=task, radius_=radius)
        state["_history"].add((task, 1, coefficient, used, before * before, after * after, 0.0, math.nan), 1.0)
        return True

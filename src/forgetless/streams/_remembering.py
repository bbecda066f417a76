"""Explicit L2 with a memory: what ``rank``, ``metric`` and ``forget`` do to a task."""

import math
from typing import Any

import numpy as np

from forgetless._base import checks
from forgetless._base.arrays import Array, namespace_of, zeros
from forgetless.filters import Filter, Ridge
from forgetless.solvers.given import Limits, OneTask
from forgetless.solvers.one_task import SMALL_SIDE, learn, rough_norm
from forgetless.solvers.rows import Rows
from forgetless.solvers.stacked import Stacked, columns_divided
from forgetless.streams._scheme import Continual
from forgetless.streams.directions import Directions, squared_norm
from forgetless.streams.state import Change, Gathered, Learned, State, squares

METRICS = ("isotropic", "diagonal")


LARGEST = 1e290
"""‖X‖² up to which a task can be remembered: sums over tasks must remain numbers."""


PRECISIONS = ("float16", "float32", "float64")


class Remembering(Continual):
    """A stream of explicit L2 that may remember directions of all its tasks."""

    rank: int
    metric: str
    forget: float
    precision: str

    _fixed_names = (*Continual._fixed_names, "rank", "metric", "precision")

    kept_ = Learned(
        lambda state: None if state.coef is None or state.origin.frozen else _kept(state),
        "Share of what was seen that is remembered: that of the trace of Σ XᵀX; 0 without a memory.",
    )

    def _check_parameters(self, state: State | None) -> None:
        super()._check_parameters(state)
        checks.integer("rank", self.rank, 0, "use 0 to remember the weights alone")
        for name, allowed in (("metric", METRICS), ("precision", PRECISIONS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if not 0.0 <= checks.number("forget", self.forget, "use 0 to let all tasks count the same") < 1.0:
            raise ValueError(f"forget must be a share in [0, 1), got {self.forget!r}; use e.g. 0.1")
        if self.forget > 0 and not self._remembers:
            raise ValueError(
                f"forget={self.forget!r} says how fast the memory fades, and rank=0 with the isotropic metric has "
                "none; use rank=30, or leave forget out"
            )

    @property
    def _remembers(self) -> bool:
        return self.rank > 0 or self.metric != "isotropic"

    def _learned(self, state: State, task: Gathered, filter: Filter, norm: float | None, scale: float) -> Change:
        if not self._remembers:
            return super()._learned(state, task, filter, norm, scale)
        rows, size = task.rows, squared_norm(task.rows)
        if not size < LARGEST:
            raise OverflowError("the rows of this task are too large to be remembered; rescale X towards 1")
        known = state.directions
        if known is None:
            known = Directions.none(task.start, self.precision, self.metric)
            known = known._replace(unit=size / task.total / scale)
        known = known.faded(self.forget)
        strength = self._strength_of(filter, known)
        B = known.rows(task.start.dtype, math.sqrt(scale))
        stack, residual = Stacked(B, rows), _below_zeros(B, task.residual)
        limits = Limits(self.tol, self.memory)
        if self.metric == "isotropic":
            right = rows.adjoint(task.residual) if task.right is None else task.right
            met = OneTask(stack, residual, right, _stack_norm(rows, norm, B))
            made = learn(met, Ridge(strength * scale), self.solver, limits)
        else:
            root = known.root(strength) * math.sqrt(scale)
            right = None if task.right is None else task.right / root[:, None]
            met = OneTask(Stacked(_over(B, root), columns_divided(rows, root)), residual, right)
            made = learn(met, Ridge(1.0), self.solver, limits)
            made = made._replace(change=_over(made.change.T, root).T)
        if rows.readable:
            after: Any = squares(task.residual - rows.forward(_cast(made.change, B)))
        else:
            after = max(0.0, float(np.sum(made.after)) - squares(B @ _cast(made.change, B)))
        directions = known.with_task(stack, min(self.rank, rows.shape[1]), scale, size)
        return Change(made.change, after, strength, error=made.error, parts={"directions": directions})

    def _strength_of(self, filter: Filter, known: Directions) -> float:
        """Return λ of the coming task."""
        coefficient = filter.coefficient if isinstance(filter, Ridge) else math.nan
        if not (isinstance(coefficient, float) and 0 < coefficient < math.inf):
            raise ValueError(
                f"a memory (rank, metric='diagonal') needs explicit L2 with a finite positive coefficient at every "
                f"task, got {filter!r}; use alpha > 0 or another schedule, or rank=0 with the isotropic metric"
            )
        return coefficient


def _kept(state: State) -> float:
    return 0.0 if state.directions is None else state.directions.kept


def _below_zeros(B: Array, residual: Array) -> Array:
    """Return the residuals of [B; X]: nothing is asked of what is remembered but to stay."""
    return namespace_of(residual).concat([zeros((B.shape[0], residual.shape[1]), residual), residual], axis=0)


def _cast(array: Array, like: Array) -> Array:
    return namespace_of(array).astype(array, like.dtype, copy=False)


def _over(B: Array, root: Array) -> Array:
    """Return B·diag(root)⁻¹."""
    return B / _cast(root, B)[None, :]


def _stack_norm(rows: Rows, norm: float | None, B: Array) -> float | None:
    """Return about ‖[B; X]‖₂ where a solver asks for it: for large tasks, which may be iterated."""
    if rows.in_parts or min(rows.shape[0] + B.shape[0], rows.shape[1]) <= SMALL_SIDE:
        return None
    sizes = namespace_of(B).sum(B * B, axis=1)
    largest = math.sqrt(float(namespace_of(B).max(sizes))) if B.shape[0] else 0.0
    return math.hypot(rough_norm(rows) if norm is None else norm, largest)

"""Explicit L2 with a memory, and with strengths that the stream chooses: what both do to a task."""

import math
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array, namespace_of, zeros
from forgetless.estimators._candidates import OBJECTIVES, Candidates
from forgetless.estimators._lost import Lost
from forgetless.estimators._scheme import Continual
from forgetless.estimators.directions import Directions, diagonal, squared_norm
from forgetless.estimators.state import Change, Gathered, Learned, State, squares
from forgetless.filters import Filter, Ridge
from forgetless.solvers.inputs import Limits, OneTask
from forgetless.solvers.many import learn_many
from forgetless.solvers.one_task import Learned as Solution
from forgetless.solvers.one_task import learn
from forgetless.solvers.stacked import Stacked, columns_divided

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
    objective: str

    _fixed_names = (*Continual._fixed_names, "rank", "metric", "precision")

    kept_ = Learned(
        lambda state: None if state.coef is None or state.origin.frozen else _kept(state),
        "Share of what was seen that is remembered: that of the trace of Σ XᵀX; 0 without a memory.",
    )

    def _check_parameters(self, state: State | None) -> None:
        super()._check_parameters(state)
        validate.integer("rank", self.rank, 0, "use 0 to remember the weights alone")
        choices = (("metric", METRICS), ("precision", PRECISIONS), ("objective", OBJECTIVES))
        for name, allowed in choices:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if not 0.0 <= validate.number("forget", self.forget, "use 0 to let all tasks count the same") < 1.0:
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
        auto = isinstance(self.schedule, str) and self.schedule == "auto"
        if not self._remembers and not auto:
            return super()._learned(state, task, filter, norm, scale)
        size = squared_norm(task.rows)
        if not size < LARGEST:
            raise OverflowError("the rows of this task are too large to be remembered; rescale X towards 1")
        known = self._known(state, task, size, scale)
        stack = Stacked(known.rows(task.start.dtype, math.sqrt(scale)), task.rows)
        parts: dict[str, Any] = {}
        if auto:
            change, error, strength, parts["advisor"] = self._best_of_all(state, task, known, stack, scale)
        else:
            known = self._looking(known, task)
            strength = self._strength_of(filter, known)
            if self.metric == "isotropic":
                made = self._solved(task, stack, strength * scale)
            else:
                made = self._solved(task, stack, scale, known.root(strength))
            change, error = made.change, made.error
        if self._remembers:
            parts["directions"] = self._memory_after(known, task, stack, scale, size)
        return Change(change, task.error_after(change), strength, error=error, parts=parts)

    def _known(self, state: State, task: Gathered, size: float, scale: float) -> Directions:
        """Return what is remembered when a task comes, faded as it should."""
        known = state.directions
        if known is None:
            known = Directions.none(task.start, self.precision, self.metric)._replace(unit=size / task.total / scale)
        return known.faded(self.forget)

    @property
    def _follows_lost(self) -> bool:
        """Whether λ depends on what the memory has lost."""
        return False

    def _looking(self, known: Directions, task: Gathered) -> Directions:
        """Return what is known with what the coming task meets of what was lost."""
        if not self._follows_lost:  # what is there goes on: a strength that is given may be taken back
            return known
        features = task.rows.shape[1] - self.fit_intercept
        lost = Lost.nothing(features) if known.lost is None else known.lost
        units = known.unit_rows(_wide(known))
        return known._replace(lost=lost.meeting(task.rows, units, features, known.seen))

    def _memory_after(self, known: Directions, task: Gathered, stack: Stacked, scale: float, size: float) -> Directions:
        """Return what is known after a task."""
        after = known.with_task(stack, min(self.rank, task.rows.shape[1]), scale, size)
        if known.lost is None:
            return after
        old, new = ((each.unit_rows(_wide(each)), each.sizes) for each in (known, after))
        features = task.rows.shape[1] - self.fit_intercept
        return after._replace(lost=known.lost.after(task.rows, scale, old, new, features))

    def _solved(self, task: Gathered, stack: Stacked, coefficient: float, root: Array | None = None) -> Solution:
        """Return the step on a task below what is remembered, with λ·diag(root)² as the penalty."""
        residual, right = _below_zeros(stack.above, task.residual), task.right
        right = task.rows.adjoint(task.residual) if right is None else right
        if root is not None:
            below = columns_divided(task.rows, root)
            stack, right = Stacked(_over(stack.above, root), below), right / _cast(root, right)[:, None]
        made = learn(OneTask(stack, residual, right), Ridge(coefficient), self.solver, Limits(self.tol, self.memory))
        return made if root is None else made._replace(change=_over(made.change.T, root).T)

    def _best_of_all(
        self, state: State, task: Gathered, known: Directions, stack: Stacked, scale: float
    ) -> tuple[Array, float, float, Candidates]:
        """Return the way to the weights of the best candidate, its error, its strength, and all after the task."""
        xp = namespace_of(task.start)
        candidates = Candidates.starting_from(task.start) if state.advisor is None else state.advisor
        candidates = candidates.measured(diagonal(task.rows) / scale)
        units, strengths = candidates.units(), candidates.coefficients
        met = [task.seen_from(own) for own in candidates.each()]
        if self.metric == "isotropic":
            below = Stacked(_over(stack.above, units), columns_divided(task.rows, units))
            given = [(_below_zeros(stack.above, each.residual), _maybe_over(each.right, units)) for each in met]
            limits = Limits(self.tol, self.memory)
            steps, error = learn_many(below, given, (strengths * scale).tolist(), limits, self.solver)
            steps = [_over(step.T, units).T for step in steps]
        else:
            rest = known.root(0.0) ** 2
            roots = [xp.sqrt(strength * units**2 + rest) for strength in strengths.tolist()]
            made = [self._solved(each, stack, scale, root) for each, root in zip(met, roots, strict=True)]
            steps, error = [each.change for each in made], max(each.error for each in made)
        weights = xp.stack([own + _cast(step, own) for own, step in zip(candidates.each(), steps, strict=True)])
        candidates = candidates.after(weights, task, scale, np.array([squares(each.residual) for each in met]))
        held = state.held_error if state.holdout is not None and state.holdout.X is not None else None
        candidates = candidates.choosing(self.objective, classes=self._has_classes, held=held)
        best = candidates.chosen
        return candidates.weights[best, ...] - task.start, error, float(strengths[best]), candidates

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


def _wide(known: Directions) -> Any:
    """Return the dtype to compute with what is remembered in half or single precision, or in double."""
    xp = namespace_of(known.units)
    return xp.float64 if known.units.dtype == xp.float64 else xp.float32


def _below_zeros(B: Array, residual: Array) -> Array:
    """Return the residuals of [B; X]: nothing is asked of what is remembered but to stay."""
    return namespace_of(residual).concat([zeros((B.shape[0], residual.shape[1]), residual), residual], axis=0)


def _cast(array: Array, like: Array) -> Array:
    return namespace_of(array).astype(array, like.dtype, copy=False)


def _maybe_over(right: Array | None, root: Array) -> Array | None:
    return None if right is None else _over(right.T, root).T


def _over(B: Array, root: Array) -> Array:
    """Return B·diag(root)⁻¹."""
    return B / _cast(root, B)[None, :]

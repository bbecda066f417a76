"""The reduction of a filter's step on a task to one gradient step on a surrogate of its loss.

For a task (X, y), a filter φ and any step size η > 0, the surrogate is

    f(w) = ½‖√A (w − X⁺y)‖²,   A = φ(XᵀX)/η = g(XᵀX),

and w − η∇f(w) is exactly the step of the filter. Where g is concave and non-decreasing on [0, R²]
with g(0) = 0,

    (1/g'(0)) f(w)  ≤  L(w) − min L  ≤  (R²/g(R²)) f(w),   and f is convex and g(R²)-smooth.

Reference: Levinstein et al. (2025), Reduction 1 (``reduc:regularized_to_sgd``) and Reduction 2
(``reduc:early_to_sgd``) of Section 3, Lemma “Properties of the IGD objectives”
(``lem:reg_function_properties``), and Lemma “General reduction properties”, Appendix C
(``lem:general_reduction_properties``). Their proof prints g(R²) as 1/β; it equals β.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._validate import Array, Floats, as_float
from forgetless.equation import check_single
from forgetless.filters import Filter
from forgetless.tasks import Task, TaskCollection


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The quadratic surrogate of one task."""

    task: Task
    filter: Filter
    step_size: float  # η
    radius: float  # R of the collection, to which the constants refer

    @property
    def curvature(self) -> Array:
        """The nonzero eigenvalues φ(s²)/η of A, of shape (r,), along the singular vectors of the
        task.
        """
        return self.filter.table(self.task.singular_values**2)[0] / self.step_size

    @property
    def smoothness(self) -> float:
        """β = φ(R²)/η: the gradient of f is β-Lipschitz."""
        return float(self.filter.table(self.radius**2)[0]) / self.step_size

    @property
    def lower(self) -> float:
        """1/g'(0) = η/φ'(0): the excess loss is at least this times f (0 for a projection)."""
        return self.step_size * float(self.filter.strength())

    @property
    def upper(self) -> float:
        """R²/g(R²) = R²/β: the excess loss is at most this times f."""
        return self.radius**2 / self.smoothness if self.smoothness > 0 else 0.0

    def value(self, w: Any) -> float:
        """Return f(w), summed over targets."""
        return 0.5 * float(np.sum(self.curvature @ self._error(w) ** 2))

    def gradient(self, w: Any) -> Array:
        """Return ∇f(w) = A (w − X⁺y), of the shape of w."""
        return self.task.singular_vectors.T @ (self._error(w).T * self.curvature).T

    def step(self, w: Any) -> Array:
        """Return w − η∇f(w), which is ``forgetless.step(w, task, filter)``."""
        return as_float("w", w) - self.step_size * self.gradient(w)

    def _error(self, w: Any) -> Array:
        return self.task.singular_vectors @ as_float("w", w) - self.task.targets


def surrogate(
    task: Task, filter: Filter, step_size: float, radius: float | None = None
) -> Surrogate:
    """Return the surrogate on which one gradient step of size ``step_size`` is the filter's step on
    ``task``.

    Parameters
    ----------
    task : Task
        An element of a ``TaskCollection``.
    filter : Filter
        Of a single step. The surrogates of one that is not concave on [0, R²], such as gradient
        steps beyond 1/R², have the same step but not the other properties: see ``check_reduction``.
    step_size : float
        η > 0; it only scales the surrogate.
    radius : float, optional
        R, e.g. ``tasks.radius``; the task's own radius if omitted.

    Examples
    --------
    >>> import forgetless as fl
    >>> task = fl.TaskCollection([([[2.0, 0.0]], [2.0])])[0]
    >>> f = fl.theory.surrogate(task, fl.Ridge(4.0), step_size=0.25)
    >>> f.smoothness, f.lower, f.upper, f.value([0.0, 0.0])
    (2.0, 1.0, 2.0, 1.0)
    >>> f.step([0.0, 3.0]).tolist() == fl.step([0.0, 3.0], task, fl.Ridge(4.0)).tolist()
    True
    """
    check_single(task, filter)
    eta = validate.number(
        "step_size", step_size, "any positive step size gives the same step", positive=True
    )
    R = task.radius if radius is None else validate.number("radius", radius, "use tasks.radius")
    if task.radius > R * (1 + 1e-12):
        raise ValueError(
            f"radius must be at least that of the task, {task.radius:.6g}, got {R:.6g}; use"
            " tasks.radius"
        )
    return Surrogate(task, filter, eta, R)


_ROUNDED = 1e-12
"""Relative rounding of curvatures and ratios."""

_MISSED = 1e-9
"""Part of √f at the start up to which √f at the joint solution counts as zero."""


@dataclass(frozen=True)
class ReductionCheck:
    """The three properties of Lemma “Properties of the IGD objectives” on a collection: the claims,
    the numbers, and whether they agree. Prints as a verdict.

    Attributes
    ----------
    smoothness : float
        β = φ(R²)/η, the claim of (i).
    largest_curvature, smallest_curvature : float
        Over all tasks: at most β, and at least 0 (convexity).
    lower, upper : float
        The sandwich that (ii) claims: lower·f ≤ excess loss ≤ upper·f.
    smallest_ratio, largest_ratio : float
        The extremes of excess loss / f over all tasks and all w, between the two; infinite and 0
        if all tasks are zero.
    largest_value_at_teacher : float
        Of all surrogates at the joint solution, which (iii) claims to minimise them: 0 for
        realizable tasks.
    largest_value_at_start : float
        The same at the origin, for comparison.
    """

    smoothness: float
    largest_curvature: float
    smallest_curvature: float
    lower: float
    upper: float
    smallest_ratio: float
    largest_ratio: float
    largest_value_at_teacher: float
    largest_value_at_start: float

    @property
    def parts(self) -> dict[str, bool]:
        """Whether each of the properties (i), (ii) and (iii) holds, to rounding."""
        more = 1 + _ROUNDED
        smooth = self.smallest_curvature >= 0 and self.largest_curvature <= more * self.smoothness
        above = self.smallest_ratio * more >= self.lower
        below = self.largest_ratio <= more * self.upper
        missed = _MISSED**2 * self.largest_value_at_start
        return {
            "(i)": smooth,
            "(ii)": above and below,
            "(iii)": self.largest_value_at_teacher <= missed,
        }

    @property
    def holds(self) -> bool:
        """Whether all three properties hold."""
        return all(self.parts.values())

    def __repr__(self) -> str:
        curvatures = f"{self.smallest_curvature:.6g} … {self.largest_curvature:.6g}"
        ratios = f"{self.smallest_ratio:.6g} … {self.largest_ratio:.6g}"
        numbers = {
            "(i)": f"convex and smooth: curvatures {curvatures} within 0 … {self.smoothness:.6g}",
            "(ii)": f"excess loss / f: {ratios} within {self.lower:.6g} … {self.upper:.6g}",
            "(iii)": f"f at the joint solution: {self.largest_value_at_teacher:.3g}, to be 0",
        }
        return "\n".join(
            f"{part:<6}{'holds' if held else 'fails'}: {numbers[part]}"
            for part, held in self.parts.items()
        )


def check_reduction(tasks: TaskCollection, filter: Filter, step_size: float) -> ReductionCheck:
    """Return the constants of the surrogates of all tasks beside the paper's claims, and a verdict.

    Use it to see Lemma “Properties of the IGD objectives” (Section 3,
    ``lem:reg_function_properties``) in numbers: (i) the surrogates are convex and φ(R²)/η-smooth,
    (ii) they bound the excess loss from both sides, (iii) the joint solution minimises all of them.

    Parameters
    ----------
    tasks : TaskCollection
    filter : Filter
        Of a single step. The lemma asks for one that is concave and increasing on [0, R²].
    step_size : float
        η > 0.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [2.0])])
    >>> fl.theory.check_reduction(tasks, fl.Ridge(4.0), step_size=0.25)
    (i)   holds: convex and smooth: curvatures 0.8 … 2 within 0 … 2
    (ii)  holds: excess loss / f: 1.25 … 2 within 1 … 2
    (iii) holds: f at the joint solution: 0, to be 0
    """
    surrogates = [surrogate(task, filter, step_size, tasks.radius) for task in tasks]
    curvatures = np.concatenate([each.curvature for each in surrogates])
    squares = tasks.singular_values**2
    # Both forms are diagonal along the singular vectors, so their ratio lies between those of
    # single vectors.
    ratios: Floats = np.divide(
        squares, curvatures, out=np.full_like(squares, np.inf), where=curvatures > 0
    )
    first = surrogates[0]
    teacher = tasks.teacher()
    return ReductionCheck(
        smoothness=first.smoothness,
        largest_curvature=float(curvatures.max(initial=0.0)),
        smallest_curvature=float(curvatures.min(initial=np.inf)),
        lower=first.lower,
        upper=first.upper,
        smallest_ratio=float(ratios.min(initial=np.inf)),
        largest_ratio=float(ratios.max(initial=0.0)),
        largest_value_at_teacher=max(each.value(teacher) for each in surrogates),
        largest_value_at_start=max(each.value(np.zeros_like(teacher)) for each in surrogates),
    )

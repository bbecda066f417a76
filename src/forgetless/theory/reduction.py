"""The reduction of a step on a task to one gradient step, and the guarantee of its last iterate.

For a task (X, y), a filter φ and any step size η > 0, the surrogate is

    f(w) = ½‖√A (w − X⁺y)‖²,   A = φ(XᵀX)/η = g(XᵀX),

and w − η∇f(w) is exactly the step of the filter. Where g is concave and non-decreasing on [0, R²]
with g(0) = 0,

    (1/g'(0)) f(w)  ≤  L(w) − min L  ≤  (R²/g(R²)) f(w),   and f is convex and g(R²)-smooth.

So learning is incremental gradient descent (IGD) on functions that vary with t, and a lemma about
the last iterate of IGD becomes one about tasks.

Reference: Levinstein et al. (2025). Section 3: Reduction 1 (``reduc:regularized_to_sgd``),
Reduction 2 (``reduc:early_to_sgd``), Lemma “Properties of the IGD objectives”
(``lem:reg_function_properties``), Scheme 3 (``schm:igd``). Appendix C: Lemma “General reduction
properties” (``lem:general_reduction_properties``), whose proof prints g(R²) as 1/β; it equals β.
Section 4.2 and Appendix E: Lemma “SGD bound for time-varying distributions” (``thm:relaxed_sgd``,
``thm:timevarying_frenchmen``, ``lem:c_t``), with two misprints corrected: the decay is
(k−t+2)/(k+1), and c_t has (1 + η_tβ).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        """The nonzero eigenvalues φ(s²)/η of A, of shape (r,), one a singular vector."""
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
        # A = V diag(φ(s²)/η) Vᵀ, and w has one column or several.
        return self.task.singular_vectors.T @ (self._error(w).T * self.curvature).T

    def step(self, w: Any) -> Array:
        """Return w − η∇f(w), which is ``forgetless.step(w, task, filter)``."""
        return as_float("w", w) - self.step_size * self.gradient(w)

    def _error(self, w: Any) -> Array:
        return self.task.singular_vectors @ as_float("w", w) - self.task.targets


def surrogate(
    task: Task, filter: Filter, step_size: float, radius: float | None = None
) -> Surrogate:
    """Return the surrogate on which one gradient step is the filter's step on the task.

    Parameters
    ----------
    task : Task
        An element of a ``TaskCollection``.
    filter : Filter
        Of a single step. The surrogates of one that is not concave on [0, R²], such as gradient
        steps beyond 1/R², have the same step but not the other properties: see ``check_reduction``.
    step_size : float
        η > 0, the size of that step; it only scales the surrogate.
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
    given = task.radius if radius is None else radius
    R = validate.number("radius", given, "use tasks.radius")
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
        Over all tasks: at most β, and at least 0.
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


# ---- descent, and the guarantee of its last iterate ----

# A family f⁽ᵗ⁾(w; m) or its gradient, as a function of w, the index m from 0 and the step t from 1
_Function = Callable[[Any, int, int], Any]


def linear_decay(k: int, step_size: Any) -> list[Any]:
    """Return η_t = η(k−t+2)/(k+1) for t = 1..k, floats or Fractions as ``step_size`` is.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import forgetless as fl
    >>> [str(x) for x in fl.theory.linear_decay(3, Fraction(1))]
    ['1', '3/4', '1/2']
    """
    k = validate.steps(k)
    return [step_size * (k - t + 2) / (k + 1) for t in range(1, k + 1)]


def descend(
    gradient: _Function, order: Sequence[int], step_sizes: Sequence[float], start: Any
) -> NDArray[np.float64]:
    """Return w_1..w_k of Scheme 3 (IGD), one a row: w_t = w_{t−1} − η_t ∇f⁽ᵗ⁾(w_{t−1}; τ_t).

    Parameters
    ----------
    gradient : callable (w, m, t) → array like w
        ∇f⁽ᵗ⁾(w; m).
    order : sequence of k ints
        τ_1..τ_k, e.g. ``fl.WithReplacement().sample(M, k, seed)``.
    step_sizes : sequence of k floats
        η_1..η_k, e.g. ``fl.theory.linear_decay(k, 3 / (13 * beta))``.
    start : array
        w_0.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.theory.descend(lambda w, m, t: w - m, [1, 1], [0.5, 0.5], [0.0]).tolist()
    [[0.5], [0.75]]
    """
    path = [np.array(start, dtype=np.float64)]
    for t, (m, eta) in enumerate(zip(order, step_sizes, strict=True), start=1):
        w = path[-1]
        path.append(w - eta * np.asarray(gradient(w, int(m), t)))
    return np.array(path[1:])


@dataclass(frozen=True)
class Weights:
    """The two sequences of the last-iterate proof for k steps.

    Attributes
    ----------
    v : list of k + 2 numbers
        v_0..v_{k+1}.
    c : list of k + 1 numbers
        c_1..c_{k+1}; the proof needs all of them nonnegative.
    bound : number
        v_0²/(2c_{k+1}): E F(w_k) − F(w⋆) is at most this times ‖w_0 − w⋆‖².
    """

    v: list[Any]
    c: list[Any]
    bound: Any


def last_iterate_weights(k: int, step_size: Any, smoothness: Any) -> Weights:
    """Return v_t, c_t and the finite-k bound for η_t = η(k−t+2)/(k+1) and β-smooth functions.

    With K = k + 1: v_t = 2/(K−t+1) + 1/K for t < K, v_K = v_{K−1}, and
    c_t = η_t v_t² − βη_t²v_t² − (1 + βη_t)(v_t − v_{t−1}) Σ_{s≥t} η_s v_s with η_t = η(K−t+1)/K.

    Parameters
    ----------
    k : int
        At least 1 (the lemma asks for 2).
    step_size, smoothness : float or Fraction
        η and β; Fractions give exact sequences. The lemma needs ηβ ≤ 3/13.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import forgetless as fl
    >>> w = fl.theory.last_iterate_weights(2, Fraction(3, 13), Fraction(1))
    >>> float(3 * w.bound), min(w.c) >= 0
    (8.251953125, True)
    """
    K = validate.steps(k) + 1
    # A one of the same kind: a Fraction stays one.
    one = step_size / step_size
    v = [2 * one / (K - t + 1) + one / K for t in range(K)]
    v.append(v[-1])
    # The decay goes on for one step that is not made, t = K.
    eta = linear_decay(k, step_size)
    eta.append(step_size / K)
    c = []
    # Σ_{s≥t} η_s v_s, from the last term on.
    tail = 0 * one
    for t in range(K, 0, -1):
        step = eta[t - 1]
        tail += step * v[t]
        grown = (1 + smoothness * step) * (v[t] - v[t - 1])
        c.append(step * v[t] ** 2 * (1 - smoothness * step) - grown * tail)
    c.reverse()
    return Weights(v, c, v[0] ** 2 / (2 * c[-1]))

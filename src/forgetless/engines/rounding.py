"""Bounds of the rounding errors of exact expectations, from the sizes of the terms that are summed.

For every singular vector j they use, all without signs: the terms μ_j of its error e_j = R_j U; the
changes s_i |V_i V_jᵀ| φ_j μ_j of the outputs x = s ∘ e in one step; the uncertainty of e_j, whose
target and singular value are computed from X and y with the condition of the task; and the rounding
of the data, ‖X‖‖w‖ + ‖y‖. Moments are rounded relative to squares of terms and changes, early
errors decaying later; the data shift x itself, and no later step magnifies an error of the weights.
With eps, the number of steps and a constant that is tested against 60 digits this bounds the error
of every metric.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats
from forgetless.engines.moments import Moments
from forgetless.metrics import OTHER_LOSS, TASK_METRICS
from forgetless.tasks import TaskCollection

EPS = float(np.finfo(np.float64).eps)
# roundings per step beyond the sizes counted; ``tests/engines/test_digits.py`` compares with 60
# digits
SAFETY = 8.0
_MANY = 1000  # singular vectors up to which all pairs are considered
_NUMBERS = 2**19  # numbers in memory at once


@dataclass(eq=False)
class Rounding:
    """The sizes of terms in the recursions of B schedules on one collection, collected step by
    step.
    """

    tasks: TaskCollection
    start: Array
    # |R| (Σr, Q), from the roots of the diagonal of S to the terms along every singular vector
    terms: Floats
    gram: Floats  # |V Vᵀ| (Σr, Σr), or ones (1, Σr) as an upper bound where Σr is large
    first: Floats  # (Q,): the roots at the start
    factors: Floats  # (Σr, B): the largest |φ| so far
    dropped: Floats  # (Σr,): missing targets that were treated as rounded zeros
    squared: bool = True  # whether second moments were followed, not outputs
    # ‖w₀ − w⋆‖ where errors are measured around w⋆: singular vectors are rounded relative to 1,
    # hence errors relative to all of that distance.
    far: float = 0.0
    other: TaskCollection | None = None  # tasks whose loss is measured though they are not learned
    other_rows: Floats | None = None  # (Σr', Q) of second moments, as in ``OtherTasks``
    roots: list[Floats] = field(default_factory=list)  # (Q, B) at every recorded step
    # (B,): bounds of the remaining fraction of early squared errors
    left: list[Floats] = field(default_factory=list)

    @classmethod
    def of(
        cls, moments: Moments, start: Array, n_problems: int, other: TaskCollection | None = None
    ) -> "Rounding":
        """Return the sizes before the first step."""
        gram = cosines(moments.moves, moments.left)
        first, right = (
            diagonal_roots(moments.start[:, :, None])[:, 0],
            np.abs(moments.right),
        )
        factors, far = (
            np.zeros((len(right), n_problems)),
            (0.0 if moments.frame is not None else _root(first**2)),
        )
        sizes = cls(
            moments.tasks, start, right, gram, first, factors, moments.dropped, far=float(far)
        )
        sizes.other, sizes.other_rows = other, None if moments.other is None else moments.other.rows
        return sizes

    def learned(self, factors: Floats) -> None:
        """Update the sizes with the factors (Σr, T, B) or (Σr, B) of some steps."""
        np.maximum(
            self.factors,
            np.abs(factors if factors.ndim == 2 else factors.max(axis=1)),
            out=self.factors,
        )

    def recorded(self, roots: Floats, left: Floats | None = None) -> None:
        """Add a recorded step: the roots (Q, B) of the diagonal of S, and the remaining fraction of
        early errors.
        """
        self.roots.append(roots)
        self.left.append(np.ones(roots.shape[1]) if left is None else left)

    def errors(
        self, curves: dict[str, Floats], steps: NDArray[np.int64], visits: Floats
    ) -> dict[str, Floats]:
        """Return the absolute errors of curves (B, n) by metric; ``visits`` (M,) are the
        frequencies of the tasks.
        """
        errors = {}
        for name, values in curves.items():
            per_task = name in TASK_METRICS
            each = np.moveaxis(values, -1, 0) if per_task else values[None]
            if name == OTHER_LOSS:
                error = self._other_error(each, steps, visits)
            else:
                error = self._error(
                    name, each, steps, self._norms(self._parts(name, visits), visits)
                )
            errors[name] = np.moveaxis(error, 0, -1) if per_task else error[0]
        return errors

    def _parts(self, name: str, visits: Floats) -> Floats:
        """Return the weights (P, Σr) of the squared outputs of all singular vectors in a metric, or
        in P of them.
        """
        if name == "distance":
            # The joint solution is as certain as the errors along all singular vectors determine
            # it, of which the smallest singular value of these, one below the other, is the
            # measure.
            rows = self.tasks.span_vectors
            least = float(np.linalg.svd(rows, compute_uv=False)[-1]) if rows.size else 1.0
            return np.asarray((1 / (least * self.tasks.singular_values) ** 2)[None])
        if name in TASK_METRICS:
            weights = np.eye(len(visits))
        elif name == "average_loss":
            weights = np.full((1, len(visits)), 1 / len(visits))
        else:  # the next task is drawn as all others, or it is a single one
            weights = (
                np.ones(len(visits)) if name == "next_loss" and not self.squared else visits
            )[None]
        return np.repeat(weights, self.tasks.ranks, axis=1)

    def _norms(self, parts: Floats, visits: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return root sums over all singular vectors, weighted by ``parts`` (P, Σr).

        Of terms and moves, of shape (P, B, n + 1), at the start and at recorded steps; and of the
        uncertainty of outputs and of their moves, of shape (P, B, 1).
        """
        tasks, s = self.tasks, self.tasks.singular_values[:, None]
        n_problems = self.factors.shape[1]
        roots = [np.repeat(self.first[:, None], n_problems, axis=1), *self.roots]
        size, move = np.empty((2, len(parts), n_problems, len(roots)))
        largest, ranks = np.zeros(self.factors.shape), tasks.ranks
        frequencies = np.repeat(visits * ranks, ranks)[:, None, None]
        reached, weights = self.gram**2, parts * s[:, 0] ** 2
        at_once = max(1, _NUMBERS // max(1, self.factors.size))
        for low in range(0, len(roots), at_once):
            now = np.stack(roots[low : low + at_once], axis=1)
            terms = np.tensordot(self.terms, now, axes=1)
            moves = np.tensordot(
                reached, frequencies * (self.factors[:, None, :] * terms) ** 2, axes=1
            )
            moves = np.broadcast_to(moves, terms.shape)
            for sums, squares in ((size, terms**2), (move, moves)):
                sums[..., low : low + at_once] = np.sqrt(
                    np.tensordot(weights, squares, axes=1)
                ).swapaxes(1, 2)
            np.maximum(largest, terms.max(axis=1), out=largest)
        sizes = np.array([task.size for task in tasks])
        labels = sizes[tasks.owners, None]
        radii = tasks.radii[:, None]
        targets = np.linalg.norm(tasks.targets, axis=1, keepdims=True)
        reach = float(np.linalg.norm(self.start)) + _root((self.factors * largest) ** 2)
        dropped = self.dropped[:, None]
        # The rounding of a target X⁺y is relative to all of y, also to its part outside the range
        # of X.
        unsure = EPS * (largest + self.far + radii / s * (targets + reach) + labels / s) + dropped
        direct = np.sqrt(parts @ (EPS * (radii * reach + labels + s * self.far) + s * dropped) ** 2)
        shift = np.sqrt(weights.sum(axis=1))[:, None] * _root((self.factors * unsure) ** 2)
        return size, move, direct[..., None], shift[..., None]

    def _error(
        self, name: str, values: Floats, n_steps: NDArray[np.int64], norms: tuple[Floats, ...]
    ) -> Floats:
        size, move, direct, shift = norms
        # A squared error at the start, as a model of all later ones, and one at the recorded step.
        # Path metrics sum errors that do not decay.
        left = np.stack(self.left, axis=1) if name == "average_loss" else 1.0
        size, move = (
            np.sqrt(each[..., :1] ** 2 * left + each[..., 1:] ** 2) for each in (size, move)
        )
        steps = np.sqrt(np.maximum(n_steps, 1.0))
        if name.endswith(("drift", "forgetting")):
            # Moments are updated by differences; outputs are subtracted at the end.
            changed = EPS * (move if self.squared else size) + shift
            error = (
                2 * move * changed
                if name.endswith("drift")
                else size * changed + (move + changed) * direct
            )
            return np.asarray(
                SAFETY * (error + changed**2) * np.maximum(n_steps - float(self.squared), 0.0)
            )
        rounded = (
            (size**2 + move**2) * steps if self.squared else np.sqrt(values) * (size + move) * steps
        )
        return _of_loss(values, rounded, direct + shift * steps)

    def _other_error(self, values: Floats, n_steps: NDArray[np.int64], visits: Floats) -> Floats:
        """Return the absolute error of mean losses of other tasks: rows times the rounding of the
        weights.
        """
        other, steps, rounded = (
            self.other,
            np.sqrt(np.maximum(n_steps, 1.0)),
            np.zeros(values.shape),
        )
        assert other is not None
        radius = float(np.sqrt(np.sum(other.singular_values**2) / other.n_tasks))
        labels = float(np.sqrt(np.mean([np.sum(task.y**2) for task in other])))
        sizes = np.stack(
            [_root(each**2 if self.squared else each[:1] ** 2) for each in self.roots], axis=1
        )
        reach = float(np.linalg.norm(self.start)) + self.far + sizes
        *_, shift = self._norms((1 / self.tasks.singular_values**2)[None], visits)
        if self.other_rows is not None:
            first, *now = (
                _root((np.abs(self.other_rows) @ each) ** 2)
                for each in (self.first[:, None], *self.roots)
            )
            rounded = (first[:, None] ** 2 + np.stack(now, axis=1) ** 2)[None] * steps
        return _of_loss(values, rounded, radius * (EPS * reach + shift * steps) + EPS * labels)


def _of_loss(values: Floats, rounded: Floats, shift: Floats) -> Floats:
    """Return the error of losses ½x² from the sizes of rounded terms and a shift of x."""
    return np.asarray(
        SAFETY * (EPS * (rounded + 2 * values) + np.sqrt(2 * values) * shift + shift**2)
    )


def cosines(left: Floats, right: Floats) -> Floats:
    """Return |left rightᵀ|, of shape (Σr, Σr), or ones of shape (1, Σr) for too many unit rows."""
    return np.abs(left @ right.T) if len(left) <= _MANY else np.ones((1, len(left)))


def _root(squares: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(squares, axis=0)))


def diagonal_roots(S: Floats) -> Floats:
    """Return the roots of the diagonals of S (Q, Q, B), of shape (Q, B)."""
    return np.asarray(np.sqrt(np.maximum(np.diagonal(S).T, 0.0)))


def relative(errors: Floats, values: Floats) -> float:
    """Return the largest relative error, at most 1."""
    defined = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parts = np.where(errors > 0, errors / np.abs(values), 0.0)
    return float(min(1.0, np.max(parts[defined], initial=0.0)))

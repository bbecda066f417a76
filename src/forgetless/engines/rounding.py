"""What rounding may have done to an exact expectation: a bound from the sizes of the terms that were added up.

Of every direction j these sizes decide, all without signs: the terms μ_j of its error e_j = R_j U; the moves
s_i |V_i V_jᵀ| φ_j μ_j that a step makes of the outputs x = s ∘ e; how unsure e_j is, its target and singular value
being computed from X and y, which a task's own condition magnifies; and the rounding of the data, ‖X‖‖w‖ + ‖y‖.
Moments are rounded relative to squares of terms and moves, early ones with what is left of them later; the data shift
x itself, and no later step magnifies a wrong move of the weights. With eps, the number of steps and a constant that is
tested against 60 digits this bounds the error of every metric.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, to_numpy
from forgetless.engines.moments import Moments
from forgetless.tasks import TaskCollection

EPS = float(np.finfo(np.float64).eps)
# Roundings of one step beyond the sizes counted; ``tests/engines/test_digits.py`` holds it against the truth
SAFETY = 8.0
_MANY = 1000  # Directions up to which all pairs are looked at
_NUMBERS = 2**19  # Sizes of directions held at once


@dataclass(eq=False)
class Rounding:
    """The sizes that B schedules met on one collection, gathered while they are followed.

    Attributes
    ----------
    terms : array of shape (Σr, Q)
        |R|, from the roots of the diagonal of S to the terms of every direction.
    gram : array of shape (Σr, Σr) or (1, Σr)
        |V Vᵀ|, or ones, which it is at most, where there are many directions.
    first : array of shape (Q,)
        The roots at the start.
    shares : array of shape (Σr, B)
        The largest |φ| so far.
    dropped : array of shape (Σr,)
        What was taken for rounding of zero in the targets.
    roots : list of arrays of shape (Q, B)
        Those at the recorded steps.
    left : list of arrays of shape (B,)
        At the recorded steps, which part of squared errors at the start is left at most.
    squared : bool
        Whether second moments were followed, rather than outputs themselves.
    far : float
        ‖w₀ − w⋆‖ where errors are measured around w⋆: a direction's coordinates are rounded relative to 1, hence its
        error relative to all of that distance.
    """

    tasks: TaskCollection
    start: Array
    terms: Floats
    gram: Floats
    first: Floats
    factors: Floats
    dropped: Floats
    squared: bool = True
    far: float = 0.0
    roots: list[Floats] = field(default_factory=list)
    left: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, moments: Moments, start: Array, n_problems: int) -> "Rounding":
        """Return the sizes before the first step."""
        gram = cosines(to_numpy(moments.moves), to_numpy(moments.left))
        first, right = diagonal_roots(to_numpy(moments.start)[:, :, None])[:, 0], np.abs(to_numpy(moments.right))
        factors, far = np.zeros((len(right), n_problems)), 0.0 if moments.frame is not None else _root(first**2)
        return cls(moments.tasks, start, right, gram, first, factors, moments.dropped, far=float(far))

    def learned(self, factors: Floats) -> None:
        """Note the shares (Σr, T, B) or (Σr, B) of some steps."""
        np.maximum(self.factors, np.abs(factors if factors.ndim == 2 else factors.max(axis=1)), out=self.factors)

    def recorded(self, roots: Floats, left: Floats | None = None) -> None:
        """Note a recorded step: the roots of the diagonal of S, of shape (Q, B), and what is left of early errors."""
        self.roots.append(roots)
        self.left.append(np.ones(roots.shape[1]) if left is None else left)

    def errors(self, curves: dict[str, Floats], steps: NDArray[np.int64], visits: Floats) -> dict[str, Floats]:
        """Return the absolute errors of curves (B, n) by metric; ``visits`` (M,) are the tasks' parts of all steps."""
        parts = {name: np.full(len(visits), 1 / len(visits)) if name == "average_loss" else visits for name in curves}
        return {
            name: self._error(name, each, steps, *self._norms(parts[name], visits)) for name, each in curves.items()
        }

    def _norms(self, parts: Floats, visits: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return root sums over all directions, their tasks weighted by ``parts``.

        Of terms and moves, of shape (B, n + 1), at the start and at recorded steps; and of what is unsure in the
        outputs themselves and in their moves, of shape (B,).
        """
        tasks, s = self.tasks, self.tasks.singular_values[:, None]
        n_problems = self.factors.shape[1]
        roots = [np.repeat(self.first[:, None], n_problems, axis=1), *self.roots]
        size, move = np.empty((2, n_problems, len(roots)))
        largest, ranks = np.zeros(self.factors.shape), np.array(tasks.ranks)
        w, drawn = (np.repeat(each, ranks)[:, None, None] for each in (parts, visits * ranks))
        reached, weights = self.gram**2, w * s[:, :, None] ** 2
        at_once = max(1, _NUMBERS // max(1, self.factors.size))
        for low in range(0, len(roots), at_once):
            now = np.stack(roots[low : low + at_once], axis=1)
            terms = np.tensordot(self.terms, now, axes=1)
            moves = np.tensordot(reached, drawn * (self.factors[:, None, :] * terms) ** 2, axes=1)
            size[:, low : low + at_once] = _root(weights * terms**2).T
            move[:, low : low + at_once] = _root(weights * moves).T
            np.maximum(largest, terms.max(axis=1), out=largest)
        w = w[:, :, 0]
        radii, targets, labels = (each[:, None] for each in (tasks.radii, tasks.target_norms, tasks.label_norms))
        reach = float(np.linalg.norm(to_numpy(self.start))) + _root((self.factors * largest) ** 2)
        dropped = self.dropped[:, None]
        # Of a target X⁺y the rounding is that of y, also of the part of y that no weights reach.
        unsure = EPS * (largest + self.far + radii / s * (targets + reach) + labels / s) + dropped
        direct = _root(w * (EPS * (radii * reach + labels + s * self.far) + s * dropped) ** 2)
        return size, move, direct, _root(w * s**2) * _root((self.factors * unsure) ** 2)

    def _error(
        self,
        name: str,
        values: Floats,
        n_steps: NDArray[np.int64],
        size: Floats,
        move: Floats,
        direct: Floats,
        shift: Floats,
    ) -> Floats:
        # Of a squared error at the start, which all later ones resemble, and of one at the recorded step. What happened
        # on the way does not decay.
        left = np.stack(self.left, axis=1) if name == "average_loss" else 1.0
        size, move = (np.sqrt(each[:, :1] ** 2 * left + each[:, 1:] ** 2) for each in (size, move))
        direct, shift = direct[:, None], shift[:, None]
        steps = np.sqrt(np.maximum(n_steps, 1.0))
        if name in ("drift", "forgetting"):
            # Moments are followed by differences; outputs are subtracted in the end.
            changed = EPS * (move if self.squared else size) + shift
            error = 2 * move * changed if name == "drift" else size * changed + (move + changed) * direct
            return np.asarray(SAFETY * (error + changed**2) * np.maximum(n_steps - float(self.squared), 0.0))
        shift = direct + shift * steps
        rounded = (size**2 + move**2) * steps if self.squared else np.sqrt(values) * (size + move) * steps
        return np.asarray(SAFETY * (EPS * (rounded + 2 * values) + np.sqrt(2 * values) * shift + shift**2))


def cosines(left: Floats, right: Floats) -> Floats:
    """Return |left rightᵀ|, of shape (Σr, Σr), or ones of shape (1, Σr) for too many unit rows."""
    return np.abs(left @ right.T) if len(left) <= _MANY else np.ones((1, len(left)))


def _root(squares: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(squares, axis=0)))


def diagonal_roots(S: Floats) -> Floats:
    """Return the roots of the diagonals of S (Q, Q, B), of shape (Q, B)."""
    return np.asarray(np.sqrt(np.maximum(np.diagonal(S).T, 0.0)))


def relative(errors: Floats, values: Floats) -> float:
    """Return the largest relative error, at most 1, which says that rounding may be all there is."""
    defined = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parts = np.where(errors > 0, errors / np.abs(values), 0.0)
    return float(min(1.0, np.max(parts[defined], initial=0.0)))

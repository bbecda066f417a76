"""Hypotheses of the bounds for exchangeable orders, and of their lower bounds."""

import math
from collections.abc import Callable

import numpy as np

from forgetless.theory.hypotheses import Hypothesis, Setting

_CLOSE = 1e-9  # relative tolerance within which numbers count as those of a theorem
_AT_ONCE = 2**20  # numbers in memory at once


def _not_exchangeable(s: Setting) -> str | None:
    if s.ordering.stationary or (s.in_epochs and s.k < s.tasks.n_tasks):
        return None
    return (
        "tasks do not come in exchangeable order with one more to come: with replacement, or k < M"
        " without"
    )


EXCHANGEABLE = Hypothesis(
    "tasks come in exchangeable order, and there is a next one", _not_exchangeable
)


def _falling_strength(s: Setting) -> str | None:
    """Return None if ψ_t = φ_t/φ_t(R²) falls in t within [ξ/R², 1] at the eigenvalues of the tasks;
    else why not.
    """
    values = np.unique(s.tasks.singular_values)
    relative = (values / (s.radius or 1.0)) ** 2
    before = np.full(len(values), 1 + _CLOSE)
    n_steps = 1 if s.filter.horizon is None else s.k
    for first in range(0, n_steps, length := max(1, _AT_ONCE // max(1, len(values)))):
        part = s.filter[first : first + length]
        psi = part.table(values**2) / part.table(s.radius**2)[:, None]
        rows = np.concatenate([before[None, :], psi])
        if np.any(np.diff(rows, axis=0) > _CLOSE * rows[:-1]) or np.any(
            psi < relative * (1 - _CLOSE)
        ):
            return "the strengths fall at some step, or a filter is not concave"
        before = psi[-1]
    return None


MINIMAX = Hypothesis(
    "φ_t(R²) = η(k+1−t)/(k+1) with η in (0, 1], strengths rising",
    lambda s: "φ_t(R²) is not η(k+1−t)/(k+1)" if s.eta is None else _falling_strength(s),
)

ISOTROPIC = Hypothesis(
    "the teacher is random with covariance (D²/d)I",
    lambda _: "it is a mean over random teachers, and these tasks have one",
)

MEAN_ITERATE = Hypothesis(
    "the iterate is the mean of w_0..w_k",
    lambda _: "it is about the mean of all iterates, and this is the last one",
)


def _orthonormal(n_tasks: Callable[[int], int], argument: str) -> Hypothesis:
    def failure(s: Setting) -> str | None:
        M = s.tasks.n_tasks
        other = (
            f"the tasks are not those of constructions.orthonormal_rows({argument}) from its start"
        )
        if n_tasks(s.k) != M or set(s.tasks.ranks) != {1} or s.distance == 0:
            return other
        rows = s.tasks.singular_vectors
        seen = np.linalg.norm(rows @ s.teacher.reshape(s.tasks.n_features, -1), axis=1)
        same = np.ptp(s.tasks.singular_values) <= _CLOSE * s.radius and np.all(
            np.abs(seen * math.sqrt(M) / s.distance - 1) <= _CLOSE
        )
        return None if same and np.all(np.abs(rows @ rows.T - np.eye(M)) <= _CLOSE) else other

    return Hypothesis(
        f"the tasks are constructions.orthonormal_rows({argument}), from its start", failure
    )


ROWS_OF_ONE_MORE = _orthonormal(lambda k: k + 1, "k + 1")
ROWS_OF_TWICE = _orthonormal(lambda k: 2 * k, "2k")

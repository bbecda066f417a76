"""A reduced model for the search of schedules in many coordinates, spanned by exact runs of a few
pilots.

The loss is carried backwards as a symmetric matrix V_t. Over the steps of one schedule these
matrices lie, to many digits, in a space of a few dozen dimensions, and those of other schedules in
nearly the same space: all are products of the same few maps. With P an orthonormal basis of that
space the step of factors φ becomes the small matrix

    ⟨P_i, Q*[P_j]⟩ = δ_ij − 2 Σ_r p_r φ_r (R P_i)_r·(L P_j)_r + Σ_m p_m Σ_{r,s ∈ m} φ_r φ_s (R P_i
    Rᵀ)_rs (L P_j Lᵀ)_rs,

whose terms are computed once. It is used only to search scales; reported losses are exact.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._core.arrays import Floats
from forgetless.engines.independent import IndependentRun
from forgetless.engines.moments import Moments
from forgetless.engines.powers import SymmetricBasis
from forgetless.engines.problem import Problem
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.orderings import Draws, WithReplacement
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection

_DIMENSION = 64
_SNAPSHOTS = 40
_NODES = 200
_DIGITS = 1e-6  # Singular values of the snapshots below this part of the largest are left out


class ReducedModel:
    """Approximate final losses of schedules for k random draws, some milliseconds each for tasks of
    any size.

    ``form`` (Q, Q) is twice the loss as a form of the moments after k steps; ``pilots`` are
    schedules that are followed exactly, besides a few that cover the usual strengths.
    """

    def __init__(
        self, moments: Moments, law: Draws, k: int, form: Floats, pilots: Sequence[Any] = ()
    ) -> None:
        self.tasks, self.k, self.moments = moments.tasks, k, moments
        self.probabilities = law.probabilities
        self.basis = SymmetricBasis(moments.size)
        followed = [*_pilots(self.tasks), *pilots]
        self.P = _orthonormal(
            np.array([V for pilot in followed for V in self._snapshots(pilot, form)]).T
        )
        self.first = self.P.T @ self.basis.pack(form[:, :, None])[:, 0]
        self._assemble()
        self.strengths = np.geomspace(1e-9, 1e3 * k, _NODES) * (self.tasks.radius**2 or 1.0)
        self.nodes = np.array(
            [self._map(Projection()), *(self._map(Ridge(strength)) for strength in self.strengths)]
        )
        self.budgets: dict[int, Floats] = {}

    @property
    def dimension(self) -> int:
        """Number of coordinates of the model."""
        return int(self.P.shape[1])

    def forms(self, schedules: Sequence[Any]) -> list[Floats]:
        """Return the form V_0 of every schedule, approximately, each of shape (Q, Q)."""
        filters = [
            resolve(schedule, self.k, self.tasks.radius, self.tasks) for schedule in schedules
        ]
        return [
            self.basis.unpack((self.P @ self._carried(filter_))[:, None])[:, :, 0]
            for filter_ in filters
        ]

    def _snapshots(self, pilot: Any, form: Floats) -> list[Floats]:
        """Return V at some steps of an exact run, scaled to norm 1 since the small late ones matter
        most.
        """
        problem = Problem.of(
            self.tasks, [pilot], self.k, WithReplacement(self.probabilities), "last"
        )
        swapped = Moments(self.tasks, self.moments.right, self.moments.left, form)
        run = IndependentRun(swapped, self.probabilities, 1)
        left = np.unique(np.rint(np.geomspace(1, self.k, _SNAPSHOTS)).astype(int)).tolist()
        forms = [form]
        for before, after in itertools.pairwise([0, *left]):
            run.advance(
                np.ascontiguousarray(problem.factors(self.k - after, self.k - before)[:, ::-1, :])
            )
            forms.append(run.S[:, :, 0].copy())
        norms = [max(float(np.linalg.norm(V)), np.finfo(float).tiny) for V in forms]
        return [
            self.basis.pack((V / norm)[:, :, None])[:, 0]
            for V, norm in zip(forms, norms, strict=True)
        ]

    def _assemble(self) -> None:
        """Compute the terms of the small matrices: per singular vector, and per pair of them in one
        task.
        """
        left, right, n = self.moments.left, self.moments.right, self.dimension
        P = self.basis.unpack(self.P)
        wide = np.ascontiguousarray(P.reshape(P.shape[0], -1))
        shape = (left.shape[0], P.shape[1], n)
        LP = (left @ wide).reshape(shape)
        RP = LP if left is right else (right @ wide).reshape(shape)
        self.single = (RP.transpose(0, 2, 1) @ LP).reshape(left.shape[0], n * n)
        # Pairs r ≤ s are enough: the matrices are symmetric, so that the others count double.
        bounds = itertools.pairwise(self.tasks.offsets.tolist())
        self.pairs = np.concatenate(
            [low + np.stack(np.triu_indices(high - low)) for low, high in bounds], axis=1
        )
        r, s_ = self.pairs
        self.weights = np.repeat(self.probabilities, self.tasks.ranks)
        self.pair_weights = self.weights[r] * np.where(r == s_, 1.0, 2.0)
        self.inner = np.einsum("aqp,aq->ap", LP[r], left[s_])
        self.outer = self.inner if left is right else np.einsum("aqp,aq->ap", RP[r], right[s_])

    def _map(self, filter_: Filter) -> Floats:
        """Return the step of one filter as a small matrix."""
        values = self.tasks.singular_values
        phi, n = np.asarray(filter_.factors_of_singular(values)), self.dimension
        r, s_ = self.pairs
        linear = ((self.weights * phi) @ self.single).reshape(n, n)
        return np.asarray(
            np.eye(n)
            - 2.0 * linear
            + (self.outer.T * (self.pair_weights * phi[r] * phi[s_])) @ self.inner
        )

    def _carried(self, filter_: Filter) -> Floats:
        v = self.first
        if filter_.horizon is None:
            step = self._map(filter_)
            return np.asarray(np.linalg.matrix_power(step, self.k) @ v, dtype=np.float64)
        if isinstance(filter_, Ridge):
            maps, place = self.nodes, self._places(np.asarray(filter_.coefficient))
        elif isinstance(filter_, GradientDescent) and np.ptp(filter_.n_steps) == 0:
            maps, place = self._budget(filter_)
        else:
            maps = np.array([self._map(filter_.at(t)) for t in range(self.k)])
            place = np.arange(self.k, dtype=np.float64)
        index = place.astype(np.int64)
        parts = place - index
        for i, part in zip(index[::-1].tolist(), parts[::-1].tolist(), strict=True):
            v = maps[i] @ v if part == 0 else (1 - part) * (maps[i] @ v) + part * (maps[i + 1] @ v)
        return np.asarray(v)

    def _places(self, coefficients: Floats) -> Floats:
        """Return the positions of coefficients between the nodes: 0 for λ = 0, i + 1 for the i-th,
        in the logarithm.
        """
        logs = np.log(self.strengths)
        with np.errstate(divide="ignore"):
            place = 1 + (np.log(coefficients) - logs[0]) / (logs[1] - logs[0])
        place = np.where(place < 1, coefficients / self.strengths[0], place)
        return np.asarray(np.clip(place, 0.0, len(logs) - 1e-9))

    def _budget(self, filter_: GradientDescent) -> tuple[Floats, Floats]:
        """Return maps of a budget with one N over its step size, and the positions of the steps
        between them.
        """
        n_steps, square = int(np.max(filter_.n_steps)), self.tasks.radius**2 or 1.0
        sizes = np.geomspace(0.01 / (self.k * n_steps), 1.0, _NODES // 2) / square
        if n_steps not in self.budgets:
            self.budgets[n_steps] = np.array(
                [self._map(GradientDescent(n_steps, size)) for size in sizes.tolist()]
            )
        place = np.interp(np.asarray(filter_.step_size), sizes, np.arange(len(sizes)))
        return self.budgets[n_steps], np.minimum(place, len(sizes) - 1 - 1e-9)


def assembly(tasks: TaskCollection) -> float:
    """Return a bound on the operations of assembling one small map."""
    return sum(rank * (rank + 1.0) for rank in tasks.ranks) * _DIMENSION**2


def _pilots(tasks: TaskCollection) -> list[Any]:
    square = tasks.radius**2
    return [
        Projection(),
        Ridge(0.3 * square),
        schedules.increasing(),
        schedules.increasing(scale=0.03),
        schedules.end_ramp(1 / 4, 0.3),
    ]


def _orthonormal(snapshots: Floats) -> Floats:
    """Return an orthonormal basis of the space in which the snapshots (n, N) nearly lie."""
    values, vectors = np.linalg.eigh(snapshots.T @ snapshots)
    used = np.flatnonzero(values > _DIGITS**2 * values[-1])[-_DIMENSION:]
    return np.asarray(np.linalg.qr(snapshots @ (vectors[:, used] / np.sqrt(values[used])))[0])

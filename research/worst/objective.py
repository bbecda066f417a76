"""Objective of the adversary: the worst expected loss of a collection of tasks of low rank, and its
exact gradient.

Task m has orthonormal directions u_a, a = 1..r, with eigenvalues ξ_a ≤ 1, and probability p_m.
After k draws the loss averaged with the same probabilities is ½ w⋆ᵀ V_0 w⋆ with V_k = H = Σ p_m Σ_a
ξ_a u_a u_aᵀ and V_{t−1} = Σ p_m Λ_m V_t Λ_m, where Λ_m = I − Σ_a φ_t(ξ_a) u_a u_aᵀ. The adjoint S_t
of V_t obeys the same recursion forwards from S_0 = v vᵀ, v being the first eigenvector of V_0: one
pass backwards and one forwards give the value and all derivatives. Arrays lead with a batch axis of
length B; directions are (B, M, r, d), eigenvalues (B, M, r) and probabilities (B, M).
"""

from dataclasses import dataclass

import numpy as np

from forgetless import Filter
from research.arrays import Floats

_VANISHED = 1e-14
"""Losses below are rounding errors: forms are at most 1 at the start, with errors of about
1e-16."""


@dataclass(frozen=True, eq=False)
class Adversary:
    """The objective of a search over collections of M tasks of rank r in d features, for k steps of
    one filter.

    ``adversary(x)`` takes B points as (B, n) and returns −log(k·loss) and its gradient. A point
    holds independent rows for each task, which are orthonormalised in turn (M·r·d numbers), angles
    a with ξ = cos² a (M·r numbers; the first is ignored, its ξ is 1 so that R = 1) and the
    logarithms of probabilities up to a constant (M numbers; fixed if ``free`` is False). The
    logarithm makes steps comparable over starts whose losses differ by orders of magnitude.
    """

    filter: Filter
    k: int
    n_tasks: int
    n_features: int
    rank: int = 1
    free: bool = True

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        directions, angles, weights = self.split(x)
        units, eigenvalues, p = self.unpack(x)
        loss, to_units, to_eigenvalues, to_p = self.gradient(units, eigenvalues, p)
        to_directions = _through_frames(directions, units, to_units)
        to_angles = -np.sin(2 * angles) * to_eigenvalues
        to_angles[:, 0, 0] = 0.0
        to_weights = (
            p * (to_p - (p * to_p).sum(axis=1, keepdims=True))
            if self.free
            else np.zeros_like(weights)
        )
        slopes = np.concatenate(
            [each.reshape(len(x), -1) for each in (to_directions, to_angles, to_weights)], axis=1
        )
        # the minimiser ends a start without a value
        loss = np.where(loss > _VANISHED, loss, np.nan)
        return -np.log(self.k * loss), -slopes / loss[:, None]

    @property
    def n_variables(self) -> int:
        """The length n of a point."""
        return self.n_tasks * (self.rank * (self.n_features + 1) + 1)

    def split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return directions (B, M, r, d), angles (B, M, r) and log-probabilities (B, M), as they
        are stored.
        """
        M, r, d = self.n_tasks, self.rank, self.n_features
        cut, last = M * r * d, M * r * (d + 1)
        return (
            x[:, :cut].reshape(len(x), M, r, d),
            x[:, cut:last].reshape(len(x), M, r),
            x[:, last:],
        )

    def unpack(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return orthonormal directions, eigenvalues and probabilities."""
        directions, angles, weights = self.split(x)
        eigenvalues = np.cos(angles) ** 2
        eigenvalues[:, 0, 0] = 1.0
        p = np.exp(weights - weights.max(axis=1, keepdims=True))
        return _frames(directions), eigenvalues, p / p.sum(axis=1, keepdims=True)

    def pack(self, units: Floats, eigenvalues: Floats, p: Floats) -> Floats:
        """Return points (B, n): the inverse of ``unpack``."""
        angles = np.arccos(np.sqrt(np.clip(eigenvalues, 0.0, 1.0)))
        parts = (units, angles, np.log(np.maximum(p, 1e-300)))
        return np.concatenate([part.reshape(len(units), -1) for part in parts], axis=1)

    def factors(self, eigenvalues: Floats) -> Floats:
        """Return φ_t(ξ) of shape (k, B, M, r)."""
        return np.broadcast_to(self.filter.table(eigenvalues), (self.k, *eigenvalues.shape))

    def slopes(self, eigenvalues: Floats) -> Floats:
        """Return φ_t'(ξ) by a complex step, of shape (k or 1, B, M, r)."""
        return np.asarray(self.filter.table(eigenvalues + 1e-100j).imag / 1e-100)

    def loss(self, units: Floats, eigenvalues: Floats, p: Floats) -> Floats:
        """Return the worst loss over unit teachers, of shape (B,)."""
        V = form_of(units, p[..., None] * eigenvalues)
        for phi in self.factors(eigenvalues)[::-1]:
            V = with_step(V, units, p, phi)
        return np.asarray(0.5 * np.linalg.eigvalsh(V)[:, -1])

    def gradient(
        self, units: Floats, eigenvalues: Floats, p: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the loss (B,) and its derivatives by u (B, M, r, d), ξ (B, M, r) and p (B, M).

        The derivative by u is that of the formula, for directions that need not be orthonormal.
        That by p leaves out ½⟨S, V⟩, which is the same for every task and so does not matter where
        probabilities keep their sum. Where the largest eigenvalue is repeated the loss has a kink,
        and the derivative is that of one of the worst teachers.
        """
        phi = self.factors(eigenvalues)
        slopes = self.slopes(eigenvalues)
        forms = np.empty((self.k + 1, len(units), self.n_features, self.n_features))
        moments = np.empty_like(forms)
        forms[self.k] = form_of(units, p[..., None] * eigenvalues)
        for t in range(self.k, 0, -1):
            forms[t - 1] = with_step(forms[t], units, p, phi[t - 1])
        values, vectors = np.linalg.eigh(forms[0])
        teacher = vectors[:, :, -1]
        moments[0] = teacher[:, :, None] * teacher[:, None, :]
        for t in range(1, self.k + 1):
            moments[t] = with_step(moments[t - 1], units, p, phi[t - 1])
        to_units, to_phi, to_p = through_steps(units, p, phi, forms[1:], moments[:-1])
        # The last form H depends on everything directly.
        last = units @ moments[-1][:, None]
        quadratic = (last * units).sum(axis=3)
        to_units += (p[..., None] * eigenvalues)[..., None] * last
        to_eigenvalues = (to_phi * slopes).sum(axis=0) + 0.5 * p[..., None] * quadratic
        return (
            0.5 * values[:, -1],
            to_units,
            to_eigenvalues,
            to_p + 0.5 * (eigenvalues * quadratic).sum(axis=2),
        )


def form_of(units: Floats, weights: Floats) -> Floats:
    """Return Σ weights·u uᵀ over the rows u of all tasks, of shape (B, d, d)."""
    rows = units.reshape(len(units), -1, units.shape[-1])
    return np.asarray(rows.transpose(0, 2, 1) @ (weights.reshape(len(units), -1, 1) * rows))


def with_step(V: Floats, units: Floats, p: Floats, phi: Floats) -> Floats:
    """Return Σ p Λ V Λ for V (B, d, d) and factors φ (B, M, r); what is subtracted is exactly
    symmetric.
    """
    rows = units.reshape(len(units), -1, units.shape[-1])
    T = (rows @ V).reshape(units.shape)
    half = _mixed(0.5 * _inner(T, units), phi[..., None] * units)
    Y = rows.transpose(0, 2, 1) @ ((p[..., None] * phi)[..., None] * (T - half)).reshape(rows.shape)
    return np.asarray(V - (Y + Y.transpose(0, 2, 1)))


def through_steps(
    units: Floats, p: Floats, phi: Floats, V: Floats, S: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return derivatives by u (B, M, r, d), φ (k, B, M, r) and p (B, M) from V_t and S_{t−1} of
    every step t.

    For one task ½⟨S, ΛVΛ⟩ is ½⟨S, V⟩ − Σ φ_i a_i·b_i + ½ Σ φ_i φ_j α_ij β_ij with a_i = Vu_i, b_i =
    Su_i, and α_ij = u_i·a_j, β_ij = u_i·b_j.
    """
    rows = units.reshape(len(units), -1, units.shape[-1])
    many = (len(phi), *units.shape)
    flat_a, flat_b = rows @ V, rows @ S
    a = flat_a.reshape(many)
    b = flat_b.reshape(many)
    alpha, beta, ab = _inner(a, units), _inner(b, units), (a * b).sum(axis=4)
    bent = (flat_b @ V + flat_a @ S).reshape(many)
    bent -= _mixed(phi[..., None, :] * beta, a) + _mixed(phi[..., None, :] * alpha, b)
    weight = p[..., None]
    to_units = -((weight * phi)[..., None] * bent).sum(axis=0)
    products = (alpha * beta * phi[..., None, :]).sum(axis=4)
    return to_units, -weight * (ab - products), (phi * (0.5 * products - ab)).sum(axis=(0, 3))


def _inner(a: Floats, b: Floats) -> Floats:
    """Return the inner products of the rows of each task, (…, r, d) and (…, r, d) → (…, r, r)."""
    # Many products of tiny matrices are slow.
    return np.asarray(
        (a * b).sum(axis=-1, keepdims=True) if a.shape[-2] == 1 else a @ b.swapaxes(-1, -2)
    )


def _mixed(weights: Floats, rows: Floats) -> Floats:
    """Return combinations of the rows of each task, (…, r, r) and (…, r, d) → (…, r, d)."""
    return np.asarray(weights * rows if rows.shape[-2] == 1 else weights @ rows)


def _frames(directions: Floats) -> Floats:
    """Return the rows of each task, (…, r, d) with r ≤ d, orthonormalised in turn."""
    units = np.empty_like(directions)
    for i in range(directions.shape[-2]):
        row = directions[..., i, :]
        for j in range(i):
            row = row - (row * units[..., j, :]).sum(axis=-1, keepdims=True) * units[..., j, :]
        units[..., i, :] = row / np.sqrt((row**2).sum(axis=-1, keepdims=True))
    return units


def _through_frames(directions: Floats, units: Floats, slopes: Floats) -> Floats:
    """Return derivatives by directions W = LU from those by their orthonormal rows U; L is lower
    triangular.

    dU = L⁻¹dW − (L⁻¹dL)U, where the triangle L⁻¹dL is fixed by dU Uᵀ being antisymmetric.
    """
    L = np.tril(directions @ units.swapaxes(-1, -2))
    mixed = slopes @ units.swapaxes(-1, -2)
    inside = np.tril(mixed) + np.tril(mixed, -1).swapaxes(-1, -2)
    return np.asarray(np.linalg.solve(L.swapaxes(-1, -2), slopes - inside @ units))

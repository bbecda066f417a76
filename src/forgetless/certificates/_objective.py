"""What an adversary maximises: the worst expected loss of a collection of rank-one tasks, and its exact gradient.

A collection is unit directions u_m, eigenvalues ξ_m = ‖x_m‖² ≤ 1 and probabilities p_m. After k draws the loss averaged
with the same probabilities is ½ w⋆ᵀ V_0 w⋆ with V_k = H = Σ p_m ξ_m u_m u_mᵀ and V_{t−1} = Σ p_m Λ_m V_t Λ_m, where
Λ_m = I − φ_t(ξ_m) u_m u_mᵀ. The adjoint S_t of V_t obeys the same recursion forwards from S_0 = v vᵀ, v being the first
eigenvector of V_0: one pass backwards and one forwards give the value and all derivatives. Arrays lead with a batch
axis of length B.
"""

from dataclasses import dataclass

import numpy as np

from forgetless._base.arrays import Floats
from forgetless.filters import Filter

_VANISHED = 1e-14
"""Below this a loss is rounding: forms are at most 1 at the start and good to about 1e-16 of that."""


@dataclass(frozen=True, eq=False)
class Adversary:
    """The objective of a search over collections of M rank-one tasks in d features, for k steps of one filter.

    ``adversary(x)`` takes B points as (B, n) and returns −log(k·loss) and its gradient. A point holds directions of any
    length (M·d numbers), angles a with ξ = cos² a (M numbers; that of task 0 is ignored, its ξ is 1 so that R = 1) and
    the logarithms of probabilities up to a constant (M numbers; fixed if ``free`` is False).
    The logarithm makes steps comparable over starts whose losses differ by orders of magnitude.
    """

    filter: Filter
    k: int
    n_tasks: int
    n_features: int
    free: bool = True

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        directions, angles, weights = self.split(x)
        length = np.sqrt((directions**2).sum(axis=2, keepdims=True))
        units, eigenvalues, p = self.unpack(x)
        loss, to_units, to_eigenvalues, to_p = self.gradient(units, eigenvalues, p)
        to_directions = (to_units - (to_units * units).sum(axis=2, keepdims=True) * units) / length
        to_angles = -np.sin(2 * angles) * to_eigenvalues
        to_angles[:, 0] = 0.0
        to_weights = p * (to_p - (p * to_p).sum(axis=1, keepdims=True)) if self.free else np.zeros_like(weights)
        slopes = np.concatenate([to_directions.reshape(len(x), -1), to_angles, to_weights], axis=1)
        loss = np.where(loss > _VANISHED, loss, np.nan)  # a start without a value stays where it is
        return -np.log(self.k * loss), -slopes / loss[:, None]

    def split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return directions (B, M, d), angles (B, M) and log-probabilities (B, M), as they are stored."""
        M, d = self.n_tasks, self.n_features
        return x[:, : M * d].reshape(len(x), M, d), x[:, M * d : M * d + M], x[:, M * d + M :]

    def unpack(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return unit directions, eigenvalues and probabilities."""
        directions, angles, weights = self.split(x)
        units = directions / np.sqrt((directions**2).sum(axis=2, keepdims=True))
        eigenvalues = np.cos(angles) ** 2
        eigenvalues[:, 0] = 1.0
        p = np.exp(weights - weights.max(axis=1, keepdims=True))
        return units, eigenvalues, p / p.sum(axis=1, keepdims=True)

    def pack(self, units: Floats, eigenvalues: Floats, p: Floats) -> Floats:
        """Return points (B, n): the inverse of ``unpack``."""
        angles = np.arccos(np.sqrt(np.clip(eigenvalues, 0.0, 1.0)))
        return np.concatenate([units.reshape(len(units), -1), angles, np.log(np.maximum(p, 1e-300))], axis=1)

    def shares(self, eigenvalues: Floats) -> Floats:
        """Return φ_t(ξ) of shape (k, B, M)."""
        return np.broadcast_to(self.filter(eigenvalues), (self.k, *eigenvalues.shape))

    def loss(self, units: Floats, eigenvalues: Floats, p: Floats) -> Floats:
        """Return the worst loss over unit teachers, of shape (B,)."""
        V = _form(units, p * eigenvalues)
        for share in self.shares(eigenvalues)[::-1]:
            V = _step(V, units, p * share, share)
        return np.asarray(0.5 * np.linalg.eigvalsh(V)[:, -1])

    def gradient(self, units: Floats, eigenvalues: Floats, p: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the loss (B,) and its derivatives by u (B, M, d), ξ (B, M) and p (B, M).

        The derivative by u is that of the formula, not projected to the sphere. That by p leaves out ½⟨S, V⟩, which is
        the same for every task and so does not matter where probabilities keep their sum. Where the largest
        eigenvalue is repeated the loss has a kink, and the derivative is that of one of the worst teachers.
        """
        phi, slopes = self.shares(eigenvalues), np.asarray(self.filter.derivative(eigenvalues))
        forms = np.empty((self.k + 1, len(units), self.n_features, self.n_features))
        moments = np.empty_like(forms)
        forms[self.k] = _form(units, p * eigenvalues)
        for t in range(self.k, 0, -1):
            forms[t - 1] = _step(forms[t], units, p * phi[t - 1], phi[t - 1])
        values, vectors = np.linalg.eigh(forms[0])
        teacher = vectors[:, :, -1]
        moments[0] = teacher[:, :, None] * teacher[:, None, :]
        for t in range(1, self.k + 1):
            moments[t] = _step(moments[t - 1], units, p * phi[t - 1], phi[t - 1])
        to_units, to_phi, to_p = _through_steps(units, p, phi, forms[1:], moments[:-1])
        # The last form H depends on everything directly.
        last = units @ moments[-1]
        seen = (last * units).sum(axis=2)
        to_units += (p * eigenvalues)[:, :, None] * last
        to_eigenvalues = (to_phi * slopes).sum(axis=0) + 0.5 * p * seen
        return 0.5 * values[:, -1], to_units, to_eigenvalues, to_p + 0.5 * eigenvalues * seen


def _form(units: Floats, weights: Floats) -> Floats:
    return np.asarray(units.transpose(0, 2, 1) @ (weights[:, :, None] * units))


def _step(V: Floats, units: Floats, weights: Floats, phi: Floats) -> Floats:
    """Return Σ p Λ V Λ for V (B, d, d) and weights pφ (B, M), subtracting a symmetric matrix to stay symmetric."""
    T = units @ V
    q = (T * units).sum(axis=2)
    Y = units.transpose(0, 2, 1) @ (weights[:, :, None] * (T - (0.5 * phi * q)[:, :, None] * units))
    return np.asarray(V - (Y + Y.transpose(0, 2, 1)))


def _through_steps(units: Floats, p: Floats, phi: Floats, V: Floats, S: Floats) -> tuple[Floats, Floats, Floats]:
    """Return derivatives by u (B, M, d), φ (k, B, M) and p (B, M) from V_t and S_{t−1} of every step t.

    ½⟨S, ΛVΛ⟩ is ½⟨S, V⟩ − φ a·b + ½φ²αβ with a = Vu, b = Su, α = u·a and β = u·b.
    """
    a, b = units @ V, units @ S
    alpha, beta, ab = (a * units).sum(axis=3), (b * units).sum(axis=3), (a * b).sum(axis=3)
    bent = b @ V + a @ S - (phi * beta)[..., None] * a - (phi * alpha)[..., None] * b
    to_units = -((p * phi)[..., None] * bent).sum(axis=0)
    return to_units, -p * (ab - phi * alpha * beta), (-phi * ab + 0.5 * phi**2 * alpha * beta).sum(axis=0)

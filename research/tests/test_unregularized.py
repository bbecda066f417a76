"""The constants of Theorem U in rational numbers, and what the check refuses."""

from fractions import Fraction

import numpy as np
import pytest

from research.proofs import unregularized
from research.proofs.unregularized import difference, positive_pieces, prove, tail_holds
from support.campaigns import seed_for
from support.one_filter import right_side


def random_collection(rng):
    """Return probabilities and matrices H of norm at most 1: rows, nearly parallel ones, or any rank."""
    d = int(rng.integers(1, 8))
    M = int(rng.integers(1, 10))
    kind = rng.choice(["rows", "parallel", "projections", "any"])
    matrices = []
    for _ in range(M):
        U = np.linalg.qr(rng.standard_normal((d, d)))[0]
        xi = (rng.random(d) < 0.5).astype(float)
        if kind == "any":
            xi = rng.random(d) ** rng.choice([0.3, 1.0, 5.0])
        if kind in ("rows", "parallel"):
            U[:, 0] = rng.standard_normal(d) * rng.choice([1.0, 0.01], size=d)
            if kind == "parallel":
                U[:, 0] = np.eye(d)[0] + rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 0)
            U[:, 0] /= np.linalg.norm(U[:, 0])
            xi = np.eye(d)[0]
        matrices.append((U * xi) @ U.T)
    return rng.dirichlet(np.full(M, rng.choice([0.1, 0.5, 3.0]))), np.array(matrices)


@pytest.mark.parametrize(("c", "start", "pieces"), [(Fraction(2, 3), 7, 11), (Fraction(63, 100), 161, 881)])
def test_the_constants_are_proved(c, start, pieces):
    assert (c, start) in unregularized.CLAIMS
    proof = prove(c, start)
    assert proof.holds
    assert proof.pieces == pieces


def test_smaller_constants_are_rejected():
    proof = prove(Fraction(3, 5), 20)
    assert proof.failures == tuple(range(11, 20))
    assert not proof.holds
    assert not tail_holds(Fraction(63, 100), 120)
    assert not tail_holds(Fraction(627, 1000), 10**6)  # the limit of the argument is 0.62799
    assert tail_holds(Fraction(6281, 10000), 10**6)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_the_polynomial_is_the_inequality(k):
    """Against its formula, and against the recursion's F_k, of which it is (c − kF_k)(1 + x) on [0, 1]."""
    c = Fraction(2, 3)
    coefficients = difference(k, c)
    for x in (Fraction(0), Fraction(1, 3), Fraction(9, 10), Fraction(1)):
        cubes = sum((n + 1) * (n + 2) * x ** (2 * n + 1) for n in range(k - 1))
        loss = k * (1 - x) * x ** (2 * k) + k * (1 - x) * x ** (2 * k - 1) + (1 - x) ** 3 * cubes
        loss += c * x * (1 - x ** (2 * k - 2)) / (1 + x)
        assert sum(each * x**i for i, each in enumerate(coefficients)) == (c - loss) * (1 + x)


def test_positive_polynomials_are_told_from_others(rng):
    for _ in range(40):
        p = [Fraction(int(each), 7) for each in rng.integers(-9, 10, 6)]
        grid = np.polynomial.polynomial.polyval(np.linspace(0.5, 2, 3001), np.array([float(each) for each in p]))
        found = positive_pieces(p, Fraction(1, 2), Fraction(2)) > 0
        if abs(grid.min()) > 1e-6:
            assert found == (grid.min() > 0)


@pytest.mark.parametrize("tries", [40, pytest.param(2000, marks=pytest.mark.long)])
def test_every_inequality_of_the_proof_holds(tries):
    """The budget, the jumps, the identity and A_k ≤ F_k(D) as matrices, with the true a_j."""
    rng = np.random.default_rng([89, seed_for(tries)])
    for _ in range(tries):
        p, H = random_collection(rng)
        kappa = float(rng.choice([1.0, rng.uniform(0.05, 1.9)]))
        eye = np.eye(H.shape[1])
        k = int(rng.choice([1, 2, 3, 5, 9, 17, 40]))
        B = kappa * np.einsum("m,mij->ij", p, H)
        D = eye - B

        def jumped(A, p=p, K=eye - kappa * H):
            return np.einsum("m,mij->ij", p, K @ A @ K)

        A = [B]
        for _ in range(k):
            A.append(jumped(A[-1]))
        assert smallest(eye / (2 - kappa) - sum(A)) > -1e-11
        assert smallest(B @ (kappa * eye - B) - (jumped(eye) - D @ D)) > -1e-12
        M = [jumped(A[j]) - D @ A[j] @ D for j in range(k)]
        power = [np.linalg.matrix_power(D, n) for n in range(k + 1)]
        parts = [power[k - 1 - j] @ M[j] @ power[k - 1 - j] for j in range(k)]
        np.testing.assert_allclose(power[k] @ B @ power[k] + sum(parts), A[k], atol=1e-12)
        a = [np.linalg.eigvalsh(each)[-1] for each in A]
        x, U = np.linalg.eigh(D)
        f = np.array([right_side(1 - each, kappa, k, [j * a[j] for j in range(k)]) / k for each in x])
        assert smallest((U * f) @ U.T - A[k]) > -1e-11 * max(1.0, np.abs(f).max())


def smallest(matrix):
    return np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]

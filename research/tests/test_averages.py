"""Averages of iterates with the smallest bound, and bounds for isotropic teachers."""

import numpy as np
import pytest

import forgetless as fl
from research import optimal_average
from research.averages import average_bound, sup_and_slopes
from research.isotropic import isotropic_bound
from support.exchangeable import matrices, mean_forms


def test_isotropic_teachers_are_the_lower_bound_of_any_algorithm():
    """λ = 0 on k + 1 orthonormal rows, mean over random signs: exactly k^k/(2(k+1)^{k+1})."""
    k = 7
    bound = isotropic_bound(fl.Projection(), k)
    exact = fl.expect(fl.theory.constructions.orthonormal_rows(k + 1), fl.Projection(), k).average_loss[0]
    assert exact == pytest.approx(bound, rel=1e-12)
    assert bound == pytest.approx(k**k / (2 * (k + 1) ** (k + 1)), rel=1e-12)


def test_isotropic_bounds_hold(rng):
    for k, M, d in ((1, 3, 2), (2, 3, 3), (3, 4, 2)):
        H = matrices(rng, 40, M, d, 1)
        H /= np.linalg.eigvalsh(H)[..., -1][..., None, None]
        for filter_ in (fl.Projection(), fl.Ridge(0.5), fl.GradientDescent(1, 0.7)):
            following, seen = (np.trace(each, axis1=1, axis2=2) / (2 * d) for each in mean_forms(H, filter_, k))
            bounds = {q: isotropic_bound(filter_, k, q, independent=False) for q in ("next_loss", "seen_loss")}
            assert following.max() <= bounds["next_loss"] * (1 + 1e-12)
            assert seen.max() <= bounds["seen_loss"] * (1 + 1e-12)
            average = isotropic_bound(filter_, k, independent=False, n_tasks=M)
            assert ((1 - k / M) * following + k / M * seen).max() <= average * (1 + 1e-12)
            tasks = fl.TaskCollection([(h, h[0]) for h in H[0]])
            taught = [fl.TaskCollection([(task.X, task.X @ e) for task in tasks]) for e in np.eye(d)]
            mean = np.mean([fl.expect(each, filter_, k).average_loss[0] for each in taught])
            assert mean <= isotropic_bound(filter_, k) * (1 + 1e-12)


def test_optimal_weights_of_averages(rng):
    """k·bound .2458, .2518 at 16 and 64 steps, below the t²-average; the gradient against differences."""
    for k, value in ((16, 0.2459), (64, 0.2519)):
        best = optimal_average(fl.Projection(), k, per_decade=320)
        assert best.constant == pytest.approx(value, abs=1e-4)
        assert best.constant < k * average_bound(fl.Projection(), k, 2)
        assert best.weights.shape == (k + 1,)
        assert best.weights.sum() == pytest.approx(1, abs=1e-12)
    kappa, omega, r, h = rng.random(5), rng.random(6), np.linspace(0, 1, 40), 1e-7
    value, slopes = sup_and_slopes(kappa, omega, r)
    differences = [(sup_and_slopes(kappa, omega + h * e, r)[0] - value) / h for e in np.eye(6)]
    np.testing.assert_allclose(slopes, differences, rtol=1e-5)


def test_averages_stay_below_their_bounds(rng):
    """Worst teachers of random collections, by a form for the sum so far and one for its products with the iterate."""
    for power, k, constant in ((2, 4, 0.2360), (2, 16, 0.2492), (2, 256, 0.2587), (1.5, 1024, 0.2596)):
        assert k * average_bound(fl.Projection(), k, power) == pytest.approx(constant, abs=2e-4)
    filters = [
        fl.Projection(),
        fl.Ridge(0.4),
        fl.GradientDescent(1, np.linspace(1.0, 0.3, 8)),
        fl.GradientDescent(3, 0.3),
    ]
    for _ in range(15):
        d, M, k = int(rng.integers(1, 5)), int(rng.integers(1, 6)), 8
        H = matrices(rng, 1, M, d, 1)[0]
        H /= np.linalg.eigvalsh(H).max()
        p, power = rng.dirichlet(np.ones(M)), rng.choice([0.0, 1.0, 2.5])
        omega = np.append(0.0, np.arange(1.0, k + 1) ** power / np.sum(np.arange(1.0, k + 1) ** power))
        mean = np.einsum("m,mij->ij", p, H)
        for filter_ in filters:
            average, tail = omega[k] ** 2 * mean, np.zeros((d, d))
            for t in range(k, 0, -1):
                xi, V = np.linalg.eigh(H)
                phi = filter_[t - 1].table(np.where(xi > 1e-12, xi, 0.0).ravel())[0].reshape(xi.shape)
                kept = np.eye(d) - (V * phi[:, None]) @ np.swapaxes(V, 1, 2)
                tail = np.einsum("m,mij->ij", p, kept) @ (omega[t] * mean + tail)
                average = np.einsum("m,mij,jk,mkl->il", p, kept, average, kept)
                average += omega[t - 1] ** 2 * mean + omega[t - 1] * (tail + tail.T)
            assert np.linalg.eigvalsh(average)[-1] / 2 <= average_bound(filter_, k, power) * (1 + 1e-9)


def test_schedules_without_such_a_bound():
    for schedule in ("increasing", fl.GradientDescent(1, 1.5)):
        with pytest.raises(ValueError, match="one fixed filter"):
            optimal_average(schedule, 9)
    with pytest.raises(ValueError, match="one fixed filter only"):
        isotropic_bound("minimax", 9)

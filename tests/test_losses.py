"""Losses: derivatives against differences, constants against the largest values they are to bound."""

import numpy as np
import pytest

import forgetless as fl
from forgetless import losses

SCALAR = [each for each in losses.REGISTRY.values() if each.name != "softmax"]


def labels(rng, n):
    return np.where(rng.random(n) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize("loss", SCALAR, ids=lambda loss: loss.name)
def test_slopes_and_curvatures_are_differences(rng, loss):
    u, y, h = rng.uniform(-4, 4, 500), labels(rng, 500), 1e-5
    smooth = np.abs(1 - y * u) > 1e-3  # away from the kink of the hinges
    slopes = (loss.value(u + h, y) - loss.value(u - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.slope(u, y)[smooth], slopes[smooth], atol=1e-8)
    curvatures = (loss.slope(u + h, y) - loss.slope(u - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(u, y)[smooth], curvatures[smooth], atol=1e-8)


def test_softmax_slopes_and_curvatures_are_differences(rng):
    loss, y, h = losses.Softmax(), rng.integers(4, size=30), 1e-5
    u = 2 * rng.standard_normal((30, 4))
    for c in range(4):
        e = h * np.eye(4)[c]
        slopes = (loss.value(u + e, y) - loss.value(u - e, y)) / (2 * h)
        np.testing.assert_allclose(loss.slope(u, y)[:, c], slopes, atol=1e-9)
        columns = (loss.slope(u + e, y) - loss.slope(u - e, y)) / (2 * h)
        np.testing.assert_allclose(loss.curvature(u, y)[:, :, c], columns, atol=1e-9)


def test_two_classes_of_softmax_are_logistic(rng):
    u, y = 3 * rng.standard_normal(50), labels(rng, 50)
    both = np.stack([-u / 2, u / 2], axis=1)
    np.testing.assert_allclose(losses.Softmax().value(both, (y > 0).astype(int)), losses.Logistic().value(u, y))


def _gradient(loss, X, y, w):
    return X.T @ loss.slope(X @ w, y)


@pytest.mark.parametrize("loss", losses.REGISTRY.values(), ids=lambda loss: loss.name)
def test_constants_bound_gradients_and_are_attained(rng, loss):
    """The gradient is β-Lipschitz and at most G long; single rows show that neither can be smaller."""
    softmax = loss.name == "softmax"
    shape = (6, 3) if softmax else (6,)
    largest = {"β": 0.0, "G": 0.0}
    for _ in range(200):
        X = rng.standard_normal((5, 6)) * 10 ** rng.uniform(-1, 1)
        y = rng.integers(3, size=5) if softmax else labels(rng, 5)
        R = np.linalg.norm(X, 2)
        v, w = (10 ** rng.uniform(-2, 1) * rng.standard_normal(shape) for _ in range(2))
        change = np.linalg.norm(_gradient(loss, X, y, v) - _gradient(loss, X, y, w)) / np.linalg.norm(v - w)
        largest["β"] = max(largest["β"], change / loss.smoothness(R))
        largest["G"] = max(largest["G"], np.linalg.norm(_gradient(loss, X, y, v)) / loss.lipschitz(R, 5))
    assert largest["β"] <= 1 + 1e-12
    assert largest["G"] <= 1 + 1e-12
    x = np.array([[2.0]])
    if np.isfinite(loss.smoothness(2.0)):
        curvature = loss.curvature(np.zeros((1, 2)) if softmax else np.zeros(1), np.zeros(1, int) if softmax else [1])
        assert np.linalg.norm(np.atleast_2d(curvature[0]), 2) * 4.0 == pytest.approx(loss.smoothness(2.0))
    if np.isfinite(loss.lipschitz(2.0, 1)):
        w = np.array([[-50.0, 50.0]]) if softmax else np.array([-50.0])
        slope = _gradient(loss, x, np.zeros(1, int) if softmax else np.ones(1), w)
        assert np.linalg.norm(slope) == pytest.approx(loss.lipschitz(2.0, 1))


def test_the_hinge_scales_schedules_by_its_distance():
    assert losses.Hinge(distance=2.0).schedule_scale(3.0, 4, 7) == pytest.approx(6.0 * 4.0 / 2.0)
    with pytest.raises(ValueError, match=r"needs a distance; pass loss=fl.losses.Hinge\(distance=D\)"):
        losses.Hinge().schedule_scale(3.0, 4, 7)
    with pytest.raises(ValueError, match="distance must be positive"):
        losses.Hinge(distance=0.0)


def test_names():
    assert fl.losses.named("squared-hinge") == losses.SquaredHinge()
    hinge = losses.Hinge(distance=1.0)
    assert losses.named(hinge) is hinge
    for wrong in ("ridge", None, 3, losses.Hinge):
        with pytest.raises(ValueError, match="loss must be one of squared, squared_hinge, logistic, softmax, hinge"):
            losses.named(wrong)

"""Tasks of one row with a memory take a path of their own, which must lead to where their definition does."""

import numpy as np
import pytest

import forgetless as fl


def far(one, other):
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def with_everything(X, y, strengths):
    """Steps that remember all rows, written out; by triangles, so that small λ cost no digits."""
    w, R = np.zeros(X.shape[1]), np.zeros((0, X.shape[1]))
    for x, target, strength in zip(X, y, strengths, strict=True):
        R = np.linalg.qr(np.vstack([R, x]), mode="r")
        stack = np.vstack([R, np.sqrt(strength) * np.eye(len(x))])
        half = np.linalg.solve(np.linalg.qr(stack, mode="r").T, x)
        w = w + np.linalg.solve(np.linalg.qr(stack, mode="r"), half) * (target - x @ w)
    return w


@pytest.mark.parametrize(("precision", "close"), [("float32", 1e-4), ("float64", 1e-9)])
@pytest.mark.parametrize("strength", [1e-7, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("decades", [0, 2])
def test_any_strength_gives_the_steps_of_all_rows(strength, decades, precision, close, rng):
    d = 12
    X = rng.standard_normal((60, d)) * np.logspace(0, -decades, d)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(60)
    model = fl.ContinualRidge(strength, memory=fl.LowRankMemory(d, dtype=precision))
    for x, target in zip(X, y, strict=True):
        model.partial_fit(x[None, :], np.array([target]))
    expected = with_everything(X, y, [strength] * 60)
    assert far(X @ model.coef_, X @ expected) < close


@pytest.mark.parametrize(("precision", "close"), [("float32", 1e-5), ("float64", 1e-10)])
def test_a_strength_far_above_the_rows_hides_none_of_their_digits(precision, close, rng):
    """B·Bᵀ + λ has no digits left of B·Bᵀ where λ is 10¹² times as large."""
    d, strengths = 30, np.repeat([1e12, 1e-2], [8, 40])
    X = rng.standard_normal((48, d))
    y = X @ rng.standard_normal(d)
    fast, slow = (fl.ContinualRidge(alpha=1.0, memory=fl.LowRankMemory(10, dtype=precision)) for _ in "ab")
    for x, target, strength in zip(X, y, strengths, strict=True):
        for model, task in ((fast, x[None, :]), (slow, np.vstack([x, 0 * x]))):  # a row of zeros says nothing
            model.set_params(alpha=float(strength)).partial_fit(task, np.array([target, 0.0][: len(task)]))
    assert far(fast.coef_, slow.coef_) < close

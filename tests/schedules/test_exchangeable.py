"""The minimax schedule: its strengths, each task's own norm, and what it rejects."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl

s = fl.schedules


@given(st.integers(1, 300), st.floats(1e-3, 1e3), st.floats(0.05, 1.0), st.integers(1, 9))
def test_the_factor_at_the_radius_decays_linearly_to_zero(k, radius, eta, n_steps):
    """κ_t = η(k+1−t)/(k+1) for explicit L2 and for every budget of steps."""
    expected = eta * np.arange(k, 0, -1) / (k + 1)
    for schedule in (s.minimax(eta), s.minimax_budget(n_steps, eta)):
        np.testing.assert_allclose(schedule(k, radius).factor_at_radius(radius), expected, rtol=1e-10)


def test_strengths_without_rounding():
    """λ_t = R²t/(k+1−t), also where 1/κ − 1 would lose digits; strengths increase."""
    t = np.arange(1, 10_001)
    np.testing.assert_allclose(s.minimax()(10_000, 3.0).coefficient, 9 * t / (10_001 - t), rtol=1e-15)
    assert (np.diff(s.minimax(0.5)(50, 1.0).coefficient) > 0).all()


def test_noise_divides_eta():
    k, noise = 24, 0.3
    expected = s.minimax(eta=0.8 / (1 + noise * 5))
    np.testing.assert_allclose(
        s.minimax(eta=0.8, noise=noise)(k, 2.0).coefficient, expected(k, 2.0).coefficient, rtol=1e-14
    )


@pytest.mark.parametrize("kind", [s.minimax, s.minimax_budget])
def test_bad_arguments_are_named(kind):
    for eta in (0, -0.5, float("nan")):
        with pytest.raises(ValueError, match=r"eta must be positive and finite, got"):
            kind(eta=eta)
    with pytest.raises(ValueError, match=r"eta must lie in \(0, 1\], got 1.01; 1 is for labels"):
        kind(eta=1.01)
    with pytest.raises(ValueError, match="noise must be nonnegative"):
        kind(noise=-1)


@pytest.mark.torch
def test_the_anchor_takes_it():
    """λ_t at R = 1 for strengths, and the same fractions for budgets of steps."""
    torch = pytest.importorskip("forgetless.torch")
    strengths = importlib.import_module("forgetless.torch.schedules").strengths
    assert strengths(s.minimax(), 3) == pytest.approx((1 / 3, 1.0, 3.0))
    assert torch.step_budgets(s.minimax_budget(), 4, n_steps=20) == (20, 15, 10, 5)

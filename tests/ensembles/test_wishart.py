"""Moments of singular values of Gaussian matrices against closed forms, direct integration and sampled spectra."""

import numpy as np
import pytest
from scipy import special, stats

from forgetless.ensembles.spectra import wishart

SIZES = [(1, 1), (1, 5), (2, 3), (3, 3), (5, 20), (20, 5), (20, 20), (49, 100), (100, 100), (30, 400), (400, 600)]


@pytest.mark.parametrize("size", SIZES)
def test_moments_with_closed_forms(size):
    (n, d), spectrum = size, wishart(*size)
    x = spectrum.singular_values**2
    assert spectrum.sum(np.ones_like(x)) == pytest.approx(min(n, d), rel=1e-10)
    assert spectrum.sum(x) == pytest.approx(n * d, rel=1e-10)
    assert spectrum.sum(x * x) == pytest.approx(n * d * (n + d + 1), rel=1e-10)
    if abs(n - d) >= 2:
        assert spectrum.sum(1 / x) == pytest.approx(spectrum.mean_inverse, rel=1e-10)
    else:
        assert spectrum.mean_inverse == np.inf


@pytest.mark.parametrize("d", [1, 2, 7])
def test_one_row_has_a_chi_squared_norm(d):
    spectrum = wishart(1, d)
    x = spectrum.singular_values**2
    for strength in (1e-3, 0.5, 20.0):
        values = x / (x + strength)
        mean = stats.chi2(d).expect(lambda xi, s=strength: xi / (xi + s), epsabs=1e-13, epsrel=1e-12, limit=500)
        assert spectrum.sum(values) == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("strength", [1e-14, 1e-8, 1e-3, 1.0, 1e4])
def test_weak_regularization_of_one_entry(strength):
    """E ξ/(ξ + λ) of one squared standard normal is 1 − √(πλ/2) exp(λ/2) erfc(√(λ/2))."""
    spectrum = wishart(1, 1)
    x = spectrum.singular_values**2
    left = np.sqrt(np.pi * strength / 2) * special.erfcx(np.sqrt(strength / 2))
    assert spectrum.sum(strength / (x + strength)) == pytest.approx(left, rel=1e-9)

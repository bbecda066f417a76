"""Zhao, Su and Yang (2025), arXiv 2508.15494: the asymptotic risk of continual ridge regression,
d/n fixed.

Their formulas were not read; the limit here is that of deterministic equivalents. At finite n the
mean is exact.
"""

import numpy as np

from forgetless.engines.expectation import expect
from forgetless.ensembles import Anisotropic, Gaussian
from forgetless.reproduce.field._statement import DERIVED, Statement

PAPER = "Zhao, Su & Yang 2025"


def statements() -> list[Statement]:
    """Return asymptotic and exact distances from the teacher after eight tasks, λ = n/10, σ = ½."""
    result = []
    for ratio, d in ((0.5, 10), (0.5, 400), (2.0, 10), (2.0, 400)):
        n = round(d / ratio)
        limit = expect(
            Anisotropic(np.ones(d), n, 0.5, approximate=True), 0.1 * n, 8, metrics="distance"
        ).distance[0]
        exact = expect(Gaussian(d, n, 0.5), 0.1 * n, 8, metrics="distance").distance[0]
        text = f"distance from the teacher, d/n = {ratio:g}, d = {d}"
        result.append(Statement(text, float(limit), float(exact), DERIVED, "≈", tolerance=1.0 / d))
    return result

"""Ding, Ji, Wang and Xu (ICML 2024): SGD over fresh rows of one task after another, with different
covariances.

Statement (of a public summary): with many rows, tasks of large eigenvalues that come later increase
forgetting.
"""

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.ensembles import Anisotropic
from forgetless.filters import GradientDescent
from forgetless.reproduce.field._statement import ABSTRACT, Statement

PAPER = "Ding et al. 2024"
D, ROWS, STEP, NOISE = 40, 400, 0.01, 0.5


def _learned(moments: Floats, variances: Floats) -> Floats:
    """Return E (w − v)² along every feature after one pass of SGD over fresh rows: exact for
    Gaussian rows.
    """
    step = Anisotropic(variances, 1).moments(GradientDescent(1, STEP))
    for _ in range(ROWS):
        moments = step.remaining[0] @ moments + NOISE**2 * step.noise[0]
    return moments


def statements() -> list[Statement]:
    """Return the mean excess loss over both tasks with the task of large eigenvalues first, and
    last.
    """
    # Eigenvectors of a diagonal covariance come in increasing order of its eigenvalues.
    decay: Floats = np.arange(D, 0.0, -1.0) ** -1.2
    small, large = 0.2 * decay, 4.0 * decay
    start: Floats = np.full(D, 1.0 / D)
    ends = {
        "last": _learned(_learned(start, small), large),
        "first": _learned(_learned(start, large), small),
    }
    excess = {name: float((small + large) @ end) / 2.0 for name, end in ends.items()}
    text = "excess loss, large eigenvalues last, against first"
    return [Statement(text, excess["first"], excess["last"], ABSTRACT, relation="≥")]

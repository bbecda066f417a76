"""Li, Wu and Braverman (ICLR 2026), arXiv 2504.04039: two tasks; a penalty along few directions
reaches joint training.

Statement (public summary): with r directions of a covariance whose eigenvalues decay like i^{−α}
the excess risk is of the order of that of joint training times 1 + n/r^α. The constant was not
read; a factor of 2 is allowed below.
"""

import numpy as np

import forgetless as fl
from papers.statement import ABSTRACT, Statement

PAPER = "Li, Wu & Braverman 2026"
FEATURES, ROWS, DRAWS = 200, 1000, 4
RANKS = (0, 50, 100)


def statements() -> list[Statement]:
    """Return the excess risk with r directions, and without any, over that of joint training."""
    rng = np.random.default_rng(0)
    first = np.arange(1, FEATURES + 1) ** -2.0
    # hardly any variance along the first direction
    second = np.concatenate([[1 / ROWS], first[1:][::-1]])
    w = np.ones(FEATURES) / np.sqrt(FEATURES)
    risks = []
    for _ in range(DRAWS):
        X = [rng.standard_normal((ROWS, FEATURES)) * np.sqrt(each) for each in (first, second)]
        data = [(each, each @ w + rng.standard_normal(ROWS)) for each in X]
        # Joint ridge regression with all directions, none, and some of them.
        models = [fl.StreamingRidge(1e-6, rank=r or None, standardize=False) for r in RANKS]
        models.insert(1, fl.ContinualRidge(1e-6))
        for model in models:
            for each in data:
                model.partial_fit(*each)
        risks.append([float((model.coef_ - w) ** 2 @ (first + second)) for model in models])
    means = np.mean(risks, axis=0)
    errors = np.std(risks, axis=0, ddof=1) / np.sqrt(DRAWS)
    result = []
    for rank, mean, error in zip(RANKS, means[1:] / means[0], errors[1:] / means[0], strict=True):
        text = f"excess risk over joint training, {rank} of {FEATURES} directions"
        published = 2.0 * (1.0 + ROWS / rank**2) if rank else 2.0
        relation = "≤" if rank else "≥"
        result.append(Statement(text, published, float(mean), ABSTRACT, relation, float(error)))
    return result

"""Ridge steps on one task for several weights and strengths, from one decomposition."""

from collections.abc import Sequence

import numpy as np

from forgetless._core.arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless.filters import Ridge
from forgetless.solvers.inputs import Limits, OneTask
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import Rows

WHOLE = 1000  # side up to which a Gram matrix is decomposed for all strengths; beyond, each is solved separately


def learn_many(
    rows: Rows, sides: Sequence[tuple[Array, Array | None]], coefficients: Sequence[float], limits: Limits, solver: str
) -> tuple[list[Array], float]:
    """Return the changes (XᵀX + λ_j)⁻¹Xᵀr_j of the weights, and their largest relative error (estimated).

    ``sides`` are pairs of r_j (n, c) and Xᵀr_j, which is required where rows cannot be read again, or None;
    ``coefficients`` are λ_j > 0; ``limits`` and ``solver`` are those of ``one_task.learn``, which solves large tasks.
    """
    if rows.readable and (rows.small_side > WHOLE or solver in ("krylov", "svd")):
        solutions = [
            learn(OneTask(rows, residual, right), Ridge(coefficient), solver, limits)
            for (residual, right), coefficient in zip(sides, coefficients, strict=True)
        ]
        return [each.change for each in solutions], max(each.error for each in solutions)
    values, vectors = np.linalg.eigh(to_numpy(rows.gram))
    values = np.maximum(values, 0.0)
    first, right = sides[0]
    xp, c, from_residuals = namespace_of(first), first.shape[1], rows.dual or right is None
    right_sides = xp.concat([residual if from_residuals else right for residual, right in sides], axis=1)
    if from_residuals and not rows.dual:
        right_sides = rows.adjoint(right_sides)
    gain = np.repeat(1.0 / (values[:, None] + np.asarray(coefficients)[None, :]), c, axis=1)
    V = from_numpy(np.ascontiguousarray(vectors), like=right_sides)
    changes = V @ ((V.T @ xp.astype(right_sides, V.dtype, copy=False)) * from_numpy(gain, like=V))
    if rows.dual:
        changes = rows.adjoint(xp.astype(changes, first.dtype, copy=False))
    error = 10 * float(np.finfo(np.float64).eps) * (1.0 + float(values[-1]) / min(coefficients))
    return [changes[:, i : i + c] for i in range(0, c * len(sides), c)], error

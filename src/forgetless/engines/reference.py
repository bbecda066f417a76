"""What moments are measured of: errors around the joint solution, or outputs of chosen directions.

Around the joint solution w⋆ a loss is R S Rᵀ, and its rounding that of the largest terms in this product, R²‖w₀ − w⋆‖².
Weak tasks and near-duplicate columns put w⋆ far away, at targets over singular values: then terms of 1e16 cancel to a
loss of 1. The *output coordinates* avoid this. Their state is the error e = V w − V X⁺y of q directions of the tasks
themselves, the strongest ones first, from which all others follow as e = C e_J + missing with small coefficients
s_j C_ji / s_i: every loss is then a sum of terms of the size of losses. The maps are not self-adjoint there, so that
it stays with w⋆ where nothing is lost.
"""

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, to_numpy
from forgetless.engines.moments import Moments, moments_around_teacher, symmetrized
from forgetless.tasks import TaskCollection

# Around the joint solution terms may be so much larger than what is left of them: a loss of four digits of sixteen
CANCELS = 1e4
# What is missing of a direction's target counts as rounding of zero below this part of what it was computed from
ROUNDING = 2e-13


def measured(tasks: TaskCollection, start: Array) -> Moments:
    """Return the maps in the coordinates that keep digits: around the joint solution unless terms cancel there."""
    around = moments_around_teacher(tasks, start)
    before = float(np.sum((tasks.singular_values[:, None] * tasks.missing(start)) ** 2))
    size = _terms(around)
    if size <= CANCELS * before:
        return around
    outputs = output_moments(tasks, start)
    return outputs if _terms(outputs) < 0.1 * size else around


def _terms(moments: Moments) -> float:
    """Return Σ_j s_j² times the terms of R_j S R_jᵀ at the start, without their signs."""
    roots = np.sqrt(np.maximum(np.diagonal(to_numpy(moments.start)), 0.0))
    return float(np.sum((moments.tasks.singular_values * (np.abs(to_numpy(moments.right)) @ roots)) ** 2))


def output_moments(tasks: TaskCollection, start: Array) -> Moments:
    """Return the maps in output coordinates."""
    D = tasks.singular_vectors if tasks.span is None else tasks.singular_vectors @ tasks.span
    rows = to_numpy(D)
    chosen, C = spanning_rows(rows, tasks.singular_values)
    errors = -tasks.missing(start)
    missing = errors - C @ errors[chosen]
    left, right, state = rows @ rows[chosen].T, C, errors[chosen]
    rounding, neglected = ROUNDING * _sizes(tasks, start), np.linalg.norm(missing, axis=1)
    if np.any(np.abs(missing) > rounding + np.abs(C) @ rounding[chosen]):
        neglected = np.zeros(len(rows))
        left = np.concatenate([left, np.zeros(missing.shape)], axis=1)
        right = np.concatenate([right, missing], axis=1)
        state = np.concatenate([state, np.eye(tasks.n_targets)])
    frame = from_numpy(np.ascontiguousarray(rows[chosen]), like=D)
    left, right = (from_numpy(np.ascontiguousarray(each), like=D) for each in (left, right))
    return Moments(tasks, left, right, symmetrized(from_numpy(state @ state.T, like=D)), frame, neglected)


def _sizes(tasks: TaskCollection, start: Array) -> Floats:
    """Return what the error of every direction is rounded relative to, of shape (Σr, c)."""
    columns = to_numpy(start).reshape(tasks.n_features, tasks.n_targets)
    sizes = np.abs(to_numpy(tasks.targets)) + np.linalg.norm(columns, axis=0)
    return np.asarray((tasks.radii / tasks.singular_values)[:, None] * sizes)


def spanning_rows(rows: Floats, weights: Floats) -> tuple[list[int], Floats]:
    """Return rows of a matrix that span all, and C with rows = C @ those.

    Parameters
    ----------
    rows : array of shape (n, q)
        Unit vectors.
    weights : array of shape (n,)
        Pivots are the largest weighted remainders, which keeps C_ji·weight_j/weight_i small. A remainder below rounding
        of its own row counts as none, whatever its weight.

    Returns
    -------
    list of int, array of shape (n, number chosen)
    """
    from scipy.linalg import solve_triangular

    n, q = rows.shape
    rest, basis = rows.copy(), np.zeros((0, q))
    chosen: list[int] = []
    tolerance = 4 * np.sqrt(q) * np.finfo(np.float64).eps
    for _ in range(min(n, q)):
        norms = np.linalg.norm(rest, axis=1)
        norms[chosen] = 0.0
        pivot = int(np.argmax(np.where(norms > tolerance, weights * norms, 0.0)))
        if norms[pivot] <= tolerance:
            break
        new = rest[pivot] / norms[pivot]
        new -= (basis @ new) @ basis  # remainders near rounding are not quite orthogonal
        new /= np.linalg.norm(new)
        basis, chosen = np.concatenate([basis, new[None]]), [*chosen, pivot]
        rest -= np.outer(rest @ new, new)
    if not chosen:
        return [], np.zeros((n, 0))
    parts = rows @ basis.T
    C = solve_triangular(parts[chosen], parts.T, trans="T", lower=True).T
    C[chosen] = np.eye(len(chosen))
    return chosen, np.asarray(C)

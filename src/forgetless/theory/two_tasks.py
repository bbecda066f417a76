"""Two unit tasks at an angle: worst-case expected loss in closed form, and the best fixed
coefficient.

In the basis of the bisector and its normal the moment operator of random draws preserves diagonal
matrices, so it is a 2 × 2 matrix, B = [[(1−φc)², φ²cs], [φ²cs, (1−φs)²]] with c = cos²(θ/2), s =
sin²(θ/2) and φ = 1/(1+λ).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from forgetless._validate import Floats


def two_task_loss(theta: ArrayLike, coefficient: ArrayLike, k: ArrayLike) -> Any:
    """Return the worst expected loss over unit teachers of k steps with fixed λ on two unit tasks
    at angle θ.

    Parameters
    ----------
    theta : float or array
        Angle between the two data rows, in (0, π).
    coefficient : float or array
        λ ≥ 0; 0 is no regularization.
    k : int or array
        Number of steps, drawn with replacement. All three broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> round(fl.theory.two_task_loss(np.pi / 4, 1.299, 2), 6)
    0.069153
    """
    theta, coefficient, k = (np.asarray(x, dtype=np.float64) for x in (theta, coefficient, k))
    inside = (theta > 0) & (theta < np.pi)
    weighted = (coefficient >= 0) & np.isfinite(coefficient)
    counted = (k >= 0) & (k == np.rint(k))
    if not (inside.all() and weighted.all() and counted.all()):
        raise ValueError(
            "theta must lie in (0, π), coefficient must be nonnegative and finite, and k hold"
            f" nonnegative integers, got {theta}, {coefficient} and {k}"
        )
    loss = _loss(*_shape(theta), coefficient, k)
    return float(loss) if np.ndim(loss) == 0 else loss


def _shape(theta: Floats) -> tuple[Floats, Floats]:
    return np.cos(theta / 2) ** 2, np.sin(theta / 2) ** 2


def _loss(c: Floats, s: Floats, coefficient: Floats, k: Floats) -> Floats:
    phi = 1.0 / (1.0 + coefficient)
    # B = p, o; o, q. Everything is divided by φ: then nothing cancels or underflows however large λ
    # is, since (p − q)/φ = (s − c)(1 + λφ), (1 − p)/φ = c(1 + (λ + s)φ) and (1 − q)/φ = s(1 + (λ +
    # c)φ).
    o, shrunk = phi * (c * s), coefficient * phi
    delta = 0.5 * (s - c) * (1.0 + shrunk)
    radius = np.hypot(delta, o)
    # radius ± delta without cancellation: their product is o².
    larger = radius + np.abs(delta)
    smaller = o * (o / larger)
    plus, minus = np.where(delta < 0, smaller, larger), np.where(delta < 0, larger, smaller)
    decrease = 0.5 * (c + s) * (1.0 + shrunk) + o + radius  # (1 − low)/φ
    # (1 − high)(1 − low) = det(I − B) = φ²cs(4 − 2φ), so 1 − high is accurate when tiny.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        missing = o * (4 - 2 * phi) / decrease
        # high·low = det B = φ³λ((λ + s)(λ + c) + cs), so low is accurate when tiny; near 1 its
        # distance from 1 is.
        weak = (
            shrunk
            * ((coefficient + s) * phi * ((coefficient + c) * phi) + phi * o)
            / (1.0 - missing)
        )
        logarithm = np.where(
            phi * decrease < 0.5, np.log1p(-np.minimum(phi * decrease, 0.5)), np.log(weak)
        )
        high = np.exp(k * np.log1p(-missing))  # much faster than a power
        low = np.exp(k * logarithm)
    low = np.where(k == 0, 1.0, low)  # also where its logarithm is −∞
    along = high * (plus * c + o * s) + low * (minus * c - o * s)
    across = high * (o * c + minus * s) + low * (plus * s - o * c)
    return np.asarray(np.maximum(along, across) / (4 * radius))


_GRID = np.concatenate([np.geomspace(1e-14, 2e-3, 20), np.geomspace(3e-3, 4.0, 160)])
"""λ relative to its size in the linear regime. Around the drop, at kθ² ≈ 1, there can be two dips
close together, and λ⋆ reaches 0 only gradually."""

_POINTS = 9
_ROUNDS = 20
"""Of a search inside a dip: each round narrows it by a factor of four, to 1e-12 of itself. Where
the worst teacher changes the loss has a kink, which is known as precisely as that."""


def two_task_optimum(theta: ArrayLike, k: ArrayLike) -> tuple[Any, Any]:
    """Return the fixed coefficient λ⋆ with the smallest worst-case expected loss, and that loss.

    The search is global: there can be two local minima, and from kθ² ≈ 2 on the best is exactly 0,
    no regularization. While kθ² ≲ 1, λ⋆ ≈ k / ln cot(θ/2).

    Parameters
    ----------
    theta : float or array
        Angle in (0, π).
    k : int or array
        Number of steps; broadcasts against ``theta``.

    Returns
    -------
    coefficient, loss : float or array

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> coefficient, loss = fl.theory.two_task_optimum(np.pi / 16, np.array([2, 8, 32, 64]))
    >>> coefficient.round(3).tolist()
    [0.51, 3.006, 1.65, 0.0]

    References
    ----------
    The quantity in Figure 2 of Levinstein et al. (2025), Appendix A, ``fig:emp_fixed_schedule``.
    """
    theta, k = np.broadcast_arrays(np.asarray(theta, float), np.asarray(k, float))
    two_task_loss(theta, 0.0, k)
    problems = np.stack([*_shape(theta.ravel()), k.ravel()])
    best, loss = _optimum(*problems)
    if not k.shape:
        return float(best[0]), float(loss[0])
    return best.reshape(k.shape), loss.reshape(k.shape)


def _optimum(c: Floats, s: Floats, k: Floats) -> Floats:
    """Return λ⋆ and its loss for several problems, of shape (2, problems)."""
    # λ⋆ never exceeds a few times its size in the linear regime; near π/2 that size is infinite and
    # λ⋆ is 0.
    size = k / np.maximum(0.5 * np.abs(np.log(c / s)), 0.5)
    grid = np.concatenate([np.zeros((1, len(k))), _GRID[:, None] * size, 8 * size[None]])
    losses = _loss(c, s, grid, k)
    inner = losses[1:-1]
    rows, columns = np.nonzero((inner <= losses[:-2]) & (inner < losses[2:]))
    low = grid[rows, columns]
    high = grid[rows + 2, columns]
    own = c[columns], s[columns]
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        at = np.argmin(_loss(*own, points, k[columns]), axis=0)
        low = np.take_along_axis(points, np.maximum(at - 1, 0)[None], 0)[0]
        high = np.take_along_axis(points, np.minimum(at + 1, _POINTS - 1)[None], 0)[0]
    found = 0.5 * (low + high)
    minima = _loss(*own, found, k[columns])
    best = np.stack([np.zeros_like(k), losses[0]])
    # The best of two dips of one problem is written last.
    for i in np.argsort(-minima, kind="stable"):
        if minima[i] < best[1, columns[i]]:
            best[:, columns[i]] = found[i], minima[i]
    return best

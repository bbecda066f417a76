"""Incremental gradient descent on time-varying functions, and its last-iterate guarantee.

Reference: Levinstein et al. (2025), Scheme 3 (IGD, ``schm:igd``), Lemma “SGD bound for time-varying
distributions”, Section 4.2 (``thm:relaxed_sgd``), and Appendix E (``thm:timevarying_frenchmen``,
``lem:c_t``). Two misprints are corrected: the decay is (k−t+2)/(k+1), and c_t has (1 + η_tβ).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless import _validate as validate

# A family f⁽ᵗ⁾(w; m) or its gradient, as a function of w, the index m from 0 and the step t from 1
_Function = Callable[[Any, int, int], Any]


def linear_decay(k: int, step_size: Any) -> list[Any]:
    """Return η_t = η(k−t+2)/(k+1) for t = 1..k, in the arithmetic of ``step_size`` (floats or
    Fractions).

    Examples
    --------
    >>> from fractions import Fraction
    >>> import forgetless as fl
    >>> [str(x) for x in fl.theory.linear_decay(3, Fraction(1))]
    ['1', '3/4', '1/2']
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    return [step_size * (k - t + 2) / (k + 1) for t in range(1, k + 1)]


def descend(
    gradient: _Function, order: Sequence[int], step_sizes: Sequence[float], start: Any
) -> NDArray[np.float64]:
    """Return the iterates w_t = w_{t−1} − η_t ∇f⁽ᵗ⁾(w_{t−1}; τ_t) of Scheme 3, incremental gradient
    descent (IGD).

    Parameters
    ----------
    gradient : callable (w, m, t) → array like w
        ∇f⁽ᵗ⁾(w; m).
    order : sequence of k ints
        τ_1..τ_k, e.g. ``fl.WithReplacement().sample(M, k, seed)``.
    step_sizes : sequence of k floats
        η_1..η_k, e.g. ``fl.theory.linear_decay(k, 3 / (13 * beta))``.
    start : array
        w_0.

    Returns
    -------
    array of shape (k,) + the shape of start
        w_1..w_k.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.theory.descend(lambda w, m, t: w - m, [1, 1], [0.5, 0.5], [0.0]).tolist()
    [[0.5], [0.75]]
    """
    path = [np.array(start, dtype=np.float64)]
    for t, (m, eta) in enumerate(zip(order, step_sizes, strict=True), start=1):
        w = path[-1]
        path.append(w - eta * np.asarray(gradient(w, int(m), t)))
    return np.array(path[1:])


@dataclass(frozen=True)
class Weights:
    """The two sequences of the last-iterate proof for k steps.

    Attributes
    ----------
    v : list of k + 2 numbers
        v_0..v_{k+1}.
    c : list of k + 1 numbers
        c_1..c_{k+1}; the proof needs all of them nonnegative.
    bound : number
        v_0²/(2c_{k+1}): E F(w_k) − F(w⋆) is at most this times ‖w_0 − w⋆‖².
    """

    v: list[Any]
    c: list[Any]
    bound: Any


def last_iterate_weights(k: int, step_size: Any, smoothness: Any) -> Weights:
    """Return v_t, c_t and the finite-k bound for η_t = η(k−t+2)/(k+1) and β-smooth functions.

    With K = k + 1: v_t = 2/(K−t+1) + 1/K for t < K, v_K = v_{K−1}, and
    c_t = η_t v_t² − βη_t²v_t² − (1 + βη_t)(v_t − v_{t−1}) Σ_{s≥t} η_s v_s with η_t = η(K−t+1)/K.

    Parameters
    ----------
    k : int
        At least 1 (the lemma asks for 2).
    step_size, smoothness : float or Fraction
        η and β; Fractions give exact sequences. The lemma needs ηβ ≤ 3/13.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import forgetless as fl
    >>> w = fl.theory.last_iterate_weights(2, Fraction(3, 13), Fraction(1))
    >>> float(3 * w.bound), min(w.c) >= 0
    (8.251953125, True)
    """
    K = validate.integer("k", k, 1, "ask for at least one step") + 1
    one = step_size / step_size
    v = [2 * one / (K - t + 1) + one / K for t in range(K)]
    v.append(v[-1])
    eta = linear_decay(k, step_size)
    eta.append(step_size / K)
    c = []
    tail = 0 * one  # Σ_{s≥t} η_s v_s
    for t in range(K, 0, -1):
        step = eta[t - 1]
        tail += step * v[t]
        grown = (1 + smoothness * step) * (v[t] - v[t - 1])
        c.append(step * v[t] ** 2 * (1 - smoothness * step) - grown * tail)
    c.reverse()
    return Weights(v, c, v[0] ** 2 / (2 * c[-1]))

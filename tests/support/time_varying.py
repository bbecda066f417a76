"""The hypotheses of Lemma “SGD bound for time-varying distributions”, at sampled points."""

from dataclasses import asdict, dataclass

import numpy as np

import forgetless as fl


@dataclass(frozen=True)
class HypothesisCheck:
    """The hypotheses of the time-varying lemma on samples, each as its largest violation (≤ 0 where
    it holds).

    Attributes
    ----------
    convexity : float
        Largest f(w) + ⟨∇f(w), u − w⟩ − f(u) for the surrogates, relative to their size.
    smoothness : float
        Largest ‖∇f(u) − ∇f(w)‖ / ‖u − w‖ − β, relative to β.
    lower, upper : float
        Largest relative violation of f⁽ᵗ⁾ − f⁽ᵗ⁾⋆ ≤ f − f⋆ and of f − f⋆ ≤ (1 + η_tβ)(f⁽ᵗ⁾ −
        f⁽ᵗ⁾⋆).
    minimum : float
        Largest ‖∇f⁽ᵗ⁾(w⋆; m)‖, relative to β times the largest distance of a sample from w⋆.
    step_size : float
        ηβ − 3/13 for the η of the first step (positive: too large).
    decay : float
        Largest relative deviation of the step sizes from η(k−t+2)/(k+1).
    """

    convexity: float
    smoothness: float
    lower: float
    upper: float
    minimum: float
    step_size: float
    decay: float

    def holds(self, tol=1e-9):
        """Return whether no sample violates any hypothesis by more than ``tol``."""
        return bool(max(asdict(self).values()) <= tol)


def check_time_varying(
    function, surrogate, surrogate_gradient, n_functions, step_sizes, smoothness, minimizer, samples
):
    """Return the violations of the hypotheses of the time-varying last-iterate lemma at sampled
    points.

    Parameters
    ----------
    function, surrogate, surrogate_gradient : callable (w, m, t)
        f(w; m) (t is ignored), f⁽ᵗ⁾(w; m) and its gradient.
    n_functions : int
        M.
    step_sizes : sequence of k floats
        η_1..η_k.
    smoothness : float
        β.
    minimizer : array of shape (d,)
        w⋆, common to all.
    samples : array of shape (n, d)
        Points to test; pairs of consecutive ones are used for convexity and smoothness.
    """
    points, best = np.asarray(samples, dtype=np.float64), np.asarray(minimizer, dtype=np.float64)
    if points.ndim != 2 or len(points) < 2 or len(step_sizes) == 0:
        raise ValueError(f"samples must hold at least two points of shape (d,), got shape {points.shape}")
    k = len(step_sizes)
    ideal = np.array(fl.theory.linear_decay(k, float(step_sizes[0])))  # the first step has the factor 1
    decay = float(np.max(np.abs(np.asarray(step_sizes, dtype=np.float64) / ideal - 1)))
    farthest = smoothness * float(np.max(np.linalg.norm(points - best, axis=1)))
    worst = dict.fromkeys(("convexity", "smoothness", "lower", "upper", "minimum"), -np.inf)

    def note(name, value):
        worst[name] = max(worst[name], float(value))

    for t, eta in enumerate(step_sizes, start=1):
        for m in range(n_functions):
            left = float(np.linalg.norm(surrogate_gradient(best, m, t)))
            note("minimum", left / farthest if farthest > 0 else left)
            f_best, s_best = float(function(best, m, t)), float(surrogate(best, m, t))
            for u, w in zip(points, np.roll(points, 1, axis=0), strict=True):
                here, there = float(surrogate(w, m, t)), float(surrogate(u, m, t))
                slope = np.asarray(surrogate_gradient(w, m, t))
                size = abs(here) + abs(there) + 1e-300
                note("convexity", (here + float(slope @ (u - w)) - there) / size)
                change = float(np.linalg.norm(np.asarray(surrogate_gradient(u, m, t)) - slope))
                note("smoothness", change / float(np.linalg.norm(u - w)) / smoothness - 1)
                excess, gap = float(function(w, m, t)) - f_best, here - s_best
                note("lower", (gap - excess) / (abs(gap) + abs(excess) + 1e-300))
                bound = (1 + eta * smoothness) * gap
                note("upper", (excess - bound) / (abs(excess) + abs(bound) + 1e-300))
    return HypothesisCheck(**worst, step_size=step_sizes[0] * smoothness - 3 / 13, decay=decay)

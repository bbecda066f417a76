"""Comparison of numbers: how far two lists are apart, and how far they may be."""

import math

import numpy as np

RTOL = 1e-12

# Relative differences of numbers with more than rounding in them, by the beginning of the name
TOLERANCES = {
    "compare_bounds": 1e-11,  # a term for tasks that one model fits up to rounding
    "logistic": 1e-6,  # its memory is in single precision by default
    "optimal_schedule": 1e-5,  # found by an optimizer, as those below
    "advise": 1e-5,
    "two_task_optimum": 1e-9,  # commit 64d79a6 narrows a dip to 6e-10 of itself, this tree to 1e-12
}


def tolerance(name):
    """Return the relative difference that is allowed."""
    if name.endswith("float32"):
        return 1e-6
    if name.startswith("upper_bound") and name.endswith(("next_loss", "without-replacement")):
        return 1e-5  # found by an optimizer
    return TOLERANCES.get(name.split("/")[0], RTOL)


def difference(one, other, unit=0.0):
    """Return how far two lists are apart, relative to the largest number, ``unit`` among them."""
    if len(one) != len(other):
        return math.inf
    a = np.array(one)
    b = np.array(other)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return math.inf
    a = a[finite]
    b = b[finite]
    size = max(np.abs(a).max(initial=unit), np.abs(b).max(initial=unit))
    return float(np.abs(a - b).max(initial=0) / size) if size else 0.0

"""One list of everything that has conformance checks: a new filter, schedule or ordering is tested by being listed."""

import numpy as np

import forgetless as fl

s = fl.schedules


def linear(k, radius):
    """A plain function as a schedule."""
    return fl.Ridge(radius**2 * np.arange(1, k + 1))


def name(thing):
    """Return a test id that is the same in every process."""
    return thing.__name__ if callable(thing) and hasattr(thing, "__name__") else repr(thing)


FILTERS = [
    fl.Ridge(0.0),
    fl.Ridge(0.7),
    fl.Ridge(np.array([0.0, 0.5, 3.0])),
    fl.GradientDescent(1, 0.1),
    fl.GradientDescent(7, 0.05),
    fl.GradientDescent(np.array([1, 2, 5]), np.array([0.2, 0.1, 0.01])),
    fl.Projection(),
]

SCHEDULES = [
    s.fixed(),
    s.increasing(),
    s.increasing(scale=0.5),
    s.fixed_budget(),
    s.fixed_budget(n_steps=5),
    s.increasing_budget(),
    s.increasing_budget(n_steps=3, scale=1.0),
    s.minimax(),
    s.minimax(eta=0.6, noise=0.2),
    s.minimax_budget(),
    s.minimax_budget(n_steps=5, eta=0.5),
    s.cyclic(4),
    s.constant(fl.Ridge(0.3)),
    s.constant(fl.Projection()),
    s.end_ramp(),
    s.end_ramp(length=1.0, scale=0.3),
    fl.Ridge(1.5),
    fl.Projection(),
    fl.GradientDescent(3, 0.02),
    linear,
]

ORDERINGS = [
    fl.WithReplacement(),
    fl.WithReplacement([0.1, 0.2, 0.3, 0.4]),
    fl.WithoutReplacement(),
    fl.RandomReshuffling(),
    fl.Cyclic(),
    fl.FixedOrder([3, 0, 0, 1, 2, 3, 1, 0, 2, 2, 1, 3]),
]

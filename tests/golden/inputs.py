"""Fixed small inputs of the golden numbers: tasks, schedules, orderings and a stream."""

import numpy as np

import forgetless as fl

K = 12
N_TASKS = 4

s = fl.schedules

SCHEDULES = {
    "fixed": s.fixed(),
    "increasing": s.increasing(),
    "increasing-half": s.increasing(scale=0.5),
    "increasing-quarter": s.increasing(scale=1 / 4),
    "fixed-budget": s.fixed_budget(),
    "fixed-budget-5": s.fixed_budget(n_steps=5),
    "increasing-budget": s.increasing_budget(),
    "increasing-budget-3": s.increasing_budget(n_steps=3, scale=1.0),
    "minimax": s.minimax(eta=0.8),
    "minimax-budget": s.minimax_budget(n_steps=3),
    "cyclic": s.cyclic(4),
    "constant": s.constant(fl.Ridge(0.3)),
    "projection": s.constant(fl.Projection()),
    "end-ramp": s.end_ramp(),
    "coefficients": s.from_coefficients(tuple(0.1 * t for t in range(1, K + 1))),
    "gradient-descent": fl.GradientDescent(3, 0.02),
}


# One of each kind: constant, changing coefficients, gradient steps
FEW = ("constant", "increasing", "increasing-budget")

ORDERINGS = {
    "with-replacement": fl.WithReplacement(),
    "weighted": fl.WithReplacement([0.1, 0.2, 0.3, 0.4]),
    "without-replacement": fl.WithoutReplacement(),
    "reshuffling": fl.RandomReshuffling(),
    "cyclic": fl.Cyclic(),
    "fixed-order": fl.FixedOrder([3, 0, 0, 1, 2, 3, 1, 0, 2, 2, 1, 3]),
}


def tasks(noise=0.0):
    """Return four tasks of two rows and five features."""
    rng = np.random.default_rng(7)
    teacher = rng.standard_normal(5)
    pairs = []
    for _ in range(N_TASKS):
        X = rng.standard_normal((2, 5))
        pairs.append((X, X @ teacher + noise * rng.standard_normal(2)))
    return fl.TaskCollection(pairs)


def two_targets():
    """Return four tasks of one to four rows, three features and two targets."""
    rng = np.random.default_rng(8)
    rows = range(1, N_TASKS + 1)
    pairs = [(rng.standard_normal((n, 3)), rng.standard_normal((n, 2))) for n in rows]
    return fl.TaskCollection(pairs)


def stream(n_rows=7, n_tasks=8):
    """Yield eight tasks of a noisy stream with columns of different sizes."""
    rng = np.random.default_rng(11)
    teacher = rng.standard_normal(6)
    for _ in range(n_tasks):
        X = rng.standard_normal((n_rows, 6)) * [1, 2, 0.5, 1, 1, 3] + 0.3
        yield X, X @ teacher + 1.0 + 0.3 * rng.standard_normal(n_rows)

"""Advice and optimal schedules against the best of a fine grid of constants.

One thread of the linear algebra library: on small matrices two threads are no faster, and many times slower where
another process has one of them.
"""

import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from threadpoolctl import threadpool_limits

import forgetless as fl
from harness import table

GRID = 2000


def low_rank(d, M, r, *, noise=0.0, condition=1.0, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    pairs = []
    for _ in range(M):
        X = rng.standard_normal((r, d)) * np.geomspace(1, 1 / condition, r)[:, None]
        pairs.append((X, X @ w + noise * rng.standard_normal(r)))
    return fl.TaskCollection(pairs)


def equiangular(n, cosine, seed=0):
    rows = np.linalg.cholesky((1 - cosine) * np.eye(n) + cosine * np.ones((n, n)))
    w = np.random.default_rng(seed).standard_normal(n)
    return fl.TaskCollection([(row[None], [row @ w]) for row in rows])


def real(data, by, n_tasks, n_rows=None):
    """Return a bundled data set, standardised, as tasks of equal size along one of its features (or the target)."""
    X, y = data.data[:n_rows], data.target[:n_rows].astype(float)
    X = X[:, X.std(axis=0) > 0]
    key = y if by is None else X[:, by]
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    groups = np.argsort(np.argsort(key, kind="stable")) * n_tasks // len(y)
    return fl.TaskCollection.from_arrays(X, y, groups)


FAMILIES = {
    "two tasks, π/4": (fl.theory.constructions.two_tasks(np.pi / 4), 20, "worst_case"),
    **{f"two tasks, π/{n}": (fl.theory.constructions.two_tasks(np.pi / n), 128, "worst_case") for n in (8, 16, 32, 64)},
    "random, rank 2": (low_rank(20, 15, 2), 200, "average_loss"),
    "random, rank 2, worst teacher": (low_rank(20, 15, 2), 60, "worst_case"),
    "ill-conditioned": (low_rank(12, 10, 3, condition=100.0), 200, "average_loss"),
    "noisy, one row each": (low_rank(5, 20, 1, noise=0.5), 200, "average_loss"),
    "noisy, eight rows each": (low_rank(5, 10, 8, noise=1.0), 200, "average_loss"),
    "equiangular, cosine 0.9": (equiangular(8, 0.9), 100, "worst_case"),
    "diabetes by age": (real(load_diabetes(), 0, 20), 200, "average_loss"),
    "wine by alcohol": (real(load_wine(), 0, 12), 100, "average_loss"),
    "breast cancer by radius": (real(load_breast_cancer(), 0, 15), 100, "average_loss"),
    "digits, 300 rows by digit": (real(load_digits(), None, 10, 300), 60, "average_loss"),
}


def quality_row(name, tasks, k, objective):
    """Return losses over that of the best constant of a fine grid, and the seconds both searches took."""
    least = tasks.singular_values.min() ** 2
    grid = np.concatenate([[0.0], np.geomspace(1e-4 * least, 1e4 * k * tasks.radius**2, GRID - 1)])
    schedules = [fl.Ridge(c) for c in grid]
    if objective == "worst_case":
        constants = fl.worst_case(tasks, schedules, k).worst_case[:, 0]
    else:
        constants = fl.expect(tasks, schedules, k).average_loss[:, 0]
    best = constants.min()
    begin = time.perf_counter()
    advice = fl.advise(tasks, k, objective=objective)
    middle = time.perf_counter()
    optimum = fl.optimal_schedule(tasks, k, objective=objective)
    end = time.perf_counter()
    theorem = next(option.loss for option in advice.options if option.shape == "increasing, theorem")
    ratios = [f"{loss / best:.4f}" for loss in (advice.options[0].loss, optimum.loss)]
    return [
        f"{name}, k={k}",
        f"{grid[constants.argmin()] / tasks.radius**2:.3g}",
        f"{best:.4g}",
        *ratios,
        f"{theorem / best:.3g}",
        advice.options[0].code,
        f"{middle - begin:.2f} s, {end - middle:.1f} s",
    ]


def bar_rows():
    k, tasks = 128, fl.theory.constructions.two_tasks(np.pi / 16)
    found = fl.optimal_schedule(tasks, k, objective="worst_case")
    constant = fl.theory.two_task_optimum(np.pi / 16, k)[1]
    theorem = fl.worst_case(tasks, fl.schedules.increasing(), k).worst_case[0]
    row = ["θ = π/16, k = 128", f"{k * found.loss:.4f}", "0.0660", f"{k * constant:.3f}", f"{k * theorem:.3f}"]
    return [[*row, f"{found.stationarity:.0e}"]]


def main() -> None:
    with threadpool_limits(1):
        header = ["two tasks, k·loss of the worst teacher", "optimised", "bar", "constant", "theorem", "stationarity"]
        print(table("An optimised schedule", "python benchmarks/advice.py", header, bar_rows()), "\n")
        header = ["tasks", "best λ/R²", "its loss", "advised", "optimised", "theorem's", "advice", "advise, optimise"]
        title = f"Losses over that of the best of {GRID} constants"
        rows = [quality_row(name, *case) for name, case in FAMILIES.items()]
        print(table(title, "python benchmarks/advice.py", header, rows))


if __name__ == "__main__":
    main()

"""Streaming estimators and the solvers of one task, beside what one would write by hand or take from scikit-learn.

Times are medians of interleaved repeats of whole calls, checks of the input included. A pass is one product with X and
one with its transpose: no iterative method does with less, and a dense pass runs at the speed of memory.
"""

import itertools
import tracemalloc

import mpmath
import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import lsmr
from sklearn.linear_model import Ridge, SGDRegressor

import forgetless as fl
from forgetless.solvers.one_task import learn, task_norm
from forgetless.solvers.rows import OneTask, Rows
from harness import medians, ratio, table

COMMAND = "python benchmarks/streaming.py"


def one_row(d, count=2000):
    rng = np.random.default_rng(d)
    rows = [(rng.standard_normal((1, d)), rng.standard_normal(1)) for _ in range(count)]
    ours = fl.ContinualRidge(alpha=1.0).partial_fit(*rows[0])
    scheduled = fl.ContinualRidge(schedule="increasing", n_tasks=10**6, radius=1.0).partial_fit(*rows[0])
    theirs = SGDRegressor().partial_fit(*rows[0])
    w = np.zeros(d)

    def bare():
        nonlocal w
        for X, y in rows:
            x = X[0]
            w = w + x * ((y[0] - x @ w) / (x @ x + 1.0))

    def stream(model):
        def run():
            for X, y in rows:
                model.partial_fit(X, y)

        return run

    times = medians({"ours": stream(ours), "schedule": stream(scheduled), "sgd": stream(theirs), "bare": bare})
    micro = {name: 1e6 * value / count for name, value in times.items()}
    return [
        f"d={d}",
        f"{micro['ours']:.1f} µs",
        f"{micro['schedule']:.1f} µs",
        f"{micro['bare']:.1f} µs",
        f"{micro['sgd']:.0f} µs",
        f"{ratio(times['sgd'] / times['ours'])} (bar 15×)",
        f"{times['ours'] / times['bare']:.2f}× (bar 2×)",
    ]


def dense_task(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    return X, y, np.linalg.norm(X, 2) ** 2


def by_hand(X, y, coefficient):
    """Cholesky of the smaller side with SciPy."""
    n, d = X.shape
    K = X @ X.T if n < d else X.T @ X
    K.flat[:: len(K) + 1] += coefficient
    factor = linalg.cho_factor(K, overwrite_a=True)
    return X.T @ linalg.cho_solve(factor, y) if n < d else linalg.cho_solve(factor, X.T @ y)


def dense_rows(n, d, strengths, bar):
    """Compare one step from zero with the methods by hand, at several λ."""
    X, y, square = dense_task(n, d)
    one = medians({"pass": lambda: X.T @ (X @ y[:d] if n >= d else X @ np.resize(y, d))})["pass"]
    rows = []
    for strength in strengths:
        lam = strength * square
        model = fl.ContinualRidge(alpha=lam)
        contestants = {
            "ours": lambda model=model: model.fit(X, y),
            "cholesky": lambda lam=lam: by_hand(X, y, lam),
            "lsmr": lambda lam=lam: lsmr(X, y, damp=lam**0.5, atol=1e-10, btol=1e-10),
            "sklearn": lambda lam=lam: Ridge(alpha=lam, fit_intercept=False).fit(X, y),
        }
        times = medians(contestants, 3 if n * d > 2e7 else 5)
        made = learn(OneTask(Rows.of(X), y[:, None]), fl.Ridge(lam))
        rows.append(
            [
                f"{n} × {d}, λ = {strength:g} R²",
                made.solver,
                f"{1e3 * times['ours']:.0f} ms ({times['ours'] / one:.0f} passes)",
                f"{1e3 * times['cholesky']:.0f} ms",
                f"{1e3 * times['lsmr']:.0f} ms",
                f"{1e3 * times['sklearn']:.0f} ms",
                bar(times),
                f"{made.error:.0e}",
            ]
        )
    return rows


def against_sklearn(times):
    return f"{ratio(times['sklearn'] / times['ours'])} faster than Ridge (bar 8×)"


def against_best(times):
    return f"{times['ours'] / min(times['cholesky'], times['lsmr']):.2f}× the better by hand (bar 1.5×)"


def against_primal(times):
    return f"{times['ours'] / times['cholesky']:.2f}× Cholesky by hand (bar 1.2×)"


def svd_row():
    X, y, square = dense_task(500, 20_000)
    model = fl.ContinualRidge(alpha=square)

    def svd():
        U, s, V = np.linalg.svd(X, full_matrices=False)
        return V.T @ (s / (s**2 + square) * (U.T @ y))

    times = medians({"ours": lambda: model.fit(X, y), "svd": svd}, 3)
    return ["500 × 20000, λ = R²", "SVD", f"{times['svd']:.2f} s", f"{ratio(times['svd'] / times['ours'])} (bar 10×)"]


def budget_rows():
    X, y, square = dense_task(50_000, 500)
    rows = []
    for step in (0.5, 0.01):
        model = fl.ContinualGD(n_steps=1000, step_size=step / square)

        def literal(steps=10, step=step):
            w = np.zeros(500)
            for _ in range(steps):
                w = w - step / square * (X.T @ (X @ w - y))

        times = medians({"ours": lambda model=model: model.fit(X, y), "literal": literal}, 3)
        loop = 100 * times["literal"]
        row = [f"50000 × 500, N = 1000, γ = {step}/R²", "literal loop (10 steps × 100)", f"{loop:.0f} s"]
        rows.append([*row, f"{ratio(loop / times['ours'])} (bar 20×)"])
    return rows


def sparse_rows():
    n, d = 10_000, 1_000_000
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=1e-5, rng=rng, format="csr")
    y = rng.standard_normal(n)
    v = rng.standard_normal(d)
    one = medians({"pass": lambda: X.T @ (X @ v)})["pass"]
    square = task_norm(Rows.of(X)) ** 2
    rows = []
    for name, model in {
        "ContinualRidge(alpha=R²)": fl.ContinualRidge(alpha=square),
        "ContinualRidge(alpha=0.01 R²)": fl.ContinualRidge(alpha=0.01 * square),
        "ContinualRidge(schedule='increasing')": fl.ContinualRidge(schedule="increasing", n_tasks=50),
        "ContinualGD(n_steps=100)": fl.ContinualGD(n_steps=100),
    }.items():
        time = medians({"ours": lambda model=model: model.fit(X, y)}, 3)["ours"]
        tracemalloc.start()
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        unit = 8 * (X.nnz + d)
        rows.append([name, f"{1e3 * time:.0f} ms", f"{time / one:.0f} passes", f"{peak / unit:.1f} × 8(nnz + d) bytes"])
    return rows


def extremes():
    """Return the largest relative error against fifty digits, and how many steps were refused by name."""
    np.seterr(over="ignore")
    worst, refused, made = 0.0, 0, 0
    rng = np.random.default_rng(0)
    kinds = ("generic", "decaying", "repeated feature")
    for shape, kind in itertools.product([(8, 5), (5, 8), (12, 12)], kinds):
        X = rng.standard_normal(shape)
        U, _, V = np.linalg.svd(X, full_matrices=False)
        if kind == "decaying":
            X = (U * np.logspace(0, -9, min(shape))) @ V
        if kind == "repeated feature":
            X[:, 1] = X[:, 0]
        X /= np.linalg.norm(X, 2)
        y = rng.standard_normal((shape[0], 1))
        for size, strength in itertools.product([1e-150, 1e-75, 1.0, 1e75, 1e150], np.logspace(-12, 12, 9)):
            lam = strength * size * size
            if not 0 < lam < np.inf:
                continue  # the coefficient itself is not a float
            try:
                found = learn(OneTask(Rows.of(X * size), y), fl.Ridge(lam)).change
            except fl.errors.ConvergenceError:
                refused += 1
                continue
            with mpmath.workdps(50):
                A = mpmath.matrix((X * size).tolist())
                exact = mpmath.lu_solve(
                    A.T * A + mpmath.mpf(lam) * mpmath.eye(shape[1]), A.T * mpmath.matrix(y.tolist())
                )
                exact = np.array([float(value) for value in exact])
            worst, made = max(worst, float(np.abs(found[:, 0] - exact).max() / np.abs(exact).max())), made + 1
    return [f"{made} steps", f"{worst:.0e} (bar 1e-8)", f"{refused} refused"]


if __name__ == "__main__":
    print(
        table(
            "One-row tasks, per call",
            COMMAND,
            ["", "alpha=1.0", "schedule", "bare NumPy", "SGDRegressor", "faster than that", "of bare NumPy"],
            [one_row(d) for d in (10, 100, 1000)],
        ),
        "\n",
        flush=True,
    )
    dense = (
        dense_rows(3000, 3000, [5.9, 1.0], against_sklearn)
        + dense_rows(500, 20_000, [5.9, 1.0, 1e-2, 1e-4], against_best)
        + dense_rows(50_000, 500, [5.9, 1.0, 1e-2, 1e-4], against_primal)
    )
    print(
        table(
            "One dense task",
            COMMAND,
            ["task", "solver chosen", "ours", "Cholesky", "LSMR", "sklearn Ridge", "", "error stated"],
            dense,
        ),
        "\n",
        flush=True,
    )
    print(
        table(
            "Against decompositions and loops",
            COMMAND,
            ["task", "other", "time", "ours is faster by"],
            [svd_row(), *budget_rows()],
        ),
        "\n",
        flush=True,
    )
    print(
        table(
            "Sparse, n = 10 000, d = 10⁶, density 10⁻⁵",
            COMMAND,
            ["", "time", "in passes", "peak memory"],
            sparse_rows(),
        ),
        "\n",
        flush=True,
    )
    print(
        table(
            "Extremes: ‖X‖ from 1e-150 to 1e150, λ from 1e-12 to 1e12 ‖X‖²",
            COMMAND,
            ["", "largest relative error against 50 digits", "named errors"],
            [extremes()],
        )
    )

"""Proximal steps of the losses for classes, beside SciPy's L-BFGS and scikit-learn's solvers on the same subproblems.

The first table has the passes over the data (products with X or its transpose) of Newton's method with conjugate
gradients and the proved relative error of the change; the second the times of the default. scikit-learn has no previous
weights, so that its problems start from 0; distances of the others are relative to our change. The third table has
steps per second of ``simulate``, final losses included, beside a Python loop over L-BFGS that only computes weights.
"""

import argparse

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import forgetless as fl
from forgetless import losses
from forgetless.solvers.margins import proximal_step
from harness import medians, table

SHAPES = [(10, 500), (100, 500), (500, 500), (2000, 100), (300, 5000)]
NAMES = ("squared_hinge", "logistic")


def data(n, d):
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + np.sqrt(d) * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y, rng.standard_normal(d) / np.sqrt(d)


def lbfgs(X, y, w, lam, loss):
    def f(v):
        outputs = X @ v
        value = loss.value(outputs, y).sum() + lam / 2 * np.sum((v - w) ** 2)
        return value, lam * (v - w) + X.T @ loss.slope(outputs, y)

    return minimize(f, w, jac=True, method="L-BFGS-B", options={"maxiter": 20_000, "gtol": 1e-11, "ftol": 1e-16})


def sklearn_model(name, lam, n, d):
    if name == "logistic":
        return LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-10, max_iter=20_000)
    return LinearSVC(C=0.5 / lam, fit_intercept=False, dual=n < d, tol=1e-10, max_iter=20_000)


def passes() -> str:
    rows = []
    for n, d in SHAPES:
        X, y, w = data(n, d)
        for name in NAMES:
            loss, cells = losses.named(name), [f"{n} × {d}", name]
            for ratio in (0.01, 1.0, 10.0, 1e3):
                step = proximal_step(X, y, w, ratio * loss.smoothness(np.linalg.norm(X, 2)), loss, "newton-cg")
                cells.append(f"{step.passes} ({step.error:.0e})")
            rows.append(cells)
    header = ["rows × features", "loss", "λ = β/100", "λ = β (bar 40)", "λ = 10β", "λ = 1000β"]
    return table("Passes of Newton-CG (proved relative error)", "python benchmarks/margins.py", header, rows)


def times(repeats: int) -> str:
    rows = []
    for n, d in SHAPES:
        X, y, w = data(n, d)
        for name in NAMES:
            rows += [_row(X, y, w, ratio, losses.named(name), repeats) for ratio in (1e-3, 1.0)]
    header = ["rows × features", "loss", "λ/β", "solver", "ours", "L-BFGS, distance", "scikit-learn from 0, distance"]
    return table("Proximal steps", "python benchmarks/margins.py", header, rows)


def _row(X, y, w, ratio, loss, repeats):
    n, d = X.shape
    lam, zero = ratio * loss.smoothness(np.linalg.norm(X, 2)), np.zeros(d)
    step, other = proximal_step(X, y, w, lam, loss), lbfgs(X, y, w, lam, loss)
    model = sklearn_model(loss.name, lam, n, d)
    from_zero = proximal_step(X, y, zero, lam, loss).change
    seconds = medians(
        {
            "ours": lambda: proximal_step(X, y, w, lam, loss),
            "lbfgs": lambda: lbfgs(X, y, w, lam, loss),
            "sklearn": lambda: model.fit(X, y),
        },
        repeats,
    )
    away = np.linalg.norm(other.x - w - step.change) / np.linalg.norm(step.change)
    theirs = np.linalg.norm(model.coef_[0] - from_zero) / np.linalg.norm(from_zero)
    ms = {name: f"{1e3 * value:.2f} ms" for name, value in seconds.items()}
    distances = f"{ms['lbfgs']}, {away:.0e}", f"{ms['sklearn']}, {theirs:.0e}"
    return [f"{n} × {d}", loss.name, ratio, step.solver, f"{ms['ours']} ({step.error:.0e})", *distances]


def simulations(repeats: int) -> str:
    rng, k, n_trials = np.random.default_rng(0), 2000, 20
    teacher = rng.standard_normal(20)
    tasks = fl.TaskCollection([(X := rng.standard_normal((5, 20)), np.sign(X @ teacher)) for _ in range(20)])
    order, rows = rng.integers(20, size=100), []
    for name in NAMES:
        for ratio in (1e-3, 1.0, 13 / 3):
            loss = losses.named(name)
            lam = ratio * loss.smoothness(tasks.radius)

            def loop(loss=loss, lam=lam):
                w = np.zeros(20)
                for m in order:
                    w = lbfgs(*tasks[m], w, lam, loss).x
                return w

            def ours(name=name, lam=lam):
                options = {"record": "last", "metrics": "average_loss", "backend": "numba"}
                return fl.simulate(tasks, fl.Ridge(lam), k, n_trials=n_trials, seed=0, loss=name, **options)

            seconds = medians({"ours": ours, "loop": loop}, repeats)
            speeds = k * n_trials / seconds["ours"], len(order) / seconds["loop"]
            rows.append(
                [name, f"{ratio:.3g}", *(f"{speed:,.0f}" for speed in speeds), f"{speeds[0] / speeds[1]:,.0f}×"]
            )
    header = ["loss", "λ/β", "simulate, steps/s (bar 80,000)", "Python loop, steps/s", "ratio"]
    return table("Simulated proximal steps, n = 5, d = 20", "python benchmarks/margins.py", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(passes(), times(arguments.repeats), simulations(arguments.repeats), sep="\n\n")


if __name__ == "__main__":
    main()

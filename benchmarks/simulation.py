"""Simulated steps per second against the script most papers use: a Python loop with one dense solve per step.

The script is timed on some hundred steps and scaled up, since the full run takes many minutes; it only moves the
weights. Ours draws the orders, moves the weights and returns the final losses; for the last problem its time includes
the set-up of the collection. The default call is ``fl.simulate(fl.TaskCollection(pairs), schedule, k, n_trials=…)`` and
nothing else: set-up, all four metrics and the weights at some thirty to eighty steps included, once numba is loaded.
"""

import argparse
import importlib

import numpy as np

import forgetless as fl
from harness import gemm_gflops, medians, ratio, table

PROBLEMS = [(2, 2, 1, 10_000, 1000), (20, 10, 5, 10_000, 200), (200, 50, 10, 2000, 50), (2000, 20, 50, 500, 8)]
BARS = {"default": (1200, 250, 500, 5000), "numba": (2000, 500, 500, 6000)}


def data(d, M, n):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(d)
    return [(X := rng.standard_normal((n, d)), X @ w) for _ in range(M)]


def literal(pairs, k, n_steps):
    """Run the first ``n_steps`` steps of one trial of k steps, as a paper's script would."""
    rng = np.random.default_rng(1)
    d = pairs[0][0].shape[1]
    radius = max(np.linalg.norm(X, 2) for X, _ in pairs)
    coefficients = 13 / 3 * radius**2 * (k + 1) / (k - np.arange(1, k + 1) + 2)
    w = np.zeros(d)
    order = rng.integers(len(pairs), size=k)

    def loop():
        nonlocal w
        for t in range(n_steps):
            X, y = pairs[order[t]]
            w = np.linalg.solve(X.T @ X + coefficients[t] * np.eye(d), X.T @ y + coefficients[t] * w)
        return w

    return loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    peak = gemm_gflops()
    importlib.import_module("forgetless._kernels")
    rows = []
    for number, (d, M, n, k, trials) in enumerate(PROBLEMS):
        pairs = data(d, M, n)
        n_steps = 4 if d >= 2000 else 200 if d >= 200 else 5000
        setup = d >= 2000
        ready = fl.TaskCollection(pairs)

        def ours(metrics, pairs=pairs, ready=ready, setup=setup, k=k, trials=trials):
            tasks = fl.TaskCollection(pairs) if setup else ready
            schedule = fl.schedules.increasing()
            return fl.simulate(tasks, schedule, k, n_trials=trials, seed=1, record="last", metrics=metrics)

        def default(pairs=pairs, k=k, trials=trials):
            return fl.simulate(fl.TaskCollection(pairs), fl.schedules.increasing(), k, n_trials=trials, seed=1)

        contestants = {"script": literal(pairs, k, n_steps), "default": default}
        contestants["numba"] = lambda f=ours: f("average_loss")
        contestants["numba all"] = lambda f=ours: f(fl.metrics.METRICS)
        seconds = medians(contestants, arguments.repeats)
        script = seconds["script"] / n_steps * k * trials
        flops = 4.0 * n * min(d, M * n) * k * trials
        cells = [f"{d}, {M}, {n}, {k:,}, {trials}", f"{script:.0f} s"]
        cells.append(f"{ratio(script / seconds['default'])} (bar {BARS['default'][number]})")
        cells.append(f"{ratio(script / seconds['numba'])} (bar {BARS['numba'][number]})")
        cells.append(ratio(script / seconds["numba all"]))
        cells.append(f"{1e3 * seconds['numba']:.0f} ms, {flops / seconds['numba'] * 1e-9:.1f} of {peak:.0f}")
        rows.append(cells)
        print(cells, flush=True)
    header = [
        "d, M, n, k, trials",
        "script",
        "default call",
        "numba",
        "all metrics",
        "numba: time, GFLOP/s of GEMM's",
    ]
    print(table("Simulation", "make bench", header, rows))


if __name__ == "__main__":
    main()

"""Fresh random tasks: exact expectations, their set-up, and simulated trials against a batched NumPy loop.

The loop draws all trials of a step at once, makes the ridge step by batched solves and measures the distance from the
teacher at the end, as a script of a paper would. ``simulate`` does the same with ``metrics="distance"``; its default
call has three metrics at logarithmic steps, one of them with every teacher. The limit is the time of drawing the
numbers alone. One core: set OPENBLAS_NUM_THREADS=1.
"""

import argparse
import time

import numpy as np

import forgetless as fl
from forgetless.ensembles import Gaussian, teachers
from forgetless.ensembles.spectra import wishart
from harness import medians, table

SIZES = [(12, 5, 6, 4000), (60, 12, 16, 1000), (100, 20, 10, 500), (100, 50, 10, 200), (20, 100, 10, 500)]


def loop(d, n, k, n_trials, strength=3.0, noise=0.5):
    """Return a function that runs the trials as a script would."""

    def run():
        rng = np.random.default_rng(0)
        v = rng.standard_normal((n_trials, d)) / np.sqrt(d)
        w = np.zeros((n_trials, d))
        for _ in range(k):
            X = rng.standard_normal((n_trials, n, d))
            residual = (X @ (v - w)[:, :, None])[:, :, 0] + noise * rng.standard_normal((n_trials, n))
            if n <= d:
                gram = X @ X.transpose(0, 2, 1) + strength * np.eye(n)
                w = w + (X.transpose(0, 2, 1) @ np.linalg.solve(gram, residual[:, :, None]))[:, :, 0]
            else:
                gram = X.transpose(0, 2, 1) @ X + strength * np.eye(d)
                w = w + np.linalg.solve(gram, X.transpose(0, 2, 1) @ residual[:, :, None])[:, :, 0]
        return ((w - v) ** 2).sum(1).mean()

    return run


def simulation(repeats):
    """Return the rows of simulated trials."""
    rows = []
    for d, n, k, n_trials in SIZES:
        ensemble = Gaussian(d, n, 0.5)
        options = {"n_trials": n_trials, "seed": 0}
        times = medians(
            {
                "loop": loop(d, n, k, n_trials),
                "simulate": lambda e=ensemble, k=k, o=options: e.simulate(
                    3.0, k, record="last", metrics="distance", **o
                ),
                "default": lambda e=ensemble, k=k, o=options: e.simulate(3.0, k, **o),
                "numbers": lambda s=(k, n_trials, n, d): np.random.default_rng(0).standard_normal(s),
            },
            repeats,
        )
        ratios = [f"{times[name] / times['loop']:.2f}" for name in ("simulate", "default", "numbers")]
        rows.append([f"d = {d}, n = {n}, k = {k}, {n_trials} trials", f"{1e3 * times['loop']:.0f} ms", *ratios])
    return rows


def expectation(repeats):
    """Return the rows of exact expectations, with the time of a simulation to a standard error of 1 %."""
    rows = []
    metrics = ("average_loss", "next_loss", "distance", "task_losses")
    for d, n, k in ((100, 20, 10), (100, 20, 100), (100, 20, 1000)):
        ensemble = Gaussian(d, n, 0.5, teachers.walk(1.0, 0.1))
        contestants = {
            f"{schedule}, {label}": lambda e=ensemble, s=schedule, k=k, m=names: e.expect(s, k, metrics=m)
            for schedule in (5.0, "increasing")
            for label, names in (("average loss", ("average_loss",)), ("all metrics", metrics))
            if k <= 100 or label == "average loss"
        }
        times = medians(contestants, repeats)
        for name, seconds in times.items():
            rows.append([f"d = {d}, n = {n}, k = {k}", name, f"{1e3 * seconds:.1f} ms"])
    return rows


ERRORS = [(1, 0.01, 100), (1, 1.0, 100), (1, 0.01, 1000), (20, 1e-4, 20), (20, 0.01, 20), (20, 1.0, 20)]
ERRORS += [(20, 0.01, 200), (20, 1.0, 200), (100, 0.01, 20), (100, 1.0, 20), (200, 1.0, 20)]


def full_memory(n, d, variance, k):
    """Return E‖w − v‖² of ridge regression on all nk rows with the best strength, which stores a d × d matrix."""
    spectrum, strength = wishart(n * k, d), d * variance
    return variance * (float(spectrum.sum(1 / (spectrum.singular_values**2 + strength))) + max(d - n * k, 0) / strength)


def schedules():
    """Return E‖w_k − v‖² of schedules over that of the optimal λ_t, for 100 features and one teacher of norm 1."""
    rows = []
    for n, variance, k in ERRORS:
        ensemble = Gaussian(100, n, variance**0.5)
        optimal = ensemble.optimal_schedule(k, objective="distance")
        linear = fl.schedules.from_coefficients(100 * variance + n * np.arange(k))
        several = {
            "none": "none",
            "paper": "increasing",
            "quarter": fl.schedules.increasing(1 / 4),
            "minimax": "minimax",
            "l": linear,
        }
        errors = ensemble.expect(several, k, metrics="distance").distance[:, 0] / optimal.loss
        cells = [errors[0], optimal.best_constant_loss / optimal.loss, *errors[1:]]
        cells.append(full_memory(n, 100, variance, k) / optimal.loss)
        ends = f"{optimal.coefficients[0]:.3g} → {optimal.coefficients[-1]:.4g}"
        rows.append([n, f"{variance:g}", k, *("∞" if np.isinf(cell) else f"{cell:.3g}" for cell in cells), ends])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    header = ["problem", "loop", "simulate / loop", "default call / loop", "random numbers alone / loop"]
    print(table("Simulated fresh tasks", "python benchmarks/ensembles.py", header, simulation(repeats)))
    print()
    rows = []
    for n, d in ((5, 20), (49, 100), (100, 100), (200, 300), (400, 600)):
        begin = time.perf_counter()
        spectrum = wishart.__wrapped__(n, d)
        seconds, x = time.perf_counter() - begin, spectrum.singular_values**2
        errors = (spectrum.sum(x) / (n * d) - 1, spectrum.sum(x * x) / (n * d * (n + d + 1)) - 1)
        rows.append([f"{n} × {d}", f"{seconds:.3f} s", *(f"{abs(error):.0e}" for error in errors)])
    header = ["size", "set-up", "error of E Σs²", "error of E Σs⁴"]
    print(table("Moments of Gaussian matrices", "python benchmarks/ensembles.py", header, rows))
    print()
    header = ["problem", "schedule and metrics", "time after the set-up"]
    print(table("Exact expectations over fresh tasks", "python benchmarks/ensembles.py", header, expectation(repeats)))
    print()
    header = [
        "n",
        "σ²",
        "k",
        "none",
        "best constant",
        "increasing, 13/3",
        "increasing, 1/4",
        "minimax",
        "λ₁ + n(t − 1)",
    ]
    header += ["ridge on all rows", "λ₁ → λ_k"]
    print(table("Distance over that of the optimal λ_t", "python benchmarks/ensembles.py", header, schedules()))


if __name__ == "__main__":
    main()

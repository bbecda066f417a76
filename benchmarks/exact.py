"""Exact expectations against the plain script: a Python loop of ``L @ S @ L`` over tasks with dense L.

Speeds are per step (and per schedule), from the median of interleaved repeats; our set-up is not counted in the first
three rows, nor is the script's. The subset row counts updates, the figure row minima.
"""

import subprocess
import sys

import numpy as np
from scipy.optimize import minimize_scalar

import forgetless as fl
from forgetless.lab import Problem
from forgetless.lab.chain import Run
from forgetless.lab.coordinates import Coordinates
from harness import gemm_gflops, medians, ratio, table


def collection(d, M, r, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    return fl.TaskCollection([(X := rng.standard_normal((r, d)), X @ w) for _ in range(M)])


def dense_maps(tasks, coefficient):
    d = tasks.n_features
    return [coefficient * np.linalg.inv(X.T @ X + coefficient * np.eye(d)) for X, _ in tasks]


def per_step(d, M, r, schedules, repeats=5):
    """Return milliseconds per step: the script for one schedule, ours for all at once."""
    tasks = collection(d, M, r)
    filters = [fl.Ridge(each) for each in np.geomspace(0.5, 50, schedules)]
    problem = Problem.of(tasks, filters, 20, None, "last")
    run = Run(Coordinates(tasks), problem)
    shares = problem.factors(0, 20)
    maps, S = dense_maps(tasks, 1.0), np.eye(d)
    n_steps = 1 if d >= 1000 else 20

    def script():
        nonlocal S
        for _ in range(n_steps):
            S = sum(L @ S @ L for L in maps) / M

    def ours():
        run.advance(shares)

    seconds = medians({"script": script, "ours": ours}, repeats)
    return 1e3 * seconds["script"] / n_steps, 1e3 * seconds["ours"] / 20


def stepping_rows(peak):
    rows = []
    for d, M, r, B, bar in [(1000, 20, 5, 1, 3000), (100, 50, 5, 1, 6), (10, 10, 2, 256, 40)]:
        script, ours = per_step(d, M, r, B, repeats=3 if d >= 1000 else 7)
        q = min(d, M * r)
        flops = 4.0 * M * r * q * q * B / (ours * 1e-3) * 1e-9
        gain = script / (ours / B)
        note = f"{1e3 * ours / B:.1f} µs against {script:.3g} ms; {flops:.0f} GFLOP/s of GEMM's {peak:.0f}"
        rows.append([f"d={d}, M={M}, r={r}" + (f", {B} schedules" if B > 1 else ""), ratio(gain), f"{bar}×", note])
    return rows


def default_rows():
    """Return rows of the default call for one schedule: all of it, against as many steps of the script."""
    rows = []
    for d, bar in [(10, 10), (20, 15)]:
        M, r, k, n_steps = 10, 2, 2000, 400
        tasks, S = collection(d, M, r), np.eye(d)
        maps = dense_maps(tasks, 1.0)

        def script(maps=maps, S=S, M=M, n_steps=n_steps):
            for _ in range(n_steps):
                S = sum(L @ S @ L for L in maps) / M

        seconds = medians(
            {"script": script, "ours": lambda tasks=tasks, k=k: fl.expect(tasks, fl.schedules.increasing(), k)}, 15
        )
        gain = seconds["script"] / n_steps / (seconds["ours"] / k)
        note = f"{1e6 * seconds['ours'] / k:.2f} µs a step against {1e6 * seconds['script'] / n_steps:.0f} µs"
        name = f"default call, one increasing schedule, d={d}, M={M}, r={r}, k={k}"
        rows.append([name, ratio(gain), f"{bar}×", note])
    return rows


def powers_row():
    tasks = collection(20, 20, 1)
    filter_, by_steps = fl.Ridge(0.5), ("average_loss", "task_losses")
    seconds = medians(
        {
            "power": lambda: fl.expect(tasks, filter_, 10**6),
            "steps": lambda: fl.expect(tasks, filter_, 2000, metrics=by_steps),
        }
    )
    plain = fl.expect(tasks, filter_, 20_000, metrics=by_steps).average_loss[0]
    error = abs(fl.expect(tasks, filter_, 20_000).average_loss[0] / plain - 1)
    note = f"{1e3 * seconds['power']:.1f} ms against {1e3 * seconds['steps']:.0f} ms; relative difference {error:.0e}"
    gain = ratio(seconds["steps"] / seconds["power"])
    return ["fixed filter, d=20, M=20, r=1, k=10⁶ against 2000 steps", gain, "1×", note + " at k=20 000"]


def figure_row():
    theta, k = np.pi * np.arange(1, 9)[:, None] / 16, np.arange(1, 513)

    def one(angle, steps):
        x = [np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])]
        H = sum(np.outer(v, v) for v in x) / 2

        def loss(coefficient):
            maps = [np.eye(2) - np.outer(v, v) / (1 + coefficient) for v in x]
            Q = sum(np.kron(L, L) for L in maps) / 2
            V = (np.linalg.matrix_power(Q, steps) @ H.ravel()).reshape(2, 2)
            return 0.5 * np.linalg.eigvalsh(V)[-1]

        return minimize_scalar(loss, bounds=(0, 4 * steps), method="bounded").fun

    chosen = [(angle, steps) for angle in theta[::3, 0] for steps in k[::100]]
    seconds = medians(
        {
            "script": lambda: [one(angle, int(steps)) for angle, steps in chosen],
            "ours": lambda: fl.theory.two_task_optimum(theta, k),
        },
        7,
    )
    script = seconds["script"] / len(chosen) * theta.size * k.size
    note = f"{1e3 * seconds['ours']:.0f} ms against {script:.1f} s for {theta.size * k.size:,} minima"
    return ["λ⋆(k, θ), 8 angles × k=1..512, global", ratio(script / seconds["ours"]), "200×", note]


def subset_rows():
    M, d = 18, 10
    tasks = collection(d, M, 1)
    updates = M * 2 ** (M - 1)
    maps, n_small = dense_maps(tasks, 1.0), 9

    def script():
        S = {0: np.eye(d)}
        for _ in range(n_small):
            level = {}
            for mask, value in S.items():
                for m in range(n_small):
                    if not mask >> m & 1:
                        key = mask | 1 << m
                        moved = maps[m] @ value @ maps[m]
                        level[key] = level[key] + moved if key in level else moved
            S = {key: value / key.bit_count() for key, value in level.items()}

    calls = {
        "script": script,
        "ours": lambda: fl.expect(tasks, fl.Ridge(1.0), M, ordering=fl.WithoutReplacement()),
    }
    seconds = medians(calls, 3)
    script_ns = 1e9 * seconds["script"] / (n_small * 2 ** (n_small - 1))
    ours_ns = 1e9 * seconds["ours"] / updates
    peak = peak_memory(M, d)
    note = f"{ours_ns:.0f} ns against {script_ns:.0f} ns; {seconds['ours']:.2f} s, process peak {peak:.2f} GiB"
    rows = [["without replacement, M=18, d=10, per update", ratio(script_ns / ours_ns), "20×", note]]
    fits = "; ".join(f"d={size}: M={largest(size)}" for size in (2, 5, 10))
    rows.append(["largest M within 4 GiB", fits, "", "average loss, by the guard's count of bytes"])
    return rows


def largest(d):
    """Return the largest number of tasks that the memory guard lets through."""
    M = 10
    while True:
        tasks = fl.TaskCollection([(np.eye(d)[m % d : m % d + 1], [1.0]) for m in range(M + 1)])
        problem = Problem.of(tasks, fl.Ridge(1.0), M + 1, fl.WithoutReplacement(), "last")
        try:
            problem.check_states(d)
        except MemoryError:
            return M
        M += 1


def peak_memory(M, d):
    """Return the peak memory in GiB of a process of its own that makes the computation."""
    code = (
        f"import sys; sys.path.insert(0, {sys.path[0]!r}); import resource, exact, forgetless as fl;"
        f"fl.expect(exact.collection({d}, {M}, 1), fl.Ridge(1.0), {M}, ordering=fl.WithoutReplacement());"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) / 2**20


def main() -> None:
    peak = gemm_gflops()
    rows = [*stepping_rows(peak), *default_rows(), powers_row(), figure_row(), *subset_rows()]
    print(table("Exact expectations", "make bench", ["problem", "faster than the script", "bar", "measured"], rows))


if __name__ == "__main__":
    main()

"""Times of the laboratory: default calls, set-up included, beside a plain script and the limit of the machine.

``python benchmarks/laboratory.py`` prints a table: the time of each call, how often faster it is than the script that
most papers use (one dense solve a step, or ``L @ S @ L`` for every task, timed on some steps and scaled up), and the
share of the speed of a large matrix product that its arithmetic reaches.

``--against PATH`` compares with another checkout of this library, which needs the same interpreter: a process for each
makes the calls in turn, and the shortest time of each counts; ``--cpu`` compares the time of processors. ``--only
WORD`` selects problems.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import forgetless as fl
from harness import gemm_gflops, ratio, table

ROOT = Path(__file__).resolve().parents[1]
FOUR = ("average_loss", "seen_loss", "forgetting", "drift")


def data(M, d, n, seed=0):
    """Return M pairs of n rows that one model fits."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    return [(X := rng.standard_normal((n, d)), X @ w) for _ in range(M)]


# --- problems: a function that makes the call ---


def simulated(d, M, n, k, n_trials, **options):
    """Simulate with the defaults, but for options."""
    pairs = data(M, d, n)
    if "average" in options:
        options = {"record": "last", "metrics": "average_loss"}
    options = {**options, "n_trials": n_trials, "seed": 1}
    return lambda: fl.simulate(fl.TaskCollection(pairs), fl.schedules.increasing(), k, **options)


def expected(d, M, r, k, schedule=None, **options):
    """Expect for one increasing schedule, or another one."""
    pairs = data(M, d, r)
    schedule = fl.schedules.increasing() if schedule is None else schedule
    return lambda: fl.expect(fl.TaskCollection(pairs), schedule, k, **options)


def many_schedules(d, M, r, k):
    """Expect for 256 schedules at once."""
    return expected(d, M, r, k, [fl.schedules.increasing(scale) for scale in np.geomspace(0.01, 10, 256)])


def worst(d, M, r, k, schedule=None):
    """Return the call of a worst case."""
    pairs = data(M, d, r)
    schedule = fl.schedules.increasing() if schedule is None else schedule
    return lambda: fl.worst_case(fl.TaskCollection(pairs), schedule, k)


def gradient(d, M, r, k):
    """Return the call of a gradient."""
    pairs = data(M, d, r)
    return lambda: fl.loss_gradient(fl.TaskCollection(pairs), fl.schedules.increasing(), k)


# --- scripts: seconds that they take for the whole problem ---


def loop_of_solves(d, M, n, k, n_trials):
    """Make one dense solve a step: seconds for all trials, from some steps."""
    pairs, w, n_steps = data(M, d, n), np.zeros(d), 3 if d >= 1000 else 100 if d >= 100 else 1000
    begin = time.perf_counter()
    for t in range(n_steps):
        X, y = pairs[t % M]
        w = np.linalg.solve(X.T @ X + 0.5 * np.eye(d), X.T @ y + 0.5 * w)
    return (time.perf_counter() - begin) / n_steps * k * n_trials


def loop_of_maps(d, M, r, k, n_schedules=1):
    """Follow the second moments as Σ L S L with dense L: seconds for all steps, from some of them."""
    maps = [np.linalg.inv(X.T @ X + np.eye(d)) for X, _ in data(M, d, r)]
    S, n_steps = np.eye(d), 1 if d >= 1000 else 20
    begin = time.perf_counter()
    for _ in range(n_steps):
        S = sum(L @ S @ L for L in maps) / M
    return (time.perf_counter() - begin) / n_steps * k * n_schedules


def loop_of_sets(d, M):
    """Follow the moments of all sets of tasks in a dictionary: seconds for all, from those of nine tasks."""
    maps, few = [np.linalg.inv(X.T @ X + np.eye(d)) for X, _ in data(M, d, 1)], 9
    S = {0: np.eye(d)}
    begin = time.perf_counter()
    for _ in range(few):
        level = {}
        for mask, value in S.items():
            for m in range(few):
                if not mask >> m & 1:
                    key = mask | 1 << m
                    level[key] = level.get(key, 0.0) + maps[m] @ value @ maps[m]
        S = {key: value / key.bit_count() for key, value in level.items()}
    return (time.perf_counter() - begin) / (few * 2 ** (few - 1)) * M * 2 ** (M - 1)


# --- the table ---


def simulation(d, M, n, k, n_trials):
    """Return the three rows of one simulation: default, last average loss, four metrics."""
    size = f"d={d}, M={M}, n={n}, k={k:,}, {n_trials} trials"
    script = lambda: loop_of_solves(d, M, n, k, n_trials)  # noqa: E731
    flops = 4.0 * n * min(d, M * n) * k * n_trials
    last = {"record": "last", "metrics": "average_loss"}
    return {
        f"simulate {size}": (lambda: simulated(d, M, n, k, n_trials), script, flops),
        f"… average loss {size}": (lambda: simulated(d, M, n, k, n_trials, **last), script, flops),
    }


def expectation(d, M, r, k):
    """Return the row of one expectation."""
    q = min(d, M * r)
    row = (lambda: expected(d, M, r, k), lambda: loop_of_maps(d, M, r, k), 4.0 * M * r * q * q * k)
    return {f"expect d={d}, M={M}, r={r}, k={k:,}": row}


def unreplaced(d, M, metrics="average_loss"):
    """Return the call of an epoch."""
    return expected(d, M, 1, M, fl.Ridge(1.0), ordering=fl.WithoutReplacement(), metrics=metrics)


PROBLEMS = {
    **simulation(2, 2, 1, 10_000, 1000),
    **simulation(20, 10, 5, 10_000, 200),
    **simulation(200, 50, 10, 2_000, 50),
    **simulation(2000, 20, 50, 500, 8),
    **expectation(1000, 20, 5, 60),
    **expectation(100, 50, 5, 60),
    **expectation(20, 10, 2, 2_000),
    **expectation(10, 10, 2, 2_000),
    **expectation(2, 2, 1, 2_000),
    "expect d=10, M=10, r=2, k=2,000, record log": (lambda: expected(10, 10, 2, 2000, record="log"), None, 0),
    "expect d=10, M=10, r=2, k=500, 256 schedules": (
        lambda: many_schedules(10, 10, 2, 500),
        lambda: loop_of_maps(10, 10, 2, 500, 256),
        4.0 * 20 * 100 * 500 * 256,
    ),
    "expect d=10, M=10, r=2, k=500, average 2": (lambda: expected(10, 10, 2, 500, average=2), None, 0),
    "expect d=10, M=10, r=2, k=200, four metrics": (lambda: expected(10, 10, 2, 200, metrics=FOUR), None, 0),
    "expect d=20, M=20, r=1, fixed, k=10⁶": (lambda: expected(20, 20, 1, 10**6, fl.Ridge(0.5)), None, 0),
    "expect d=20, M=20, r=1, fixed, k=2,000": (lambda: expected(20, 20, 1, 2000, fl.Ridge(0.5)), None, 0),
    "worst_case d=10, M=10, r=2, k=500": (lambda: worst(10, 10, 2, 500), None, 0),
    "worst_case d=20, M=20, r=1, fixed, k=10⁶": (lambda: worst(20, 20, 1, 10**6, fl.Ridge(0.5)), None, 0),
    "loss_gradient d=10, M=10, r=2, k=200": (lambda: gradient(10, 10, 2, 200), None, 0),
    "without replacement d=10, M=18": (
        lambda: unreplaced(10, 18),
        lambda: loop_of_sets(10, 18),
        4.0 * 100 * 18 * 2**17,
    ),
    "without replacement d=10, M=10, four metrics": (lambda: unreplaced(10, 10, FOUR), None, 0),
    "reshuffled d=10, M=10, r=2, k=200": (
        lambda: expected(10, 10, 2, 200, ordering=fl.RandomReshuffling()),
        None,
        0,
    ),
    "cyclic d=10, M=10, r=2, k=1,000": (lambda: expected(10, 10, 2, 1000, ordering=fl.Cyclic()), None, 0),
}
"""The call, made by a function; the seconds of a script, if there is one; and the operations of the call."""


def serve(clock):
    """Answer problems, one a line, with the seconds of one call; the first call of each is not counted."""
    calls = {}
    for line in sys.stdin:
        name = json.loads(line)
        if name not in calls:
            calls[name] = PROBLEMS[name][0]()
            calls[name]()
        begin = clock()
        calls[name]()
        print(clock() - begin, flush=True)


class Worker:
    """A process that makes the calls with the library in a checkout."""

    def __init__(self, checkout, cpu=False):
        path = os.pathsep.join([str(Path(checkout) / "src"), str(ROOT / "benchmarks")])
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", *["--cpu"] * cpu],
            env={**os.environ, "PYTHONPATH": path, "FORGETLESS_NUMBA": "always"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, name):
        """Return the seconds of one call."""
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(names, other, repeats, cpu):
    """Print the shortest times of both checkouts, calls made in turn, and the geometric mean of their ratios."""
    workers = [Worker(ROOT, cpu), Worker(other, cpu)]
    ratios = []
    for name in names:
        times = [min(each) for each in zip(*([w.seconds(name) for w in workers] for _ in range(repeats)), strict=True)]
        ratios.append(times[0] / times[1])
        beyond = ratios[-1] > 1.5 if times[1] > 0.05 else times[0] > 1.5 * times[1] and times[0] > times[1] + 0.005
        print(
            f"{name:<58} {1e3 * times[0]:9.2f} ms {1e3 * times[1]:9.2f} ms {ratios[-1]:6.2f} {'!' * beyond}", flush=True
        )
    print(f"geometric mean of {len(ratios)} ratios: {np.exp(np.mean(np.log(ratios))):.3f}")


def show(names, repeats):
    """Print the table of this checkout."""
    peak, worker, rows = gemm_gflops(), Worker(ROOT), []
    for name in names:
        _, script, flops = PROBLEMS[name]
        seconds = min(worker.seconds(name) for _ in range(repeats))
        faster = ratio(script() / seconds) if script else ""
        speed = f"{flops / seconds * 1e-9:.1f} of {peak:.0f}" if flops else ""
        rows.append([name, f"{1e3 * seconds:.1f} ms", faster, speed])
        print(rows[-1], flush=True)
    print(table("The laboratory", "make bench", ["call", "time", "faster than a script", "GFLOP/s of GEMM's"], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="PATH")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="seconds of processors, for a machine with other work")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = [name for name in PROBLEMS if arguments.only in name]
    if arguments.against and not (Path(arguments.against) / "src" / "forgetless").is_dir():
        parser.error(f"--against must be the folder of a checkout, and {arguments.against} has no src/forgetless")
    if arguments.serve:
        serve(time.process_time if arguments.cpu else time.perf_counter)
    elif arguments.against:
        compare(names, arguments.against, arguments.repeats, arguments.cpu)
    else:
        show(names, arguments.repeats)


if __name__ == "__main__":
    main()

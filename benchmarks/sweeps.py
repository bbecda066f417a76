"""Sweeps: 10⁵ cells, what the store costs, how busy the workers are, one large task, exact curves against a script.

``python benchmarks/sweeps.py [PART …] [--gigabytes G]``; parts: cells, store, engine, task, curves; all by default.
"""

import argparse
import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import forgetless as fl
from forgetless.sweeps import Store
from forgetless.sweeps.evaluate import Outcome, Row
from forgetless.sweeps.run import choose_engine, run
from generated import ROWS, D, block
from harness import medians, ratio, table

COMMAND = "python benchmarks/sweeps.py"
THREADS = "OPENBLAS_NUM_THREADS"


def gauss(seed, d=10, M=10, rank=2, noise=0.0, seconds=0.0, busy=False):
    """Random tasks; ``seconds`` makes a cell take that long, asleep or busy."""
    rng = np.random.default_rng([seed, d, M])
    w = rng.standard_normal(d) / np.sqrt(d)
    rows = [rng.standard_normal((rank, d)) / np.sqrt(d) for _ in range(M)]
    tasks = [(X, X @ w + noise * rng.standard_normal(rank)) for X in rows]
    end = time.perf_counter() + seconds
    while busy and time.perf_counter() < end:
        pass
    time.sleep(max(0.0, end - time.perf_counter()))
    return tasks


def cells(folder):
    """Return how long it takes to enumerate 10⁵ cells, to see what is missing, and to ask for the status."""

    def sweep():
        schedules = {f"ridge:{i}": fl.Ridge(0.1 * (i + 1)) for i in range(10)}
        return fl.sweeps.Sweep(
            gauss, schedules, range(1, 101), seeds=range(50), orderings=["with-replacement", "cyclic"]
        )

    whole, path = sweep(), folder / "cells.db"
    with Store(path, write=True) as store:
        number = store.begin(whole, "benchmark")
        rows = (Row("average_loss", 1, 0.5, None, 1e-15),)
        began = time.perf_counter()
        for first in range(0, len(whole.batches), 100):
            few = whole.batches[first : first + 100]
            store.add(number, [(b, [Outcome(m.key, rows, None, 0.02) for m in b.members]) for b in few])
        filling = time.perf_counter() - began

    def status():
        with Store(path) as store:
            return store.status()

    def resume():
        run(
            whole, path, choose_engine(whole, None, 0, None), retry=False, progress=False
        )  # nothing is missing: opens, checks, ends

    found = medians({"enumerate": lambda: len(sweep().keys), "resume check": resume, "status": status}, 3)
    rows = [[name, f"{seconds:.2f} s"] for name, seconds in found.items()]
    rows.append(["commit them, 1000 a transaction", f"{filling:.2f} s"])
    return table(f"{len(whole):,} cells", f"{COMMAND} cells", ["", "time"], rows)


def store(folder):
    """Return by how much commits make a run of cells of 20 ms longer: workers go on while the driver commits."""
    sweep = fl.sweeps.Sweep(functools.partial(gauss, seconds=0.02), fl.Ridge(0.1), 10, seeds=range(300))
    count, waits = [0], []

    def swept(commit):
        count[0] += 1
        with Store(folder / f"store{count[0]}.db", write=True) as opened:
            number, began = opened.begin(sweep, "benchmark"), 0.0
            for finished in choose_engine(sweep, None, 2, None).compute(sweep.batches):
                began = began or time.perf_counter()  # the start of the workers is not of interest
                if commit:
                    before = time.perf_counter()
                    opened.add(number, finished)
                    waits.append(time.perf_counter() - before)
            return time.perf_counter() - began

    times = [(swept(True), swept(False)) for _ in range(5)]
    more = statistics.median(ours / theirs for ours, theirs in times) - 1
    rows = [["longer by", f"{100 * more:.1f} %"], ["a commit, median", f"{1e3 * statistics.median(waits):.2f} ms"]]
    return table("The store, cells of 20 ms, two workers", f"{COMMAND} store", ["", ""], rows)


def engine(folder):
    """Return how much of two processors the workers use, from the first commit on and with their start."""
    sweep = fl.sweeps.Sweep(functools.partial(gauss, seconds=0.05, busy=True), fl.Ridge(0.1), 10, seeds=range(400))
    path, first = folder / "engine.db", []
    began = time.perf_counter()
    sweep.run(path, n_workers=2, progress=lambda *_: first.append(time.perf_counter()))
    end = time.perf_counter()
    with Store(path) as opened:
        work = opened.database.execute("SELECT sum(seconds) FROM cell").fetchone()[0]
    rows = [
        ["from the first commit on", f"{100 * work * (len(first) - 1) / len(first) / (end - first[0]) / 2:.0f} %"],
        ["with the start of the workers", f"{100 * work / (end - began) / 2:.0f} %"],
    ]
    return table("Two workers, cells of 50 ms", f"{COMMAND} engine", ["", "of two processors"], rows)


def by_numpy(n):
    G, c = np.zeros((D, D)), np.zeros(D)
    for i in range(n):
        X, y = block(i)
        G += X.T @ X
        c += X.T @ y
    return np.linalg.solve(G + np.eye(D), c)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def by_dask(n, workers):
    """Return the weights, the seconds, those of the processors, the most memory of a worker, and NumPy's seconds there.

    Dask has its workers give memory back at once, which a plain process does not.
    """
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    parts = [dask.delayed(block, nout=2)(i) for i in range(n)]
    X = da.concatenate([da.from_delayed(p[0], (ROWS, D), float) for p in parts])
    y = da.concatenate([da.from_delayed(p[1], (ROWS,), float) for p in parts])
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.run(by_numpy, 2)  # imports, and what one block takes anyway
        before, worked = client.run(peak), client.run(time.process_time)
        began = time.perf_counter()
        model = fl.ContinualRidge(alpha=1.0).partial_fit(X, y)
        seconds = time.perf_counter() - began
        after, ended = client.run(peak), client.run(time.process_time)
        began = time.perf_counter()
        if workers == 1:
            client.run(by_numpy, n)
        own = time.perf_counter() - began
    work = sum(ended[each] - worked[each] for each in ended)
    return model.coef_, seconds, work, max(after[each] - before[each] for each in before), own


def task(gigabytes):
    """Return one task in generated blocks: NumPy's own pass, one worker, two workers."""
    n = max(2, round(gigabytes * 1e9 / (8 * D * ROWS)))
    by_numpy(2)
    began, busy = time.perf_counter(), time.process_time()
    want = by_numpy(n)
    own, busy = time.perf_counter() - began, time.process_time() - busy
    rows = [["NumPy, one pass", f"{own:.1f} s", "1.0×", f"{busy:.1f} s", "1.0×", "", ""]]
    for workers in (1, 2):
        found, seconds, work, memory, inside = by_dask(n, workers)
        gap = np.abs(found - want).max() / np.abs(want).max()
        blocks = f"{memory / (8 * D * ROWS):.1f} blocks"
        cells = [f"{seconds:.1f} s", ratio(seconds / own), f"{work:.1f} s", ratio(work / busy), f"{gap:.0e}", blocks]
        if workers == 1:
            rows.append(["NumPy, one pass in a worker", f"{inside:.1f} s", ratio(inside / own), "", "", "", ""])
        rows.append([f"{workers} worker{'s'[: workers - 1]}", *cells])
    title = f"One task of {n} blocks, {n * ROWS * D * 8 / 1e9:.1f} GB, {D} features, one thread each"
    return table(
        title, f"{COMMAND} task", ["", "time", "", "of processors", "", "difference", "memory of a worker"], rows
    )


def literal(tasks, coefficients, seed):
    """Return the losses after every step of one run, as papers' scripts compute them."""
    rng, d = np.random.default_rng(seed), tasks[0][0].shape[1]
    w, losses = np.zeros(d), []
    for coefficient in coefficients:
        X, y = tasks[rng.integers(len(tasks))]
        w = np.linalg.solve(X.T @ X + coefficient * np.eye(d), X.T @ y + coefficient * w)
        losses.append(np.mean([0.5 * np.sum((X @ w - y) ** 2) for X, y in tasks]))
    return losses


def curves(folder, n_sampled=4):
    """Return 2000 exact curves of 500 steps against 50 random runs of each, of which a few are made."""
    scales = np.geomspace(0.01, 10, 50)
    schedules = {"increasing": fl.schedules.increasing(1.0), "fixed": fl.schedules.fixed()}
    sweep = fl.sweeps.Sweep(gauss, schedules, 500, scales=scales, seeds=range(20), record="log")
    fl.sweeps.Sweep(gauss, schedules, 500, seeds=[99], record="log").run(folder / "compiled.db", n_workers=1)
    began = time.perf_counter()
    made = sweep.run(folder / "curves.db")
    ours = time.perf_counter() - began
    tasks = gauss(0)
    coefficients = fl.schedules.increasing(1.0)(500, fl.TaskCollection(tasks).radius).coefficient
    Parallel(n_jobs=2)(delayed(literal)(tasks, coefficients[:2], seed) for seed in range(4))
    began = time.perf_counter()
    runs = Parallel(n_jobs=2)(
        delayed(literal)(tasks, scale * coefficients, seed) for scale in scales[:n_sampled] for seed in range(50)
    )
    theirs = (time.perf_counter() - began) * len(sweep) / n_sampled
    early = min(
        step for step in made.columns["step"] if step >= 10
    )  # later, without noise, the mean is that of rare runs, of which 50 have none
    part = made.where(schedule="increasing", seed=0, scale=float(scales[0]), step=early).columns["average_loss"]
    means = np.array([run[early - 1] for run in runs[:50]])
    gap = abs(means.mean() - part[0]) / (means.std(ddof=1) / np.sqrt(50))
    rows = [
        ["sweep, exact, all of it", f"{ours:.1f} s", "1.0×"],
        [f"joblib, 50 runs each, {n_sampled} curves made, scaled up", f"{theirs:,.0f} s", ratio(theirs / ours)],
    ]
    print(f"one mean of 50 runs is {gap:.1f} standard errors from the exact value", file=sys.stderr)
    return table(f"{len(sweep)} curves of 500 steps", f"{COMMAND} curves", ["", "time", ""], rows)


PARTS = {"cells": cells, "store": store, "engine": engine, "task": task, "curves": curves}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--gigabytes", type=float, default=20.0)
    options = parser.parse_args()
    if len(options.parts) != 1 or THREADS not in os.environ:  # each in a process with memory of its own
        one_thread = {**os.environ, THREADS: "1"}  # as workers have, so that NumPy's own pass is that of one of them
        for part in options.parts or PARTS:
            command = [sys.executable, __file__, part, "--gigabytes", str(options.gigabytes)]
            subprocess.run(command, check=True, env=one_thread)
        return
    with tempfile.TemporaryDirectory() as folder:
        part = options.parts[0]
        print(PARTS[part](options.gigabytes if part == "task" else Path(folder)), "\n", flush=True)


if __name__ == "__main__":
    main()

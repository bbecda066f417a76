"""What a memory of r directions costs: the time of a task over that of ``ContinualRidge`` without one.

Tasks of 50 and of 500 rows and of a single row, 10 000 features, interleaved in one run. After the first tasks the
memory is full, so that every task cuts it, or, for single rows, every so many of them; times are means over such tasks.
"""

import sys
import time

import numpy as np

import forgetless as fl
from harness import ratio, table

D = 10_000


def stream_of(n, count):
    rng = np.random.default_rng(n)
    size = np.arange(1, D + 1) ** -0.5
    return [(rng.standard_normal((n, D)) * size, rng.standard_normal(n)) for _ in range(count)]


def seconds(model, tasks):
    begin = time.perf_counter()
    for X, y in tasks:
        model.partial_fit(X, y)
    return (time.perf_counter() - begin) / len(tasks)


def row(n, rank, dtype, repeats):
    tasks = stream_of(n, 2 * rank if n == 1 else 3)
    warm = stream_of(n, rank + 5 if n == 1 else 2 + rank // n)
    models = {
        "plain": fl.ContinualRidge(alpha=1.0),
        "memory": fl.ContinualRidge(alpha=1.0, memory=fl.LowRankMemory(rank, dtype=dtype)),
    }
    for model in models.values():
        seconds(model, warm)
    times = {name: [] for name in models}
    for _ in range(repeats):
        for name, model in models.items():
            times[name].append(seconds(model, tasks))
    plain, memory = (float(np.median(times[name])) for name in models)
    return [n, rank, dtype, f"{1e3 * plain:.3g} ms", f"{1e3 * memory:.3g} ms", ratio(memory / plain)]


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    rows = [row(n, rank, "float32", repeats) for n in (50, 500) for rank in (10, 30, 100)]
    rows += [row(1, rank, dtype, repeats) for rank in (30, 100) for dtype in ("float32", "float64")]
    header = ["rows", "rank", "dtype", "ContinualRidge()", "with a memory", "ratio"]
    print(table("A memory of r directions, 10 000 features", "python benchmarks/memory.py", header, rows))

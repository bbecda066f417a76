"""Processor time of engine calls with BLAS as it is found, over that with one thread. Each call has its own process.

    python benchmarks/threads.py [--repeats N]

Calls made of many small products keep BLAS to one thread by themselves, so that all ratios are about 1. Without that,
threads that wait for work use a second processor without making a call faster, and on a busy machine they make it
several times slower.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from harness import table

CALLS = {
    "upper_bound, k = 4000": "fl.upper_bound('increasing', 4000)",
    "compare_bounds, 30 tasks, k = 300": "fl.compare_bounds(tasks(30, 20, 60), 'increasing', 300)",
    "advise, 20 tasks, k = 200": "fl.advise(tasks(20, 10, 40), 200)",
    "advise, 2 tasks, k = 10 000": "fl.advise(fl.theory.constructions.two_tasks(0.3), 10_000)",
    "expect, 50 tasks, k = 1000": "fl.expect(tasks(50, 10, 100), 'increasing', 1000)",
    "worst_case, 20 tasks, k = 100": "fl.worst_case(tasks(20, 10, 60), 'increasing', 100)",
    "simulate, 50 tasks, k = 1000": "fl.simulate(tasks(50, 10, 100), 'increasing', 1000, n_trials=50)",
    "optimal_schedule, 10 tasks, k = 50": "fl.optimal_schedule(tasks(10, 5, 30), 50)",
    "TaskCollection, 200 tasks": "tasks(200, 50, 300).teacher()",
}

SCRIPT = """
import sys, time, json
import numpy as np
import forgetless as fl

def tasks(M, n, d):
    rng = np.random.default_rng(0)
    return fl.TaskCollection([(rng.standard_normal((n, d)) / d**0.5, rng.standard_normal(n)) for _ in range(M)])

call = compile(sys.argv[1], "call", "eval")
eval(call)  # imports, compilation, caches
time.sleep(0.3)  # threads keep spinning for a while
wall, used = time.perf_counter(), time.process_time()
eval(call)
used = time.process_time() - used
print(json.dumps([used, time.perf_counter() - wall]))
"""


def measured(call, one_thread):
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in threads}
    environment |= dict.fromkeys(threads, "1") if one_thread else {}
    result = subprocess.run([sys.executable, "-c", SCRIPT, call], env=environment, capture_output=True, check=True)
    return json.loads(result.stdout)


def row(name, call, repeats):
    runs = [[*measured(call, False), *measured(call, True)] for _ in range(repeats)]
    used, wall, used_one, wall_one = (statistics.median(column) for column in zip(*runs, strict=True))
    return [name, f"{used:.2f}", f"{wall:.2f}", f"{used_one:.2f}", f"{used / used_one:.2f}", f"{wall / wall_one:.2f}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = [row(name, call, options.repeats) for name, call in CALLS.items()]
    header = ["call", "processor s", "wall s", "processor s, one thread", "ratio of processor s", "ratio of wall s"]
    print(table("Threads of BLAS", "python benchmarks/threads.py", header, rows))

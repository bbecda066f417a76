"""Upper bounds: how long they take, each in a process of its own that has to load compiled code.

The bars: 2 s for 1024 steps, 20 s for 16384 steps. The last column is without numba.
"""

import os
import subprocess
import sys

from harness import table

BARS = {1024: 2.0, 16384: 20.0}

CASES = {
    "increasing": "fl.upper_bound(fl.schedules.increasing(), {k})",
    "increasing, seen tasks": 'fl.upper_bound(fl.schedules.increasing(), {k}, quantity="seen_loss")',
    "increasing budget, N = 4": "fl.upper_bound(fl.schedules.increasing_budget(4), {k})",
    "no regularization, t²-average": "fl.upper_bound(fl.Projection(), {k}, average=2)",
}


def timed(code, numba):
    timing = f"begin = time.perf_counter(); c = {code}; print(c.constant, time.perf_counter() - begin)"
    program = f"import time, forgetless as fl; {timing}"
    environment = {**os.environ, "FORGETLESS_NUMBA": "never"} if not numba else dict(os.environ)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return [float(word) for word in done.stdout.split()]


def main():
    rows = []
    timed("fl.upper_bound(fl.schedules.increasing(), 16384)", True)  # compilation is not timed
    for k, bar in BARS.items():
        for name, code in CASES.items():
            constant, seconds = timed(code.format(k=k), True)
            _, plain = timed(code.format(k=k), False)
            rows.append([f"{name}, k={k}", f"{constant:.4f}", f"{seconds:.2f} s (bar {bar:.0f} s)", f"{plain:.2f} s"])
    header = ["bound", "k·bound", "time", "without numba"]
    print(table("Upper bounds", "python benchmarks/upper_bounds.py", header, rows))


if __name__ == "__main__":
    main()

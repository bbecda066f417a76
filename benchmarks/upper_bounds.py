"""Upper bounds: how long they take, each in a process of its own.

The bars: 2 s for 1024 steps, 20 s for 16384 steps.
"""

import subprocess
import sys

from harness import table

BARS = {1024: 2.0, 16384: 20.0}

CASES = {
    "increasing": "fl.upper_bound(fl.schedules.increasing(), {k})",
    "increasing, seen tasks": 'fl.upper_bound(fl.schedules.increasing(), {k}, quantity="seen_loss")',
    "increasing budget, N = 4": "fl.upper_bound(fl.schedules.increasing_budget(4), {k})",
    "no regularization": "fl.upper_bound(fl.Projection(), {k})",
}


def timed(code):
    timing = f"begin = time.perf_counter(); c = {code}; print(c.constant, time.perf_counter() - begin)"
    program = f"import time, forgetless as fl; {timing}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main():
    rows = []
    for k, bar in BARS.items():
        for name, code in CASES.items():
            constant, seconds = timed(code.format(k=k))
            rows.append([f"{name}, k={k}", f"{constant:.4f}", f"{seconds:.2f} s (bar {bar:.0f} s)"])
    print(table("Upper bounds", "python benchmarks/upper_bounds.py", ["bound", "k·bound", "time"], rows))


if __name__ == "__main__":
    main()

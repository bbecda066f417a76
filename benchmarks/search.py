"""The adversarial search against the worst values known before it: what it finds, and in how many seconds.

The bar: 98 % of every value, and all six searches inside ten minutes on two cores. The last column is the same search
from random starts alone.
"""

import time

import forgetless as fl
from harness import table

REFERENCE = [
    ("none", fl.Projection(), {64: 0.2126, 256: 0.2133}),
    ("fixed", fl.schedules.fixed(), {64: 0.445, 256: 0.573}),
    ("increasing", fl.schedules.increasing(), {64: 0.952, 256: 0.979}),
]


def timed(schedule, k, starts):
    begin = time.perf_counter()
    found = fl.find_worst_collection(schedule, k, n_features=6, n_tasks=8, starts=starts)
    seconds = time.perf_counter() - begin
    assert abs(found.evaluate() / found.value - 1) < 1e-9
    return found, seconds


def main():
    rows, total = [], 0.0
    for name, schedule, values in REFERENCE:
        for k, reference in values.items():
            found, seconds = timed(schedule, k, "mixed")
            random, _ = timed(schedule, k, "random")
            total += seconds
            rows.append(
                [
                    f"{name}, k={k}",
                    f"{found.value:.4f}",
                    reference,
                    f"{found.value / reference:.4f}",
                    f"{seconds:.1f} s",
                    f"{random.value:.4f}",
                ]
            )
    rows.append(
        ["all six", "", "", f"{min(float(row[3]) for row in rows):.4f} (bar 0.98)", f"{total:.1f} s (bar 600 s)", ""]
    )
    header = ["schedule", "k·loss found", "known", "ratio", "time", "random starts alone"]
    print(table("Worst collections, d=6, 8 tasks, 32 starts", "python benchmarks/search.py", header, rows))


if __name__ == "__main__":
    main()

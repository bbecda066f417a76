"""How often the alarms of a report ring: where nothing has changed, and where something has.

    python benchmarks/alarms.py [--streams 200]

Streams of 60 tasks with one teacher, normal or heavy-tailed noise (Student's t with 4 degrees of freedom), learned as
``forgetless fit`` does. Rates are per task that the rule looks at; the change is a teacher that is replaced at task 40.
"""

import argparse
import warnings

import numpy as np

import forgetless as fl
from forgetless.tables import report
from forgetless.tables.task_files import Part
from harness import machine

TASKS, CHANGE = 60, 40


def stream(seed, n, d, heavy, changed):
    rng = np.random.default_rng([seed, n, d, heavy])
    teacher = rng.standard_normal(d)
    for t in range(TASKS):
        if changed and t == CHANGE:
            teacher = rng.standard_normal(d)
        X = rng.standard_normal((n, d)) + 0.3 * rng.standard_normal(d)
        noise = rng.standard_t(4, n) / np.sqrt(2) if heavy else rng.standard_normal(n)
        yield Part(str(t), X, X @ teacher + noise)


def rates(streams, n, d, heavy, changed):
    drift, forgotten, together, hit, looked = 0, 0, 0, 0, 0
    for seed in range(streams):
        model = fl.StreamingRidge()
        run = fl.evaluate_stream(model, stream(seed, n, d, heavy, changed), holdout=0.2, seed=seed)
        rung = report.drifted(run.before, run.rows)
        hit += CHANGE in rung
        drift += len(rung)
        forgotten += len(report.forgotten(run))
        together += report.forgotten_together(run)
        looked += TASKS - 1 - report.FEWEST
    return drift / looked, forgotten / (streams * TASKS), together / streams, hit / streams


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=200)
    count = parser.parse_args().streams
    print(f"`python benchmarks/alarms.py --streams {count}`, {machine()}\n")
    print("| rows a task | features | noise | false drift | false forgetting | of all together | change found |")
    print("|---|---|---|---|---|---|---|")
    for n, d in ((20, 5), (100, 10), (100, 40)):
        for heavy in (False, True):
            drift, forgotten, together, _ = rates(count, n, d, heavy, changed=False)
            found = rates(count, n, d, heavy, changed=True)[3]
            noise = "heavy-tailed" if heavy else "normal"
            print(f"| {n} | {d} | {noise} | {drift:.2%} | {forgotten:.2%} | {together:.1%} | {found:.0%} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()

"""How often alarms of tables are false, and how many changes they find.

    python benchmarks/alarms.py [--streams 20]

Streams of ten tasks of 200 rows with six columns of numbers and one of four towns, learned by ``TableModel``; the
change comes after four tasks, and is found if its task has an alarm. False alarms are those of any task of a stream
without a change, and of the tasks before it elsewhere.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

from forgetless.tables import TableModel
from harness import table

ROWS, TASKS, CHANGE = 200, 10, 4
QUIET = ("no change", "heavy tails", "slow drift")
KINDS = (*QUIET, "level 1.5 σ", "noise × 2", "one coefficient", "teacher", "units × 100", "new category")


def stream(kind, seed):
    """Yield the tasks of a stream: a table and its targets."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    teacher = rng.standard_normal(6)
    towns = np.array(["Ulm", "Bonn", "Jena", "Trier"])
    effects = dict(zip([*towns, "Kiel"], rng.standard_normal(5), strict=True))
    for t in range(TASKS):
        late = t >= CHANGE
        X = rng.standard_normal((ROWS, 6)) + 0.2 * rng.standard_normal(6)
        town = rng.choice(towns, ROWS)
        if kind == "teacher" and t == CHANGE:
            teacher = rng.standard_normal(6)
        if kind == "one coefficient" and t == CHANGE:
            teacher[0] += 2.0
        if kind == "slow drift":
            teacher = teacher + 0.05 * rng.standard_normal(6)
        if kind == "new category" and late:
            town[rng.random(ROWS) < 0.4] = "Kiel"
        noise = rng.standard_t(4, ROWS) / np.sqrt(2) if kind == "heavy tails" else rng.standard_normal(ROWS)
        noise *= 2.0 if kind == "noise × 2" and late else 1.0
        y = X @ teacher + [effects[name] for name in town] + noise
        y = y + (1.5 if kind == "level 1.5 σ" and late else 0.0)
        if kind == "units × 100" and late:
            X = X * np.array([100.0, 1, 1, 1, 1, 1])
        yield pd.DataFrame(X, columns=list("abcdef")).assign(town=town), y


def measured(kind, streams):
    """Return the streams with a false alarm, and those whose change is found."""
    false, found = 0, 0
    changes = kind not in QUIET
    for seed in range(streams):
        model = TableModel()
        for t, (X, y) in enumerate(stream(kind, seed)):
            model.partial_fit(X, y, t)
        rung = {int(alarm.task) for alarm in model.alarms()}
        false += bool({t for t in rung if t < CHANGE or not changes})
        found += changes and CHANGE in rung
    return false, found if changes else "–"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20)
    count = parser.parse_args().streams
    rows = [(kind, *measured(kind, count)) for kind in KINDS]
    header = ["change after four tasks", "streams with a false alarm", "found"]
    print(table(f"{count} streams of each kind", f"python benchmarks/alarms.py --streams {count}", header, rows))


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()

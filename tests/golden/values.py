"""Every number that a user sees, on fixed small inputs: the guard of refactoring.

``cd tests && python -m golden.values`` prints where the computed numbers differ from
``values.json``; with ``--write`` it writes these numbers into the file,
which is right only where a number is meant to change. Each part has a file of its own.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

from golden import advice, bounds, ensembles, estimators, laboratory, tables

PARTS = (laboratory, ensembles, bounds, advice, estimators, tables)

PATH = Path(__file__).with_name("values.json")

# Relative differences that are allowed. A memory in single precision has 1e-6, an optimizer 1e-5.
RTOL = 1e-12
TOLERANCES = {"logistic": 1e-6, "optimal_schedule": 1e-5, "advise": 1e-5}


def computed():
    """Return all numbers of ``values.json`` by name as lists of floats; a name that comes twice is an error."""
    numbers = {}
    for name, value in (pair for part in PARTS for pair in part.numbers()):
        assert name not in numbers, name
        numbers[name] = np.ravel(np.asarray(value, dtype=float)).tolist()
    return numbers


def read(path):
    """Return the numbers of a file by name."""
    return json.loads(path.read_text())


def write(path, numbers):
    """Write numbers, one name a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(numbers.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def differences(reference, now):
    """Return the names whose numbers differ, with the difference."""
    names = sorted(set(reference) | set(now))
    apart = {name: difference(reference.get(name, []), now.get(name, [])) for name in names}
    return {name: value for name, value in apart.items() if value > tolerance(name)}


def tolerance(name):
    """Return the relative difference that is allowed."""
    if name.startswith("upper_bound") and name.endswith(("next_loss", "without-replacement")):
        return 1e-5  # found by an optimizer
    return TOLERANCES.get(name.split("/")[0], RTOL)


def difference(one, other):
    """Return how far two lists are apart, relative to the largest number."""
    if len(one) != len(other):
        return math.inf
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return math.inf
    a, b = np.array(one)[finite], np.array(other)[finite]
    size = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    return float(np.abs(a - b).max(initial=0) / size) if size else 0.0


def main():
    """Compare, or write."""
    now = computed()
    if "--write" in sys.argv:
        # Numbers that agree stay as they are, digit for digit.
        before = read(PATH)
        changed = differences(before, now)
        write(PATH, {name: now[name] if name in changed else before[name] for name in now})
    apart = differences(read(PATH), now)
    for name, value in apart.items():
        print(name, value)
    print(f"{PATH.name}: {len(now)} entries, {len(apart)} differ")
    return bool(apart)


if __name__ == "__main__":
    sys.exit(main())

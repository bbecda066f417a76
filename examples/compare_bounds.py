"""Exact losses of a schedule beside the bounds that apply."""

import numpy as np

import forgetless as fl


def main() -> None:
    """Print the comparison for a random collection, and for the collection of the lower bound."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal(10)
    tasks = fl.TaskCollection([(X := rng.standard_normal((2, 10)), X @ w) for _ in range(8)])
    print(fl.compare_bounds(tasks, fl.schedules.increasing(), k=300))
    print("\n" + "-" * 40 + "\n")
    print(fl.compare_bounds(fl.theory.constructions.unseen_task(300), fl.schedules.fixed(), k=300))


if __name__ == "__main__":
    main()

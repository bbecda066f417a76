"""Classes with nothing chosen: the share wrong of ``ContinualRidgeClassifier(memory=r)`` on held-out rows of all tasks.

    python benchmarks/untuned.py [--seeds N] [names]

Streams are those of ``streams.data.load_stream``; a seed draws the order of classes, rows and random features.
Beside it joint ridge regression on the same rows, with the strength of the first task, where d × d numbers are few.
"""

import argparse

import numpy as np

import forgetless as fl
from harness import table
from streams.data import load_stream

RANKS = (10, 30, 100)
STREAMS = ["fashion-classes", "fashion-permuted", "fashion-rotated", "digits"]


def wrong(model, tasks):
    for task in tasks:
        model.partial_fit(task.X, task.y)
    return float(np.mean([np.mean(model.predict(task.X_held) != task.y_held) for task in tasks]))


def row(name, seeds):
    found = []
    for seed in range(seeds):
        tasks = list(load_stream(name, seed=seed))
        found.append([wrong(fl.ContinualRidgeClassifier(memory=rank), tasks) for rank in RANKS])
        d = tasks[0].X.shape[1]
        whole = fl.ContinualRidgeClassifier(memory=fl.LowRankMemory(d, dtype="float64"))  # it forgets nothing
        found[-1].append(wrong(whole, tasks) if d <= 2000 else np.nan)
    means, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1 if seeds > 1 else 0) / np.sqrt(seeds)
    told = [f"{mean:.4f} ± {error:.4f}" if mean == mean else "" for mean, error in zip(means, spread, strict=True)]
    return [name, seeds, *told]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "names", nargs="*", default=["fashion-classes", "fashion-permuted", "fashion-rotated", "digits"]
    )
    given = parser.parse_args()
    rows = [row(name, given.seeds) for name in given.names]
    header = ["stream", "draws", *(f"r = {rank}" for rank in RANKS), "joint ridge"]
    print(table("Share wrong, untuned", "python benchmarks/untuned.py", header, rows))

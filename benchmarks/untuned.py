"""Classes with nothing chosen: the share wrong of ``ContinualRidgeClassifier(memory=r)`` on held-out rows of all tasks.

    python benchmarks/untuned.py [--seeds N] [names]

Streams are those of ``streams.data.load_stream``; a seed draws the order of classes, rows and random features.
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
    shares = []
    for seed in range(seeds):
        tasks = list(load_stream(name, seed=seed))
        shares.append([wrong(fl.ContinualRidgeClassifier(memory=rank), tasks) for rank in RANKS])
    means, spread = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1 if seeds > 1 else 0) / np.sqrt(seeds)
    return [name, seeds, *(f"{mean:.4f} ± {error:.4f}" for mean, error in zip(means, spread, strict=True))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "names", nargs="*", default=["fashion-classes", "fashion-permuted", "fashion-rotated", "digits"]
    )
    arguments = parser.parse_args()
    rows = [row(name, arguments.seeds) for name in arguments.names]
    header = ["stream", "draws", *(f"r = {rank}" for rank in RANKS)]
    print(table("Share wrong, untuned", "python benchmarks/untuned.py", header, rows))

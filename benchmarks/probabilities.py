"""Log-loss of the probabilities of ``ContinualRidgeClassifier()``, beside that with the best temperature in hindsight.

    PYTHONPATH=benchmarks python benchmarks/probabilities.py

Held-out rows of all tasks at the end. Tables are streams of two classes, targets above and below their median.
"""

import math
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import forgetless as fl
from harness import table

sys.path.insert(0, str(Path(__file__).parent))
from streams.data import load_stream
from streams.data.stream import RandomFeatures


def two_classes(name):
    tasks = list(load_stream(name, 0))[:150]
    median = np.median(np.concatenate([task.y for task in tasks]))
    return [(task.X, task.y > median, task.X_held, task.y_held > median) for task in tasks]


def classes(name, n_features):
    return [(task.X, task.y, task.X_held, task.y_held) for task in load_stream(name, 0, n_features=n_features)]


def shuffled_digits():
    X, y = load_digits(return_X_y=True)
    features, order = RandomFeatures(64, 1000, 0), np.random.default_rng(0).permutation(len(X))
    X, y = features((X - X.mean()) / X.std())[order], y[order]
    parts = [(slice(400 + 28 * t, 428 + 28 * t), slice(8 * t, 8 * t + 8)) for t in range(49)]
    return [(X[learn], y[learn], X[held], y[held]) for learn, held in parts]


STREAMS = {
    "bike share, two classes": lambda: two_classes("bikes"),
    "computer prices, two classes": lambda: two_classes("computers"),
    "Zurich NOx, two classes": lambda: two_classes("nox"),
    "digits, shuffled": shuffled_digits,
    "digits, class after class": lambda: classes("digits", 1000),
    "Fashion-MNIST, rotated": lambda: classes("fashion-rotated", 600),
    "Fashion-MNIST, class after class": lambda: classes("fashion-classes", 600),
}


def log_loss(scores, labels, temperature):
    scaled = scores / temperature
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(scaled).sum(axis=1)) - scaled[np.arange(len(labels)), labels]))


def measured(name):
    tasks = STREAMS[name]()
    model = fl.ContinualRidgeClassifier()
    for X, y, _, _ in tasks:
        model.partial_fit(X, y)
    parts = [(X.toarray() if hasattr(X, "toarray") else X, y) for _, _, X, y in tasks]
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    labels = np.searchsorted(model.classes_, y)
    probabilities = model.predict_proba(X)
    scores = np.log(probabilities) * model.temperature_  # up to a constant of each row
    ours = float(-np.log(probabilities[np.arange(len(y)), labels]).mean())
    best = min(log_loss(scores, labels, temperature) for temperature in np.geomspace(0.005, 4.0, 400))
    errors = 100 * np.mean(model.predict(X) != y)
    plain = log_loss(scores, labels, 1.0)
    return [name, f"{errors:.1f}", f"{plain:.3f}", f"{ours:.4f}", f"{best:.4f}", f"{ours / best:.3f}"]


if __name__ == "__main__":
    rows = [measured(name) for name in STREAMS]
    header = ["stream", "errors, %", "softmax, T = 1", "T fitted", "best T in hindsight", "ratio"]
    print(table("Log-loss of class probabilities", "python benchmarks/probabilities.py", header, rows))
    worst = max(float(row[-1]) for row in rows)
    print(f"worst ratio {worst:.3f}; geometric mean {math.exp(np.mean(np.log([float(row[-1]) for row in rows]))):.3f}")

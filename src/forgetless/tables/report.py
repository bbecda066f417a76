"""What a model of tables knows, as sentences and tables for the command line, and as a page that
needs no other file, the answer first.

``templates/tables.html`` has the order of the page and the drawing, with a dot for each of the last
40 tasks. Its figure is SVG inside the page and not a picture by matplotlib: its colours follow dark
mode, its letters stay readable on a phone, and a pointer on a dot shows the task.

All numbers are errors of tasks before they were learned, from the records of the model
(``scores.py``). Sentences say RMSEs, since they have the unit of the target, and fractions of the
error of something that needs no model. Labels come from strangers' tables: ``Table`` and the
templates escape them.
"""

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forgetless._table import Noted, Table, render
from forgetless._text import label, readable_number, version
from forgetless.io import replace_file
from forgetless.tables.features import MISSING, PRESENT, Column
from forgetless.tables.kinds import RARE_NAME, Category, Date
from forgetless.tables.scores import level_note, pooled
from forgetless.tables.stream import TableModel

LATE = 12
"""Tasks to whose errors the bottom line looks back."""

MOST = 0.5
"""Fraction of these tasks that must have no alarm, for the others to be left out."""

CLASSES = 12
"""Classes in the table of predicted ones, the most frequent."""

CHANGES = 30
"""Lines of the table of changes."""

USELESS = 0.01
"""A model that is not better than the mean by this fraction says so."""

WIDE = 2.0
"""Half width of 90 % intervals over the errors of 9 of 10 rows, above which they are too wide."""

COVERED = 0.8
"""Rows in 90 % intervals, below which these are called too narrow."""


def late_errors(model: TableModel) -> dict[str, float]:
    """Return the errors of the last tasks, all rows counting the same; none before the second, or
    of a target that never varies, where errors and intervals are what rounding leaves.

    Tasks with an alarm are left out, and ``alarms`` is their number: squared errors of one month in
    cents would outweigh those of all others in euros. If most tasks have one it is not they that
    are unusual, and all count.
    """
    rows = model.estimator_.rows_
    # Targets are the same up to rounding if their variance is that of their last digits.
    rounding = 1e-9 * rows.target[0]
    late = [record for record in model.history_ if record["error"] is not None][-LATE:]
    if not late or rows.squares[0] <= rows.n * rounding**2:
        return {}
    alarmed = {alarm.task for alarm in model.alarms()}
    calm = [record for record in late if record["task"] not in alarmed]
    if len(calm) < MOST * len(late):
        calm = late
    return pooled(calm) | {"alarms": len(late) - len(calm)}


def bottom_line(model: TableModel, what: str = "") -> str:
    """Return one sentence or two on the next task: how far off predictions will be, and how much
    better than the mean and than ridge regression retrained on all rows.

    Parameters
    ----------
    model : TableModel
    what : str, optional
        Of which tasks the errors are, such as the name of a file; of the tasks learned last, which
        tell of the next one, if omitted.

    Examples
    --------
    >>> X = {"x": list(range(20))}
    >>> model = TableModel().partial_fit(X, [2.0 * x for x in range(20)])
    >>> bottom_line(model)
    'No error is known yet: every task from the second on is predicted before learned.'
    """
    late = late_errors(model)
    if not late and model.n_tasks_ > 1:
        return "The target never varies: all rows learned have the same."
    if not late:
        return "No error is known yet: every task from the second on is predicted before learned."
    what = what or f"Next {model.about_.get('task', 'task')}"
    if late["alarms"]:
        what += f", without tasks with an alarm ({late['alarms']})"
    return f"{what}: " + (_of_classes if model.is_classifier else _of_numbers)(model, late)


def _of_numbers(model: TableModel, late: dict[str, float]) -> str:
    """Return the sentences on a target of numbers, with warning if columns are of no use."""
    within = late["within"]
    mean = abs(model.estimator_.rows_.target[0])
    # Of a target around zero the mean is no measure.
    share = f" ({within / mean:.0%} of the mean of the target)" if mean > within else ""
    text = (
        f"9 of 10 rows within ± {readable_number(within, '.3g')}{share}. The error (RMSE) is"
        f" {_compared(late, 'mean')}that of the mean and {_compared(late, 'ridge')}that of"
        " retraining ridge."
    )
    # Records have squares, and USELESS is a fraction of their roots.
    if late["error"] > (1.0 - USELESS) ** 2 * late["mean"]:
        text += " The columns hardly tell the target: look at what changed, or add columns."
    return text


def _compared(late: dict[str, float], other: str) -> str:
    """Return how the root of the error compares with that of another, "mean" or "ridge".

    Less than half a percent is no difference: it would be shown as 0%.
    """
    gain = 1.0 - math.sqrt(late["error"] / max(late[other], 1e-300))
    if late[other] <= 0.0 or abs(gain) < 0.005:
        return "as large as "
    return f"{abs(gain):.0%} {'smaller' if gain > 0 else 'larger'} than "


def _of_classes(model: TableModel, late: dict[str, float]) -> str:
    """Return the sentences on a target of classes, beside what their shares alone would give.

    There is no word of retraining: ridge regression on one-hot targets of all rows so far is what
    the model computes.
    """
    most = model.classes_[model.estimator_.rows_.target.argmax()]
    text = (
        f"{late['error']:.1%} of the rows in the wrong class; always {label(most)!r} would be wrong"
        f" in {late['mean']:.1%}. Log-loss {late['loss']:.3f}; the shares of the classes alone have"
        f" {late['base_loss']:.3f}."
    )
    last = model.history_[-1]
    # Fractions of wrong rows look well where one class is nearly all of them.
    if last.get("predicted") == 1:
        text += f" Warning: one class is predicted for every row of {last['task']}."
    return text


def headline(model: TableModel) -> str:
    """Return how much the model has learned."""
    rows = readable_number(int(model.estimator_.rows_.n))
    tasks = "1 task" if model.n_tasks_ == 1 else f"{model.n_tasks_} tasks"
    return f"{tasks} and {rows} rows learned, {len(model.encoder_.order_)} features"


def warnings(model: TableModel) -> list[str]:
    """Return notes on the errors, as sentences: a level that changed, intervals that are too narrow
    or too wide.
    """
    late = late_errors(model)
    level = level_note(model.history_)
    lines = [level] if level and late else []
    covered = late.get("covered", COVERED)
    if covered < COVERED:
        lines.append(f"90 % intervals held {covered:.0%} of the rows: take them for too narrow")
    # Intervals follow all errors so far: after a task with an alarm they are wide for some tasks,
    # unless the last errors are as large as they say.
    last = model.history_[-1]
    if "within" in late and last["interval"] > WIDE * max(late["within"], last["within"]):
        width = readable_number(last["interval"], ".3g")
        lines.append(f"90 % intervals are ± {width} after larger errors: take them for too wide")
    return lines


def changes_table(history: Any) -> Table | None:
    """Return a line for every column that changed and every kind of its changes, severe ones and
    frequent ones first; None if none did.

    A column that drifts changes in many tasks: the line has the first of them, what was said of
    it, and the number of tasks.

    Parameters
    ----------
    history : list of records
        Of all tasks of a model, or of those that were learned or judged now.
    """
    found = [(record["task"], *change) for record in history for change in record["changes"]]
    if not found:
        return None
    frame = pd.DataFrame(found, columns=["task", "column", "text", "severe"])
    # "mean 5, was 3" and "mean 6, was 3" are one line.
    kind = frame["text"].str.replace(",.*|[^A-Za-z ]", "", regex=True)
    alike = frame.assign(tasks=1).groupby(["column", kind], sort=False)
    first = dict.fromkeys(["column", "task", "text"], "first")
    lines = alike.agg({**first, "severe": "any", "tasks": "sum"})
    lines = lines.sort_values(["severe", "tasks"], ascending=False, kind="stable").head(CHANGES)
    lines[""] = np.where(lines.pop("severe"), "severe", "")
    lines = lines.rename(columns={"task": "first in", "text": "what changed"})
    columns: Any = lines.to_dict("list")
    return Table("What changed", columns)


def columns_table(model: TableModel) -> Table:
    """Return the columns: kind, features, missing values; its facts are how they were read."""
    rows = [
        {
            "column": name,
            "kind": column.kind,
            "features": len(column.parts),
            "missing": _percent(column.missing / column.rows),
        }
        for name, column in model.encoder_.columns_.items()
    ]
    return Table.of_rows("Columns", rows, tuple(model.notes_))


def effects(model: TableModel) -> Table:
    """Return a line for every column, the most important first: the standard deviation of what it
    adds to predictions, and its lowest and highest labels, or its slope.

    Single coefficients of one-hot features say little, since they are relative to each other: a
    column is one line. For classes what is added is log-odds, of the class for which it varies
    most. Columns that say the same share an effect, and no effect is a cause.
    """
    names = np.array([name for name, _ in model.encoder_.order_], dtype=object)
    # + 0.0 makes −0.0 a zero without a sign.
    coef = np.atleast_2d(model.to_sklearn().coef_) + 0.0
    rows = model.estimator_.rows_
    lines: Any = []
    for name in dict.fromkeys(names):
        # What a column adds varies by √(wᵀ G w / n), with its own weights w and the centred second
        # moments G of all n rows.
        own = np.where(names == name, coef, 0.0)
        variances = np.sum(own * rows.gram.dot(own.T).T, axis=1) / rows.n
        which = variances.argmax()
        how = _how(model.encoder_.columns_[name], coef[which, names == name].tolist())
        size = math.sqrt(max(variances[which], 0.0))
        lines.append({"column": name, "effect": size, "how": how})
    return Table.of_rows("Effects", sorted(lines, key=lambda line: -line["effect"]))


def _how(column: Column, weights: list[float]) -> str:
    """Return the direction of a column: its labels of lowest and highest weight, or its slope.

    Labels of fewer than five rows have no name in a file, and are left out.
    """
    weighted = dict(zip(column.parts, weights, strict=True))
    if isinstance(column, Category):
        labels = [part for part in weighted if part[:1] == "=" and not part.startswith(RARE_NAME)]
        ends = sorted(labels, key=lambda part: weighted[part])[:: max(len(labels) - 1, 1)]
        shown = [f"{label(part[1:])} {weighted[part]:+.3g}" for part in ends]
        return " … ".join(shown) if len(shown) > 1 else ""
    # A trend is in years, a number in its own unit.
    part, unit = (" trend", "year") if isinstance(column, Date) else ("", "unit")
    slope = f"{weighted[part]:+.3g} a {unit}"
    gaps = [part for part in (MISSING, PRESENT) if part in weighted]
    return "; ".join([slope, *(f"where {part[4:]} {weighted[part]:+.3g}" for part in gaps)])


def tasks_table(model: TableModel) -> Table:
    """Return the errors of every task before it was learned, "alarm" behind those that have one.

    Of numbers they are roots of mean squares, in the unit of the target; of classes fractions of
    the rows. The first task has none: nothing was known before it.
    """
    items: Any = {
        "RMSE": ("error", math.sqrt),
        "of the mean": ("mean", math.sqrt),
        "of ridge, retrained": ("ridge", math.sqrt),
        "90 % within ±": ("within", float),
        "in 90 % interval": ("covered", _percent),
    }
    if model.is_classifier:
        items = {
            "wrong": ("error", float),
            "most frequent class": ("mean", float),
            "log-loss": ("loss", float),
            "log-loss of shares": ("base_loss", float),
        }
    alarmed = {alarm.task for alarm in model.alarms()}
    lines = []
    for record in model.history_:
        line = {"task": record["task"], "rows": record["rows"]}
        for title, (item, shown) in items.items():
            line[title] = None if record["error"] is None else shown(record[item])
        lines.append({**line, "alarm": "alarm" * (record["task"] in alarmed)})
    return Table.of_rows("Tasks, predicted before they were learned", lines)


def _percent(share: float) -> Noted:
    """Return a fraction as a cell, such as "12.5 %"."""
    return Noted(round(100.0 * share, 1), " %")


def class_tables(model: TableModel) -> dict[str, Table]:
    """Return the tables of a model of classes by name, nothing for numbers.

    ``confusion`` has true classes by predicted ones, with the base rate of each; ``calibration``
    how often the predicted class was right, by its probability.
    """
    if not model.confusion_:
        return {}
    shares = pd.Series(model.estimator_.rows_.target, model.classes_).nlargest(CLASSES)
    lines = []
    for true, share in shares.items():
        line: Any = {"true class": true, "base rate": _percent(share)}
        lines.append(line | {label(each): model.confusion_[true, each] for each in shares.index})
    # Probabilities that were never said have no rows.
    rows, said, right = model.calibration_[:, model.calibration_[0] > 0]
    calibration = {
        "rows": rows.astype(int).tolist(),
        "said": [*map(_percent, said / rows)],
        "was right": [*map(_percent, right / rows)],
    }
    return {
        "confusion": Table.of_rows("Predicted classes", lines),
        "calibration": Table("Calibration", calibration),
    }


# --- the page ---


def write(model: TableModel, path: str | Path, notes: list[str]) -> None:
    """Write the report of a model: what the functions above return, in ``templates/tables.html``.

    Parameters
    ----------
    model : TableModel
    path : str or Path
        Of a page, .html.
    notes : list of str
        On the file that was learned last.
    """
    page = render(
        "tables.html",
        model=model,
        version=version(),
        today=datetime.datetime.now(datetime.UTC).date(),
        learned=headline(model),
        answer=bottom_line(model),
        notes=[*notes, *warnings(model)],
        late=late_errors(model),
        changed=changes_table(model.history_),
        effects=effects(model),
        columns=columns_table(model),
        tasks=tasks_table(model),
        **class_tables(model),
    )
    replace_file(path, page.encode())

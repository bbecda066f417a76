"""What a model of tables knows, as sentences and tables: for the command line, ``show`` and the
report.
"""

import math
from typing import Any

import numpy as np

from forgetless._table import Noted, Table
from forgetless._text import label, readable_number
from forgetless.tables import scores
from forgetless.tables.alarms import level_note
from forgetless.tables.columns import MISSING, PRESENT, RARE_NAME, Category, Date
from forgetless.tables.stream import TableModel

LATE = 12
"""Tasks to whose errors the bottom line looks back."""

CLASSES = 12
"""Classes in the table of predicted ones, the most frequent."""

USELESS = 0.01
"""A model that is not better than the mean by this fraction says so."""


def bottom_line(model: TableModel, what: str = "") -> str:
    """Return one sentence or two on the next task: how far off predictions will be, and how much
    better than the mean and than ridge regression retrained on all rows.

    ``what`` says of which tasks the errors are, if not of those learned last.
    """
    late = model.history_[-LATE:]
    error = scores.pooled(late, "error")
    if error is None:
        return "No error is known yet: every task from the second on is predicted before learned."
    what = what or f"Next {model.about_.get('task', 'task')}"
    if model.is_classifier:
        return _of_classes(model, what, error)
    within = scores.pooled(late, "within") or 0.0
    mean = abs(float(model.estimator_.rows_.target[0]))
    # Of a target around zero the mean is no measure.
    share = f" ({within / mean:.0%} of the mean of the target)" if mean > within else ""
    text = f"{what}: 9 of 10 rows within ± {readable_number(within, '.3g')}{share}."
    plain = scores.pooled(late, "mean") or 0.0
    ridge = scores.pooled(late, "ridge") or 0.0
    comparison = [_compared(error, plain, "the mean"), _compared(error, ridge, "retraining ridge")]
    text += f" The error (RMSE) is {comparison[0]} and {comparison[1]}."
    if error > (1.0 - USELESS) ** 2 * plain:
        text += " The columns hardly tell the target: look at what changed, or add columns."
    return text


def _compared(error: float, other: float, name: str) -> str:
    """Return how the root of an error compares with that of another."""
    if not other > 0:
        return f"that of {name}"
    gain = 1.0 - math.sqrt(error / other)
    if abs(gain) < 0.005:
        return f"that of {name}"
    return f"{abs(gain):.0%} {'smaller' if gain > 0 else 'larger'} than that of {name}"


def _of_classes(model: TableModel, what: str, error: float) -> str:
    late = model.history_[-LATE:]
    plain = scores.pooled(late, "mean") or 0.0
    loss = scores.pooled(late, "loss") or 0.0
    base = scores.pooled(late, "base_loss") or 0.0
    most = model.classes_[model.estimator_.class_counts_.argmax()]
    text = (
        f"{what}: {error:.1%} of the rows in the wrong class; always {label(most)!r} would be wrong"
        f" in {plain:.1%}. Log-loss {loss:.3f}; the shares of the classes alone have {base:.3f}."
    )
    if late[-1].get("predicted") == 1:
        text += f" Warning: one class is predicted for every row of {late[-1]['task']}."
    if len(model.classes_) == 1:
        text += " Warning: the target has one class only so far."
    return text


def headline(model: TableModel) -> str:
    """Return how much the model has learned."""
    rows = readable_number(int(model.estimator_.rows_.n))
    tasks = "1 task" if model.n_tasks_ == 1 else f"{model.n_tasks_} tasks"
    return f"{tasks} and {rows} rows learned, {len(model.encoder_.order_)} features"


def warnings(model: TableModel) -> list[str]:
    """Return the alarms and notes on what was learned, as sentences."""
    lines = [f"Alarm: {alarm.sentence()}" for alarm in model.alarms()]
    level = level_note(model.history_)
    coverage = scores.pooled(model.history_[-LATE:], "covered")
    lines += [level] if level else []
    if coverage is not None and coverage < 0.8:
        lines.append(f"90 % intervals held {coverage:.0%} of the rows: take them for too narrow")
    return lines


def changes_table(history: Any) -> Table | None:
    """Return a line for every column that changed and every kind of its changes; None if none
    did.
    """
    lines: dict[tuple[str, str], list[Any]] = {}
    for record in history:
        for column, text, severe in record["changes"]:
            # "mean 5, was 3" and "mean 6, was 3" are one line.
            kind = "".join(each for each in text.split(",")[0] if each.isalpha() or each == " ")
            line = lines.setdefault((column, kind), [column, record["task"], text, 0, False])
            line[3] += 1
            line[4] = line[4] or severe
    if not lines:
        return None
    listed = sorted(lines.values(), key=lambda line: (not line[4], -line[3]))
    shown = [
        {
            "column": label(column),
            "first in": label(task),
            "what changed": label(text),
            "tasks": count,
            "": "severe" if severe else "",
        }
        for column, task, text, count, severe in listed[:30]
    ]
    return Table.of_rows("What changed", shown)


def columns_table(model: TableModel) -> Table:
    """Return the columns: kind, features, missing values, what was learned of them."""
    rows = [
        {
            "column": label(name),
            "kind": column.kind,
            "features": len(column.parts),
            "missing": _percent(column.missing / max(column.rows, 1)),
        }
        for name, column in model.encoder_.columns_.items()
    ]
    return Table.of_rows("Columns", rows, tuple(model.notes_))


def effects(model: TableModel) -> Table:
    """Return a line for every column, the most important first: the standard deviation of what it
    adds to predictions, and its lowest and highest labels, or its slope.

    For classes what is added is log-odds, of the class for which it varies most.
    """
    names = [name for name, _ in model.encoder_.order_]
    columns = list(dict.fromkeys(names))
    coef = np.atleast_2d(np.asarray(model.to_sklearn().coef_))
    rows = model.estimator_.rows_
    # Of all rows, what column c adds varies by √(w_cᵀ G w_c / n) with the weights w_c of its own.
    member = np.array([[name == column for column in columns] for name in names], dtype=np.float64)
    sizes = np.zeros((len(coef), len(columns)))
    for k, weights in enumerate(coef):
        own = weights[:, None] * member
        squares = np.einsum("ij,ij->j", own, rows.gram.dot(own))
        sizes[k] = np.sqrt(np.maximum(squares, 0.0) / rows.n)
    which = sizes.argmax(axis=0)
    total = max(float(sizes.max(initial=0.0)), 1e-300)
    lines = []
    for c in np.argsort(-sizes.max(axis=0), kind="stable"):
        name = columns[c]
        weights = coef[which[c]]
        own = [weights[i] for i in range(len(names)) if names[i] == name]
        size = float(sizes[which[c], c])
        lines.append(
            {
                "column": label(name),
                "effect": size,
                "share": _percent(size / total),
                "how": _how(model.encoder_.columns_[name], own),
            }
        )
    return Table.of_rows("Effects", lines)


def _how(column: Any, weights: list[float]) -> str:
    """Return the direction of a column: its labels of lowest and highest weight, or its slope."""
    weighted = dict(zip(column.parts, weights, strict=True))
    if isinstance(column, Category):
        own = {
            part[1:]: weight
            for part, weight in weighted.items()
            if part.startswith("=") and not part.startswith(RARE_NAME)
        }
        if len(own) < 2:
            return ""
        low = min(own, key=lambda part: own[part])
        high = max(own, key=lambda part: own[part])
        return f"{label(low)} {own[low]:+.3g} … {label(high)} {own[high]:+.3g}"
    slope = weighted.get(" trend" if isinstance(column, Date) else "", 0.0)
    unit = " a year" if isinstance(column, Date) else " a unit"
    gaps = next((weighted[part] for part in (MISSING, PRESENT) if part in weighted), None)
    return f"{slope:+.3g}{unit}" + ("" if gaps is None else f"; where missing {gaps:+.3g}")


def tasks_table(model: TableModel) -> Table:
    """Return the errors of every task before it was learned."""
    alarmed = {alarm.task for alarm in model.alarms()}
    lines = []
    for record in model.history_:
        line: dict[str, Any] = {"task": label(record["task"]), "rows": record["rows"]}
        if model.is_classifier:
            line |= {
                "wrong": record["error"],
                "most frequent class": record.get("mean"),
                "log-loss": record.get("loss"),
                "log-loss of shares": record.get("base_loss"),
            }
        else:
            line |= {
                "RMSE": _root(record["error"]),
                "of the mean": _root(record.get("mean")),
                "of ridge, retrained": _root(record.get("ridge")),
                "90 % within ±": record.get("within"),
                "in 90 % interval": _percent(record.get("covered")),
            }
        lines.append({**line, "alarm": "alarm" if record["task"] in alarmed else ""})
    return Table.of_rows("Tasks, predicted before they were learned", lines)


def _root(value: Any) -> Any:
    return None if value is None else math.sqrt(value)


def _percent(value: Any) -> Any:
    return None if value is None else Noted(100.0 * value, " %")


def confusion_table(model: TableModel) -> Table | None:
    """Return true classes by predicted ones, with the base rate of each; None for numbers."""
    if not model.is_classifier or not model.confusion_:
        return None
    counts = dict(zip(model.classes_.tolist(), model.estimator_.class_counts_, strict=True))
    frequent = sorted(counts, key=lambda name: -counts[name])[:CLASSES]
    lines = []
    for true in frequent:
        share = counts[true] / sum(counts.values())
        line: dict[str, Any] = {"true class": label(true), "base rate": _percent(share)}
        lines.append(line | {label(each): model.confusion_[true, each] for each in frequent})
    return Table.of_rows("Predicted classes", lines)


def calibration_table(model: TableModel) -> Table | None:
    """Return how often the predicted class was right, by its probability; None for numbers."""
    if not model.is_classifier or not model.confusion_:
        return None
    lines = [
        {"rows": int(rows), "said": _percent(said / rows), "was right": _percent(right / rows)}
        for rows, said, right in model.calibration_.T.tolist()
        if rows
    ]
    return Table.of_rows("Calibration", lines)


def facts(model: TableModel) -> dict[str, Any]:
    """Return what a program wants to know, as plain values: for ``--json``."""
    late = {
        name: scores.pooled(model.history_, name)
        for name in ("error", "mean", "ridge", "within", "covered", "loss", "base_loss")
    }
    if not model.is_classifier:
        names = {"error": "rmse", "mean": "rmse_of_the_mean", "ridge": "rmse_of_ridge"}
        late |= {new: _root(late.pop(old)) for old, new in names.items()}
    return {
        **model.about_,
        "tasks": model.n_tasks_,
        "rows": int(model.estimator_.rows_.n),
        "features": len(model.encoder_.order_),
        **{name: value for name, value in late.items() if value is not None},
        "summary": bottom_line(model),
        "alarms": [alarm._asdict() for alarm in model.alarms()],
        "notes": model.notes_,
    }

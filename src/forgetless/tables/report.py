"""The report of a model of tables: one page that needs no other file, the answer first."""

import datetime
import math
from pathlib import Path
from typing import Any, NamedTuple

from forgetless._page import render
from forgetless._text import label, printable, readable_number, version
from forgetless.io import replace_file
from forgetless.tables import scores, summary
from forgetless.tables.stream import TableModel

SHOWN = 40
"""Tasks in the figure, the last ones."""

NAMED = 6
"""Names of tasks on the axis of the figure."""

WIDTH = 360.0
HEIGHT = 210.0
LEFT = 44.0
BOTTOM = 26.0
"""Of the figure, in units that are pixels on a narrow screen."""


class Line(NamedTuple):
    """A line of the figure: its class in the style sheet, its name, and its points as text."""

    kind: str
    name: str
    points: str


class Figure(NamedTuple):
    """Errors by task, in the coordinates of an SVG picture."""

    lines: list[Line]
    dots: list[tuple[float, float, str, bool]]
    levels: list[tuple[float, str]]
    names: list[tuple[float, str]]
    what: str


def write(model: TableModel, path: str | Path, notes: list[str]) -> None:
    """Write the report of a model.

    Parameters
    ----------
    model : TableModel
    path : str or Path
        Of a page, .html.
    notes : list of str
        On the file that was learned last.
    """
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    about = model.about_
    target = about.get("target", "target")
    facts = [f"Target {label(target)}", label(about.get("file", ""))]
    facts += [summary.headline(model), f"forgetless {version()}", today]
    page = render(
        "tables.html",
        title=f"{printable(target, 60)} by {printable(about.get('task', 'task'), 60)}",
        facts=" · ".join(fact for fact in facts if fact),
        answer=summary.bottom_line(model),
        alarms=model.alarms(),
        notes=[*notes, *(line for line in summary.warnings(model) if "Alarm" not in line)],
        figure=figure(model),
        changed=summary.changes_table(model.history_),
        effects=summary.effects(model),
        intervals=_intervals(model),
        confusion=summary.confusion_table(model),
        calibration=summary.calibration_table(model),
        columns=summary.columns_table(model),
        tasks=summary.tasks_table(model),
        objective=model.objective,
        is_classifier=model.is_classifier,
    )
    replace_file(path, page.encode())


def _intervals(model: TableModel) -> str:
    """Return how wide intervals are and how many rows they held; nothing for classes."""
    covered = scores.pooled(model.history_, "covered")
    half = scores.pooled(model.history_[-summary.LATE :], "interval")
    if covered is None or half is None:
        return ""
    return (
        f"The 90 % interval of a late prediction is ± {readable_number(half, '.3g')} (median). Over"
        f" all tasks, intervals held {covered:.0%} of the rows before these were learned."
    )


def figure(model: TableModel) -> Figure | None:
    """Return the errors of the last tasks, beside those of the mean and of retrained ridge; None
    before two tasks have errors.
    """
    records = [each for each in model.history_ if each["error"] is not None][-SHOWN:]
    if len(records) < 2:
        return None
    power = 1.0 if model.is_classifier else 0.5
    series = {
        "model": ("this model", "error"),
        "mean": ("most frequent class" if model.is_classifier else "the mean", "mean"),
        "ridge": ("ridge, retrained", "ridge"),
    }
    curves = {
        kind: (name, [each[item] ** power for each in records])
        for kind, (name, item) in series.items()
        if records[0].get(item) is not None
    }
    top = _round_up(max(max(values) for _, values in curves.values()))
    step = (WIDTH - LEFT - 10.0) / (len(records) - 1)

    def x(i: int) -> float:
        return round(LEFT + step * i, 1)

    def y(value: float) -> float:
        return round((HEIGHT - BOTTOM) * (1.0 - value / top) + 8.0, 1)

    lines = [
        Line(kind, name, " ".join(f"{x(i)},{y(value)}" for i, value in enumerate(values)))
        for kind, (name, values) in curves.items()
    ]
    alarmed = {alarm.task for alarm in model.alarms()}
    dots = [
        (x(i), y(value), f"{printable(each['task'], 30)}: {value:.4g}", each["task"] in alarmed)
        for i, (each, value) in enumerate(zip(records, curves["model"][1], strict=True))
    ]
    levels = [(y(top * part), f"{top * part:.3g}") for part in (0.0, 0.5, 1.0)]
    every = math.ceil(len(records) / NAMED)
    names = [(x(i), printable(records[i]["task"], 9)) for i in range(0, len(records), every)]
    what = "share of wrong rows" if model.is_classifier else "RMSE"
    return Figure(lines, dots, levels, names, what)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5 times a power of ten."""
    scale = 10.0 ** math.floor(math.log10(max(value, 1e-300)))
    nearest: Any = next(each for each in (1.0, 2.0, 5.0, 10.0) if each * scale >= value * 0.999)
    return float(nearest * scale)

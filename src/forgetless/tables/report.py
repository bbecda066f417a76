"""The report of a model of tables: one page that needs no other file, the answer first.

``summary.py`` has its sentences and tables, ``templates/tables.html`` their order and the drawing.
The figure is SVG inside the page and not a picture by matplotlib: its colours follow dark mode, its
letters stay readable on a phone, and a pointer on a dot shows the task.
"""

import datetime
import math
from pathlib import Path
from typing import NamedTuple

from forgetless._table import render
from forgetless._text import label, printable, readable_number, version
from forgetless.io import replace_file
from forgetless.tables import summary
from forgetless.tables.stream import TableModel

SHOWN = 40
"""Tasks in the figure, the last ones."""


class Curve(NamedTuple):
    """A line of the figure: its class in the style sheet, its name, and its values by task."""

    kind: str
    name: str
    values: list[float]


class Figure(NamedTuple):
    """Errors by task, which the template draws.

    Attributes
    ----------
    what : str
        The error.
    tasks : list of (name, whether it has an alarm)
    curves : list of Curve
        That of the model first.
    top : float
        End of the axis.
    """

    what: str
    tasks: list[tuple[str, bool]]
    curves: list[Curve]
    top: float


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
    late = summary.late_errors(model)
    target = about.get("target", "target")
    facts = [f"Target {label(target)}", label(about.get("file", ""))]
    facts += [summary.headline(model), f"forgetless {version()}", today]
    page = render(
        "tables.html",
        title=f"{printable(target, 60)} by {printable(about.get('task', 'task'), 60)}",
        facts=" · ".join(fact for fact in facts if fact),
        answer=summary.bottom_line(model),
        alarms=model.alarms(),
        notes=[*notes, *summary.warnings(model)],
        figure=figure(model),
        changed=summary.changes_table(model.history_),
        effects=summary.effects(model),
        interval=readable_number(late.get("interval", 0.0), ".3g"),
        covered=late.get("covered"),
        confusion=summary.confusion_table(model),
        calibration=summary.calibration_table(model),
        columns=summary.columns_table(model),
        tasks=summary.tasks_table(model),
        objective=model.objective,
        is_classifier=model.is_classifier,
    )
    replace_file(path, page.encode())


def figure(model: TableModel) -> Figure | None:
    """Return the errors of the last tasks, beside those of the mean and of retrained ridge; None
    before two tasks have errors.
    """
    records = [each for each in model.history_ if each["error"] is not None][-SHOWN:]
    if len(records) < 2:
        return None
    what = "RMSE"
    power = 0.5
    curves = {"error": "this model", "mean": "the mean", "ridge": "ridge, retrained"}
    if model.is_classifier:
        what = "share of wrong rows"
        power = 1.0
        curves = {"error": "this model", "mean": "most frequent class"}
    lines = [
        Curve(kind, name, [each[kind] ** power for each in records])
        for kind, name in curves.items()
    ]
    alarmed = {alarm.task for alarm in model.alarms()}
    tasks = [(printable(each["task"], 30), each["task"] in alarmed) for each in records]
    # Ridge may be far off, and is cut then.
    top = _round_up(max(max(line.values) for line in lines[:2]))
    return Figure(what, tasks, lines, top)


def _round_up(value: float) -> float:
    """Return the next number of two digits."""
    scale = 10.0 ** (math.floor(math.log10(max(value, 1e-300))) - 1)
    return math.ceil(value / scale) * scale

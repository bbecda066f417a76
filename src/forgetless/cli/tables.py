"""The commands on tables: ``fit``, ``predict``, ``evaluate`` and ``show``.

A docstring is a help text. ``tables.read`` and ``tables.batches`` read files and split them into
tasks, ``TableModel`` learns them, and what is printed is that of the page of ``tables.report``.
"""

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from forgetless import io
from forgetless._text import closest, label, readable_number
from forgetless.cli import (
    check_is_no_table,
    check_outputs,
    check_roles,
    counted,
    examples,
    load_model,
    plain_cell,
    print_json,
    print_lines,
    shortened,
    table_for,
)

_path = click.Path(path_type=Path)
_task = click.option("--task", help="Column with the task, such as the month.")
_target = click.option("--target", help="Column to predict.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")


@click.command(
    epilog=examples(
        "forgetless fit sales.csv --task month --target sales --out model.safetensors --report"
        " report.html",
        "forgetless fit november.csv --from model.safetensors --out model.safetensors",
        "forgetless fit orders.parquet --task week --target price --drop order_id --out"
        " model.safetensors",
    )
)
@click.argument("file", type=_path)
@_task
@_target
@click.option("--out", type=_path, required=True, help="Where to write the model.")
@click.option("--from", "previous", type=_path, help="A model that goes on with FILE.")
@click.option("--report", type=_path, help="Where to write a report (.html).")
@click.option(
    "--objective",
    type=click.Choice(["next", "all"]),
    help="Small errors on the next task, or on all past ones: all has 1.02 times the error of next"
    " on the next task of 100 real tables [default: next]",
)
@click.option("--classes", is_flag=True, help="The target holds classes, although it has numbers.")
@click.option("--number", multiple=True, help="Column of numbers, not of identifiers; repeatable.")
@click.option("--drop", multiple=True, help="Column to leave out; repeatable.")
@_json
def fit(file: Path, out: Path, report: Path | None, as_json: bool, **options: Any) -> None:
    """Predict and learn the tasks in FILE one after the other, and write the model.

    Every column but task and target is a feature: numbers, categories, dates and missing values are
    handled. Tasks come in the order in which they first appear. The errors are those of the model
    that is written, on every task before it learned it.

    FILE is CSV with commas, semicolons, tabs or bars (also .csv.gz), Parquet or
    Excel.
    """
    from forgetless.tables import report as page

    # --out may replace the model of --from, so that these two are not compared.
    check_outputs({"FILE": file, "--out": out, "--report": report})
    check_outputs({"--from": options["previous"], "--report": report})
    model, batches = _begin(file, options)
    known = getattr(model, "n_tasks_", 0)
    before = {record["task"] for record in getattr(model, "history_", [])}
    for name, X, y in batches:
        model.partial_fit(X, y, name)
    # The next fit finds task and target by these names.
    model.about_ = {"task": batches.task, "target": batches.target, "file": file.name}
    # The history has the last tasks only, so that it is counted from its end.
    new = model.history_[known - model.n_tasks_ :]
    again = sorted(before & {record["task"] for record in new})
    notes = [*batches.notes, *_notes(model, again)]
    # Written before anything is printed: a full pipe must not cost the model.
    model.save(out)
    if report:
        page.write(model, report, notes)
    if as_json:
        facts = _facts(model)
        print_json({"model": str(out), **facts, "notes": [*notes, *facts["notes"]]})
        return
    changed = page.changes_table(new)
    rows = readable_number(sum(record["rows"] for record in new))
    print_lines(f"{file.name}: {counted(len(new), 'task')}, {rows} rows learned")
    if changed:
        print_lines(f"\nWhat changed\n{shortened(changed)}")
    print_lines(f"\n{shortened(page.columns_table(model))}\n")
    print_lines(_answer(model, notes))
    print_lines(f"model: {out}" + (f"\nreport: {report}" if report else ""))


def _begin(file: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the model to learn with and the tasks of a file.

    ``options`` are those of ``fit``; choices about columns belong to the first fit, since the model
    keeps them.
    """
    from forgetless.tables import TableModel
    from forgetless.tables.batches import Batches
    from forgetless.tables.read import TableFile

    names = ("objective", "number", "drop", "classes")
    given = {name: options[name] for name in names if options[name]}
    roles = (options["task"], options["target"])
    if options["previous"] is None:  # the first fit
        table = TableFile(file)
        check_roles(file.name, table.columns(), *roles, *options["number"], *options["drop"])
        classes = given.pop("classes", None)  # of the file; the model learns what comes
        return TableModel(**given), Batches(table, *roles, classes)
    for name in given:
        raise click.UsageError(f"--{name} belongs to the first fit; leave it out with --from")
    model = load_model(options["previous"])
    return model, _batches(model, file, *roles)


def _batches(model: Any, file: Path, task: str | None, target: str | None) -> Any:
    """Return the tasks of another file, in columns as before unless others are named."""
    from forgetless.tables.batches import Batches

    table = table_for(model, file)
    task = task or model.about_["task"]
    target = target or model.about_["target"]
    try:
        return Batches(table, task, target, model.is_classifier)
    except ValueError as error:
        raise ValueError(
            f"{error}; --task and --target name other columns, and forgetless predict needs neither"
        ) from None


def _notes(model: Any, again: list[str]) -> list[str]:
    """Return notes on the tasks that were learned, ``again`` those that had been before."""
    notes = []
    if model.n_tasks_ == 1:
        notes.append(
            f"There is one task; is {model.about_['task']!r} the column that tells tasks apart?"
            " Errors are known from the second task on"
        )
    if again:
        shown = ", ".join(map(label, again[:5]))  # a whole file may have been learned twice
        notes.append(f"Warning: learned before, and counts twice: {shown}")
    return notes


@click.command(
    epilog=examples(
        "forgetless predict model.safetensors december.csv --out predictions.csv",
        "forgetless predict model.safetensors december.csv --json",
    )
)
@click.argument("model", type=_path)
@click.argument("file", type=_path)
@click.option("--out", type=_path, help="Where to write CSV [default: standard output]")
@_json
def predict(model: Path, file: Path, out: Path | None, as_json: bool) -> None:
    """Predict the rows of FILE, in their order, with a MODEL that fit has written.

    Of numbers "low" and "high" are the limits of 90 % intervals; of classes every probability is
    written. Columns are found by name, and those that the model does not know are ignored.
    """
    check_outputs({"MODEL": model, "FILE": file, "--out": out})
    fitted = load_model(model)
    parts = _predicted(fitted, table_for(fitted, file))
    if as_json:
        found = list(parts)
        print_json({name: [each for part in found for each in part[name]] for name in found[0]})
        return
    if out is None:
        _write(sys.stdout.buffer, parts)
        return
    # Whoever reads the file meanwhile sees the old one, or all of the new one.
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with open(temporary, "xb") as handle:
            n = _write(handle, parts)
        os.replace(temporary, io.check_target(out))
    finally:
        temporary.unlink(missing_ok=True)
    print_lines(f"{counted(n, 'prediction')}: {out}")


def _predicted(model: Any, table: Any) -> Iterator[dict[str, Any]]:
    """Yield the columns of predictions of a chunk of rows after the other.

    What is wrong with a column is said once, for the first chunk that shows it.
    """
    from forgetless.tables.scores import WITHIN
    from forgetless.tables.values import columns_of

    warned: set[str] = set()
    for chunk in table.chunks():
        if not len(chunk):  # blank lines only
            continue
        # Texts are factorized once for comparisons and predictions.
        rows = columns_of(chunk)
        _warn(model, rows, warned)
        if model.is_classifier:
            probabilities = model.predict_proba(rows)
            labels = model.classes_[probabilities.argmax(axis=1)]
            names = [f"probability {name}" for name in model.classes_]
            columns = dict(zip(names, probabilities.T, strict=True))
            yield {"prediction": [plain_cell(each) for each in labels.tolist()], **columns}
        else:
            found, deviations = model.predict(rows, return_std=True)
            half = WITHIN * deviations  # 90 % of normal errors
            yield {"prediction": found, "low": found - half, "high": found + half}


def _warn(model: Any, rows: dict[str, Any], warned: set[str]) -> None:
    """Warn of severe changes, in the words of alarms, and add their columns to ``warned``.

    Columns in ``warned`` are left out. A column that is absent may have another name, which can
    only be one that the model does not know.
    """
    from forgetless.tables.scores import of_changes

    new = sorted(rows.keys() - model.encoder_.columns_)
    for change in model.changes(rows):
        if change.severe and change.column not in warned:
            warned.add(change.column)  # the next chunks would say the same
            alarm = of_changes("", [change])
            meant = "" if change.column in rows else closest(change.column, new)
            print_lines(f"Warning: {alarm.text}. {alarm.remedy}; {meant}".rstrip("; "), err=True)


def _write(handle: Any, parts: Iterator[dict[str, Any]]) -> int:
    """Write columns as CSV to a binary file, and return the number of rows."""
    from pyarrow import csv, table

    n = 0
    for columns in parts:
        options = csv.WriteOptions(include_header=not n, quoting_style="needed")
        csv.write_csv(table(columns), handle, options)
        n += len(columns["prediction"])
    return n


@click.command(
    epilog=examples(
        "forgetless evaluate model.safetensors december.csv",
        "forgetless evaluate model.safetensors december.csv --json",
    )
)
@click.argument("model", type=_path)
@click.argument("file", type=_path)
@_task
@_target
@_json
def evaluate(model: Path, file: Path, task: str | None, target: str | None, as_json: bool) -> None:
    """Print the errors of a MODEL on the tasks of FILE, and what has changed in them, without
    learning.
    """
    from forgetless.tables import report as page

    fitted = load_model(model)
    batches = _batches(fitted, file, task, target)
    fitted.history_ = [fitted.judged(X, y, name) for name, X, y in batches]
    tasks = page.tasks_table(fitted)
    changed = page.changes_table(fitted.history_)
    if as_json:
        facts = _facts(fitted) | {"summary": page.bottom_line(fitted, file.name)}
        print_json({"tasks_of_file": tasks.values()} | facts)
        return
    if changed:
        print_lines(f"What changed\n{shortened(changed)}\n")
    print_lines(shortened(tasks))
    print_lines(_answer(fitted, batches.notes, file.name))


@click.command(epilog=examples("forgetless show model.safetensors"))
@click.argument("file", type=_path)
@_json
def show(file: Path, as_json: bool) -> None:
    """Print what FILE holds: a model of tables, or anything else that forgetless has written.

    Nothing in it is executed. Exit code 1 if it is damaged or not a file of forgetless.
    """
    from forgetless.tables import report as page

    check_is_no_table(file)
    document = io.read(file)
    about = {
        "kind": document.kind,
        "forgetless": label(document.written_by),
        "n_bytes": file.stat().st_size,
    }
    content = io.load(file)
    head = "{kind}, written by forgetless {forgetless}, {n_bytes:,} bytes".format(**about)
    if hasattr(content, "encoder_"):  # a model of tables
        effects = page.effects(content)
        columns = page.columns_table(content)
        about |= _facts(content) | {"columns": columns.values(), "effects": effects.values()}
        names = [f"{name} {label(value)}" for name, value in content.about_.items()]
        head += f"\n{', '.join(names)}\n{page.headline(content)}"
        for table in (effects, columns, page.tasks_table(content)):
            head += f"\n\n{shortened(table)}"
        head += f"\n\n{_answer(content, [])}"
    else:
        about["content"] = repr(content)
        head += f"\n\n{content!r}"
    if as_json:
        print_json(about)
    else:
        print_lines(head)


def _answer(model: Any, notes: list[str], what: str = "") -> str:
    """Return lines for people: notes on a file, its columns and errors, the alarms, and last how
    good predictions of ``what`` are.
    """
    from forgetless.tables import report

    alarms = [f"Alarm: {alarm.sentence()}" for alarm in model.alarms()]
    answer = report.bottom_line(model, what)
    return "\n".join([*notes, *model.notes_, *alarms, *report.warnings(model), answer])


def _facts(model: Any) -> dict[str, Any]:
    """Return what a program wants to know, as plain values."""
    from forgetless.tables import report, scores

    errors = scores.pooled(model.history_)  # of squares, whose roots have the unit of the target
    if errors and not model.is_classifier:
        names = {"error": "rmse", "mean": "rmse_of_the_mean", "ridge": "rmse_of_ridge"}
        errors |= {new: math.sqrt(errors.pop(old)) for old, new in names.items()}
    return {
        **model.about_,
        "tasks": model.n_tasks_,
        "rows": int(model.estimator_.rows_.n),
        "features": len(model.encoder_.order_),
        **errors,
        "summary": report.bottom_line(model),
        "alarms": [alarm._asdict() for alarm in model.alarms()],
        "notes": model.notes_,
    }

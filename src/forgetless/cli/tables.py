"""The commands on tables: ``fit``, ``predict``, ``evaluate`` and ``show``."""

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from forgetless._text import label, printable, readable_number
from forgetless.cli import (
    check_outputs,
    counted,
    examples,
    print_json,
    print_lines,
    shortened,
)
from forgetless.errors import FileError
from forgetless.io import check_target

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
    help="Small errors on the next task, or on all past ones: next costs 1.16 times the error on"
    " past tasks on 55 real tables, up to 2.7 times [default: next]",
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

    FILE is CSV with any delimiter (also .csv.gz), Parquet or Excel.
    """
    from forgetless.tables import report as page

    previous = options["previous"]
    check_outputs({"FILE": file, "--out": out, "--report": report})
    check_outputs({"--from": previous, "--report": report})  # --out may replace that of --from
    model, batches = _begin(file, options)
    known = getattr(model, "n_tasks_", 0)
    before = {record["task"] for record in getattr(model, "history_", [])}
    for name, X, y in batches:
        model.partial_fit(X, y, name)
    model.about_ = {"task": batches.task, "target": batches.target, "file": file.name}
    new = model.history_[known - model.n_tasks_ :]
    again = sorted(before & {record["task"] for record in new})
    notes = [*batches.notes, *_notes(model, again)]
    model.save(out)
    if report is not None:
        page.write(model, report, notes)
    if as_json:
        facts = _facts(model)
        print_json({"model": str(out), **facts, "notes": [*notes, *facts["notes"]]})
        return
    changed = page.changes_table(new)
    rows = readable_number(sum(record["rows"] for record in new))
    print_lines(f"{file.name}: {counted(len(new), 'task')}, {rows} rows learned")
    if changed is not None:
        print_lines(f"\nWhat changed\n{shortened(changed)}")
    print_lines(f"\n{shortened(page.columns_table(model))}\n")
    _print_notes(model, notes)
    print_lines(page.bottom_line(model))
    print_lines(f"model: {out}" + (f"\nreport: {report}" if report else ""))


def _begin(file: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the model to learn with and the tasks of a file."""
    from forgetless.tables import TableModel
    from forgetless.tables.batches import Batches, check_columns
    from forgetless.tables.read import TableFile

    names = ("task", "target", "objective", "number", "drop")
    task, target, objective, number, drop = (options[name] for name in names)
    if options["previous"] is None:
        table = TableFile(file)
        for name, value in {"--task": task, "--target": target}.items():
            if value is None:
                columns = ", ".join(printable(column, 40) for column in table.columns()[:30])
                raise click.UsageError(f"choose a column with {name}: {file.name} has {columns}")
        check_columns(file.name, table.columns(), task, target, *number, *drop)
        model = TableModel(objective or "next", number=number, drop=drop)
        return model, Batches(table, task, target, options["classes"] or None)
    for name in ("objective", "number", "drop", "classes"):
        if options[name]:
            raise click.UsageError(f"--{name} belongs to the first fit; leave it out with --from")
    model = _load(options["previous"])
    return model, _batches(model, file, task, target)


def _batches(model: Any, file: Path, task: str | None, target: str | None) -> Any:
    """Return the tasks of another file, in columns as before unless others are named."""
    from forgetless.tables.batches import Batches
    from forgetless.tables.read import TableFile

    table = TableFile(file, model.encoder_.text_columns)
    task = task or model.about_["task"]
    target = target or model.about_["target"]
    return Batches(table, task, target, model.is_classifier)


def _notes(model: Any, again: list[str]) -> list[str]:
    """Return notes on the tasks that were learned, ``again`` those that had been before."""
    notes = []
    if model.n_tasks_ == 1:
        notes.append(
            f"There is one task; is {model.about_['task']!r} the column that tells tasks apart?"
            " Errors are known from the second task on"
        )
    if again:
        shown = ", ".join(label(name) for name in again[:5])
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
    from forgetless.tables.read import TableFile

    check_outputs({"MODEL": model, "FILE": file, "--out": out})
    fitted = _load(model)
    table = TableFile(file, fitted.encoder_.text_columns)
    absent = ", ".join(sorted(fitted.encoder_.columns_.keys() - table.columns()))
    if absent:
        print_lines(f"Warning: taken for missing, as {file.name} lacks them: {absent}", err=True)
    if as_json:
        found = list(_predicted(fitted, table))
        print_json({name: [each for part in found for each in part[name]] for name in found[0]})
        return
    if out is None:
        _write(sys.stdout.buffer, _predicted(fitted, table))
        return
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with open(temporary, "xb") as handle:
            n = _write(handle, _predicted(fitted, table))
        os.replace(temporary, check_target(out))
    finally:
        temporary.unlink(missing_ok=True)
    print_lines(f"{counted(n, 'prediction')}: {out}")


def _predicted(model: Any, table: Any) -> Iterator[dict[str, Any]]:
    """Yield the columns of predictions of a chunk of rows after the other."""
    from forgetless.tables.scores import WITHIN

    for rows in table.chunks():
        if not len(rows):
            continue
        if model.is_classifier:
            probabilities = model.predict_proba(rows)
            labels = model.classes_[probabilities.argmax(axis=1)]
            columns = {"prediction": [_safe(each) for each in labels.tolist()]}
            for name, values in zip(model.classes_.tolist(), probabilities.T, strict=True):
                columns[_safe(f"probability {name}")] = values
            yield columns
            continue
        found, deviations = model.predict(rows, return_std=True)
        half = WITHIN * deviations
        yield {"prediction": found, "low": found - half, "high": found + half}


def _write(handle: Any, parts: Iterator[dict[str, Any]]) -> int:
    """Write columns as CSV to a binary file, and return the number of rows."""
    from pyarrow import csv, table

    n = 0
    for columns in parts:
        options = csv.WriteOptions(include_header=not n, quoting_style="needed")
        csv.write_csv(table(columns), handle, options)
        n += len(columns["prediction"])
    if not n:
        raise ValueError("the file has no rows")
    return n


def _safe(cell: str) -> str:
    """Return text that spreadsheets do not take for a formula: behind an apostrophe."""
    begins = cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if begins and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


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

    fitted = _load(model)
    batches = _batches(fitted, file, task, target)
    fitted.history_ = [fitted.judged(X, y, name) for name, X, y in batches]
    tasks = page.tasks_table(fitted)
    changed = page.changes_table(fitted.history_)
    if as_json:
        print_json({"tasks_of_file": tasks.values(), **_facts(fitted)})
        return
    if changed is not None:
        print_lines(f"What changed\n{shortened(changed)}\n")
    print_lines(shortened(tasks))
    for line in [*batches.notes, page.bottom_line(fitted, file.name)]:
        print_lines(line)


@click.command(epilog=examples("forgetless show model.safetensors"))
@click.argument("file", type=_path)
@_json
def show(file: Path, as_json: bool) -> None:
    """Print what FILE holds: a model of tables, or anything else that forgetless has written.

    Nothing in it is executed. Exit code 1 if it is damaged or not a file of forgetless.
    """
    from forgetless.io import load, read
    from forgetless.tables import report as page

    document = read(file)
    n_bytes = file.stat().st_size
    about = {"kind": document.kind, "forgetless": document.written_by, "n_bytes": n_bytes}
    content = load(file)
    head = f"{document.kind}, written by forgetless {printable(document.written_by, 40)}"
    head += f", {n_bytes:,} bytes"
    if not hasattr(content, "encoder_"):
        text = repr(content)
        if as_json:
            print_json({**about, "content": text})
        else:
            print_lines(f"{head}\n\n{text}")
        return
    effects = page.effects(content)
    if as_json:
        tables = {"columns": page.columns_table(content).values(), "effects": effects.values()}
        print_json(about | _facts(content) | tables)
        return
    names = [f"{name} {label(value)}" for name, value in content.about_.items()]
    print_lines("\n".join([head, ", ".join(names), page.headline(content)]))
    print_lines(f"\n{page.bottom_line(content)}\n\n{shortened(effects)}\n")
    print_lines(f"{shortened(page.columns_table(content))}\n")
    print_lines(shortened(page.tasks_table(content)))
    _print_notes(content, [])


def _load(path: Path) -> Any:
    """Return a model of tables; an error that says what the file is instead."""
    from forgetless.io import load
    from forgetless.tables.read import KINDS

    if path.suffix.lower() in {*KINDS, ".gz"}:
        raise ValueError(
            f"{path.name} is a table, and the first argument is the model that fit has written:"
            " forgetless predict model.safetensors TABLE"
        )
    model = load(path)
    if not hasattr(model, "encoder_"):
        raise FileError(
            f"{path.name} holds {type(model).__name__}, no model of tables; give a file that"
            " forgetless fit has written"
        )
    return model


def _print_notes(model: Any, notes: list[str]) -> None:
    """Print notes on a file, on its columns and on errors, and the alarms."""
    from forgetless.tables.report import warnings

    alarms = [f"Alarm: {alarm.sentence()}" for alarm in model.alarms()]
    for line in [*notes, *model.notes_, *alarms, *warnings(model)]:
        print_lines(line)


def _facts(model: Any) -> dict[str, Any]:
    """Return what a program wants to know, as plain values."""
    from forgetless.tables.report import bottom_line
    from forgetless.tables.scores import pooled

    errors = pooled(model.history_)
    if errors and not model.is_classifier:
        names = {"error": "rmse", "mean": "rmse_of_the_mean", "ridge": "rmse_of_ridge"}
        errors |= {new: math.sqrt(errors.pop(old)) for old, new in names.items()}
    return {
        **model.about_,
        "tasks": model.n_tasks_,
        "rows": int(model.estimator_.rows_.n),
        "features": len(model.encoder_.order_),
        **errors,
        "summary": bottom_line(model),
        "alarms": [alarm._asdict() for alarm in model.alarms()],
        "notes": model.notes_,
    }

"""The commands ``evaluate`` and ``predict``: a model and a table in, errors or predictions out."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.base import is_classifier

from forgetless._table import frame
from forgetless.cli.shared import (
    REPEAT,
    check_outputs,
    examples,
    load_pipeline,
    print_json,
    print_lines,
    unreadable_notes,
)


@click.command(
    epilog=examples(
        "forgetless evaluate model.safetensors december.csv",
        "forgetless evaluate model.safetensors december.parquet --json",
    )
)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", help="Column with the task [default: that of fit]")
@click.option(
    "--target", multiple=True, help=f"Column with the target{REPEAT} [default: that of fit]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def evaluate(
    model: Path, file: Path, task: str | None, target: tuple[str, ...], as_json: bool
) -> None:
    """Print the errors of a MODEL on the tasks of FILE, which it does not learn.

    Beside them: errors of the mean of all targets in FILE, of the mean of the targets learned, and
    of ridge regression fitted to the same rows.
    """
    from forgetless.tables.pipeline import evaluate as evaluate_model
    from forgetless.tables.task_files import TableTasks, located_errors

    fitted = load_pipeline(model)
    task, target = task or fitted.table_["task"], target or tuple(fitted.table_["targets"])
    text_columns = {*fitted[0].text_columns_} - {task, *target}
    tasks = TableTasks(
        file, task, target, text_columns=text_columns, classes=is_classifier(fitted[-1])
    )
    with located_errors(file):
        parts = list(tasks)
        evaluation = evaluate_model(fitted, parts)
    strings = {
        name: text
        for part in reversed(parts)
        for name, text in fitted[0].unreadable(part.X).items()
    }
    print_lines("\n".join(unreadable_notes(strings, file)), err=True) if strings else None
    if as_json:
        print_json({"tasks": evaluation.table.values(), **evaluation.overall})
        return
    print_lines("\n".join([evaluation.table.text(), *tasks.notes, *evaluation.sentences]))


@click.command(
    epilog=examples(
        "forgetless predict model.safetensors new.csv",
        "forgetless predict model.safetensors new.parquet --id order --std --out predictions.csv",
    )
)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--id", "ids", multiple=True, help=f"Column of FILE to write beside the predictions{REPEAT}."
)
@click.option(
    "--std", "with_std", is_flag=True, help="Add the standard deviation of each prediction."
)
@click.option(
    "--raw",
    is_flag=True,
    help="Write text of --id as it is, also what a spreadsheet takes for a formula.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write a CSV file [default: standard output]",
)
def predict(
    model: Path, file: Path, ids: tuple[str, ...], with_std: bool, raw: bool, out: Path | None
) -> None:
    """Predict the rows of FILE with a MODEL written by fit.

    Columns are matched by name; columns that the model does not know are ignored. Text of --id that
    begins with =, +, - or @, which a spreadsheet would execute, is written behind an apostrophe;
    numbers are not.
    """
    from forgetless.io import load, replace_file
    from forgetless.tables.readers import read_table
    from forgetless.tables.task_files import located_errors

    check_outputs({"MODEL": model, "FILE": file, "--out": out})
    fitted = load(model)
    if not hasattr(fitted, "predict"):
        raise ValueError(
            f"{model.name} holds no model, but {type(fitted).__name__}; give a file that fit has"
            " written"
        )
    encoded = hasattr(fitted, "steps")
    text_columns = (
        {*ids, *fitted[0].text_columns_}
        if encoded
        else {*ids} - {*getattr(fitted, "feature_names_in_", ())}
    )
    table = read_table(file, text_columns)
    missing = [name for name in ids if name not in table.columns]
    if missing:
        names = ", ".join(map(str, table.columns))
        raise ValueError(f"{file.name} has no column {missing[0]!r} for --id; it has {names}")
    if len(table) == 0:
        raise ValueError(f"{file.name} has no rows")
    X = table if encoded else _model_columns(fitted, table, file)
    identifiers = table[list(ids)].astype(object)
    columns = {
        name: identifiers[name].where(identifiers[name].notna(), None).tolist() for name in ids
    }
    with located_errors(file):
        if is_classifier(fitted):
            columns |= _class_columns(fitted, X, with_std)
        else:
            predictions = fitted.predict(X, return_std=True) if with_std else (fitted.predict(X),)
            columns |= _prediction_columns(fitted, predictions)
    strings = unreadable_notes(fitted[0].unreadable(X), file) if encoded else []
    print_lines("\n".join(strings), err=True) if strings else None
    if not raw:
        columns = {str(_safe(name)): [_safe(cell) for cell in columns[name]] for name in columns}
    # which need quotes
    returns = any("\r" in str(cell) for name in ids for cell in (name, *identifiers[name]))
    text = frame(columns).to_csv(
        index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    )
    if out is None:
        click.echo(text, nl=False)
    else:
        replace_file(out, text.encode())
        print_lines(f"{len(table)} predictions: {out}")


def _safe(cell: Any) -> Any:
    """Return a cell that spreadsheets do not take for a formula: text like one behind an
    apostrophe.
    """
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _class_columns(fitted: Any, X: Any, with_std: bool) -> dict[str, list[Any]]:
    """Return the columns of predicted classes, and of the probability of each class."""
    if with_std:
        raise click.UsageError(
            "--std needs a target of numbers; classes have probabilities, which are written anyway"
        )
    probabilities = np.asarray(fitted.predict_proba(X))
    columns = {"prediction": np.asarray(fitted.classes_)[np.argmax(probabilities, axis=1)].tolist()}
    return columns | {
        f"probability_{label}": probabilities[:, i].tolist()
        for i, label in enumerate(fitted.classes_)
    }


def _prediction_columns(fitted: Any, predictions: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the columns of predictions and their standard deviations, one for each target."""
    columns: dict[str, list[Any]] = {}
    for name, values in zip(("prediction", "std"), predictions, strict=False):
        targets = np.reshape(values, (len(values), -1)).T.tolist()
        labels = (getattr(fitted, "table_", None) or {}).get("targets", range(1, len(targets) + 1))
        heads = [name] if len(targets) == 1 else [f"{name}_{label}" for label in labels]
        columns |= dict(zip(heads, targets, strict=True))
    return columns


def _model_columns(fitted: Any, table: Any, file: Path) -> Any:
    """Return the columns of a model without an encoder, as numbers."""
    from forgetless.tables.task_files import numbers_of

    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        return numbers_of(table, file)
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(
            f"{file.name} lacks {len(missing)} features of the model, e.g. {missing[0]}"
        )
    import pandas

    # pandas 2 leaves NumPy's strings as they are, and scikit-learn takes only Python's for names.
    return pandas.DataFrame(
        numbers_of(table[list(names)], file), columns=[str(name) for name in names]
    )

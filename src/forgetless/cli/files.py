"""The commands ``verify`` and ``show``: what a file is."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from forgetless.cli.shared import examples, say, say_json
from forgetless.reporting.text import printable

WORDS = {
    "n_tasks_seen_": "tasks learned",
    "nbytes_": "bytes of its state",
    "rows": "rows learned",
    "task": "column of the task",
    "prequential_rmse": "RMSE of rows before they were learned, from the second task on",
    "prequential_mse_": "their mean squared error, with the first task, before which nothing was known",
    "seen_mse_": "mean squared error of held-out rows of all tasks",
    "kept_": "share of what was seen that is remembered",
    "radius_": "largest norm of a task so far",
}
"""What ``show`` calls facts that JSON has under the names of attributes."""

SHOWN = 20
"""Coefficients that ``show`` prints, the largest first."""


@click.command(epilog=examples("forgetless verify model.npz"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_context
def verify(context: click.Context, file: Path, as_json: bool) -> None:
    """Say what FILE is, whether it is whole, and whether rows of data are in it; exit code 1 if it is refused.

    Models, results, certificates, advice, checkpoints, worst collections and archives of tasks. Nothing in it is run.
    """
    from forgetless.files import describe_file

    report = describe_file(file)
    click.echo(json.dumps({**dataclasses.asdict(report), "ok": report.ok}) if as_json else repr(report))
    context.exit(0 if report.ok else 1)


@click.command(epilog=examples("forgetless show model.npz", "forgetless show model.npz --features 100 --json"))
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--features", type=click.IntRange(1), default=SHOWN, show_default=True, help="Coefficients to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def show(model: Path, features: int, as_json: bool) -> None:
    """Show what a file holds: of a MODEL tasks seen, errors, strengths and coefficients; of a result its numbers."""
    from forgetless.files import describe_file, load_result
    from forgetless.tables.pipeline import load_model
    from forgetless.tables.report import coefficients

    report = describe_file(model)
    if not as_json:
        click.echo(repr(report))
    if not as_json and report.ok and report.kind in ("trace", "expectation", "certificate", "advice", "tasks"):
        say(f"\n{load_result(model)!r}" if report.version else "")
        return
    if report.kind != "model":
        raise ValueError(f"{model.name} is no model to show" + ("" if report.ok else ": it is refused"))
    fitted = load_model(model)
    estimator = fitted[-1] if hasattr(fitted, "steps") else fitted
    facts = _facts(fitted, estimator)
    table = coefficients(fitted, features)
    if as_json:
        told = {**dataclasses.asdict(report), **facts, "coefficients": table.values()}
        say_json(told)
        return
    click.echo("\n" + printable(" ".join(repr(estimator).split()), 2000))
    for name, value in facts.items():
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        click.echo(f"{WORDS.get(name, name)}: {printable(shown, 200)}")
    if hasattr(fitted, "steps"):
        click.echo("\n" + fitted[0].summary().text())
    click.echo(f"\n{table.title}\n" + table.text())


def _facts(fitted: Any, estimator: Any) -> dict[str, Any]:
    """Return what is known of a stream beside its coefficients."""
    found: dict[str, Any] = {"n_tasks_seen_": estimator.n_tasks_seen_, "nbytes_": estimator.nbytes_}
    about = getattr(fitted, "table_", None)
    if about is not None:
        found |= {"rows": about["rows"], "task": about["task"], "targets": ", ".join(about["targets"])}
        found["last tasks"] = ", ".join(printable(label, 30) for label in about["tasks"][-5:])
    history = estimator.history_
    if len(history["strength"]):
        found["strength of the last task"] = float(history["strength"][-1])
    late = history["task"] > 1
    if late.any():
        found["prequential_rmse"] = math.sqrt(np.average(history["mse_before"][late], weights=history["n_rows"][late]))
    for name in ("prequential_mse_", "seen_mse_", "kept_", "radius_"):
        value = getattr(estimator, name, math.nan)
        if value == value:  # NaN where it is not known
            found[name] = value
    return found

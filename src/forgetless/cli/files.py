"""The commands ``verify`` and ``show``: what a file is."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from forgetless._base.tables import Table
from forgetless._base.words import printable
from forgetless.cli.shared import say

SHOWN = 20
"""Coefficients that ``show`` prints, the largest first."""


@click.command()
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


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
def show(model: Path) -> None:
    """Show what is in a file: of a MODEL its parameters, errors and largest coefficients; of a result its numbers."""
    from forgetless.files import describe_file, load_result
    from forgetless.streams.files import load_any

    report = describe_file(model)
    click.echo(repr(report))
    if report.ok and report.kind in ("trace", "expectation", "certificate", "advice", "tasks"):
        say(f"\n{load_result(model)!r}" if report.version else "")
        return
    if report.kind != "model":
        raise ValueError(f"{model.name} is no model to show" + ("" if report.ok else ": it is refused"))
    fitted = load_any(model)
    click.echo("\n" + printable(" ".join(repr(fitted).split()), 2000))
    for name, value in (("prequential_mse_", fitted.prequential_mse_), ("seen_mse_", fitted.seen_mse_)):
        if value == value:  # NaN where it is not known
            click.echo(f"{name} {value:.6g}")
    click.echo("\n" + _largest(fitted).text())


def _largest(fitted: Any) -> Table:
    """Return the largest coefficients with the names of their features."""
    import numpy as np

    coef = np.atleast_2d(fitted.coef_)
    order = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:SHOWN]
    names = getattr(fitted, "feature_names_in_", None)
    labels = [f"{i + 1}" if names is None else printable(str(names[i]), 40) for i in order.tolist()]
    heads = [printable(str(label), 20) for label in getattr(fitted, "classes_", range(1, len(coef) + 1))]
    columns = {head if len(coef) > 1 else "coefficient": coef[i, order].tolist() for i, head in enumerate(heads[:8])}
    title = f"Coefficients, the largest {len(order)} of {coef.shape[1]}"
    return Table(title, {"feature": labels, **columns})

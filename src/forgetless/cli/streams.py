"""The commands ``fit`` and ``predict``: a table in, a model or predictions out."""

import json
from pathlib import Path
from typing import Any

import click

from forgetless._base.files import check_target
from forgetless._base.tables import Table
from forgetless.cli.shared import average_option, progress, say, schedule_of
from forgetless.schedules.names import entry_of, usage
from forgetless.streams.run import ORDERS

SCHEDULES = usage("auto")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", required=True, help="Column with the task.")
@click.option("--target", required=True, multiple=True, help="Column with the target; repeat it for several.")
@click.option("--schedule", default="auto", show_default=True, help=f"{SCHEDULES}.")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Directions to remember.")
@click.option(
    "--metric",
    type=click.Choice(["isotropic", "diagonal"]),
    default="isotropic",
    show_default=True,
    help="diagonal for sparse, hashed or one-hot columns.",
)
@average_option
@click.option("--loss", type=click.Choice(["sum", "mean"]), default="mean", show_default=True, help="Loss of a task.")
@click.option("--intercept/--no-intercept", default=True, show_default=True, help="A feature that is always 1.")
@click.option("--order", type=click.Choice(ORDERS), default="file", show_default=True, help="Order of the tasks.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, True, True),
    default=0.2,
    show_default=True,
    help="Share of the rows of each task that is watched and not trained on.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to write the model (.npz).")
@click.option("--report", type=click.Path(path_type=Path), help="Where to write a report (.html).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def fit(
    file: Path,
    task: str,
    target: tuple[str, ...],
    schedule: str,
    rank: int,
    metric: str,
    average: float | None,
    loss: str,
    intercept: bool,
    order: str,
    holdout: float,
    seed: int,
    out: Path,
    report: Path | None,
    as_json: bool,
) -> None:
    """Learn the tasks in FILE (CSV or Parquet) one after the other and write the model.

    Every column but task and target is a feature. Tasks come in the order in which they first appear.
    """
    from forgetless.datasets.files import load_table
    from forgetless.streams import page
    from forgetless.streams.run import run_stream

    _check_outputs({"FILE": file, "--out": out, "--report": report})
    table = load_table(file, task, target[0] if len(target) == 1 else target)
    n_tasks = len(set(table.groups.tolist()))
    options: dict[str, Any] = {
        "average": average,
        "loss": loss,
        "fit_intercept": intercept,
        "history_size": max(n_tasks, 1),
    }
    if rank > 0 or metric != "isotropic":
        options |= {"rank": rank, "metric": metric}
    model = _model(schedule, n_tasks, **options)
    with progress() as tell:
        run = run_stream(model, table, order=order, holdout=holdout, seed=seed, joint=_joint(table), progress=tell)
        _name_features(model, table.features)
        model.save(out)
        settings = (
            f"{file.name}: {len(table.X)} rows, {len(table.features)} features, tasks by {task}, "
            f"schedule {schedule}; {model!r}"
        )
        if report is not None:
            tell(0, 0, "drawing")
            page.write(run, report, " ".join(settings.split()))
    if as_json:
        click.echo(json.dumps({"model": str(out), **page.summary(run)}))
        return
    say(f"{n_tasks} tasks learned from {file.name}, {len(table.features)} features")
    for line in page.sentences(run):
        say(f"  {line}")
    say(f"model: {out}" + (f"\nreport: {report}" if report else ""))


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write a CSV file [default: standard output]")
def predict(model: Path, file: Path, out: Path | None) -> None:
    """Predict the rows of FILE (CSV or Parquet) with a MODEL written by fit.

    Columns are found by name, whatever their order; columns the model does not know are ignored.
    """
    from forgetless._base.files import replace_file
    from forgetless.datasets.files import numbers_of, read_table
    from forgetless.streams.files import load_any

    _check_outputs({"MODEL": model, "FILE": file, "--out": out})
    fitted = load_any(model)
    table = read_table(file)
    names = getattr(fitted, "feature_names_in_", None)
    if names is not None:
        missing = [name for name in names if name not in table.columns]
        if missing:
            raise ValueError(f"{file.name} lacks {len(missing)} features of the model, e.g. {missing[0]}")
        table = table[list(names)]
    if len(table) == 0:
        raise ValueError(f"{file.name} has no rows")
    found = fitted.predict(_frame(numbers_of(table, file), names))
    columns = found.reshape(len(table), -1)
    heads = ["prediction"] if columns.shape[1] == 1 else [f"prediction_{i + 1}" for i in range(columns.shape[1])]
    text = Table("Predictions", dict(zip(heads, columns.T.tolist(), strict=True))).to_csv()
    if out is None:
        click.echo(text, nl=False)
    else:
        replace_file(out, text.encode())
        say(f"{len(table)} predictions: {out}")


def _check_outputs(paths: dict[str, Path | None]) -> None:
    """Refuse, before any work, to write over what is read, two things to one place, or where nothing can be written."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        place = path.resolve()
        if place in seen:
            raise click.UsageError(f"{name} and {seen[place]} are the same file, {path}; give another name")
        if name.startswith("--"):
            try:
                check_target(path)
            except OSError as error:
                raise click.UsageError(f"{name}: {error}") from None
        seen[place] = name


def _model(schedule: str, n_tasks: int, **options: Any) -> Any:
    import forgetless as fl

    if schedule == "auto":
        return fl.ContinualRidge(schedule="auto", n_tasks=n_tasks, **options)
    chosen = schedule_of(schedule, n_tasks, "auto")
    if isinstance(chosen, fl.Ridge):
        return fl.ContinualRidge(alpha=float(chosen.coefficient), **options)
    entry = entry_of(chosen)
    kind = fl.ContinualGD if entry is not None and entry.budget else fl.ContinualRidge
    if kind is fl.ContinualGD and "rank" in options:
        raise click.UsageError(f"--rank and --metric need explicit L2, and {schedule} is a budget of gradient steps")
    return kind(schedule=chosen, n_tasks=n_tasks, **options)


def _joint(table: Any) -> Any:
    """Return the yardstick where its d × d matrix is small; None where it is the point not to have one."""
    import forgetless as fl

    return fl.JointRidge(alpha=1e-6, fit_intercept=True) if len(table.features) <= 2000 else None


def _name_features(model: Any, names: tuple[str, ...]) -> None:
    import numpy as np

    model.feature_names_in_ = np.array(names, dtype=object)


def _frame(values: Any, names: Any) -> Any:
    if names is None:
        return values
    import pandas

    # pandas 2 leaves NumPy's strings as they are, and scikit-learn takes only Python's for names.
    return pandas.DataFrame(values, columns=[str(name) for name in names])

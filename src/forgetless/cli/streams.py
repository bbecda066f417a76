"""The commands ``fit``, ``evaluate`` and ``predict``: tables in, a model, errors or predictions out."""

import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from forgetless.cli import notes as notes_on
from forgetless.cli.shared import average_option, complete_schedule, examples, say, say_json, schedule_of
from forgetless.io.atomic import check_target
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table
from forgetless.schedules.names import entry_of, usage
from forgetless.tables.grouped import ORDERS

F = TypeVar("F", bound=Callable[..., Any])

SCHEDULES = usage("auto")

RANK = 100
"""Rank of the memory of ``fit``: with up to as many features it forgets nothing."""

REPEAT = "; repeat it for several"

_COLUMNS = [
    click.option("--features", multiple=True, help=f"The only columns that are features{REPEAT} [default: all others]"),
    click.option("--drop", multiple=True, help=f"Column to leave out{REPEAT}."),
    click.option("--categorical", multiple=True, help=f"Column whose values are categories, e.g. codes{REPEAT}."),
    click.option("--text", multiple=True, help=f"Column of texts, whose words are hashed{REPEAT}."),
    click.option("--date", multiple=True, help=f"Column of dates{REPEAT}; most are found without it."),
    click.option("--impute", type=click.Choice(["mean", "zero", "error"]), default="mean", show_default=True,
                 help="What a missing number becomes."),
]  # fmt: skip

_MODEL = [
    click.option("--schedule", default="auto", show_default=True, help=f"{SCHEDULES}.",
                 shell_complete=complete_schedule),
    click.option("--horizon", type=click.IntRange(1), help="Tasks that will come in all, for schedules that are made "
                 "for a number of them; later ones come in epochs of doubling length [default: those in FILE]"),
    click.option("--rank", type=click.IntRange(0),
                 help=f"Rank of the memory of all tasks, rank × features numbers [default: {RANK} with auto, else 0]"),
    click.option("--diagonal", is_flag=True, help="Also remember the size of each feature: for sparse or hashed ones."),
    average_option,
    click.option("--loss", type=click.Choice(["sum", "mean"]), default="mean", show_default=True,
                 help="Loss of a task."),
    click.option("--intercept/--no-intercept", default=True, show_default=True, help="A feature that is always 1."),
    click.option("--standardize/--no-standardize", default=True, show_default=True,
                 help="Columns in units of their own: mean 0, deviation 1."),
]  # fmt: skip


def _with(options: list[Any]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.command(
    epilog=examples(
        "forgetless fit sales.csv --task month --target sales --out model.fl --report report.html",
        "forgetless fit november.csv --from model.fl --out model.fl",
        "forgetless fit orders.parquet --task week --target price --drop order_id --categorical shop --out model.fl",
        "zcat big.csv.gz | forgetless fit - --task day --target delay --out model.fl",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", help="Column with the task.")
@click.option("--target", multiple=True, help=f"Column with the target{REPEAT}.")
@click.option("--from", "previous", type=click.Path(path_type=Path), help="A model to go on from.")
@_with(_COLUMNS)
@_with(_MODEL)
@click.option("--order", type=click.Choice(ORDERS), default="file", show_default=True, help="Order of the tasks.")
@click.option("--chunk-rows", type=click.IntRange(0),
              help="Rows to read at a time, tasks being in one piece [default: all, up to 256 MB]")  # fmt: skip
@click.option("--holdout", type=click.FloatRange(0, 1, max_open=True), default=0.2, show_default=True,
              help="Share of the rows of each task that is watched and not trained on; 0 for none.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Of the rows that are watched, and of --order random.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to write the model (.fl).")
@click.option("--report", type=click.Path(path_type=Path), help="Where to write a report (.html).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_context
def fit(
    context: click.Context,
    /,
    file: Path,
    task: str | None,
    target: tuple[str, ...],
    previous: Path | None,
    features: tuple[str, ...],
    drop: tuple[str, ...],
    order: str,
    chunk_rows: int | None,
    holdout: float,
    seed: int,
    out: Path,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn the tasks in FILE one after the other and write the model.

    Every column but task and target is a feature: numbers, truth values, categories, dates and gaps are handled, and
    what became of each is said. Tasks come in the order in which they first appear. With --from a model goes on.

    FILE is CSV with any delimiter, TSV (both also .gz), Parquet, Feather, .npz, or - for CSV on standard input.
    """
    import forgetless as fl
    from forgetless.estimators.evaluation import Baselines, evaluate_stream
    from forgetless.tables import report as page
    from forgetless.tables.grouped import TableTasks

    _check_outputs({"FILE": file, "--out": out, "--report": report})
    _check_outputs({"--from": previous, "--report": report})  # and --out may be what it goes on from
    if previous is None:
        task, target = _columns(file, task, target)
        model: Any = None
        words = {*options["categorical"], *options["text"], *options["date"]}
    else:
        _check_unchanged(context)
        model = _pipeline(previous)
        task, target = task or model.table_["task"], target or tuple(model.table_["targets"])
        words = {*model[0].words_}
    tasks = TableTasks(file, task, target, features, drop, order, seed, chunk_rows, words - {task, *target})
    parts = iter(tasks)  # a large file is being read from here on, while other things are loaded
    encoder = fl.tables.TableEncoder(**{name: options.pop(name) for name in ("categorical", "text", "date", "impute")})
    first = next(parts)  # reads the table, or its beginning: then the number of tasks is known, or unknown for good
    if model is None:
        model = fl.tables.make_pipeline(encoder, _model(n_tasks=tasks.total, **options))
        model.table_ = {"task": task, "targets": list(target), "tasks": [], "rows": 0}
        tasks.notes += notes_on.of_first_task(first.X)
    about = model.table_
    # Not for a file that is read in chunks, of which every task would be learned twice.
    joint = None if tasks.rows else fl.JointRidge(alpha=1e-6, fit_intercept=True, standardize=True)
    with terminal_progress() as tell, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "task .* is beyond the horizon")  # a note of the report says it
        run = evaluate_stream(
            model,
            _chained(first, parts),
            holdout=holdout,
            seed=seed,
            baselines=Baselines(model.target_means, joint),
            progress=lambda done, _, text: tell(done, tasks.total or 0, text),
        )
        labels = [*about["tasks"], *run.tasks][-1000:]
        ends = {name: np.asarray(getattr(run.end, name)).tolist() for name in ("mean", "last")}
        model.table_ = {**about, "tasks": labels, "rows": about["rows"] + int(run.rows.sum()), **ends}
        model.save(out)
        notes = [*tasks.notes, *notes_on.of_next_file(model, about, tasks, run.tasks)]
        notes += [f"Warning: {line}" for line in model[0].doubts()]
        if report is not None:
            tell(0, 0, "drawing")
            estimator = " ".join(repr(model[-1]).split())
            page.write(run, report, f"{file.name}: {tasks.n_rows} rows, tasks by {task}; {estimator}", notes)
    if as_json:
        say_json({"model": str(out), **page.summary(run), "notes": notes})
        return
    number = f"{len(run.tasks)} task{'s' if len(run.tasks) > 1 else ''}"
    say(f"{number} learned from {file.name}, {tasks.n_rows} rows, {model[-1].n_features_in_} features")
    if sys.stdout.isatty() or previous is None:
        say(notes_on.shortened(model[0].summary()))
    for line in [*notes, *page.sentences(run)]:
        say(f"  {line}")
    say(f"model: {out}" + (f"\nreport: {report}" if report else ""))


@click.command(
    epilog=examples(
        "forgetless evaluate model.fl december.csv",
        "forgetless evaluate model.fl december.parquet --json",
    )
)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", help="Column with the task [default: that of fit]")
@click.option("--target", multiple=True, help=f"Column with the target{REPEAT} [default: that of fit]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def evaluate(model: Path, file: Path, task: str | None, target: tuple[str, ...], as_json: bool) -> None:
    """Tell the errors of a MODEL on the tasks of FILE, which it does not learn.

    Beside them: the mean of all targets in FILE, that of the targets learned, and ridge regression fitted to the very
    rows that it is judged by.
    """
    from forgetless.tables.evaluation import evaluate as evaluated
    from forgetless.tables.grouped import TableTasks

    fitted = _pipeline(model)
    task, target = task or fitted.table_["task"], target or tuple(fitted.table_["targets"])
    tasks = TableTasks(file, task, target, words={*fitted[0].words_} - {task, *target})
    with terminal_progress() as tell:
        tell(0, 0, "predicting")
        found = evaluated(fitted, tasks)
    if as_json:
        say_json({"tasks": found.table.values(), **found.overall})
        return
    say(found.table.text())
    for line in (*tasks.notes, *found.sentences):
        say(line)


@click.command(
    epilog=examples(
        "forgetless predict model.fl new.csv",
        "forgetless predict model.fl new.parquet --id order_id --std --out predictions.csv",
    )
)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "ids", multiple=True, help=f"Column of FILE to write beside the predictions{REPEAT}.")
@click.option("--std", "with_std", is_flag=True, help="Add the standard deviation of each prediction.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write a CSV file [default: standard output]")
def predict(model: Path, file: Path, ids: tuple[str, ...], with_std: bool, out: Path | None) -> None:
    """Predict the rows of FILE with a MODEL written by fit.

    Columns are found by name, whatever their order; columns the model does not know are ignored.
    """
    from forgetless.files import load
    from forgetless.io.atomic import replace_file
    from forgetless.tables import readers as tables

    _check_outputs({"MODEL": model, "FILE": file, "--out": out})
    fitted = load(model)
    if not hasattr(fitted, "predict"):
        raise ValueError(f"{model.name} holds no model, but {type(fitted).__name__}; give a file that fit has written")
    encoded = hasattr(fitted, "steps")
    words = fitted[0].words_ if encoded else ()
    numbers = () if encoded else getattr(fitted, "feature_names_in_", ())
    table = tables.read_table(file, {*ids, *words} - {*numbers})
    missing = [name for name in ids if name not in table.columns]
    if missing:
        raise ValueError(
            f"{file.name} has no column {missing[0]!r} for --id; it has {', '.join(map(str, table.columns))}"
        )
    if len(table) == 0:
        raise ValueError(f"{file.name} has no rows")
    X = table if encoded else _known_columns(fitted, table, file)
    found = fitted.predict(X, return_std=True) if with_std else (fitted.predict(X),)
    told = table[list(ids)].astype(object)
    columns: dict[str, list[Any]] = {name: told[name].where(told[name].notna(), None).tolist() for name in ids}
    for what, values in zip(("prediction", "std"), found, strict=False):
        parts = values.reshape(len(table), -1)
        about = getattr(fitted, "table_", None) or {}
        each = about.get("targets", range(1, parts.shape[1] + 1))
        heads = [what] if parts.shape[1] == 1 else [f"{what}_{name}" for name in each]
        columns |= dict(zip(heads, parts.T.tolist(), strict=True))
    text = Table("Predictions", columns).to_csv()
    if out is None:
        click.echo(text, nl=False)
    else:
        replace_file(out, text.encode())
        say(f"{len(table)} predictions: {out}")


def _chained(first: Any, rest: Any) -> Any:
    yield first
    yield from rest


def _columns(file: Path, task: str | None, target: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the columns of task and target; those of an archive have their names."""
    from forgetless.tables import readers as tables

    if file.suffix.lower() in (".npz", ".fl"):
        return task or "groups", target or ("y",)
    for role, given in (("task", task), ("target", target)):
        if not given:
            has = ""
            if str(file) != "-" and file.is_file():
                with closing(tables.read_chunks(file, 10)) as chunks:
                    has = f"; {file.name} has {', '.join(str(name) for name in next(chunks).columns)}"
            raise click.UsageError(f"say which column is the {role}, with --{role} NAME{has}")
    assert task is not None
    return task, target


def _check_unchanged(context: click.Context) -> None:
    """Refuse options that a model which goes on has had decided already."""
    names = ("features", "categorical", "text", "date", "impute", "schedule", "horizon", "rank", "diagonal", "average",
             "loss", "intercept", "standardize")  # fmt: skip
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} was decided when the model of --from was begun; leave it out")


def _pipeline(path: Path) -> Any:
    """Return a model that was written by ``fit``."""
    from forgetless.files import load

    model = load(path)
    if not hasattr(model, "steps") or model.table_ is None:
        raise ValueError(f"{path.name} was not written by forgetless fit: it has no columns of a table")
    return model


def _check_outputs(paths: dict[str, Path | None]) -> None:
    """Refuse, before any work, to write over what is read, two things to one place, or where nothing can be written."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or str(path) == "-":
            continue
        place = path.resolve()
        if place in seen:
            raise click.UsageError(f"{name} and {seen[place]} are the same file, {path}; give another name")
        if name in ("--out", "--report"):
            try:
                check_target(path)
            except OSError as error:
                raise click.UsageError(f"{name}: {error}") from None
        seen[place] = name


def _model(
    *,
    n_tasks: int | None,
    schedule: str,
    horizon: int | None,
    rank: int | None,
    diagonal: bool,
    intercept: bool,
    average: float | None,
    loss: str,
    standardize: bool,
) -> Any:
    import forgetless as fl

    options: dict[str, Any] = {"fit_intercept": intercept, "average": average, "loss": loss, "standardize": standardize}
    n_tasks = horizon or n_tasks
    auto = schedule == "auto"
    memory = fl.LowRankMemory(rank or (RANK if auto and rank is None else 0), diagonal=diagonal)
    if auto:
        return fl.ContinualRidge(schedule="auto", memory=memory, **options)
    chosen = schedule_of(schedule, n_tasks, "auto")
    entry = entry_of(chosen)
    if entry is not None and entry.budget:
        if rank or diagonal:
            raise click.UsageError(
                f"--rank and --diagonal need explicit L2, and {schedule} is a budget of gradient steps"
            )
        return fl.ContinualGD(schedule=chosen, n_tasks=n_tasks, **options)
    options["memory"] = memory if rank or diagonal else None
    if isinstance(chosen, fl.Ridge):
        return fl.ContinualRidge(alpha=float(chosen.coefficient), **options)
    return fl.ContinualRidge(schedule=chosen, n_tasks=n_tasks, **options)


def _known_columns(fitted: Any, table: Any, file: Path) -> Any:
    """Return the columns that a model without an encoder knows, as numbers."""
    from forgetless.tables.task_files import numbers_of

    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        return numbers_of(table, file)
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(f"{file.name} lacks {len(missing)} features of the model, e.g. {missing[0]}")
    import pandas

    # pandas 2 leaves NumPy's strings as they are, and scikit-learn takes only Python's for names.
    return pandas.DataFrame(numbers_of(table[list(names)], file), columns=[str(name) for name in names])

"""The command ``fit``: a table in, a model and a report out."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.base import is_classifier

from forgetless._core.frames import Values, columns_of, integers_of, read_once
from forgetless._text import printable, readable_number
from forgetless.cli.shared import (
    COLUMNS,
    REPEAT,
    average_option,
    check_outputs,
    examples,
    load_pipeline,
    print_json,
    print_lines,
    schedule_of,
    unreadable_notes,
    usage,
    with_options,
)
from forgetless.tables.pipeline import FORM_OF_FIT
from forgetless.tables.task_files import ORDERS

SCHEDULES = f"auto, {usage()}"

OBJECTIVES = ("seen", "next")

_LINES = 50
"""Columns of a table that are printed."""

SPLIT = {"holdout": 0.2, "seed": 0, "refit": True}
"""Defaults of the options of held-out rows, which a model stores."""

_COLUMNS = [
    click.option(
        "--features",
        multiple=True,
        help=f"The only columns that are features{REPEAT} [default: all others]",
    ),
    *COLUMNS,
]

_MODEL = [
    click.option("--schedule", default="auto", show_default=True, help=f"{SCHEDULES}."),
    click.option(
        "--objective",
        type=click.Choice(OBJECTIVES),
        default=OBJECTIVES[0],
        show_default=True,
        help=(
            "Small errors on the tasks seen, or on the next one, of a stream that changes. With"
            " auto."
        ),
    ),
    click.option(
        "--horizon",
        type=click.IntRange(1),
        help=("Number of tasks in all, for schedules that need it [default: those in FILE]"),
    ),
    click.option(
        "--rank",
        type=click.IntRange(1),
        help=(
            "With auto: features up to which all second moments are stored, beyond them the number"
            " of vectors [default: 500 and 100]"
        ),
    ),
    average_option,
    click.option(
        "--intercept/--no-intercept",
        default=FORM_OF_FIT["intercept"],
        show_default=True,
        help="A feature that is always 1.",
    ),
    click.option(
        "--standardize/--no-standardize",
        default=None,
        help="With auto: penalize in units of the deviation of every column [default: yes]",
    ),
]


@click.command(
    epilog=examples(
        "forgetless fit sales.csv --task month --target sales --out model.safetensors --report"
        " report.html",
        "forgetless fit november.csv --from model.safetensors --out model.safetensors",
        "forgetless fit orders.parquet --task week --target price --drop order_id --categorical"
        " shop --out model.safetensors",
        "zcat big.csv.gz | forgetless fit - --task day --target delay --out model.safetensors",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", help="Column with the task.")
@click.option("--target", multiple=True, help=f"Column with the target{REPEAT}.")
@click.option(
    "--classes",
    is_flag=True,
    help="The target holds classes [default: if it holds text or booleans]",
)
@click.option("--from", "previous", type=click.Path(path_type=Path), help="A model to resume.")
@with_options([*_COLUMNS, *_MODEL])
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="file",
    show_default=True,
    help="Order of the tasks.",
)
@click.option(
    "--chunk-rows",
    type=click.IntRange(0),
    help="Rows to read at a time, tasks being in one piece [default: all, up to 256 MB]",
)
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, max_open=True),
    help=(
        "Fraction of the rows of each task held out for errors; 0 for none [default: 0.2, or as"
        " --from]"
    ),
)
@click.option(
    "--refit/--no-refit",
    default=None,
    help="Learn the held-out rows too, in the model that is written [default: refit, or as --from]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Of the held-out rows, and of --order random [default: 0, or as --from]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write the model.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Where to write a report (.html).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.pass_context
def fit(
    context: click.Context,
    /,
    file: Path,
    previous: Path | None,
    out: Path,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn the tasks in FILE one after the other and write the model.

    Every column but task and target is a feature: numbers, booleans, categories, dates and missing
    values are handled, and the kind of each column is printed. Tasks come in the order in which
    they first appear. --from resumes a model.

    FILE is CSV with any delimiter, TSV (both also .gz), Parquet, Feather, Excel, .npz, or - for CSV
    on standard input.
    """
    from forgetless.tables import report as page
    from forgetless.tables.task_files import located_errors

    check_outputs({"FILE": file, "--out": out, "--report": report})
    check_outputs({"--from": previous, "--report": report})  # --out may replace the file of --from
    if previous is not None:
        _check_unchanged(context)
    model: Any = None if previous is None else load_pipeline(previous)
    split = _split(model, {name: options.pop(name) for name in SPLIT})
    with located_errors(file):
        model, tasks, parts = _begin(file, model, split["seed"], options)
        run, notes = _learn(model, tasks, parts, split)
        run.model.save(out)
        if report is not None:
            estimator = " ".join(repr(run.estimator).split())
            settings = f"{_first_line(run, tasks, split)}; tasks by {tasks.task}; {estimator}"
            page.write(run, report, settings, notes)
    if as_json:
        rows = {
            "rows": _n_learned(run, tasks, split),
            "rows_held_out": tasks.n_usable - int(run.rows.sum()),
        }
        print_json({"model": str(out), **page.summary(run), **rows, "notes": notes})
        return
    print_lines(_first_line(run, tasks, split))
    if sys.stdout.isatty() or previous is None:
        print_lines(_shortened(run.model[0].summary()))
    for line in [*notes, *page.sentences(run)]:
        print_lines(f"  {line}")
    print_lines(f"model: {out}" + (f"\nreport: {report}" if report else ""))


def _split(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of held-out rows: those of the command, else of the model to resume, else
    the defaults.
    """
    before = SPLIT if model is None else SPLIT | model.table_.get("split", {})
    return {name: before[name] if value is None else value for name, value in options.items()}


def _n_learned(run: Any, tasks: Any, split: dict[str, Any]) -> int:
    """Return the number of rows that the written model has learned."""
    return tasks.n_usable if split["refit"] else int(run.rows.sum())


def _first_line(run: Any, tasks: Any, split: dict[str, Any]) -> str:
    """Return how many tasks, rows and features were learned."""
    learned, held_out = _n_learned(run, tasks, split), tasks.n_usable - int(run.rows.sum())
    of_all = "" if learned == tasks.n_rows else f" of {readable_number(tasks.n_rows)}"
    watched = (
        f" ({readable_number(held_out)} held out for errors, then learned)"
        if split["refit"]
        else ""
    )
    rows = f"{readable_number(learned)}{of_all} rows{watched if held_out else ''}"
    number = f"{len(run.tasks)} task{'s' if len(run.tasks) > 1 else ''}"
    return (
        f"{number} learned from {tasks.path.name}, {rows}, {run.estimator.n_features_in_} features"
    )


def _begin(
    file: Path, model: Any, seed: int, options: dict[str, Any]
) -> tuple[Any, Any, Iterator[Any]]:
    """Return the model to learn with, the tasks of a file, and an iterator over them whose first is
    read.
    """
    import forgetless as fl

    tasks = _tasks(file, model, seed, options)
    parts = iter(tasks)
    first = next(parts)  # of a file that is read at once, the number of tasks is now known
    encoder = fl.tables.TableEncoder(
        **{name: options.pop(name) for name in ("categorical", "text", "date", "impute")}
    )
    if model is None:
        n_tasks = options.pop("horizon") or tasks.total
        model = fl.tables.make_pipeline(
            encoder, _model(n_tasks, classes=bool(tasks.classes), **options)
        )
        model.table_ = {"task": tasks.task, "targets": list(tasks.targets), "tasks": [], "rows": 0}
        tasks.notes += _notes_on_first_task(first.X)
    return model, tasks, itertools.chain([first], parts)


def _learn(
    model: Any, tasks: Any, parts: Iterator[Any], split: dict[str, Any]
) -> tuple[Any, list[str]]:
    """Learn the tasks, and return their errors, with the model that is to be written, and notes for
    the user.
    """
    import forgetless as fl
    from forgetless.estimators.evaluation import Baselines, evaluate_stream

    before = model.table_
    # Not for a file that is read in chunks, whose rows are not kept.
    joint = None if tasks.rows else fl.StreamingRidge(alpha=1.0, guard=None)
    refit = split["refit"] and split["holdout"] > 0
    final = _Learner(deepcopy(model) if refit else model, model.target_means)
    run = evaluate_stream(
        model,
        final.learning(parts) if refit else parts,
        holdout=split["holdout"],
        seed=split["seed"],
        baselines=Baselines(model.target_means, joint),
    )
    learned, means = final.model, final.means if refit else run.end
    labels = [*before["tasks"], *run.tasks][-1000:]
    if tasks.classes:
        ends = {"classes": dict(means.counts), "last": means.last}
    else:
        ends = {name: np.asarray(getattr(means, name)).tolist() for name in ("mean", "last")}
    facts = {"tasks": labels, "rows": means.rows, **ends, "split": split}
    learned.table_ = {**before, **facts}
    notes = [*tasks.notes, *_notes_on_next_file(learned, before, tasks, run.tasks)]
    warned = [f"Warning: {line}" for line in learned[0].warnings()]
    return replace(run, model=learned), [
        *notes,
        *warned,
        *unreadable_notes(learned[0].unreadable(), tasks.path),
    ]


class _Learner:
    """A model that learns all rows of tasks, while another one is evaluated on some of them."""

    def __init__(self, model: Any, means: Any) -> None:
        self.model, self.means = model, means

    def learning(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Yield tasks, and learn each of them afterwards."""
        for part in parts:
            part = part._replace(X=read_once(part.X))
            yield part
            self.model.partial_fit(part.X, part.y)
            self.means = self.means.after(part.y)


def _notes_on_next_file(model: Any, about: Any, tasks: Any, labels: list[str]) -> list[str]:
    """Return notes on the next file: unknown columns, an exceeded horizon, tasks learned before."""
    notes = []
    unknown = [name for name in tasks.columns if name not in model[0].columns_]
    if unknown:
        notes.append(
            f"columns that the model does not know were left out: {', '.join(unknown[:5])}"
            + _more(unknown)
        )
    if len(model.table_.get("classes", ("", ""))) == 1:
        notes.append(f"Warning: {tasks.targets[0]} has one class only so far")
    new = (
        sorted({*model.table_.get("classes", ())} - {*about.get("classes", ())})
        if about["rows"]
        else []
    )
    if new:
        notes.append(
            f"new classes: {', '.join(printable(label, 40) for label in new[:5])}" + _more(new)
        )
    again = [label for label in labels if label in set(about["tasks"])]
    if again:
        notes.append(
            f"Warning: learned before, and now once more: {', '.join(again[:5])}" + _more(again)
        )
    return notes


def _notes_on_first_task(X: Any) -> list[str]:
    """Return warnings about columns that may number rows, which a model would take for a trend."""
    counting = [
        name for name, column in columns_of(X).items() if len(column) >= 20 and _counts_up(column)
    ]
    return [
        f"Warning: {name} counts up from row to row; if it numbers rows, use --drop {name}"
        for name in counting[:5]
    ]


def _counts_up(column: Any) -> bool:
    """Return whether a column holds increasing integers, of any number of digits, perhaps as
    text.
    """
    integers = integers_of(column)
    if integers is None:
        values: Any = (
            column.labels
            if isinstance(column, Values)
            else np.asarray(column, dtype=object).tolist()
        )
        if len(values) < len(column):  # equal strings, or numbers with decimals
            return False
        if not all(
            type(value) is int or (isinstance(value, str) and value.isdecimal()) for value in values
        ):
            return False
        integers = np.array([int(value) for value in values], dtype=object)
    # not their differences, which unsigned integers do not have
    return bool(np.all(integers[1:] > integers[:-1]))


def _shortened(columns: Any) -> str:
    """Return a table of columns as text, of very many the first."""
    lines = columns.text().split("\n")
    rest = len(lines) - 1 - _LINES
    return "\n".join(
        lines if rest <= 0 else [*lines[: 1 + _LINES], f"and {rest} more: forgetless show"]
    )


def _more(names: list[str]) -> str:
    return f" and {len(names) - 5} more" if len(names) > 5 else ""


def _tasks(file: Path, model: Any, seed: int, options: dict[str, Any]) -> Any:
    """Return the tasks of a file, with the columns of the options or of the model of --from."""
    from forgetless.tables.task_files import TableTasks

    names = ("task", "target", "features", "drop", "order", "chunk_rows", "classes")
    task, target, features, drop, order, chunk_rows, classes = (options.pop(name) for name in names)
    if model is None:
        task, target = _columns(file, task, target)
        text_columns = {*options["categorical"], *options["text"], *options["date"]}
    else:
        task, target = task or model.table_["task"], target or tuple(model.table_["targets"])
        text_columns = {*model[0].text_columns_}
        classes = is_classifier(model[-1])
    text_columns = text_columns - {task, *target}
    if not classes:
        classes = None if model is None else False  # decided by the first rows, or by the model
    return TableTasks(
        file, task, target, features, drop, order, seed, chunk_rows, text_columns, classes=classes
    )


def _columns(file: Path, task: str | None, target: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the columns of task and target; for archives their names are known."""
    from forgetless.tables.readers import read_chunks

    if file.suffix.lower() in (".npz", ".safetensors"):
        return task or "groups", target or ("y",)
    for role, name in (("task", task), ("target", target)):
        if not name:
            has = ""
            if str(file) != "-" and file.is_file():
                with closing(read_chunks(file, 10)) as chunks:
                    has = (
                        f"; {file.name} has {', '.join(str(name) for name in next(chunks).columns)}"
                    )
            raise click.UsageError(f"say which column is the {role}, with --{role} NAME{has}")
    assert task is not None
    return task, target


def _check_unchanged(context: click.Context) -> None:
    """Raise UsageError for options that the model of --from has fixed."""
    names = (
        "features",
        "categorical",
        "text",
        "date",
        "impute",
        "schedule",
        "horizon",
        "rank",
        "average",
        "intercept",
        "standardize",
        "classes",
        "objective",
    )
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} was decided when the model of --from was begun; leave it out"
            )


def _model(n_tasks: int | None, *, classes: bool, **options: Any) -> Any:
    """Return the model that the options describe."""
    import forgetless as fl

    schedule = options.pop("schedule")
    adaptive = options.pop("objective") == "next"
    intercept = options.pop("intercept")
    if schedule == "auto":
        _check_unused(options, "average", "another --schedule than auto")
        standardize = options["standardize"] in (None, True)
        if not classes:
            return fl.StreamingRidge(
                adaptive=adaptive,
                rank=options["rank"],
                fit_intercept=intercept,
                standardize=standardize,
            )
        if adaptive or not intercept:
            raise click.UsageError("--objective next and --no-intercept need a target of numbers")
        return fl.StreamingRidgeClassifier(rank=options["rank"], standardize=standardize)
    for name in ("rank", "standardize"):
        _check_unused(options, name, "--schedule auto, which keeps statistics of all rows")
    if classes or adaptive:
        raise click.UsageError("classes and --objective next need --schedule auto")
    chosen = schedule_of(schedule, n_tasks)
    form = {"average": options["average"], "fit_intercept": intercept}
    if isinstance(chosen, fl.Ridge | fl.Projection):
        return fl.ContinualRidge(alpha=float(chosen.strength()), **form)
    is_budget = schedule.partition(":")[0].endswith("budget")
    scheme: Any = fl.ContinualGD if is_budget else fl.ContinualRidge
    return scheme(schedule=chosen, n_tasks=n_tasks, **form)


def _check_unused(options: dict[str, Any], name: str, needed: str) -> None:
    """Raise UsageError for an option that the model does not have."""
    if options[name] is not None:
        raise click.UsageError(f"--{name} needs {needed}; leave it out")

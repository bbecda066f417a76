"""Shared parts of the commands: output, progress on a terminal, schedules by name, options about a
file.
"""

import functools
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from forgetless._core.averages import LARGEST
from forgetless._core.text import printable, readable_number
from forgetless.engines.inputs import as_ordering
from forgetless.io.atomic import check_source, check_target
from forgetless.orderings import NAMES
from forgetless.schedules.names import usage

SCHEDULE_HELP = f"{usage()}."

ORDERINGS = tuple(NAMES)


def print_lines(text: str, *, err: bool = False) -> None:
    """Print lines with control codes escaped, on standard error if ``err``."""
    click.echo("\n".join(printable(line) for line in text.split("\n")), err=err)


def print_json(value: Any) -> None:
    """Print JSON, with null for NaN and infinities."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        value = value.item() if hasattr(value, "item") else value
        return None if isinstance(value, float) and not math.isfinite(value) else value

    click.echo(json.dumps(plain(value), allow_nan=False))


def schedule_of(text: str, n_tasks: int | None = None) -> Any:
    """Return the schedule named by ``text``, e.g. "increasing:0.5"."""
    from forgetless.schedules.names import from_name

    try:
        return from_name(text, **({} if n_tasks is None else {"n_tasks": n_tasks}))
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--schedule") from None


def complete_schedule(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of schedules with a prefix, for the shell."""
    from forgetless.schedules.names import NAMES

    return [name for name in ("auto", *NAMES) if name.startswith(incomplete)]


def examples(*commands: str) -> str:
    """Return commands as the end of a help text, without line wrapping."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


REPEAT = "; repeat it for several"

ENCODING = ("drop", "categorical", "text", "date", "impute")
"""Options that are parameters of the encoder."""

FORM = ("loss", "intercept", "standardize")
"""Options of the tasks that a model learns."""


class Source:
    """A file of tasks: where it is a table, its columns and the encoder that ``fit`` uses, with its
    loss and intercept.

    Archives are tasks already: they stay as they are unless options or ``archives`` say otherwise.
    """

    def __init__(self, options: dict[str, Any], archives: dict[str, Any] | None = None) -> None:
        from forgetless.tables.encoder import TableEncoder
        from forgetless.tables.pipeline import FORM_OF_FIT
        from forgetless.tables.task_files import is_table

        self.file = check_source(options.pop("file"))
        self.task, self.targets = options.pop("task"), options.pop("target")
        encoding = {name: options.pop(name) for name in ENCODING}
        self._settings = {
            name: value for name, value in encoding.items() if value and value != "mean"
        }
        self.encoder = TableEncoder(**encoding) if is_table(self.file) else None
        defaults = (
            {"loss": "sum", "intercept": False, **(archives or {})}
            if self.encoder is None
            else FORM_OF_FIT
        )
        form = {name: options.pop(name) for name in FORM}
        self.form = {
            name: defaults.get(name, False) if value is None else value
            for name, value in form.items()
        }

    @property
    def is_plain(self) -> bool:
        """Whether the features are the columns of the file themselves."""
        encoder = self.encoder
        return (
            encoder is None
            or encoder.get_feature_names_out().tolist() == encoder.feature_names_in_.tolist()
        )

    def read(self, file: Path | None = None) -> Any:
        """Return the tasks, or those of another file with the same columns; notes on rows left out
        are printed.
        """
        from forgetless.tables.task_files import (
            TableTasks,
            chosen_columns,
            encoded_tasks,
            in_form,
            read_tasks,
        )

        file = check_source(self.file if file is None else file)
        if self.encoder is None:
            return read_tasks(file, **self.form)
        self.task, self.targets = chosen_columns(file, self.task, self.targets)
        table = TableTasks(file, self.task, self.targets, drop=self.encoder.drop, order="sorted")
        tasks = encoded_tasks(table, self.encoder)
        for note in [*table.notes, *([] if self.form["standardize"] else _notes_on_scales(tasks))]:
            print_lines(note, err=True)
        return in_form(tasks, **self.form)

    def code(self, file: Path | None = None) -> str:
        """Return Python code that reads the tasks; it names the encoder ``encoder`` where one is
        needed.
        """
        target = self.targets[0] if len(self.targets) == 1 else list(self.targets)
        columns = {"task": self.task, "target": target} if self.encoder is not None else {}
        form = {name: value for name, value in self.form.items() if name != "standardize" or value}
        arguments = [f"{name}={value!r}" for name, value in {**columns, **form}.items()]
        arguments += [] if self.is_plain else ["encoder=encoder"]
        name = repr(str(self.file if file is None else file))
        return f"fl.tables.read_tasks({', '.join([name, *arguments])})"

    def encoder_lines(self) -> list[str]:
        """Return Python code of the encoder, where one is needed."""
        arguments = ", ".join(
            f"{name}={list(value) if isinstance(value, tuple) else value!r}"
            for name, value in self._settings.items()
        )
        return [] if self.is_plain else [f"encoder = fl.tables.TableEncoder({arguments})"]


def _notes_on_scales(tasks: Any) -> list[str]:
    """Return a note if columns have very different scales, which a common λ cannot serve."""
    sizes = np.sqrt(sum(np.sum(X**2, axis=0) for X, _ in tasks) / sum(len(X) for X, _ in tasks))
    sizes = sizes[sizes > 0]
    if not len(sizes) or sizes.max() < 1000 * sizes.min():
        return []
    low, high = (
        readable_number(float(sizes.min()), ".2g"),
        readable_number(float(sizes.max()), ".2g"),
    )
    return [
        f"columns have sizes from {low} to {high}: with --standardize λ is that of fit, which"
        " scales them"
    ]


@dataclass(frozen=True)
class Inputs:
    """Tasks, a schedule, the number of steps and the ordering, also by name."""

    tasks: Any
    schedule: Any
    k: int
    ordering: Any
    order: str

    @property
    def arguments(self) -> tuple[Any, Any, int]:
        """The positional arguments of the library's functions."""
        return self.tasks, self.schedule, self.k


_SOURCE = [
    click.argument("file", type=click.Path(path_type=Path)),
    click.option("--task", help="Column with the task, for tables."),
    click.option("--target", multiple=True, help=f"Column with the target, for tables{REPEAT}."),
]
COLUMNS = [
    click.option("--drop", multiple=True, help=f"Column to leave out{REPEAT}."),
    click.option(
        "--categorical",
        multiple=True,
        help=f"Column whose values are categories, e.g. codes{REPEAT}.",
    ),
    click.option("--text", multiple=True, help=f"Column of texts, whose words are hashed{REPEAT}."),
    click.option("--date", multiple=True, help=f"Column of dates{REPEAT}; most are detected."),
    click.option(
        "--impute",
        type=click.Choice(["mean", "zero", "error"]),
        default="mean",
        show_default=True,
        help="Replacement of missing numbers.",
    ),
]
_FORM = [
    click.option(
        "--loss",
        type=click.Choice(["sum", "mean"]),
        help="Loss of a task [default: as fit for tables]",
    ),
    click.option(
        "--intercept/--no-intercept",
        default=None,
        help="A feature that is always 1 [default: as fit for tables]",
    ),
    click.option(
        "--standardize/--no-standardize", default=None, help="Scale columns to mean 0, deviation 1."
    ),
]
source_options = [*COLUMNS, *_FORM]
_STEPS = [
    click.option("--k", type=click.IntRange(1), required=True, help="Number of steps."),
    click.option(
        "--ordering", type=click.Choice(ORDERINGS), default=ORDERINGS[0], show_default=True
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output."),
]
average_option = click.option(
    "--average",
    type=click.FloatRange(0, LARGEST),
    help=(
        "Answer with the average of the iterates with weights t^AVERAGE, e.g. 2 [default: the last"
        " iterate]"
    ),
)
_SCHEDULE = click.option(
    "--schedule",
    default="increasing",
    show_default=True,
    help=SCHEDULE_HELP,
    shell_complete=complete_schedule,
)


def with_options(options: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in the order of the list."""
    return lambda command: functools.reduce(
        lambda decorated, option: option(decorated), reversed(options), command
    )


def about_file(command: Any) -> Any:
    """Add the options of a command on a file of tasks; the command gets ``source``, ``k`` and
    ``ordering``.
    """

    @functools.wraps(command)
    def wrapped(ordering: str, **options: Any) -> None:
        source = Source(options, archives={"loss": "mean", "intercept": True})
        command(source=source, ordering=as_ordering(ordering), **options)

    return with_options([*_SOURCE, *source_options, *_STEPS])(wrapped)


def about_tasks(command: Any) -> Any:
    """Add the options of a command on a file of tasks and a schedule; the command gets
    ``inputs``.
    """

    @functools.wraps(command)
    def wrapped(schedule: str, k: int, ordering: str, **options: Any) -> None:
        tasks = Source(options).read()
        inputs = Inputs(
            tasks, schedule_of(schedule, tasks.n_tasks), k, as_ordering(ordering), ordering
        )
        command(inputs=inputs, **options)

    return with_options([*_SOURCE, *source_options, *_STEPS[:1], _SCHEDULE, *_STEPS[1:]])(wrapped)


def load_pipeline(path: Path) -> Any:
    """Return a model that was written by ``fit``."""
    from forgetless.files import load

    model = load(path)
    if not hasattr(model, "steps") or model.table_ is None:
        raise ValueError(
            f"{path.name} was not written by forgetless fit: it has no columns of a table"
        )
    return model


def check_outputs(paths: dict[str, Path | None]) -> None:
    """Raise UsageError if two paths are the same file, or an output cannot be written."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or str(path) == "-":
            continue
        # not resolve(), which raises RuntimeError for links in a circle
        place = Path(os.path.realpath(path))
        if place in seen:
            raise click.UsageError(
                f"{name} and {seen[place]} are the same file, {path}; give another name"
            )
        if name in ("--out", "--report"):
            try:
                check_target(path)
            except OSError as error:
                raise click.UsageError(f"{name}: {error}") from None
        seen[place] = name


def unreadable_notes(strings: dict[str, str], path: Path) -> list[str]:
    """Return warnings about strings among numbers, with the line of the first."""
    from forgetless.tables.readers import line_with

    lines = []
    for column, value in strings.items():
        place = line_with(path, column, value)
        lines.append(
            f"Warning: {printable(value, 40)!r} in column"
            f" {printable(column, 40)!r}{place and ', '}{place}, is not a number, and was taken for"
            " missing"
        )
    return lines

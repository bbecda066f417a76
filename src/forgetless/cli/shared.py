"""Shared parts of the commands: output, progress on a terminal, schedules by name, options about a file."""

import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from forgetless._core.averages import LARGEST
from forgetless._core.text import printable
from forgetless.engines.inputs import as_ordering
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


def schedule_of(text: str, n_tasks: int | None = None, *others: str) -> Any:
    """Return the schedule named by ``text``, e.g. "increasing:0.5"; errors also list the names in ``others``."""
    from forgetless.schedules.names import named

    try:
        return named(text, *others, **({} if n_tasks is None else {"n_tasks": n_tasks}))
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--schedule") from None


def complete_schedule(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of schedules with a prefix, for the shell."""
    from forgetless.schedules.names import names

    return [name for name in ("auto", *names()) if name.startswith(incomplete)]


def examples(*commands: str) -> str:
    """Return commands as the end of a help text, without line wrapping."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


@dataclass(frozen=True)
class Source:
    """A file of tasks, and the columns of task and target where it is a table."""

    file: Path
    task: str | None
    target: str | None

    def beside(self, file: Path) -> "Source":
        """Return another file with the same columns."""
        return replace(self, file=file)

    def read(self, **options: Any) -> Any:
        """Return the tasks, with ``loss`` and ``intercept``."""
        from forgetless.tables.task_files import read_tasks

        return read_tasks(self.file, task=self.task, target=self.target, **options)

    def code(self, **options: Any) -> str:
        """Return Python code that reads the tasks."""
        columns = {"task": self.task, "target": self.target} if self.task else {}
        arguments = [repr(str(self.file)), *(f"{name}={value!r}" for name, value in {**columns, **options}.items())]
        return f"fl.tables.read_tasks({', '.join(arguments)})"


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
    click.option("--task", help="Column with the task, for CSV and Parquet."),
    click.option("--target", help="Column with the target, for CSV and Parquet."),
]
_STEPS = [
    click.option("--k", type=click.IntRange(1), required=True, help="Number of steps."),
    click.option("--ordering", type=click.Choice(ORDERINGS), default=ORDERINGS[0], show_default=True),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output."),
]
average_option = click.option(
    "--average",
    type=click.FloatRange(0, LARGEST),
    help="Answer with the average of the iterates with weights t^AVERAGE, e.g. 2 [default: the last iterate]",
)
_SCHEDULE = click.option(
    "--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP, shell_complete=complete_schedule
)


def with_options(options: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in the order of the list."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def about_file(command: Any) -> Any:
    """Add the options of a command on a file of tasks; the command gets ``source``, ``k`` and ``ordering``."""

    @functools.wraps(command)
    def wrapped(file: Path, task: str | None, target: str | None, ordering: str, **options: Any) -> None:
        command(source=Source(file, task, target), ordering=as_ordering(ordering), **options)

    return with_options([*_SOURCE, *_STEPS])(wrapped)


def about_tasks(command: Any) -> Any:
    """Add the options of a command on a file of tasks and a schedule; the command gets ``inputs``."""

    @functools.wraps(command)
    def wrapped(
        file: Path, task: str | None, target: str | None, schedule: str, k: int, ordering: str, **options: Any
    ) -> None:
        tasks = Source(file, task, target).read()
        inputs = Inputs(tasks, schedule_of(schedule, tasks.n_tasks), k, as_ordering(ordering), ordering)
        command(inputs=inputs, **options)

    return with_options([*_SOURCE, *_STEPS[:1], _SCHEDULE, *_STEPS[1:]])(wrapped)

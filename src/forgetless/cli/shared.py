"""What several commands share: progress on a terminal, schedules and orderings by name, options about a file."""

import json
import math
from pathlib import Path
from typing import Any

import click

from forgetless._core.averages import LARGEST
from forgetless.engines.inputs import as_ordering
from forgetless.orderings import NAMES
from forgetless.reporting.text import printable
from forgetless.schedules.names import usage

SCHEDULE_HELP = f"{usage()}."

ORDERINGS = tuple(NAMES)


def say(text: str, *, err: bool = False) -> None:
    """Print lines, on standard error if told to, with control codes in them escaped."""
    click.echo("\n".join(printable(line) for line in text.split("\n")), err=err)


def say_json(value: Any) -> None:
    """Print JSON, which has no word for what is not a number: that is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        value = value.item() if hasattr(value, "item") else value
        return None if isinstance(value, float) and not math.isfinite(value) else value

    click.echo(json.dumps(plain(value), allow_nan=False))


def schedule_of(text: str, n_tasks: int | None = None, *others: str) -> Any:
    """Return the schedule that ``text``, such as "increasing:0.5", names; ``others`` are named where it is refused."""
    known = {} if n_tasks is None else {"n_tasks": n_tasks}
    from forgetless.schedules.names import named

    try:
        return named(text, *others, **known)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--schedule") from None


def complete_schedule(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of schedules that begin so, for the shell."""
    from forgetless.schedules.names import names

    return [name for name in ("auto", *names()) if name.startswith(incomplete)]


def examples(*commands: str) -> str:
    """Return commands as the end of a help text, which is not wrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


def ordering_of(name: str) -> Any:
    """Return the ordering of that name."""
    return as_ordering(name)


_FILE = [
    click.argument("file", type=click.Path(path_type=Path)),
    click.option("--task", help="Column with the task, for CSV and Parquet."),
    click.option("--target", help="Column with the target, for CSV and Parquet."),
    click.option("--k", type=click.IntRange(1), required=True, help="Number of steps."),
    click.option("--ordering", type=click.Choice(ORDERINGS), default=ORDERINGS[0], show_default=True),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output."),
]
average_option = click.option(
    "--average",
    type=click.FloatRange(0, LARGEST),
    help="Answer with the average of the iterates with weights t^AVERAGE, e.g. 2 [default: the last iterate]",
)
"""For commands that measure or make what a stream learns."""

_SCHEDULE = click.option(
    "--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP, shell_complete=complete_schedule
)


def about_tasks(command: Any) -> Any:
    """Add the options that every command on a file of tasks and a schedule takes."""
    return about_file(_SCHEDULE(command))


def about_file(command: Any) -> Any:
    """Add the options that every command on a file of tasks takes."""
    for option in reversed(_FILE):
        command = option(command)
    return command

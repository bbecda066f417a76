"""What several commands share: progress on a terminal, schedules and orderings by name, options about a file."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

SCHEDULE_HELP = "none, fixed, increasing[:SCALE], ridge:LAMBDA, fixed-budget[:N], increasing-budget[:N] or cyclic."

ORDERINGS = ("with-replacement", "without-replacement", "reshuffled", "cyclic")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show what is being done on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None  # noqa: ARG005
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def schedule_of(text: str, n_tasks: int) -> Any:
    """Return the schedule that ``text``, such as "increasing:0.5", names."""
    import forgetless as fl

    name, _, value = text.partition(":")
    s = fl.schedules
    kinds: dict[str, Callable[[], Any]] = {
        "none": fl.Projection,
        "fixed": s.fixed,
        "increasing": lambda: s.increasing(float(value)) if value else s.increasing(),
        "ridge": lambda: fl.Ridge(float(value)),
        "fixed-budget": lambda: s.fixed_budget(int(value or 1)),
        "increasing-budget": lambda: s.increasing_budget(int(value or 1)),
        "cyclic": lambda: s.cyclic(n_tasks),
    }
    if name not in kinds or (name == "ridge" and not value) or (value and name in ("none", "fixed", "cyclic")):
        raise click.BadParameter(f"{text!r}; use {SCHEDULE_HELP}", param_hint="--schedule")
    try:
        return kinds[name]()
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--schedule") from None


def ordering_of(name: str) -> Any:
    """Return the ordering of that name."""
    import forgetless as fl

    laws = (fl.WithReplacement(), fl.WithoutReplacement(), fl.Reshuffled(), fl.Cyclic())
    return dict(zip(ORDERINGS, laws, strict=True))[name]


_FILE = [
    click.argument("file", type=click.Path(path_type=Path)),
    click.option("--task", help="Column with the task, for CSV and Parquet."),
    click.option("--target", help="Column with the target, for CSV and Parquet."),
    click.option("--k", type=click.IntRange(1), required=True, help="Number of steps."),
    click.option("--ordering", type=click.Choice(ORDERINGS), default=ORDERINGS[0], show_default=True),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output."),
]
_SCHEDULE = click.option("--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP)


def about_tasks(command: Any) -> Any:
    """Add the options that every command on a file of tasks and a schedule takes."""
    return about_file(_SCHEDULE(command))


def about_file(command: Any) -> Any:
    """Add the options that every command on a file of tasks takes."""
    for option in reversed(_FILE):
        command = option(command)
    return command

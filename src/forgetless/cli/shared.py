"""Shared parts of the commands: output, schedules by name, options of columns, checks of files."""

import functools
import inspect
import json
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from forgetless import schedules
from forgetless._averages import LARGEST
from forgetless._text import printable
from forgetless.filters import Projection, Ridge
from forgetless.io import check_target
from forgetless.schedules.named import NAMES, as_schedule

SCHEDULES: dict[str, Callable[..., Any]] = {
    "none": Projection,
    "ridge": Ridge,
    **{name.replace("_", "-"): getattr(schedules, name) for name in NAMES},
}
"""What ``--schedule`` names."""


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
    """Return the schedule of a name with numbers, such as "increasing:0.5" or "end-ramp:1/8,2"."""
    name, _, rest = text.partition(":")
    name = name.replace("_", "-")
    try:
        numbers = [_number(each) for each in rest.split(",")] if rest else []
        if name == "cyclic" and not numbers and n_tasks is not None:
            numbers = [n_tasks]
        return SCHEDULES[name](*numbers) if name in SCHEDULES else as_schedule(name)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        message = f"schedule {text!r} is not one of {usage()} ({error})"
        raise click.BadParameter(message, param_hint="--schedule") from None


def _number(text: str) -> float:
    """Return a whole number as an int, any other or a fraction such as 13/3 as a float."""
    return int(text) if text.strip().isdecimal() else float(Fraction(text))


def usage() -> str:
    """Return all names with their numbers: in brackets what may be left out."""
    texts = []
    for name, make in SCHEDULES.items():
        text = ""
        # From the last parameter to the first: minimax-budget[:N_STEPS[,ETA[,NOISE]]].
        parameters = inspect.signature(make).parameters.values()
        for position, parameter in reversed(list(enumerate(parameters))):
            text = f"{',' if position else ':'}{parameter.name.upper()}{text}"
            if parameter.default is not inspect.Parameter.empty:
                text = f"[{text}]"
        texts.append(f"{name}{text}")
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def examples(*commands: str) -> str:
    """Return commands as the end of a help text, without line wrapping."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


REPEAT = "; repeat it for several"

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
average_option = click.option(
    "--average",
    type=click.FloatRange(0, LARGEST),
    help=(
        "Answer with the average of the iterates with weights t^AVERAGE, e.g. 2 [default: the last"
        " iterate]"
    ),
)


def with_options(options: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in the order of the list."""
    return lambda command: functools.reduce(
        lambda decorated, option: option(decorated), reversed(options), command
    )


def load_pipeline(path: Path) -> Any:
    """Return a model that was written by ``fit``."""
    from forgetless.io import load

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

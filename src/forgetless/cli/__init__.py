"""The command line: parses, calls the library, prints. Exit codes: 0 ok, 1 failure, 2 usage, 130
interrupted.

A command is imported when it is called, so that ``forgetless --help`` imports click alone.
"""

import errno
import io
import json
import math
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from forgetless._text import printable

GROUPS = {
    "Models of tables": {
        "fit": "Learn the tasks of a table one after the other.",
        "predict": "Predict the rows of a table.",
        "evaluate": "Print the errors of a model on other tasks.",
        "show": "Print what a model or another file holds.",
    },
    "Schedules": {
        "reproduce": "Compute the paper's figure and table again.",
        "explore": "Draw a schedule and see its exact loss.",
    },
}
"""The commands in the help text, by heading."""

SHOWN = 30
"""Lines of a table that are printed."""


class _Commands(click.Group):
    """A group whose help text lists its commands by heading, and which imports them one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for lines in GROUPS.values() for name in lines]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for heading, lines in GROUPS.items():
            if cmd_name in lines:
                module = "tables" if heading == "Models of tables" else "laboratory"
                command: click.Command = getattr(
                    import_module(f"forgetless.cli.{module}"), cmd_name
                )
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, lines in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(list(lines.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="forgetless", prog_name="forgetless")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
def cli(debug: bool) -> None:
    """Continual linear regression that forgets less.

    Exit codes: 0 ok, 1 failure, 2 wrong usage, 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; errors become one sentence unless --debug is
    given.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        code = cli.main(
            args=[each for each in arguments if each != "--debug"],
            prog_name="forgetless",
            standalone_mode=False,
        )
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        print_lines(text.getvalue().rstrip("\n"), err=True)
        return 2 if isinstance(error, click.UsageError) else 1
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except (ValueError, TypeError, OSError, MemoryError, ImportError, ArithmeticError) as error:
        if debug:
            raise
        print_lines(f"Error: {printable(_message(error), 2000)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    """Return the message of an error on one line, never empty."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) and not text:
        return "there is not enough memory; use fewer rows or columns at a time"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return f"{error.strerror}: standard output cannot be written"
    return text or type(error).__name__


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
        is_finite = not isinstance(value, float) or math.isfinite(value)
        return value if is_finite else None

    click.echo(json.dumps(plain(value), allow_nan=False))


def shortened(table: Any) -> str:
    """Return a table as text, of a long one the first lines."""
    lines = table.text().split("\n")
    rest = len(lines) - 1 - SHOWN
    return "\n".join(lines if rest <= 0 else [*lines[: 1 + SHOWN], f"and {rest} more"])


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "3 tasks"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def check_outputs(paths: dict[str, Path | None]) -> None:
    """Raise UsageError if two paths are the same file, or an output cannot be written."""
    from forgetless.io import check_target

    seen: dict[str, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in seen:
            raise click.UsageError(
                f"{name} and {seen[place]} are the same file, {path}; give another name"
            )
        if name.startswith("--") and name != "--from":
            try:
                check_target(path)
            except OSError as error:
                raise click.UsageError(f"{name}: {error}") from None
        seen[place] = name


def examples(*commands: str) -> Any:
    """Return commands as the end of a help text, without line wrapping."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


def run() -> None:
    """Entry point of the ``forgetless`` command."""
    # characters that the terminal's encoding lacks are escaped
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())

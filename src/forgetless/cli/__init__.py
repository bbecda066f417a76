"""The command line: it parses, calls the library and prints.

``tables`` has the commands on models of tables, ``laboratory`` those on schedules. A command is
imported when it is called, so that ``forgetless --help`` imports click alone. What a command
computes is a function of the library, and what it prints is the result's own table.

Exit codes: 0 ok, 1 failure, 2 wrong usage, 130 interrupted. Results go to standard output, messages
and errors to standard error. Nothing that comes from a file reaches the terminal unescaped.

The way of ``forgetless predict m.safetensors t.csv``: ``run`` → ``main`` → click, which asks
``_Commands`` for "predict" → ``predict`` in ``tables`` → ``load_model`` and ``table_for`` below →
``TableModel.predict`` → CSV on standard output. An error on the way ends in ``main``.
"""

import errno
import gc
import io
import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from forgetless._running import Later
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
"""The commands and their help texts, by heading; the first one's are in ``tables``."""

SHOWN = 30
"""Lines of a table that are printed: a screen of them, with the command above."""


class _Commands(click.Group):
    """A group whose help text lists its commands by heading, and which imports them one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the order of the help text; click would sort them."""
        return [name for lines in GROUPS.values() for name in lines]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, of which the module is imported now; None if there is none."""
        for module, lines in zip(("tables", "laboratory"), GROUPS.values(), strict=True):
            if cmd_name in lines:
                commands = vars(import_module(f"forgetless.cli.{module}"))
                command: click.Command = commands[cmd_name]
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help texts of all commands, for which none of them is imported."""
        # click's own version asks every command for its text, which imports it.
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

    Parameters
    ----------
    arguments : list of str, optional
        What follows the name of the program; those of this process if omitted.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    # --debug may stand anywhere, behind the command as before it.
    debug = "--debug" in arguments
    others = [each for each in arguments if each != "--debug"]
    try:
        code = cli.main(args=others, prog_name="forgetless", standalone_mode=False)
    except click.ClickException as error:
        # click's own text, which quotes arguments, is escaped like everything else.
        text = io.StringIO()
        error.show(text)
        print_lines(text.getvalue().rstrip(), err=True)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    # What the library raises on purpose, or a disk or a package; anything else is a defect of ours,
    # whose traceback is wanted.
    except (ValueError, TypeError, OSError, MemoryError, ImportError, ArithmeticError) as error:
        if debug:
            raise
        print_lines(f"Error: {printable(_message(error), 2000)}", err=True)
        return 1
    # A command returns nothing, and --help its exit code.
    return int(code or 0)


def _message(error: BaseException) -> str:
    """Return the message of an error on one line, never empty.

    An error of the operating system without a file is one of standard output, such as a full disk.
    """
    # Messages of other packages have line breaks.
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) and not text:
        return "there is not enough memory; use fewer rows or columns at a time"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return f"{error.strerror}: standard output cannot be written"
    return text or type(error).__name__


def print_lines(text: str, *, err: bool = False) -> None:
    """Print lines with control codes escaped, on standard error if ``err``.

    Names of columns and labels of tasks are anybody's text, which could move the cursor.
    """
    click.echo("\n".join(printable(line) for line in text.split("\n")), err=err)


def print_json(value: Any) -> None:
    """Print JSON, with null for NaN and infinities.

    JSON has no other word for them, and one NaN would make a whole line unreadable to others.

    Examples
    --------
    >>> print_json({"error": [0.5, float("nan")]})
    {"error": [0.5, null]}
    """
    # The parser asks what stands for each of them: nothing does.
    plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
    click.echo(json.dumps(plain))


def shortened(table: Any) -> str:
    r"""Return a table as text, of a long one the first lines and the number of the others.

    Examples
    --------
    >>> from forgetless._table import Table
    >>> shortened(Table("Squares", {"n": list(range(40))})).split("\n")[-2:]
    ['29', 'and 10 more']
    """
    lines = table.text().split("\n")
    # Besides the head.
    rest = len(lines) - 1 - SHOWN
    if rest > 0:
        lines[1 + SHOWN :] = [f"and {rest} more"]
    return "\n".join(lines)


def counted(n: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "task"), counted(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def check_outputs(paths: dict[str, Path | None]) -> None:
    """Raise UsageError if two paths are the same file, or an output cannot be written.

    Asked before anything is learned, which may take minutes.

    Parameters
    ----------
    paths : dict
        The paths by what the user calls them: options, of which all but --from are outputs, or
        arguments, which are inputs. None is an option that was not given.
    """
    from forgetless.io import check_target

    seen: dict[str, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        # Links and other spellings of a path lead to the same file.
        place = os.path.realpath(path)
        if place in seen:
            raise click.UsageError(
                f"{name} and {seen[place]} are the same file, {path}; give another name"
            )
        # Arguments and --from are read, and a missing one has its own message.
        if name.startswith("--") and name != "--from":
            try:
                check_target(path)
            except OSError as error:
                raise click.UsageError(f"{name}: {error}") from None
        seen[place] = name


def check_roles(source: str, columns: Any, task: Any, target: Any, *others: str) -> None:
    """Raise UsageError if no task or target is named, ValueError if a table lacks a column.

    Parameters
    ----------
    source : str
        The name of the file.
    columns : sequence of str
        Of the table; the message has the first of them, from which the user can choose.
    task, target : str or None
        What the options of these names say.
    others : str
        Further columns that were named.
    """
    from forgetless.tables.batches import check_columns

    # What is missing is said with what there is, so that the next try succeeds.
    for name, value in {"--task": task, "--target": target}.items():
        if value is None:
            # no mutant: how much of a header is shown
            shown = ", ".join(printable(column, 40) for column in columns[:30])
            raise click.UsageError(f"choose a column with {name}: {source} has {shown}")
    check_columns(source, columns, task, target, *others)


def check_is_no_table(path: Path) -> None:
    """Raise ValueError if a file that should be one of forgetless is a table by its name.

    A table in the place of a model is the most frequent mistake; read as a model it would be called
    damaged.
    """
    from forgetless.tables.read import KINDS

    if path.suffix.lower() in {*KINDS, ".gz"}:
        raise ValueError(
            f"{path.name} is a table, and a file that forgetless has written is needed here, such"
            f" as model.safetensors; forgetless fit {path.name} --task COLUMN --target COLUMN --out"
            " model.safetensors writes a model of it"
        )


def load_model(path: Path) -> Any:
    """Return a model of tables; an error that says what the file is instead.

    Raises
    ------
    ValueError
        For a table.
    FileError
        For what is damaged, or holds something else that forgetless has written.
    """
    from forgetless.errors import FileError
    from forgetless.io import load

    check_is_no_table(path)
    model = load(path)
    if not hasattr(model, "encoder_"):
        raise FileError(
            f"{path.name} holds {type(model).__name__}, no model of tables; give a file that"
            " forgetless fit has written"
        )
    return model


def table_for(model: Any, file: Path) -> Any:
    """Return the table in a file; ValueError if it has no column of a model.

    A column that is absent is taken for missing values, so that a model would predict the rows of
    any table.

    Parameters
    ----------
    model : TableModel
    file : Path
        CSV, Parquet or Excel. Columns of text are read as they are written: 07 is not 7.

    Returns
    -------
    TableFile
    """
    from forgetless.tables.read import TableFile

    table = TableFile(file, model.encoder_.text_columns)
    needed = model.encoder_.columns_
    # One column is enough: a table may well have lost some, which predict and alarms say.
    if needed.keys().isdisjoint(table.columns()):
        shown = ", ".join(list(needed)[:30])  # no mutant: how many columns are shown
        raise ValueError(
            f"{file.name} has no column of the model, which was made for another table: it needs"
            f" {shown}; give the model of this table, or rename its columns"
        )
    return table


FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d*\.?\d+([eE][+-]?\d+)?$)")
"""How a text begins that spreadsheets execute; a number with a sign is none."""


def plain_cell(text: str) -> str:
    """Return text that spreadsheets do not take for a formula: behind an apostrophe.

    Classes come from anybody's table, and predictions of them are opened in spreadsheets.

    Examples
    --------
    >>> [plain_cell(text) for text in ("high", "=1+1", "-1.5", "-A1")]
    ['high', "'=1+1", '-1.5', "'-A1"]
    """
    return f"'{text}" if FORMULA.match(text) else text


def examples(*commands: str) -> Any:
    r"""Return commands as the end of a help text, without line wrapping.

    For click a paragraph that begins with \b is printed as it stands.
    """
    return "\n  ".join(["\b\nExamples:", *commands])


def run() -> None:
    """Entry point of the ``forgetless`` command."""
    # What the encoding of a terminal lacks, such as κ on an old one, is escaped.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # The imports of a command make some 300,000 objects that stay: looking for garbage among them
    # takes an eighth of their time.
    gc.set_threshold(500_000)  # no mutant: only the time differs
    # scikit-learn imports it, which takes a third of a second, for functions that no command calls.
    sys.modules["scipy.stats"] = Later("scipy.stats")
    sys.exit(main())

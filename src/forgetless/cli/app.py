"""The command line: parses, calls the library, prints. Exit codes: 0 ok, 1 failure, 2 usage, 130
interrupted.
"""

import errno
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import click
from sklearn.base import is_classifier

from forgetless._table import Table
from forgetless._text import printable
from forgetless.cli import fit, predict
from forgetless.cli.shared import examples, print_json, print_lines, schedule_of, usage

GROUPS = {
    "Models of tables": {
        "fit": "Learn the tasks of a table one after the other.",
        "predict": "Predict the rows of a table.",
        "evaluate": "Print the errors of a model on other tasks.",
        "show": "Print the content of a file.",
    },
    "Schedules": {
        "reproduce": "Compute the paper's figure and table again.",
        "explore": "Draw a schedule and see its exact loss.",
    },
}
"""The commands in the help text, by heading."""


class _Commands(click.Group):
    """A group whose help text lists its commands by heading."""

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


_LABELS = {
    "n_tasks_seen_": "tasks learned",
    "nbytes_": "bytes of its state",
    "rows": "rows learned",
    "task": "column of the task",
    "prequential_rmse": "RMSE of rows before they were learned, from the second task on",
    "prequential_error_": "errors on rows before they were learned, from the second task on",
    "alpha_": "strength of the solution",
    "retained_fraction_": "fraction of all tasks in the memory",
    "temperature_": "temperature of the probabilities",
    "radius_": "largest norm of a task so far",
}
"""Labels of facts, which JSON has under the names of attributes."""

SHOWN = 20
"""Coefficients that ``show`` prints, the largest first."""


@click.command(
    epilog=examples(
        "forgetless show model.safetensors",
        "forgetless show model.safetensors --features 9 --json",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--features",
    type=click.IntRange(1),
    default=SHOWN,
    show_default=True,
    help="Coefficients of a model.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def show(file: Path, features: int, as_json: bool) -> None:
    """Show the content of FILE: its kind, and a summary of the model, tasks or result in it.

    Nothing in it is executed. Exit code 1 if it is damaged or not a file of forgetless.
    """
    content, about = _read(file)
    if not hasattr(content, "predict"):
        (
            print_json(about)
            if as_json
            else print_lines("\n".join([*_lines(about), "", repr(content)]))
        )
        return
    from forgetless.tables.report import coefficients

    estimator = content[-1] if hasattr(content, "steps") else content
    facts, table = _facts(content, estimator), coefficients(content, features)
    if as_json:
        print_json({**about, **facts, "coefficients": table.values()})
        return
    lines = [*_lines(about), "", printable(" ".join(repr(estimator).split()), 2000)]
    for name, value in facts.items():
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        lines.append(f"{_LABELS.get(name, name)}: {printable(text, 200)}")
    if hasattr(content, "steps"):
        lines += ["", content[0].summary().text()]
    click.echo("\n".join([*lines, "", table.title, table.text()]))


def _read(file: Path) -> tuple[Any, dict[str, Any]]:
    """Return the object in a file; and its kind, version and size."""
    from forgetless.io import load, read

    document = read(file)
    about = {"kind": document.kind, "forgetless": document.written_by}
    return load(file), {**about, "n_bytes": file.stat().st_size}


def _lines(about: dict[str, Any]) -> list[str]:
    written = printable(about["forgetless"], 40)
    return [f"{about['kind']}, written by forgetless {written}, {about['n_bytes']:,} bytes"]


def _facts(fitted: Any, estimator: Any) -> dict[str, Any]:
    """Return facts about a stream beside its coefficients."""
    facts: dict[str, Any] = {"n_tasks_seen_": estimator.n_tasks_seen_, "nbytes_": estimator.nbytes_}
    about = getattr(fitted, "table_", None)
    if about is not None:
        facts |= {
            "rows": about["rows"],
            "task": about["task"],
            "targets": ", ".join(about["targets"]),
        }
        facts["last tasks"] = ", ".join(printable(label, 30) for label in about["tasks"][-5:])
    if is_classifier(estimator):
        labels = [printable(str(label), 30) for label in estimator.classes_[:20]]
        facts["classes"] = ", ".join(labels)
    else:
        facts["prequential_rmse"] = math.sqrt(estimator.prequential_mse_)
    names = ("prequential_rmse", "prequential_error_", "alpha_", "temperature_")
    for name in (*names, "retained_fraction_", "radius_"):
        value = facts.pop(name, getattr(estimator, name, math.nan))
        if value == value:  # NaN where it is not known
            facts[name] = value
    return facts


@click.command(
    epilog=examples(
        "forgetless explore",
        "forgetless explore data.csv --task week --target y --k 200",
        "forgetless explore data.csv --task week --target y --out explorer.html",
    )
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--task", help="Column with the task, for tables.")
@click.option("--target", help="Column with the target, for tables.")
@click.option("--k", type=click.IntRange(1, 5000), help="Number of steps to start with.")
@click.option("--schedule", help=f"What to start with: {usage()}.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write it [default: a temporary file]"
)
@click.option(
    "--browser/--no-browser", default=True, show_default=True, help="Open it in a browser."
)
def explore(
    file: Path | None,
    task: str | None,
    target: str | None,
    k: int | None,
    schedule: str | None,
    out: Path | None,
    browser: bool,
) -> None:
    """Write a page in which you draw a schedule and see its exact expected loss, with the tasks of
    FILE inside, and open it.

    The page is one HTML file that needs no Python and no network. FILE is read as fit reads it.
    """
    from forgetless.explorer import explore as write_page
    from forgetless.tables.encoder import TableEncoder
    from forgetless.tables.pipeline import FORM_OF_FIT
    from forgetless.tables.task_files import read_tasks

    if file is None:
        for name, value in {"--task": task, "--target": target, "--schedule": schedule}.items():
            if value:
                raise click.UsageError(f"{name} needs a FILE with tasks")
        path = write_page(k=k, out=out, show=browser)
    else:
        is_archive = file.suffix in (".npz", ".safetensors")
        options = {} if is_archive else {"task": task, "target": target, **FORM_OF_FIT}
        tasks = read_tasks(file, encoder=TableEncoder(), **options)
        arguments = [repr(str(file)), "encoder=fl.tables.TableEncoder()"]
        arguments += [f"{name}={value!r}" for name, value in options.items()]
        source = f"tasks = fl.tables.read_tasks({', '.join(arguments)})"
        chosen = None if schedule is None else schedule_of(schedule, tasks.n_tasks)
        path = write_page(tasks, chosen, k, out=out, show=browser, source=source)
    print_lines(f"page: {path}")


PARTS = ("all", "figure", "table", "rates", "unregularized", "curves", "reduction", "optimal")


@click.command(
    epilog=examples("forgetless reproduce", "forgetless reproduce table --out results-table")
)
@click.argument("part", type=click.Choice(PARTS), default="all")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder [default: results, or results-PART for a part]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output."
)
def reproduce(part: str, out: Path | None, as_json: bool) -> None:
    """Make the paper's figure and table again, exactly, with a report of what holds and what does
    not.
    """
    from forgetless.reproduce import page

    folder = page.check_folder(out or Path("results" if part == "all" else f"results-{part}"))
    sections = page.sections(page.PARTS if part == "all" else [part])
    written = page.write(sections, folder)
    facts = {
        section.table.title: list(section.table.facts)
        for section in sections
        if section.table.facts
    }
    if as_json:
        click.echo(json.dumps({"report": str(written), "facts": facts}, ensure_ascii=False))
        return
    for section in sections:
        if section.name == "table":
            summary = _summary(section.table)
            click.echo("\n".join([summary.text(), *summary.facts]))
    for title, lines in facts.items():
        click.echo(f"\n{title}")
        for line in lines:
            click.echo(f"  {line}")
    print_lines(f"\nreport: {written}")


def _summary(table: Table) -> Table:
    """Return the measured slopes and constants of the main schedules, one line per family."""
    columns = {"worst-case loss, exact": list(dict.fromkeys(table.columns["family"]))}
    formats: dict[str, str] = {}
    for name in ("none", "fixed", "increasing"):
        row = table.where(schedule=name).columns
        slope, constant = f"{name}\nslope in k", f"{name}\nk·loss"
        columns |= {slope: row["slope"], constant: row["k·loss at the end"]}
        formats |= {slope: ".2f", constant: ".2g"}
    ends = table.where(schedule="increasing").columns
    paper, ours = ends["k·bound at the end"][0], ends["k·upper bound at the end"][0]
    guaranteed = (
        f"guaranteed for increasing, on every collection that one model fits: k·loss ≤ {paper:.3g}"
        f" by the paper's proof, {math.ceil(1000 * ours) / 1000:g} by fl.upper_bound"
    )
    return Table("Summary", columns, (guaranteed,), formats=formats)


for command in (fit.fit, predict.predict, predict.evaluate, show, reproduce, explore):
    cli.add_command(command)


def run() -> None:
    """Entry point of the ``forgetless`` command."""
    # characters that the terminal's encoding lacks are escaped
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())

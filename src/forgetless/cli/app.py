"""The command line: parses, calls the library, prints. Exit codes: 0 ok, 1 failure, 2 usage, 130 interrupted."""

import io
import json
import math
import sys
from pathlib import Path

import click

from forgetless.cli import advice, explore, files, lab, streams, sweeps
from forgetless.cli.shared import examples, print_lines
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table
from forgetless.reporting.text import printable

PARTS = ("all", "figure", "table", "rates", "curves", "reduction")


GROUPS = {
    "Models of tables": {
        "fit": "Learn the tasks of a table one after the other.",
        "predict": "Predict the rows of a table.",
        "evaluate": "Print the errors of a model on other tasks.",
        "show": "Print the content of a file.",
    },
    "Schedules": {
        "advise": "Rank schedules on your tasks: which λ to use.",
        "explore": "Draw a schedule and see its exact loss.",
        "reproduce": "Compute the paper's figure and table again.",
        "sweep": "Compute many cells into a store, and read it.",
    },
    "Laboratory": {
        "lab expect": "Print exact expected losses.",
        "lab simulate": "Print mean losses of random runs.",
        "lab worst-case": "Print the loss of the worst solution.",
        "lab compare-bounds": "Print the exact loss beside every bound.",
        "lab upper-bound": "Print a bound for every collection of tasks.",
        "lab bounds": "List the catalogue of bounds.",
        "lab find-worst-collection": "Search for tasks of large loss.",
    },
    "Shell": {"completion": "Print a script for completion."},
}
"""The commands in the help text, by heading."""


class Commands(click.Group):
    """A group whose help text lists its commands by heading."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, lines in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(list(lines.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="forgetless", prog_name="forgetless")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
def cli(debug: bool) -> None:
    """Continual linear regression that forgets less: exact losses, bounds, simulations.

    Exit codes: 0 ok, 1 failure, 2 wrong usage, 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; errors become one sentence unless --debug is given."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        code = cli.main(
            args=[each for each in arguments if each != "--debug"], prog_name="forgetless", standalone_mode=False
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
        print_lines(f"Error: {printable(' '.join(str(error).split()), 2000)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


@cli.command(epilog=examples("forgetless reproduce", "forgetless reproduce table --out results-table"))
@click.argument("part", type=click.Choice(PARTS), default="all")
@click.option("--out", type=click.Path(path_type=Path), help="Folder [default: results, or results-PART for a part]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
def reproduce(part: str, out: Path | None, as_json: bool) -> None:
    """Make the paper's figure and table again, exactly, with a report of what holds and what does not."""
    from forgetless.reproduce import page

    folder = page.check_folder(out or Path("results" if part == "all" else f"results-{part}"))
    with terminal_progress() as report_progress:
        sections = page.sections(page.PARTS if part == "all" else [part], report_progress)
        report_progress(0, 0, "drawing")
        written = page.write(sections, folder)
    facts = {section.table.title: list(section.table.facts) for section in sections if section.table.facts}
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
    paper, ours = ends["k·bound at the end"][0], ends["k·certificate at the end"][0]
    guaranteed = (
        f"guaranteed for increasing, on every collection that one model fits: k·loss ≤ {paper:.3g} by the paper's "
        f"proof, {math.ceil(1000 * ours) / 1000:g} certified here"
    )
    return Table("Summary", columns, (guaranteed,), formats=formats)


@cli.command(epilog=examples("forgetless completion bash >> ~/.bashrc"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script; add it to your shell's start-up file."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "forgetless", "_FORGETLESS_COMPLETE").source())


for command in (
    *(streams.fit, streams.predict, streams.evaluate, files.show),
    *(advice.advise, explore.explore, sweeps.sweep, lab.lab),
):
    cli.add_command(command)


def run() -> None:
    """Entry point of the ``forgetless`` command."""
    import os

    for stream in (sys.stdout, sys.stderr):  # characters that the terminal's encoding lacks are escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("_FORGETLESS_COMPLETE"):
        cli.main(prog_name="forgetless")
    sys.exit(main())

"""The command line: parses, calls the library, prints. Exit codes: 0 ok, 1 failure, 2 usage, 130 interrupted."""

import io
import json
import math
import sys
from pathlib import Path

import click

from forgetless.cli import certificates, explore, files, search, streams, sweeps, tasks
from forgetless.cli.shared import examples, say
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table
from forgetless.reporting.text import printable

PARTS = ("all", "figure", "table", "rates", "curves", "reduction")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="forgetless", prog_name="forgetless")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
def cli(debug: bool) -> None:
    """Continual linear regression that forgets less: exact losses, bounds, simulations.

    Exit codes: 0 ok, 1 failure, 2 wrong usage, 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; errors become one sentence unless --debug is given."""
    words = sys.argv[1:] if arguments is None else arguments
    debug, words = "--debug" in words, [word for word in words if word != "--debug"]  # wherever it stands
    try:
        code = cli.main(args=words, prog_name="forgetless", standalone_mode=False)
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        say(text.getvalue().rstrip("\n"), err=True)
        return 2 if isinstance(error, click.UsageError) else 1
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except (ValueError, TypeError, OSError, MemoryError, ImportError, ArithmeticError) as error:
        if debug:
            raise
        say(f"Error: {printable(' '.join(str(error).split()), 2000)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def bounds(as_json: bool) -> None:
    """List every bound in the catalogue."""
    from forgetless.theory.bounds import catalogue

    keys = ("name", "kind", "quantity", "ordering", "scheme", "regularization", "rate", "min_k", "status", "citation")
    rows = [{key: getattr(bound, key) for key in keys} for bound in catalogue]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        click.echo(f"{row['name']}: {row['kind']} bound of {row['quantity']}, {row['rate']} ({row['status']})")
        click.echo(f"    {row['ordering']}; {row['scheme']}; {row['regularization']}; k ≥ {row['min_k']}")
        click.echo(f"    {row['citation']}")


@cli.command()
@click.argument("part", type=click.Choice(PARTS), default="all")
@click.option("--out", type=click.Path(path_type=Path), help="Folder [default: results, or results-PART for a part]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
def reproduce(part: str, out: Path | None, as_json: bool) -> None:
    """Make the paper's figure and table again, exactly, with a report of what holds and what does not."""
    from forgetless.reproduce import page

    folder = page.check_folder(out or Path("results" if part == "all" else f"results-{part}"))
    with terminal_progress() as tell:
        found = page.sections(page.PARTS if part == "all" else [part], tell)
        tell(0, 0, "drawing")
        written = page.write(found, folder)
    facts = {section.table.title: list(section.table.facts) for section in found if section.table.facts}
    if as_json:
        click.echo(json.dumps({"report": str(written), "facts": facts}, ensure_ascii=False))
        return
    for section in found:
        if section.name == "table":
            summary = _summary(section.table)
            click.echo("\n".join([summary.text(), *summary.facts]))
    for title, lines in facts.items():
        click.echo(f"\n{title}")
        for line in lines:
            click.echo(f"  {line}")
    say(f"\nreport: {written}")


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


for command in (
    tasks.advise,
    tasks.compare_bounds,
    tasks.expect,
    tasks.simulate,
    explore.explore,
    streams.fit,
    streams.evaluate,
    streams.predict,
    certificates.upper_bound,
    search.find_worst_collection,
    sweeps.sweep,
    files.show,
):
    cli.add_command(command)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script; add it to your shell's start-up file."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "forgetless", "_FORGETLESS_COMPLETE").source())


EXAMPLES = {
    "advise": ("forgetless advise tasks.npz --k 200", "forgetless advise table.csv --task month --target sales --k 12"),
    "bounds": ("forgetless bounds", "forgetless bounds --json"),
    "upper-bound": ("forgetless upper-bound --schedule increasing --k 256",),
    "compare-bounds": (
        "forgetless compare-bounds tasks.npz --k 200",
        "forgetless compare-bounds tasks.npz --k 200 --schedule fixed --json",
    ),
    "completion": ("forgetless completion bash >> ~/.bashrc",),
    "expect": (
        "forgetless expect tasks.npz --k 200",
        "forgetless expect tasks.npz --k 200 --average 2 --schedule none",
    ),
    "reproduce": ("forgetless reproduce", "forgetless reproduce table --out results-table"),
    "simulate": ("forgetless simulate tasks.npz --k 200 --trials 500 --json",),
    "sweep": ("forgetless sweep sweep.toml --store results.db", "forgetless sweep table results.db"),
    "worst-collection": ("forgetless worst-collection --k 64 --out found.json",),
}
"""At the end of the help of commands that have none of their own."""

for name, told in EXAMPLES.items():
    cli.commands[name].epilog = examples(*told)


def run() -> None:
    """Entry point of the ``forgetless`` command."""
    import os

    for stream in (sys.stdout, sys.stderr):  # a terminal that knows fewer letters gets their numbers
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("_FORGETLESS_COMPLETE"):
        cli.main(prog_name="forgetless")
    sys.exit(main())

"""The commands on schedules: ``explore`` and ``reproduce``."""

import json
import math
from pathlib import Path

import click

from forgetless.cli.shared import examples, print_lines, schedule_of
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table
from forgetless.schedules.names import usage


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


PARTS = ("all", "figure", "table", "rates", "curves", "reduction", "optimal")


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
    with terminal_progress() as report_progress:
        sections = page.sections(page.PARTS if part == "all" else [part])
        report_progress(0, 0, "drawing")
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

"""The commands on schedules: ``advise``, ``explore``, ``reproduce`` and ``sweep``."""

import html
import json
import math
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from forgetless._core.environment import needs
from forgetless.advice.results import OBJECTIVES
from forgetless.cli.shared import (
    SCHEDULE_HELP,
    Source,
    about_file,
    examples,
    print_lines,
    schedule_of,
    source_options,
    with_options,
)
from forgetless.errors import StoreError
from forgetless.io.atomic import replace_file
from forgetless.metrics import quantity
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table


@click.command(
    epilog=examples(
        "forgetless advise tasks.npz --k 200",
        "forgetless advise table.csv --task month --target sales --k 12",
    )
)
@about_file
@click.option(
    "--objective", help=f"{', '.join(OBJECTIVES)} [default: average_loss, or validation if given]"
)
@click.option(
    "--validation",
    type=click.Path(path_type=Path),
    help="File with held-out rows, of the same columns.",
)
@click.option(
    "--trials",
    "n_trials",
    type=click.IntRange(2),
    help="Compare by random runs, not by exact losses.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def advise(
    source: Source,
    k: int,
    ordering: Any,
    as_json: bool,
    objective: str | None,
    validation: Path | None,
    **options: Any,
) -> None:
    """Rank schedules by their exact loss on tasks from FILE, and say which λ to use and why.

    Columns of tables become features as in fit. A task counts by the mean over its rows, and there
    is an intercept, as in fit --no-standardize.
    """
    import forgetless as fl

    goal = _objective(objective, validation)
    if validation is not None and source.form["standardize"]:
        raise click.UsageError(
            "--standardize uses the rows of FILE alone; leave out --standardize or --validation"
        )
    tasks = source.read()
    held_out = None if validation is None else source.read(validation)
    with terminal_progress() as report_progress:
        advice = fl.advise(
            tasks,
            k,
            objective=goal,
            ordering=ordering,
            validation=held_out,
            progress=report_progress,
            **options,
        )
    if as_json:
        click.echo(json.dumps(advice.to_dict(), ensure_ascii=False))
        return
    print_lines(repr(advice))
    lines = [*source.encoder_lines(), f"tasks = {source.code()}"]
    if goal == "validation" and validation is not None:
        lines.append(f"held_out = {source.code(validation)}")
    lines += [f"schedule = {advice.options[0].code}", *_loss_lines(advice, ordering)]
    loss, intercept, standardize = source.form.values()
    settings = {
        "loss": loss,
        "fit_intercept": intercept,
        **({"standardize": True} if standardize else {}),
    }
    model = advice.model_code(**settings)
    model = model if source.is_plain else f"fl.tables.make_pipeline(encoder, {model})"
    lines.append(f"model = {model}  # learns tasks one by one")
    if advice.average is not None:
        more = f"average={advice.average.average:g}"
        lines += ["", "# where the number of tasks is not known:"]
        lines += [
            f"anytime_{line}"
            for line in _loss_lines(advice, ordering, advice.average.code, f", {more}")
        ]
        lines.append(
            f"anytime = fl.ContinualRidge(alpha=0, {more}, loss={loss!r},"
            f" fit_intercept={intercept})"
        )
    print_lines(
        "\n".join(
            ["\nTo use it:\n\n    import forgetless as fl\n", *(f"    {line}" for line in lines)]
        )
    )


def _objective(objective: str | None, validation: Path | None) -> Any:
    """Return the objective of an option; UsageError where it is unknown or lacks its held-out
    rows.
    """
    try:
        objective = objective and quantity("--objective", objective, OBJECTIVES)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if objective == "validation" and validation is None:
        raise click.UsageError(
            "--objective validation needs held-out rows; give their file with --validation FILE"
        )
    return objective or ("average_loss" if validation is None else "validation")


def _loss_lines(
    advice: Any, ordering: Any, schedule: str = "schedule", more: str = ""
) -> list[str]:
    """Return code that computes the loss of an advised schedule again."""
    arguments = f"tasks, {schedule}, k={advice.k}, ordering=fl.{ordering!r}{more}"
    if advice.objective == "worst_case":
        return [f"loss = fl.worst_case({arguments}).loss"]
    runs = f"fl.simulate({arguments}, n_trials={advice.n_runs or 1000}, seed=0, record='last')"
    if advice.objective == "validation":
        return [f"loss = fl.metrics.average_loss(held_out, {runs}.weights[:, -1]).mean()"]
    name = advice.objective
    return [
        (
            f"loss = {runs}.{name}.mean()"
            if advice.n_runs
            else f"loss = fl.expect({arguments}, metrics={name!r}).{name}[0]"
        )
    ]


@click.command(
    epilog=examples(
        "forgetless explore",
        "forgetless explore data.csv --task week --target y --k 200",
        "forgetless explore --out explorer.html",
    )
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--task", help="Column with the task, for tables.")
@click.option("--target", multiple=True, help="Column with the target, for tables.")
@with_options(source_options)
@click.option("--k", type=click.IntRange(1, 5000), help="Number of steps to start with.")
@click.option("--schedule", help=f"What to start with: {SCHEDULE_HELP}")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the page to this file instead of serving it.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on 127.0.0.1 [default: a free one]",
)
@click.option(
    "--browser/--no-browser", default=True, show_default=True, help="Open it in a browser."
)
def explore(
    file: Path | None,
    k: int | None,
    schedule: str | None,
    out: Path | None,
    port: int,
    browser: bool,
    **options: Any,
) -> None:
    """Open a page in which you draw a schedule and see its exact expected loss, with the tasks of
    FILE inside.

    Python answers the page from this machine alone (127.0.0.1) until you press Ctrl-C: it compares
    bounds and advises, and computes what the page cannot. With --out the page is written to a file
    that needs no Python.
    """
    import forgetless as fl
    from forgetless.explorer.server import ExplorerServer

    if file is None:
        needing = {"--task": options["task"], "--target": options["target"], "--schedule": schedule}
        for name, value in needing.items():
            if value:
                raise click.UsageError(f"{name} needs a FILE with tasks")
        page = fl.explore(k=k)
    else:
        page = _with_tasks(Source({"file": file, **options}), k, schedule, large=out is None)
    if out is not None:
        print_lines(f"wrote {page.save(out)}: open it in any browser")
        return
    with ExplorerServer(page, port) as server:
        print_lines(f"{server.address}\nYour data stay on this machine. Ctrl-C stops it.")
        with _opened(server.address if browser else None):
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print_lines("stopped", err=True)


def _with_tasks(source: Source, k: int | None, schedule: str | None, *, large: bool) -> Any:
    """Return the page of the tasks in a file."""
    from forgetless.explorer import explore as explore_tasks

    tasks = source.read()
    code = "\n".join([*source.encoder_lines(), f"tasks = {source.code()}"])
    origin = {"kind": "file", "name": str(source.file), "code": code}
    chosen = None if schedule is None else schedule_of(schedule, tasks.n_tasks)
    return explore_tasks(tasks, chosen, k, source=origin, large=large)


@contextmanager
def _opened(address: str | None) -> Iterator[None]:
    """Open an address in a browser, through a file that only its owner reads: others see the
    arguments of commands.
    """
    if address is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="forgetless-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">'
        )
        webbrowser.open(file.as_uri())
        yield


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


STORE = click.Path(path_type=Path, dir_okay=False)


class Sweeps(click.Group):
    """A group whose first word is a command, or else what ``run`` is given: ``sweep sweep.toml``
    runs it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=Sweeps,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "forgetless sweep sweep.toml --store results.db", "forgetless sweep table results.db"
    ),
)
def sweep() -> None:
    """Run many cells of a sweep into a store, and read it: sweep SWEEP.TOML --store STORE, or a
    command.

    What does not begin with the name of a command is given to run.
    """


@sweep.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--store", type=STORE, required=True, help="The results: one SQLite file, made or gone on with."
)
@click.option(
    "--cluster", help="Address of a dask scheduler, such as tcp://host:8786 [default: this machine]"
)
@click.option(
    "--workers", type=click.IntRange(0), help="Processes on this machine [default: one a processor]"
)
@click.option("--retry", is_flag=True, help="Compute cells again that failed.")
@click.option(
    "--time-limit", type=click.FloatRange(0, min_open=True), help="Seconds that a cell may take."
)
def run(
    file: Path,
    store: Path,
    cluster: str | None,
    workers: int | None,
    retry: bool,
    time_limit: float | None,
) -> None:
    """Compute the cells of the sweep in FILE (TOML) that the store lacks. After Ctrl-C the same
    command resumes.

    Exit code 1 if cells failed, with a line for every kind of error.
    """
    from forgetless.sweeps import Store, load_sweep, report

    loaded = load_sweep(file)
    try:
        with nullcontext() if cluster is None else _connect(cluster) as client:
            loaded.run(store, client, n_workers=workers, retry=retry, time_limit=time_limit)
    except KeyboardInterrupt:
        if store.exists():
            print_lines(f"finished cells are in {store}; the same command resumes", err=True)
        raise
    with Store(store) as opened:
        print_lines(_lines(opened.status()))
    failed = loaded.failures(store)
    if len(failed):
        print_lines("\n".join(report.failure_lines(failed)), err=True)
        count = f"{len(failed)} of {len(loaded)} cells failed"
        raise StoreError(f"{count}; once the cause is removed, --retry computes them again")


def _connect(address: str) -> Any:
    with needs("--cluster", "dask", "cluster"):
        import distributed  # noqa: F401
    from forgetless.sweeps.workers import connect

    return connect(address)


def _lines(table: Any) -> str:
    """Return the only row of a table as lines."""
    return "\n".join(
        f"{name:<16} {'–' if value is None else value}" for name, (value,) in table.columns.items()
    )


@sweep.command()
@click.argument("store", type=STORE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def status(store: Path, as_json: bool) -> None:
    """Print how much of the last sweep is in STORE, what failed, and whether it is running."""
    from forgetless.sweeps import Store

    with Store(store) as opened:
        state = opened.status()
    if as_json:
        click.echo(json.dumps({name: value for name, (value,) in state.columns.items()}))
        return
    print_lines(_lines(state))


@sweep.command()
@click.argument("store", type=STORE)
@click.option("--y", help="Metric [default: the first of the sweep]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "csv", "json"]),
    default="text",
    show_default=True,
)
def table(store: Path, y: str | None, form: str) -> None:
    """Print a summary of STORE: means over seeds at every k, slopes, bounds."""
    from forgetless.sweeps import report

    cells, first = report.of_store(store)
    summary = report.summary(cells, y or first)
    if form == "json":
        click.echo(json.dumps(summary.to_dict(), ensure_ascii=False))
    elif form == "text":
        print_lines("\n".join([summary.text(), *summary.facts]))
    else:
        click.echo(summary.to_frame().to_csv(index=False), nl=False)


@sweep.command()
@click.argument("store", type=STORE)
@click.option("--out", type=STORE, required=True, help="File: .csv or .parquet.")
def export(store: Path, out: Path) -> None:
    """Write every number in STORE, of all versions, to a table: a row for each cell and step, with
    version and key.
    """
    from forgetless.sweeps import report

    if out.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"--out must end in .csv or .parquet, got {out.name}")
    frame = report.everything(store).to_frame()
    replace_file(
        out,
        (
            frame.to_csv(index=False).encode()
            if out.suffix == ".csv"
            else frame.to_parquet(index=False)
        ),
    )
    print_lines(f"{len(frame)} rows in {out}")


@sweep.command()
@click.argument("target", type=STORE)
@click.argument("sources", type=STORE, nargs=-1, required=True)
def merge(target: Path, sources: tuple[Path, ...]) -> None:
    """Copy the cells of SOURCES into the store TARGET."""
    from forgetless.sweeps import merge as merge_stores

    with terminal_progress():
        count = merge_stores(target, *sources)
    print_lines(f"{count} cells copied into {target}")

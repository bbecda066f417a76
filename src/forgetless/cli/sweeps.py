"""The commands of ``sweep``: run one, and look at, print, write and merge stores."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from forgetless._core.environment import needs
from forgetless.cli.shared import say
from forgetless.errors import StoreError
from forgetless.io.atomic import replace_file
from forgetless.reporting.progress import terminal_progress

STORE = click.Path(path_type=Path, dir_okay=False)


class Sweeps(click.Group):
    """A group whose first word is a command, or else what ``run`` is given: ``sweep sweep.toml`` runs it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=Sweeps, context_settings={"help_option_names": ["-h", "--help"]})
def sweep() -> None:
    """Run many cells of a sweep into a store, and read it: sweep SWEEP.TOML --store STORE, or a command.

    What does not begin with the name of a command is given to run.
    """


@sweep.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--store", type=STORE, required=True, help="The results: one SQLite file, made or gone on with.")
@click.option("--cluster", help="Address of a dask scheduler, such as tcp://host:8786 [default: this machine]")
@click.option("--workers", type=click.IntRange(0), help="Processes on this machine [default: one a processor]")
@click.option("--retry", is_flag=True, help="Compute cells again that failed.")
@click.option("--time-limit", type=click.FloatRange(0, min_open=True), help="Seconds that a cell may take.")
def run(
    file: Path, store: Path, cluster: str | None, workers: int | None, retry: bool, time_limit: float | None
) -> None:
    """Compute the cells of the sweep in FILE (TOML) that the store lacks. After Ctrl-C the same command resumes."""
    from forgetless.sweeps import Store, load_sweep

    loaded = load_sweep(file)
    try:
        with nullcontext() if cluster is None else _connect(cluster) as client:
            loaded.run(store, client, n_workers=workers, retry=retry, time_limit=time_limit)
    except KeyboardInterrupt:
        say(f"finished cells are in {store}; the same command resumes", err=True)
        raise
    with Store(store) as opened:
        say(_lines(opened.status()))
    failed = loaded.failures(store)
    if len(failed):
        say(failed.text(), err=True)
    if len(failed) == len(loaded):
        raise StoreError(f"all {len(loaded)} cells failed; after a cure, --retry tries them again")


def _connect(address: str) -> Any:
    with needs("--cluster", "dask", "cluster"):
        import distributed  # noqa: F401
    from forgetless.sweeps.workers import connect

    return connect(address)


def _lines(table: Any) -> str:
    """Return the only row of a table as lines."""
    return "\n".join(f"{name:<16} {'–' if value is None else value}" for name, (value,) in table.columns.items())


@sweep.command()
@click.argument("store", type=STORE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def status(store: Path, as_json: bool) -> None:
    """Say how much of the sweep run last is in STORE, what failed, and whether it is running."""
    from forgetless.sweeps import Store

    with Store(store) as opened:
        found = opened.status()
    if as_json:
        click.echo(json.dumps({name: value for name, (value,) in found.columns.items()}))
        return
    say(_lines(found))


@sweep.command()
@click.argument("store", type=STORE)
@click.option("--y", help="Metric [default: the first of the sweep]")
@click.option("--format", "form", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True)
def table(store: Path, y: str | None, form: str) -> None:
    """Print a summary of STORE: means over seeds at every k, slopes, bounds."""
    from forgetless.sweeps import report

    held, first = report.of_store(store)
    made = report.summary(held, y or first)
    if form == "json":
        click.echo(json.dumps(made.to_dict(), ensure_ascii=False))
    elif form == "text":
        say("\n".join([made.text(), *made.facts]))
    else:
        click.echo(made.to_csv(), nl=False)


@sweep.command()
@click.argument("store", type=STORE)
@click.option("--out", type=STORE, required=True, help="File: .csv or .parquet.")
def export(store: Path, out: Path) -> None:
    """Write every number in STORE, of all versions, to a table: a row for each cell and step, with version and key."""
    from forgetless.sweeps import report

    if out.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"--out must end in .csv or .parquet, got {out.name}")
    held = report.everything(store)
    replace_file(out, held.to_csv().encode() if out.suffix == ".csv" else held.to_frame().to_parquet())
    say(f"{len(held)} rows in {out}")


@sweep.command()
@click.argument("target", type=STORE)
@click.argument("sources", type=STORE, nargs=-1, required=True)
def merge(target: Path, sources: tuple[Path, ...]) -> None:
    """Copy the cells of SOURCES into the store TARGET."""
    from forgetless.sweeps import merge as merged

    with terminal_progress():
        count = merged(target, *sources)
    say(f"{count} cells came into {target}")

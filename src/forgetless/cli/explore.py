"""The command ``explore``."""

import html
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from forgetless.cli.shared import SCHEDULE_HELP, examples, say, schedule_of


@click.command(
    epilog=examples(
        "forgetless explore",
        "forgetless explore data.csv --task week --target y --k 200",
        "forgetless explore --out explorer.html",
    )
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--task", help="Column with the task, for CSV and Parquet.")
@click.option("--target", help="Column with the target, for CSV and Parquet.")
@click.option("--k", type=click.IntRange(1, 5000), help="Number of steps to start with.")
@click.option("--schedule", help=f"What to start with: {SCHEDULE_HELP}")
@click.option("--loss", type=click.Choice(["sum", "mean"]), default="sum", show_default=True, help="Loss of a task.")
@click.option("--intercept/--no-intercept", default=False, show_default=True, help="A feature that is always 1.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the page to this file instead of serving it.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1 [default: a free one]")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open it in a browser.")
def explore(
    file: Path | None,
    task: str | None,
    target: str | None,
    k: int | None,
    schedule: str | None,
    loss: str,
    intercept: bool,
    out: Path | None,
    port: int,
    browser: bool,
) -> None:
    """Open a page in which you draw a schedule and see its exact expected loss, with the tasks of FILE inside.

    Python answers the page from this machine alone (127.0.0.1) until you press Ctrl-C: it certifies and advises, and
    computes what the page cannot. With --out the page is written to a file that needs no Python.
    """
    import forgetless as fl
    from forgetless.explorer.server import ExplorerServer

    if file is None:
        given = [name for name, value in (("--task", task), ("--target", target), ("--schedule", schedule)) if value]
        if given:
            raise click.UsageError(f"{given[0]} needs a FILE with tasks")
        page = fl.explore(k=k)
    else:
        page = _with_tasks(file, task, target, k, schedule, loss, intercept, large=out is None)
    if out is not None:
        say(f"wrote {page.save(out)}: open it in any browser")
        return
    with ExplorerServer(page, port) as server:
        say(f"{server.address}\nYour data stay on this machine. Ctrl-C stops it.")
        with _shown(server.address if browser else None):
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                say("stopped", err=True)


@contextmanager
def _shown(address: str | None) -> Iterator[None]:
    """Open an address in a browser, by way of a file that only its owner reads: others see the words of commands."""
    if address is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="forgetless-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">')
        webbrowser.open(file.as_uri())
        yield


def _with_tasks(
    file: Path,
    task: str | None,
    target: str | None,
    k: int | None,
    schedule: str | None,
    loss: str,
    intercept: bool,
    *,
    large: bool,
) -> Any:
    from forgetless.explorer import explore as made
    from forgetless.tables.task_files import load_tasks

    tasks = load_tasks(file, task, target, loss=loss, intercept=intercept)
    source: dict[str, Any] = {"kind": "file", "name": str(file), "mean": loss == "mean", "intercept": intercept}
    source |= {"task": task, "target": target} if task else {}
    chosen = None if schedule is None else schedule_of(schedule, tasks.n_tasks)
    return made(tasks, chosen, k, source=source, large=large)

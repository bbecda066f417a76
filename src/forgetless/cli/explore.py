"""The command ``explore``."""

import html
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from forgetless.cli.shared import SCHEDULE_HELP, Source, examples, print_lines, schedule_of


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
    file: Path | None, k: int | None, schedule: str | None, out: Path | None, port: int, browser: bool, **options: Any
) -> None:
    """Open a page in which you draw a schedule and see its exact expected loss, with the tasks of FILE inside.

    Python answers the page from this machine alone (127.0.0.1) until you press Ctrl-C: it compares bounds and advises,
    and computes what the page cannot. With --out the page is written to a file that needs no Python.
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
        page = _with_tasks(Source(file, options["task"], options["target"]), k, schedule, options, large=out is None)
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


def _with_tasks(source: Source, k: int | None, schedule: str | None, options: dict[str, Any], *, large: bool) -> Any:
    """Return the page of the tasks in a file."""
    from forgetless.explorer import explore as explore_tasks

    loss, intercept = options["loss"], options["intercept"]
    tasks = source.read(loss=loss, intercept=intercept)
    origin: dict[str, Any] = {"kind": "file", "name": str(source.file), "mean": loss == "mean", "intercept": intercept}
    origin |= {"task": source.task, "target": source.target} if source.task else {}
    chosen = None if schedule is None else schedule_of(schedule, tasks.n_tasks)
    return explore_tasks(tasks, chosen, k, source=origin, large=large)


@contextmanager
def _opened(address: str | None) -> Iterator[None]:
    """Open an address in a browser, through a file that only its owner reads: others see the arguments of commands."""
    if address is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="forgetless-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">')
        webbrowser.open(file.as_uri())
        yield

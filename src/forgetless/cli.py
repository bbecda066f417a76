"""The command line: parses, calls the library, prints. Exit codes: 0 ok, 1 failure, 2 usage, 130 interrupted."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from forgetless import _cli_streams

SCHEDULE_HELP = "none, fixed, increasing[:SCALE], ridge:LAMBDA, fixed-budget[:N], increasing-budget[:N] or cyclic."
ORDERINGS = ("with-replacement", "without-replacement", "reshuffled", "cyclic")
OBJECTIVES = ("expected", "seen", "worst-case", "validation")
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
        cli.main(args=words, prog_name="forgetless", standalone_mode=False)
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        error.show()
        return 2 if isinstance(error, click.UsageError) else 1
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except (ValueError, TypeError, OSError, MemoryError, ImportError, ArithmeticError) as error:
        if debug:
            raise
        click.echo(f"Error: {' '.join(str(error).split())}", err=True)
        return 1
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being done on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None  # noqa: ARG005
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def _schedule(text: str, n_tasks: int) -> Any:
    import forgetless as fl

    name, _, value = text.partition(":")
    s = fl.schedules
    kinds: dict[str, Callable[[], Any]] = {
        "none": fl.Projection,
        "fixed": s.fixed,
        "increasing": lambda: s.increasing(float(value)) if value else s.increasing(),
        "ridge": lambda: fl.Ridge(float(value)),
        "fixed-budget": lambda: s.fixed_budget(int(value or 1)),
        "increasing-budget": lambda: s.increasing_budget(int(value or 1)),
        "cyclic": lambda: s.cyclic(n_tasks),
    }
    if name not in kinds or (name == "ridge" and not value) or (value and name in ("none", "fixed", "cyclic")):
        raise click.BadParameter(f"{text!r}; use {SCHEDULE_HELP}", param_hint="--schedule")
    try:
        return kinds[name]()
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--schedule") from None


def _ordering(name: str) -> Any:
    import forgetless as fl

    laws = (fl.WithReplacement(), fl.WithoutReplacement(), fl.Reshuffled(), fl.Cyclic())
    return dict(zip(ORDERINGS, laws, strict=True))[name]


_FILE = [
    click.argument("file", type=click.Path(path_type=Path)),
    click.option("--task", help="Column with the task, for CSV and Parquet."),
    click.option("--target", help="Column with the target, for CSV and Parquet."),
    click.option("--k", type=click.IntRange(1), required=True, help="Number of steps."),
    click.option("--ordering", type=click.Choice(ORDERINGS), default=ORDERINGS[0], show_default=True),
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output."),
]
_SCHEDULE = click.option("--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP)


def _about_tasks(command: Any) -> Any:
    """Add the options that every command on a file of tasks and a schedule takes."""
    return _about_file(_SCHEDULE(command))


def _about_file(command: Any) -> Any:
    """Add the options that every command on a file of tasks takes."""
    for option in reversed(_FILE):
        command = option(command)
    return command


def _load(file: Path, task: str | None, target: str | None, schedule: str, ordering: str) -> tuple[Any, Any, Any]:
    from forgetless.datasets import load_tasks

    tasks = load_tasks(file, task, target)
    return tasks, _schedule(schedule, tasks.n_tasks), _ordering(ordering)


def _print_curves(curves: dict[str, list[float]], as_json: bool, note: str) -> None:
    if as_json:
        click.echo(json.dumps(curves))
        return
    click.echo(note)
    names = list(curves)
    click.echo("".join(f"{name:>16}" for name in names))
    for row in zip(*curves.values(), strict=True):
        click.echo("".join(f"{value:>16}" if isinstance(value, int) else f"{value:>16.6g}" for value in row))


@cli.command()
@_about_tasks
def certify(file: Path, task: str, target: str, k: int, schedule: str, ordering: str, as_json: bool) -> None:
    """Print the exact expected loss on tasks from FILE beside every bound that applies."""
    import forgetless as fl

    tasks, chosen, law = _load(file, task, target, schedule, ordering)
    with _progress() as tell:
        tell("computing exact losses")
        found = fl.certify(tasks, chosen, k, law)
    click.echo(json.dumps(found.to_dict()) if as_json else repr(found))


@cli.command()
@_about_file
@click.option("--objective", type=click.Choice(OBJECTIVES), help="[default: expected, or validation if given]")
@click.option("--validation", type=click.Path(path_type=Path), help="File with held-out rows, of the same columns.")
@click.option("--sketch", type=click.IntRange(2), help="Search on this many random tasks of a large collection.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def advise(
    file: Path,
    task: str,
    target: str,
    k: int,
    ordering: str,
    as_json: bool,
    objective: str | None,
    validation: Path | None,
    sketch: int | None,
    seed: int,
) -> None:
    """Rank schedules by their exact loss on tasks from FILE, and say which λ to use and why."""
    import forgetless as fl
    from forgetless.datasets import load_tasks

    tasks = load_tasks(file, task, target)
    if objective == "validation" and validation is None:
        raise click.UsageError("--objective validation needs held-out rows; give their file with --validation FILE")
    held_out = None if validation is None else load_tasks(validation, task, target)
    chosen: Any = (objective or ("expected" if held_out is None else "validation")).replace("-", "_")
    with _progress() as tell:
        found = fl.advise(
            tasks, k, objective=chosen, ordering=_ordering(ordering), validation=held_out, sketch=sketch, seed=seed,
            progress=lambda done, total: tell(f"comparing schedules, stage {done} of {total}"),
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    click.echo(repr(found))
    columns = f", task={task!r}, target={target!r}" if task else ""
    click.echo("\nTo use it:\n\n    import forgetless as fl\n    from forgetless.datasets import load_tasks\n")
    click.echo(f"    tasks = load_tasks({str(file)!r}{columns})")
    click.echo(f"    schedule = {found.options[0].code}")
    click.echo(f"    trace = fl.simulate(tasks, schedule, k={k})")
    click.echo(
        f"    model = fl.ContinualRidge(schedule=schedule, n_tasks={k}, radius={tasks.radius:.6g})  # for a stream"
    )


@cli.command()
@_about_tasks
@click.option("--record", type=click.Choice(["last", "log", "all"]), default="log", show_default=True)
def expect(
    file: Path, task: str, target: str, k: int, schedule: str, ordering: str, as_json: bool, record: str
) -> None:
    """Print exact expected losses, forgetting and drift on tasks from FILE."""
    import forgetless as fl

    tasks, chosen, law = _load(file, task, target, schedule, ordering)
    with _progress() as tell:
        found = fl.expect(
            tasks, chosen, k, ordering=law, metrics=fl.metrics.METRICS, record=record,
            progress=lambda done, total: tell(f"step {done} of {total}"),
        )  # fmt: skip
    curves = {"step": found.steps.tolist(), **{name: value.tolist() for name, value in found.values.items()}}
    _print_curves(curves, as_json, f"{tasks}, exact over all orders ({ordering})")


@cli.command()
@_about_tasks
@click.option("--trials", type=click.IntRange(1), default=100, show_default=True, help="Independent runs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--record", type=click.Choice(["last", "log", "all"]), default="log", show_default=True)
def simulate(
    file: Path,
    task: str,
    target: str,
    k: int,
    schedule: str,
    ordering: str,
    as_json: bool,
    trials: int,
    seed: int,
    record: str,
) -> None:
    """Print mean losses, forgetting and drift of random runs on tasks from FILE."""
    import forgetless as fl

    tasks, chosen, law = _load(file, task, target, schedule, ordering)
    with _progress() as tell:
        found = fl.simulate(
            tasks, chosen, k, ordering=law, n_trials=trials, seed=seed, record=record, keep_weights=False,
            progress=lambda done, total: tell(f"step {done} of {total}"),
        )  # fmt: skip
    means = {name: value.mean(0).tolist() for name, value in found.values.items()}
    _print_curves({"step": found.steps.tolist(), **means}, as_json, f"{tasks}, mean of {trials} runs ({ordering})")


@cli.command("worst-collection")
@click.option("--k", type=click.IntRange(1), required=True, help="Number of steps.")
@click.option("--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP)
@click.option("--features", type=click.IntRange(1), default=4, show_default=True, help="Features of a task.")
@click.option("--tasks", type=click.IntRange(1), default=6, show_default=True, help="Different tasks, at most.")
@click.option("--starts", type=click.IntRange(1), default=32, show_default=True, help="Independent searches.")
@click.option("--rounds", type=click.IntRange(1), default=400, show_default=True, help="Most steps of each.")
@click.option("--kind", type=click.Choice(["mixed", "random", "rare"]), default="mixed", show_default=True,
              help="Where they begin: anywhere, near rare tasks, or both in turn.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File for the collection, as JSON.")
@click.option("--resume", is_flag=True, help="Go on from where an interrupted search to the same --out stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def worst_collection(
    k: int,
    schedule: str,
    features: int,
    tasks: int,
    starts: int,
    rounds: int,
    kind: str,
    seed: int,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Search for tasks on which a schedule does worst, and print them beside the published constants.

    With --out an interrupted search keeps its state in OUT.checkpoint, and --resume goes on from there.
    """
    from dataclasses import replace

    import forgetless as fl

    if resume and out is None:
        raise click.UsageError("--resume needs --out, whose checkpoint it goes on from")
    if out is not None and not out.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.resolve().parent}; make it first")
    state = None if out is None else out.with_name(f"{out.name}.checkpoint")
    try:
        with _progress() as tell:
            found = fl.worst_collection(
                _schedule(schedule, tasks), k, n_features=features, n_tasks=tasks, n_starts=starts, n_rounds=rounds,
                starts=kind, seed=seed, checkpoint=state, resume=resume,
                progress=lambda done, total, best: tell(f"round {done} of at most {total}, best k·loss {best:.6g}"),
            )  # fmt: skip
    except KeyboardInterrupt:
        if state is not None and state.exists():
            click.echo(f"the search is kept in {state}; go on with the same command and --resume", err=True)
        raise
    command = (
        f"forgetless worst-collection --schedule {schedule} --k {k} --features {features} --tasks {tasks} "
        f"--starts {starts} --rounds {rounds} --kind {kind} --seed {seed}"
    )
    found = replace(found, command=command)
    if out is not None:
        found.save(out)
    constants = [vars(constant) for constant in found.constants]
    click.echo(json.dumps({**found.to_dict(), "constants": constants}, ensure_ascii=False) if as_json else repr(found))


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def bounds(as_json: bool) -> None:
    """List every bound in the catalogue."""
    from forgetless.bounds import catalogue

    keys = ("name", "kind", "quantity", "ordering", "scheme", "regularization", "rate", "min_k", "status", "citation")
    rows = [{key: getattr(bound, key) for key in keys} for bound in catalogue]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        click.echo(f"{row['name']}: {row['kind']} bound of the {row['quantity']} loss, {row['rate']} ({row['status']})")
        click.echo(f"    {row['ordering']}; {row['scheme']}; {row['regularization']}; k ≥ {row['min_k']}")
        click.echo(f"    {row['citation']}")


@cli.command()
@click.argument("part", type=click.Choice(PARTS), default="all")
@click.option("--out", type=click.Path(path_type=Path), help="Folder [default: results, or results-PART for a part]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
def reproduce(part: str, out: Path | None, as_json: bool) -> None:
    """Make the paper's figure and table again, exactly, with a report of what holds and what does not."""
    from forgetless import report

    folder = report.check_folder(out or Path("results" if part == "all" else f"results-{part}"))
    with _progress() as tell:
        found = report.sections(report.PARTS if part == "all" else [part], tell)
        tell("drawing")
        page = report.write(found, folder)
    facts = {section.table.title: list(section.table.facts) for section in found if section.table.facts}
    if as_json:
        click.echo(json.dumps({"report": str(page), "facts": facts}, ensure_ascii=False))
        return
    for section in found:
        if section.name == "table":
            _print_summary(section.table)
    for title, lines in facts.items():
        click.echo(f"\n{title}")
        for line in lines:
            click.echo(f"  {line}")
    click.echo(f"\nreport: {page}")


def _print_summary(table: Any) -> None:
    """Print the measured slopes and constants of the main schedules, one line per family."""
    click.echo(f"{'worst-case loss, exact':<22}" + "".join(f"{name:>24}" for name in ("none", "fixed", "increasing")))
    click.echo(f"{'':<22}" + f"{'slope in k   k·loss':>24}" * 3)
    for family in dict.fromkeys(table.columns["family"]):
        cells = ""
        for name in ("none", "fixed", "increasing"):
            row = table.where(family=family, schedule=name).columns
            cells += f"{row['slope'][0]:>14.2f}{row['k·loss at the end'][0]:>10.2g}"
        click.echo(f"{family:<22}{cells}")
    ends = table.where(schedule="increasing").columns["k·bound at the end"]
    click.echo(f"guaranteed for increasing, on every collection that one model fits: k·loss ≤ {ends[0]:.3g}")


_cli_streams.register(cli, _progress)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script; add it to your shell's start-up file."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "forgetless", "_FORGETLESS_COMPLETE").source())


def run() -> None:
    """Entry point of the ``forgetless`` command."""
    import os

    if os.environ.get("_FORGETLESS_COMPLETE"):
        cli.main(prog_name="forgetless")
    sys.exit(main())

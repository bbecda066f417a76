"""The command ``worst-collection``."""

import json
from pathlib import Path

import click

from forgetless.cli.shared import SCHEDULE_HELP, schedule_of
from forgetless.io.atomic import check_target
from forgetless.reporting.progress import terminal_progress


@click.command("worst-collection")
@click.option("--k", type=click.IntRange(1), required=True, help="Number of steps.")
@click.option("--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP)
@click.option("--features", type=click.IntRange(1), default=4, show_default=True, help="Features of a task.")
@click.option("--tasks", type=click.IntRange(1), default=6, show_default=True, help="Different tasks, at most.")
@click.option("--rank", type=click.IntRange(1), default=1, show_default=True, help="Rows of a task.")
@click.option("--starts", type=click.IntRange(1), default=32, show_default=True, help="Independent searches.")
@click.option("--rounds", type=click.IntRange(1), default=400, show_default=True, help="Most steps of each.")
@click.option(
    "--kind",
    type=click.Choice(["mixed", "random", "rare"]),
    default="mixed",
    show_default=True,
    help="Where they begin: anywhere, near rare tasks, or both in turn.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File for the collection, e.g. worst.fl.")
@click.option("--resume", is_flag=True, help="Continue an interrupted search to the same --out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def find_worst_collection(
    k: int,
    schedule: str,
    features: int,
    tasks: int,
    rank: int,
    starts: int,
    rounds: int,
    kind: str,
    seed: int,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Search for tasks on which a schedule does worst, and print them beside the published constants.

    With --out the state of an interrupted search is stored in OUT.checkpoint, and --resume continues from there.
    """
    from dataclasses import replace

    import forgetless as fl

    if resume and out is None:
        raise click.UsageError("--resume needs --out, whose checkpoint it continues from")
    state = None if out is None else out.with_name(f"{out.name}.checkpoint")
    for path in (out, state):
        if path is not None:
            check_target(path)
    try:
        with terminal_progress() as report_progress:
            collection = fl.find_worst_collection(
                schedule_of(schedule, tasks),
                k,
                n_features=features,
                n_tasks=tasks,
                rank=rank,
                n_starts=starts,
                n_rounds=rounds,
                starts=kind,
                seed=seed,
                checkpoint=state,
                resume=resume,
                progress=report_progress,
            )
    except KeyboardInterrupt:
        if state is not None and state.exists():
            click.echo(f"the search is stored in {state}; continue with the same command and --resume", err=True)
        raise
    command = (
        f"forgetless worst-collection --schedule {schedule} --k {k} --features {features} --tasks {tasks} "
        f"--rank {rank} --starts {starts} --rounds {rounds} --kind {kind} --seed {seed}"
    )
    collection = replace(collection, command=command)
    if out is not None:
        collection.save(out)
    constants = [vars(constant) for constant in collection.constants]
    click.echo(
        json.dumps({**collection.to_dict(), "constants": constants}, ensure_ascii=False)
        if as_json
        else repr(collection)
    )

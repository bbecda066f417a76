"""The command ``upper-bound``."""

import json

import click

from forgetless.cli.shared import SCHEDULE_HELP, schedule_of
from forgetless.reporting.progress import terminal_progress


@click.command("upper-bound")
@click.option("--k", type=click.IntRange(1), required=True, help="Number of steps.")
@click.option("--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP)
@click.option("--quantity", type=click.Choice(["average_loss", "seen_loss"]), default="average_loss", show_default=True)
@click.option("--average", type=click.FloatRange(0.0), help="Of the average of the iterates with weights t^AVERAGE.")
@click.option("--radius", type=float, default=1.0, show_default=True, help="R, the largest norm of a task.")
@click.option("--distance", type=float, default=1.0, show_default=True, help="D, from the start to the joint solution.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def upper_bound(
    k: int,
    schedule: str,
    quantity: str,
    average: float | None,
    radius: float,
    distance: float,
    as_json: bool,
) -> None:
    """Print a proved upper bound of the expected loss of a schedule, for every collection that one model fits."""
    import forgetless as fl

    with terminal_progress() as tell:
        found = fl.upper_bound(
            schedule_of(schedule),
            k,
            quantity=quantity,
            average=average,
            radius=radius,
            distance=distance,
            progress=tell,
        )
    click.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else repr(found))

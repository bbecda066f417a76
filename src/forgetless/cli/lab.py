"""The commands of ``lab``: exact losses, simulations and bounds of one schedule."""

import json
import math
from typing import Any

import click

from forgetless.cli.shared import (
    SCHEDULE_HELP,
    Inputs,
    about_tasks,
    average_option,
    examples,
    schedule_of,
)
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on standard output."
)
k_option = click.option("--k", type=click.IntRange(1), required=True, help="Number of steps.")
schedule_option = click.option(
    "--schedule", default="increasing", show_default=True, help=SCHEDULE_HELP
)
record_option = click.option(
    "--record", type=click.Choice(["last", "log", "all"]), default="log", show_default=True
)
seed_option = click.option("--seed", type=click.IntRange(0), default=0, show_default=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def lab() -> None:
    """Compute exact losses, simulations and bounds of one schedule."""


def _print_curves(curves: dict[str, list[float]], as_json: bool, title: str) -> None:
    click.echo(
        json.dumps(curves)
        if as_json
        else f"{title}\n{Table('Curves', curves, number='.6g').text()}"
    )


@lab.command(
    epilog=examples(
        "forgetless lab expect tasks.npz --k 200",
        "forgetless lab expect tasks.npz --k 200 --average 2 --schedule none",
    )
)
@about_tasks
@record_option
@average_option
def expect(inputs: Inputs, as_json: bool, record: str, average: float | None) -> None:
    """Print exact expected losses, forgetting and drift on tasks from FILE; of an average the
    average loss alone.

    next_loss is the loss on the task after the last one, where the order has one.
    """
    import forgetless as fl

    metrics: Any = _metrics(inputs) if average is None else "average_loss"
    with terminal_progress():
        result = fl.expect(
            *inputs.arguments,
            ordering=inputs.ordering,
            metrics=metrics,
            record=record,
            average=average,
        )
    curves = {
        "step": result.steps.tolist(),
        **{name: value.tolist() for name, value in result.values.items()},
    }
    _print_curves(
        curves,
        as_json,
        f"{inputs.tasks}, exact over all orders ({inputs.order}){_of_average(average)}",
    )


def _metrics(inputs: Inputs) -> tuple[str, ...]:
    """Return all metrics; the loss on the next task only where there is one."""
    from forgetless.engines.inputs import as_ordering
    from forgetless.engines.upcoming import is_defined
    from forgetless.metrics import ENGINE_METRICS, METRICS

    tasks, _, k = inputs.arguments
    return ENGINE_METRICS if is_defined(as_ordering(inputs.ordering), tasks.n_tasks, k) else METRICS


def _of_average(average: float | None) -> str:
    return "" if average is None else f", of the average with weights t^{average:g}"


@lab.command(epilog=examples("forgetless lab simulate tasks.npz --k 200 --trials 500 --json"))
@about_tasks
@click.option(
    "--trials", type=click.IntRange(1), default=100, show_default=True, help="Independent runs."
)
@seed_option
@record_option
@average_option
def simulate(
    inputs: Inputs, as_json: bool, trials: int, seed: int, record: str, average: float | None
) -> None:
    """Print mean losses, forgetting and drift of random runs on tasks from FILE."""
    import forgetless as fl

    with terminal_progress():
        trace = fl.simulate(
            *inputs.arguments,
            ordering=inputs.ordering,
            n_trials=trials,
            seed=seed,
            record=record,
            average=average,
            metrics=_metrics(inputs),
            keep_weights=False,
        )
    curves: dict[str, list[float]] = {"step": trace.steps.tolist()}
    for name, value in trace.values.items():
        curves[name] = value.mean(0).tolist()
        if trials > 1:
            curves[f"{name}_se"] = (value.std(0, ddof=1) / math.sqrt(trials)).tolist()
    title = f"{inputs.tasks}, mean of {trials} runs ({inputs.order}){_of_average(average)}"
    _print_curves(curves, as_json, f"{title}; _se: standard errors of these means")


@lab.command(
    epilog=examples(
        "forgetless lab compare-bounds tasks.npz --k 200",
        "forgetless lab compare-bounds tasks.npz --k 200 --schedule fixed --json",
    )
)
@about_tasks
def compare_bounds(inputs: Inputs, as_json: bool) -> None:
    """Print the exact expected loss on tasks from FILE beside every bound that applies."""
    import forgetless as fl

    result = fl.compare_bounds(*inputs.arguments, ordering=inputs.ordering)
    click.echo(json.dumps(result.to_dict()) if as_json else repr(result))


@lab.command(epilog=examples("forgetless lab worst-case tasks.npz --k 200 --schedule fixed"))
@about_tasks
@record_option
@average_option
def worst_case(inputs: Inputs, as_json: bool, record: str, average: float | None) -> None:
    """Print the expected loss of the worst unit solution on the features of tasks from FILE."""
    import forgetless as fl

    with terminal_progress() as report_progress:
        report_progress(0, 0, "computing exact losses")
        result = fl.worst_case(
            *inputs.arguments, ordering=inputs.ordering, record=record, average=average
        )
    curves = {"step": result.steps.tolist(), "worst_case": result.curves[0].tolist()}
    _print_curves(
        curves, as_json, f"{inputs.tasks}, worst case ({inputs.order}){_of_average(average)}"
    )


@lab.command(
    epilog=examples(
        "forgetless lab upper-bound --schedule increasing --k 256",
        "forgetless lab upper-bound --schedule minimax --k 256 --quantity next_loss",
    )
)
@k_option
@schedule_option
@click.option(
    "--quantity",
    type=click.Choice(["average_loss", "seen_loss", "next_loss"]),
    default="average_loss",
    show_default=True,
)
@click.option(
    "--ordering",
    type=click.Choice(["with-replacement", "without-replacement"]),
    help="By default with replacement; for next_loss any exchangeable order.",
)
@click.option(
    "--tasks",
    "n_tasks",
    type=click.IntRange(1),
    help="M, for the average loss without replacement.",
)
@click.option(
    "--average",
    type=click.FloatRange(0.0),
    help="Of the average of the iterates with weights t^AVERAGE.",
)
@click.option(
    "--radius", type=float, default=1.0, show_default=True, help="R, the largest norm of a task."
)
@click.option(
    "--distance",
    type=float,
    default=1.0,
    show_default=True,
    help="D, from the start to the joint solution.",
)
@as_json_option
def upper_bound(schedule: str, k: int, as_json: bool, **options: Any) -> None:
    """Print a proved upper bound of the expected loss of a schedule, for every collection that one
    model fits.
    """
    import forgetless as fl

    bound = fl.upper_bound(schedule_of(schedule), k, **options)
    click.echo(json.dumps(bound.to_dict(), ensure_ascii=False) if as_json else repr(bound))


@lab.command(epilog=examples("forgetless lab bounds", "forgetless lab bounds --json"))
@as_json_option
def bounds(as_json: bool) -> None:
    """List every bound in the catalogue."""
    from forgetless.theory import bounds

    keys = (
        "name",
        "kind",
        "quantity",
        "ordering",
        "scheme",
        "regularization",
        "rate",
        "min_k",
        "status",
        "citation",
    )
    rows = [{key: getattr(bound, key) for key in keys} for bound in bounds.catalogue]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        click.echo(
            f"{row['name']}: {row['kind']} bound of {row['quantity']}, {row['rate']}"
            f" ({row['status']})"
        )
        click.echo(
            f"    {row['ordering']}; {row['scheme']}; {row['regularization']}; k ≥ {row['min_k']}"
        )
        click.echo(f"    {row['citation']}")

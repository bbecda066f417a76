"""The command ``advise``."""

import json
from pathlib import Path
from typing import Any

import click

from forgetless.advice.results import OBJECTIVES
from forgetless.cli.shared import Source, about_file, examples, print_lines
from forgetless.metrics import quantity
from forgetless.reporting.progress import terminal_progress


@click.command(
    epilog=examples(
        "forgetless advise tasks.npz --k 200", "forgetless advise table.csv --task month --target sales --k 12"
    )
)
@about_file
@click.option("--objective", help=f"{', '.join(OBJECTIVES)} [default: average_loss, or validation if given]")
@click.option("--validation", type=click.Path(path_type=Path), help="File with held-out rows, of the same columns.")
@click.option("--loss", type=click.Choice(["sum", "mean"]), default="mean", show_default=True, help="Loss of a task.")
@click.option("--intercept/--no-intercept", default=True, show_default=True, help="A feature that is always 1.")
@click.option("--trials", "n_trials", type=click.IntRange(2), help="Compare by random runs, not by exact losses.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def advise(
    source: Source,
    k: int,
    ordering: Any,
    as_json: bool,
    objective: str | None,
    validation: Path | None,
    loss: str,
    intercept: bool,
    **options: Any,
) -> None:
    """Rank schedules by their exact loss on tasks from FILE, and say which λ to use and why.

    A task counts by the mean over its rows, and there is an intercept, as in fit.
    """
    import forgetless as fl

    tasks = source.read(loss=loss, intercept=intercept)
    goal = _objective(objective, validation)
    held_out = None if validation is None else source.beside(validation).read(loss=loss, intercept=intercept)
    with terminal_progress() as report_progress:
        advice = fl.advise(
            tasks, k, objective=goal, ordering=ordering, validation=held_out, progress=report_progress, **options
        )
    if as_json:
        click.echo(json.dumps(advice.to_dict(), ensure_ascii=False))
        return
    print_lines(repr(advice))
    lines = [f"tasks = {source.code(loss=loss, intercept=intercept)}"]
    if goal == "validation" and validation is not None:
        lines.append(f"held_out = {source.beside(validation).code(loss=loss, intercept=intercept)}")
    lines += [f"schedule = {advice.options[0].code}", *_loss_lines(advice, ordering)]
    lines.append(f"model = {advice.model_code(loss=loss, fit_intercept=intercept)}  # learns tasks one by one")
    if advice.average is not None:
        more = f"average={advice.average.average:g}"
        lines += ["", "# where the number of tasks is not known:"]
        lines += [f"anytime_{line}" for line in _loss_lines(advice, ordering, advice.average.code, f", {more}")]
        lines.append(f"anytime = fl.ContinualRidge(alpha=0, {more}, loss={loss!r}, fit_intercept={intercept})")
    print_lines("\n".join(["\nTo use it:\n\n    import forgetless as fl\n", *(f"    {line}" for line in lines)]))


def _objective(objective: str | None, validation: Path | None) -> Any:
    """Return the objective of an option; UsageError where it is unknown or lacks its held-out rows."""
    try:
        objective = objective and quantity("--objective", objective, OBJECTIVES)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if objective == "validation" and validation is None:
        raise click.UsageError("--objective validation needs held-out rows; give their file with --validation FILE")
    return objective or ("average_loss" if validation is None else "validation")


def _loss_lines(advice: Any, ordering: Any, schedule: str = "schedule", more: str = "") -> list[str]:
    """Return code that computes the loss of an advised schedule again."""
    arguments = f"tasks, {schedule}, k={advice.k}, ordering=fl.{ordering!r}{more}"
    if advice.objective == "worst_case":
        return [f"loss = fl.worst_case({arguments}).loss"]
    runs = f"fl.simulate({arguments}, n_trials={advice.n_runs or 1000}, seed=0, record='last')"
    if advice.objective == "validation":
        return [f"loss = fl.metrics.average_loss(held_out, {runs}.weights[:, -1]).mean()"]
    name = advice.objective
    return [
        f"loss = {runs}.{name}.mean()"
        if advice.n_runs
        else f"loss = fl.expect({arguments}, metrics={name!r}).{name}[0]"
    ]

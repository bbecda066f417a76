"""The commands on a file of tasks: ``certify``, ``advise``, ``expect`` and ``simulate``."""

import json
import math
from pathlib import Path
from typing import Any

import click

from forgetless.advice.results import OBJECTIVES
from forgetless.cli.shared import about_file, about_tasks, average_option, ordering_of, say, schedule_of
from forgetless.metrics import quantity
from forgetless.reporting.progress import terminal_progress
from forgetless.reporting.table import Table


def _load(file: Path, task: str | None, target: str | None, schedule: str, ordering: str) -> tuple[Any, Any, Any]:
    from forgetless.tables.task_files import load_tasks

    tasks = load_tasks(file, task, target)
    return tasks, schedule_of(schedule, tasks.n_tasks), ordering_of(ordering)


def _print_curves(curves: dict[str, list[float]], as_json: bool, note: str) -> None:
    if as_json:
        click.echo(json.dumps(curves))
        return
    click.echo(note)
    click.echo(Table("Curves", curves, number=".6g").text())


@click.command()
@about_tasks
def compare_bounds(file: Path, task: str, target: str, k: int, schedule: str, ordering: str, as_json: bool) -> None:
    """Print the exact expected loss on tasks from FILE beside every bound that applies."""
    import forgetless as fl

    tasks, chosen, law = _load(file, task, target, schedule, ordering)
    with terminal_progress() as tell:
        tell(0, 0, "computing exact losses")
        found = fl.compare_bounds(tasks, chosen, k, ordering=law)
    click.echo(json.dumps(found.to_dict()) if as_json else repr(found))


@click.command()
@about_file
@click.option("--objective", help=f"{', '.join(OBJECTIVES)} [default: average_loss, or validation if given]")
@click.option("--validation", type=click.Path(path_type=Path), help="File with held-out rows, of the same columns.")
@click.option("--loss", type=click.Choice(["sum", "mean"]), default="mean", show_default=True, help="Loss of a task.")
@click.option("--intercept/--no-intercept", default=True, show_default=True, help="A feature that is always 1.")
@click.option("--trials", type=click.IntRange(2), help="Compare by this many random runs, not by exact losses.")
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
    loss: str,
    intercept: bool,
    trials: int | None,
    seed: int,
) -> None:
    """Rank schedules by their exact loss on tasks from FILE, and say which λ to use and why.

    A task counts by the mean over its rows, and there is an intercept, as in fit.
    """
    import forgetless as fl
    from forgetless.tables.task_files import load_tasks

    tasks = load_tasks(file, task, target, loss=loss, intercept=intercept)
    try:
        objective = objective and quantity("--objective", objective, OBJECTIVES)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if objective == "validation" and validation is None:
        raise click.UsageError("--objective validation needs held-out rows; give their file with --validation FILE")
    held_out = None if validation is None else load_tasks(validation, task, target, loss=loss, intercept=intercept)
    chosen: Any = objective or ("average_loss" if held_out is None else "validation")
    law = ordering_of(ordering)
    with terminal_progress() as tell:
        found = fl.advise(
            tasks,
            k,
            objective=chosen,
            ordering=law,
            validation=held_out,
            n_trials=trials,
            seed=seed,
            progress=tell,
        )
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    say(repr(found))
    columns = {"task": task, "target": target} if task else {}
    call = [f"{name}={value!r}" for name, value in {**columns, "loss": loss, "intercept": intercept}.items()]
    lines = [f"tasks = load_tasks({', '.join([repr(str(file)), *call])})"]
    if chosen == "validation":
        lines.append(f"held_out = load_tasks({', '.join([repr(str(validation)), *call])})")
    lines += [f"schedule = {found.options[0].code}", *_loss_lines(found, law)]
    lines.append(f"model = {found.model_code(loss=loss, fit_intercept=intercept)}  # learns tasks one by one")
    if found.average is not None:
        lines += ["", "# where the number of tasks is not known:"]
        more = f"average={found.average.average:g}"
        lines += [f"anytime_{line}" for line in _loss_lines(found, law, found.average.code, f", {more}")]
        lines.append(f"anytime = fl.ContinualRidge(alpha=0, {more}, loss={loss!r}, fit_intercept={intercept})")
    say("\nTo use it:\n\n    import forgetless as fl\n    from forgetless.tables import load_tasks\n")
    for line in lines:
        say(f"    {line}")


def _loss_lines(found: Any, law: Any, schedule: str = "schedule", more: str = "") -> list[str]:
    """Return code that computes the loss of an advised schedule again."""
    given = f"tasks, {schedule}, k={found.k}, ordering=fl.{law!r}{more}"
    if found.objective == "worst_case":
        return [f"loss = fl.worst_case({given}).loss"]
    runs = f"fl.simulate({given}, n_trials={found.n_runs or 1000}, seed=0, record='last')"
    if found.objective == "validation":
        return [f"loss = fl.metrics.average_loss(held_out, {runs}.weights[:, -1]).mean()"]
    name = found.objective
    if found.n_runs:
        return [f"loss = {runs}.{name}.mean()"]
    return [f"loss = fl.expect({given}, metrics={name!r}).{name}[0]"]


@click.command()
@about_tasks
@click.option("--record", type=click.Choice(["last", "log", "all"]), default="log", show_default=True)
@average_option
def expect(
    file: Path,
    task: str,
    target: str,
    k: int,
    schedule: str,
    ordering: str,
    as_json: bool,
    record: str,
    average: float | None,
) -> None:
    """Print exact expected losses, forgetting and drift on tasks from FILE; of an average the average loss alone."""
    import forgetless as fl

    tasks, chosen, law = _load(file, task, target, schedule, ordering)
    with terminal_progress() as tell:
        found = fl.expect(
            tasks,
            chosen,
            k,
            ordering=law,
            metrics=fl.metrics.METRICS if average is None else "average_loss",
            record=record,
            average=average,
            progress=tell,
        )
    curves = {"step": found.steps.tolist(), **{name: value.tolist() for name, value in found.values.items()}}
    _print_curves(curves, as_json, f"{tasks}, exact over all orders ({ordering}){_of_average(average)}")


def _of_average(average: float | None) -> str:
    return "" if average is None else f", of the average with weights t^{average:g}"


@click.command()
@about_tasks
@click.option("--trials", type=click.IntRange(1), default=100, show_default=True, help="Independent runs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--record", type=click.Choice(["last", "log", "all"]), default="log", show_default=True)
@average_option
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
    average: float | None,
) -> None:
    """Print mean losses, forgetting and drift of random runs on tasks from FILE."""
    import forgetless as fl

    tasks, chosen, law = _load(file, task, target, schedule, ordering)
    with terminal_progress() as tell:
        found = fl.simulate(
            tasks,
            chosen,
            k,
            ordering=law,
            n_trials=trials,
            seed=seed,
            record=record,
            average=average,
            keep_weights=False,
            progress=tell,
        )
    means: dict[str, list[float]] = {}
    for name, value in found.values.items():
        means[name] = value.mean(0).tolist()
        if trials > 1:
            means[f"{name}_se"] = (value.std(0, ddof=1) / math.sqrt(trials)).tolist()
    note = f"{tasks}, mean of {trials} runs ({ordering}){_of_average(average)}; _se: standard errors of these means"
    _print_curves({"step": found.steps.tolist(), **means}, as_json, note)

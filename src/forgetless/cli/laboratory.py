"""The commands on schedules: ``reproduce`` and ``explore``.

``--schedule`` takes a name with numbers, in the order of the parameters of the function of that
name: ``increasing:0.5`` is ``fl.schedules.increasing(0.5)``, and ``end-ramp:1/8,2`` has a fraction.
The help text is made from these functions, so that it cannot say anything else than they do.

===================  ==============================================================================
``none``             no regularization: the closest solution of every task (``fl.Projection``)
``ridge:2``          one coefficient for all steps (``fl.Ridge``)
``fixed``            one strength R²(ln k − 1) for all k steps, from the paper
``increasing:0.5``   strengths that grow up to step k, in units of 0.5 R²
``end-ramp:1/8,2``   none, then in the last eighth of the steps growing ones, in units of 2 R²
``cyclic``           one strength for tasks in a fixed cyclic order, as many as FILE has
===================  ==============================================================================

Names of functions have underscores, and those of the command hyphens; both are understood.
"""

import inspect
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from forgetless import schedules
from forgetless._table import Table
from forgetless.cli import check_roles, examples, print_json, print_lines
from forgetless.filters import Projection, Ridge
from forgetless.schedules.named import NAMES, as_schedule

SCHEDULES: dict[str, Any] = {
    "none": Projection,
    "ridge": Ridge,
    **{name.replace("_", "-"): getattr(schedules, name) for name in NAMES},
}
"""What ``--schedule`` names: filters for all steps, and the functions of ``fl.schedules``."""


def schedule_of(text: str, n_tasks: int | None = None) -> Any:
    """Return the schedule of a name with numbers, such as "increasing:0.5" or "end-ramp:1/8,2".

    Parameters
    ----------
    text : str
        The name, and behind a colon numbers with commas in between.
    n_tasks : int, optional
        "cyclic" without a number is that of so many tasks.

    Raises
    ------
    click.BadParameter
        It names what there is, and what was probably meant.

    Examples
    --------
    >>> schedule_of("ridge:2")
    Ridge(coefficient=2.0)
    >>> schedule_of("cyclic", 3) == schedules.cyclic(3)
    True
    """
    name, _, rest = text.partition(":")
    name = name.replace("_", "-")
    try:
        # Of an unknown name the library says what was probably meant.
        if name not in SCHEDULES:
            return as_schedule(name)
        # "fixed" without a colon has no numbers, not one that is empty.
        numbers = [_number(each) for each in rest.split(",") if rest]
        if name == "cyclic" and not numbers and n_tasks is not None:
            numbers = [n_tasks]
        return SCHEDULES[name](*numbers)
    # Too many numbers, text that is none, 1/0, and 1e400 in this order.
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        message = f"schedule {text!r} is not one of {usage()} ({error})"
        raise click.BadParameter(message, param_hint="--schedule") from None


def _number(text: str) -> float:
    """Return a whole number as an int, any other or a fraction such as 13/3 as a float.

    Examples
    --------
    >>> [_number(text) for text in ("3", "0.5", "1/8", "2e-1")]
    [3, 0.5, 0.125, 0.2]
    """
    # Numbers of gradient steps must be whole ones.
    if text.strip().isdecimal():
        return int(text)
    return float(Fraction(text))


def usage() -> str:
    """Return all names with their numbers: in brackets what may be left out.

    Examples
    --------
    >>> usage().split(", ")[:2]
    ['none', 'ridge:COEFFICIENT']
    >>> "minimax-budget[:N_STEPS[,ETA[,NOISE]]]" in usage()
    True
    """
    texts = []
    for name, make in SCHEDULES.items():
        text = ""
        parameters = [*inspect.signature(make).parameters.values()]
        # From the last parameter to the first, since brackets enclose all that follow.
        while parameters:
            parameter = parameters.pop()
            sign = "," if parameters else ":"
            text = f"{sign}{parameter.name.upper()}{text}"
            # Whoever leaves a number out leaves out all that follow.
            if parameter.default is not parameter.empty:
                text = f"[{text}]"
        texts.append(f"{name}{text}")
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


@click.command(
    epilog=examples(
        "forgetless explore",
        "forgetless explore data.csv --task week --target y --k 200",
        "forgetless explore data.csv --task week --target y --out explorer.html",
    )
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--task", help="Column with the task, for tables.")
@click.option("--target", help="Column with the target, for tables.")
@click.option("--k", type=click.IntRange(1, 5000), help="Number of steps to start with.")
@click.option("--schedule", help=f"What to start with: {usage()}.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write it [default: a temporary file]"
)
@click.option(
    "--browser/--no-browser", default=True, show_default=True, help="Open it in a browser."
)
def explore(
    file: Path | None,
    task: str | None,
    target: str | None,
    k: int | None,
    schedule: str | None,
    out: Path | None,
    browser: bool,
) -> None:
    """Write a page in which you draw a schedule and see its exact expected loss, with the tasks of
    FILE inside, and open it.

    The page is one HTML file that needs no Python and no network. FILE is a table, as fit reads it,
    or tasks that TaskCollection.save has written.
    """
    from forgetless.explorer import explore as write_page

    if file is None:
        # A schedule is in units of the radius of the tasks, which the page chooses here.
        for name, value in {"--task": task, "--target": target, "--schedule": schedule}.items():
            if value:
                raise click.UsageError(f"{name} needs a FILE with tasks")
        path = write_page(k=k, out=out, show=browser)
    else:
        # Without --schedule the page begins with one of its own.
        tasks, source = _tasks(file, task, target)
        chosen = schedule and schedule_of(schedule, tasks.n_tasks)
        path = write_page(tasks, chosen, k, out=out, show=browser, source=source)
    print_lines(f"page: {path}")


def _tasks(file: Path, task: str | None, target: str | None) -> tuple[Any, str]:
    """Return the tasks of a file, and the code that returns them.

    The page writes this code into its export, so that the notebook of a reader has the same tasks.

    Parameters
    ----------
    file : Path
        Tasks that ``TaskCollection.save`` has written (.safetensors), or a table.
    task, target : str or None
        Columns of a table.

    Returns
    -------
    tasks : TaskCollection
        Of a table its features are those of ``TableEncoder``, learned from all rows at once: the
        laboratory asks about forgetting, and not about columns that come later.
    source : str
        Lines of Python that need ``fl`` and bind ``tasks``.
    """
    import forgetless as fl

    # What TaskCollection.save has written needs no columns.
    if file.suffix == ".safetensors":
        tasks = fl.load(file)
        if not isinstance(tasks, fl.TaskCollection):
            raise ValueError(f"{file.name} holds {type(tasks).__name__}, and no tasks")
        return tasks, f"tasks = fl.load({str(file)!r})"
    table = fl.tables.read_table(file)
    check_roles(file.name, table.columns, task, target)
    # repr writes the names of strangers as literals, which cannot run.
    X = fl.tables.TableEncoder().fit_transform(table.drop(columns=[task, target]))
    source = (
        f"table = fl.tables.read_table({str(file)!r})\n"
        f"X = fl.tables.TableEncoder().fit_transform(table.drop(columns={[task, target]!r}))\n"
        f"tasks = fl.TaskCollection.from_arrays(X, table[{target!r}], table[{task!r}])"
    )
    return fl.TaskCollection.from_arrays(X, table[target], table[task]), source


PARTS = ("all", "figure", "table", "rates", "unregularized", "reduction")
"""What ``reproduce`` computes: "figure" is Figure 2 of the paper and "table" its Table 1, measured;
"rates" are the exact losses behind the table, "reduction" is Figure 1 in numbers, and
"unregularized" answers the open question of Section 6.
"""


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
    from forgetless.reproduce import figures

    # A part has a folder of its own: it must not replace the report of everything.
    everything = part == "all"
    folder = figures.check_folder(out or Path("results" if everything else f"results-{part}"))
    sections = figures.sections(figures.PARTS if everything else [part])
    written = figures.write(sections, folder)
    facts = {each.table.title: each.table.facts for each in sections if each.table.facts}
    # Files are written either way; JSON is what a program wants to know besides.
    if as_json:
        print_json({"report": str(written), "facts": facts})
        return
    # Of all tables one is short enough for a terminal.
    for section in sections:
        if section.name == "table":
            summary = _summary(section.table)
            click.echo("\n".join([summary.text(), *summary.facts]))
    for title, lines in facts.items():
        click.echo("\n  ".join([f"\n{title}", *lines]))
    print_lines(f"\nreport: {written}")


def _summary(table: Table) -> Table:
    """Return the measured slopes and constants of the main schedules, one line per family.

    A worst-case loss C·k^s has the slope s = d log loss / d log k, fitted to the last steps, and
    k·loss at the last step k is C where s = −1, the rate of the paper for increasing strengths. The
    fact below it says what is guaranteed for every collection, by the paper and here.

    Parameters
    ----------
    table : Table
        The paper's table as computed here: a row for every family of collections and schedule.

    Returns
    -------
    Table
        Two columns for each of no regularization, the fixed and the increasing schedule.
    """
    columns = {"worst-case loss, exact": list(dict.fromkeys(table.columns["family"]))}
    formats: dict[str, str] = {}
    # A line break in a name is one in the head of the table.
    for name in ("none", "fixed", "increasing"):
        row = table.where(schedule=name).columns
        slope = f"{name}\nslope in k"
        constant = f"{name}\nk·loss"
        columns |= {slope: row["slope"], constant: row["k·loss at the end"]}
        formats[slope] = ".2f"
    # Both bounds are the same for every family; ours is rounded upwards to stay one.
    ends = table.where(schedule="increasing").columns
    paper = ends["k·bound at the end"][0]
    ours = math.ceil(1000 * ends["k·upper bound at the end"][0]) / 1000
    guaranteed = (
        f"guaranteed for increasing, on every collection that one model fits: k·loss ≤ {paper:.3g}"
        f" by the paper's proof, {ours:g} by fl.upper_bound"
    )
    return Table("Summary", columns, (guaranteed,), ".2g", formats)

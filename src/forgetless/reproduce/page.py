"""The reproduction report: figures as PNG and PDF, numbers as CSV and JSON, and one self-contained
HTML page.
"""

import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgetless import io as files
from forgetless import plots, reproduce
from forgetless._page import render
from forgetless._table import Table
from forgetless._text import version
from forgetless.reproduce import figures

PARTS = ("figure", "table", "rates", "unregularized", "curves", "reduction", "optimal")


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes
    ----------
    name : str
    table : Table
    caption : str
    draw : callable, optional
        Draws the whole figure, for print. Without it the page has the table.
    panels : tuple of pairs
        The parts of the figure on the page: alternative text, and a function that draws on axes.
    """

    name: str
    table: Table
    caption: str
    draw: Callable[[Table], Any] | None = None
    panels: tuple[tuple[str, Callable[[Table, Any], Any]], ...] = ()


def sections(parts: Iterable[str]) -> list[Section]:
    """Return the computed parts of the reproduction."""
    wanted = set(parts)
    computed: list[Section] = []
    if "figure" in wanted:
        computed.append(
            Section("figure", reproduce.optimum(), _FIGURE_TEXT, _draw_optimum, _OPTIMUM)
        )
    if wanted & {"table", "rates"}:
        rates = reproduce.rates()
        if "table" in wanted:
            computed.append(Section("table", reproduce.slopes(rates), _TABLE_TEXT))
        if "rates" in wanted:
            computed.append(Section("rates", rates, _RATES_TEXT, _draw_rates, _RATES))
    if "unregularized" in wanted:
        computed.append(Section("unregularized", reproduce.unregularized(), _FREE_TEXT))
    if "curves" in wanted:
        computed.append(Section("curves", reproduce.curves(), _CURVES_TEXT, _draw_curves, _CURVES))
    if "reduction" in wanted:
        table = reproduce.reduction()
        computed.append(Section("reduction", table, _REDUCTION_TEXT, _draw_reduction, _REDUCTION))
    if "optimal" in wanted:
        table = reproduce.optimal()
        computed.append(Section("optimal", table, _OPTIMAL_TEXT, _draw_optimal, _OPTIMAL))
    return computed


def _draw_optimum(table: Table) -> Any:
    return figures.plot_optimum(table).figure


def _draw_reduction(table: Table) -> Any:
    return figures.plot_reduction(table).figure


SHOWN = (
    "unseen task",
    "rare tasks",
    "ill-conditioned",
    "two tasks, π/64",
    "two tasks, π/16",
    "random, rank 1",
)
"""Families of which the rates are drawn."""


def _draw_rates(table: Table) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(2.1 * plots.COLUMN, 4.4))
    for family, ax in zip(SHOWN, axes.ravel(), strict=True):
        figures.plot_rates(table, family, ax, legend=False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    return figure


def _draw_curves(table: Table) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(2 * plots.COLUMN, 4.4), sharex=True, sharey="row")
    for row, metric in zip(axes, ("seen_loss", "forgetting"), strict=True):
        for ax, ordering in zip(row, ("with replacement", "without replacement"), strict=True):
            figures.plot_curves(table, metric, ordering, ax)
    return figure


def _draw_optimal(table: Table) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(2 * plots.COLUMN, 2.8), sharey=True)
    for ax, ordering in zip(axes, ("without replacement", "with replacement"), strict=True):
        figures.plot_optimal(table, ordering, ax, legend=False)
    axes[1].set_ylabel("")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def write(parts: Iterable[Section], folder: Path) -> Path:
    """Write everything into ``folder``, replacing it atomically, and return the path of the
    page.
    """
    folder = check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        written = [(part, _write_section(part, fresh)) for part in parts]
        made = f"forgetless {version()}, {time.strftime('%Y-%m-%d')}"
        page = render("reproduce.html", title=_TITLE, made=made, terms=TERMS, sections=written)
        (fresh / "report.html").write_text(page, encoding="utf-8")
        fresh.chmod(0o755)
        _swap(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return folder / "report.html"


_FILES = {
    "report.html",
    *(f"{part}.{kind}" for part in PARTS for kind in ("csv", "json", "png", "pdf")),
}


def check_folder(folder: Path) -> Path:
    """Return the absolute path of a folder; FileExistsError if it holds anything but a report."""
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder for the report")
    files.check_folder(folder.parent)
    others = (
        sorted(path.name for path in folder.iterdir() if path.name not in _FILES)
        if folder.exists()
        else []
    )
    if others:
        raise FileExistsError(
            f"{folder} holds other files ({others[0]}, …); give an empty or a new folder"
        )
    return folder


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary folders older than an hour, which killed runs left."""
    for left in folder.parent.glob(f".{folder.name}-*"):
        if left.is_dir() and time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)


def _swap(fresh: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(fresh, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    os.replace(folder, old / "was")
    os.replace(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def _write_section(part: Section, folder: Path) -> list[tuple[bytes, str]]:
    """Write numbers and figure of a part, and return the pictures of its panels with their
    alternative texts.
    """
    part.table.to_frame().to_csv(folder / f"{part.name}.csv", index=False)
    data = json.dumps(part.table.to_dict(), ensure_ascii=False, indent=1)
    (folder / f"{part.name}.json").write_text(data, encoding="utf-8")
    if part.draw is None:
        return []
    with plots.publication() as mpl:
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        figure = part.draw(part.table)
        for kind in ("png", "pdf"):
            figure.savefig(
                folder / f"{part.name}.{kind}",
                metadata={"CreationDate": None} if kind == "pdf" else None,
            )
        plt.close(figure)
        return [(_panel(part.table, draw, mpl), alt) for alt, draw in part.panels]


def _panel(table: Table, draw: Callable[[Table, Any], Any], mpl: Any) -> bytes:
    """Return a panel as SVG, with a font size for the width of a phone."""
    import matplotlib.pyplot as plt

    names = (
        "font.size",
        "axes.labelsize",
        "axes.titlesize",
        "legend.fontsize",
        "xtick.labelsize",
        "ytick.labelsize",
    )
    look = dict.fromkeys(names, 11) | {
        "svg.hashsalt": "forgetless",
        "lines.markersize": 5,
        "lines.linewidth": 1.6,
    }
    with mpl.rc_context(look):
        figure, ax = plt.subplots(figsize=(5.4, 4.2))
        draw(table, ax)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        plt.close(figure)
    return buffer.getvalue()


_RATES = tuple(
    (
        (
            f"Worst-case loss against number of steps on logarithmic axes, {family}: no"
            " regularization, fixed and increasing strength, explicit and by step budget, and a"
            " guide of slope minus one."
        ),
        lambda table, ax, family=family: figures.plot_rates(table, family, ax),
    )
    for family in SHOWN
)

_CURVES = tuple(
    (
        (
            f"{metric.replace('seen_loss', 'Seen-task loss').replace('forgetting', 'Forgetting')}"
            f" against steps, {ordering}: exact lines run through the means of simulated runs,"
            " inside their bands."
        ),
        lambda table, ax, metric=metric, ordering=ordering: figures.plot_curves(
            table, metric, ordering, ax
        ),
    )
    for metric in ("seen_loss", "forgetting")
    for ordering in ("with replacement", "without replacement")
)

_OPTIMUM = (
    (
        (
            "Best fixed coefficient against the number of steps, both logarithmic, for five angles"
            " between two tasks: straight lines of slope one that break off and end at markers"
            " where the best coefficient becomes zero."
        ),
        figures.plot_optimum,
    ),
)

_OPTIMAL = tuple(
    (
        (
            f"(k+1) times the loss on the next task against k, {ordering}: the paper's 20, the"
            " bound computed for its schedule near 1, the minimax schedule's one half, the lower"
            " bound of any algorithm, and bad collections."
        ),
        lambda table, ax, ordering=ordering: figures.plot_optimal(table, ordering, ax),
    )
    for ordering in ("without replacement", "with replacement")
)

_REDUCTION = (
    (
        (
            "Paths of weights in the plane for explicit L2 and for a step budget, each overlaid"
            " exactly by open markers of gradient descent on surrogate losses, moving from the"
            " origin to the common solution."
        ),
        figures.plot_reduction,
    ),
)

TERMS = {
    "k, R, D, θ": (
        "The number of steps (tasks learned one after the other); the largest spectral norm of a"
        " task's X; the distance from the start to the solution of all tasks; an angle between two"
        " tasks."
    ),
    "λ, λ⋆": (
        "The strength of the regularization towards the previous weights, (λ/2)‖w − w_{previous}‖²;"
        " the best one."
    ),
    "worst-case loss": (
        "The expected loss over all tasks after k random draws, for the worst solution of norm 1."
    ),
    "none": "No regularization: every task is solved exactly.",
    "fixed": "λ = R²(ln k − 1) at every step.",
    "increasing": "λ_{t} = (13/3) R²(k+1)/(k−t+2) at step t of k: the paper's schedule.",
    "fixed budget, increasing budget": (
        "The same without a penalty: four gradient steps for every task, with the "
        "step size that has the same guarantee."
    ),
    "unseen task": (
        "k tasks, of which one differs from all others and is missed by k draws with probability"
        " about 1/e: no method can know it, so that none is below 1/(8k)."
    ),
    "rare tasks": (
        "One frequent task orthogonal to two others, each of which is drawn about seven times in k"
        " steps."
    ),
    "two tasks, π/16": "Two tasks of one row each at that angle.",
    "random, rank r": (
        "Tasks of r random rows; ill-conditioned: with features whose sizes differ by a factor of"
        " 100."
    ),
    "seen-task loss, forgetting": (
        "The mean loss over the tasks learned so far; how much larger it is than when each "
        "of them was just learned. Below zero, later tasks helped."
    ),
    "minimax schedule": "λ_{t} = R² t/(k+1−t) at step t of k; derived here, not published.",
    "bad collection": (
        "A collection of tasks with a large loss, computed exactly: equal and orthogonal rows."
    ),
    "any algorithm, at least": "A loss that every algorithm has on some tasks.",
    "upper bound": (
        "A bound for this schedule on every collection that one model fits, computed here."
    ),
}
"""Definitions of the names in tables and figures."""

_TITLE = "Increasing regularization in continual linear regression: the claims, computed"

_FIGURE_TEXT = (
    "The paper's appendix reports that the best fixed coefficient of two tasks grows linearly with"
    " k and with the angle. That holds while kθ² is below about 1 (grey lines, k / ln cot(θ/2))."
    " Then the best coefficient drops sharply, and from kθ² of about 2 on, at the markers, it is"
    " exactly zero: no regularization."
)

_TABLE_TEXT = (
    "Slopes of log loss against log k, fitted on the last four k, beside the published guarantee"
    " for the same schedule and the upper bound computed for it, which holds for every collection"
    " that one model fits; it is derived here and not published. Increasing strengths keep k·loss"
    " far below what is published, on every family. The list says which schedule had the smallest"
    " loss at which k: regularization where tasks interfere for long, none where they do not. The"
    " schedules insure against the worst case, and are not the best everywhere. In units of R²D²:"
    " C(k) = e^{2 − 1/(4 ln k)}/(2(2 − 1/ln k)), v_{0} and c_{k+1} are weights of the proof about"
    " last iterates (fl.theory.last_iterate_weights)."
)

_FREE_TEXT = (
    "Tasks drawn with replacement, the last iterate, the worst collection and teacher. First the"
    " paper's guarantee for its own schedule; then bounds of fl.upper_bound for an increasing"
    " strength of scale 1, for none, and for one that does not depend on k. The last two are losses"
    " that some tasks have: jump chains without regularization, and a row that was never drawn."
    " All but the first column is derived here and not published; the proof is in"
    " docs/unregularized.md. Without replacement the question is open."
)

_RATES_TEXT = (
    "The grey line is 1/k. On the unseen task no scheme passes the lower bound, and none can; on it"
    " and on the rare tasks the increasing schedules follow 1/k. On two nearly parallel tasks"
    " regularization is better while kθ² is small; on random tasks it costs. The loss is that of"
    " the worst unit teacher; lines end where it falls below 1e-8."
)

_CURVES_TEXT = (
    "Lines are exact expectations, markers the means of 2000 simulated runs, bands their 10–90 %"
    " range. Without replacement each epoch of 12 tasks is reshuffled. Forgetting below zero means"
    " that later tasks improved earlier ones."
)

_OPTIMAL_TEXT = (
    "The loss on the next task, which with replacement is the average loss. The paper proves"
    " 20/(k+1) for its schedule (dotted; its proof holds without replacement, too); computed bounds"
    " are 1.04/(k+1) with replacement and near 1.15/(k+1) in any shuffled order (dashed). For the"
    " minimax schedule ½/(k+1) is proved in ten lines, for every k and every shuffled order;"
    " without replacement no algorithm has less (black line, at the same height), so that it is the"
    " exact optimum of the worst case. All but the published line is derived here and not"
    " published. On easy tasks other schedules have smaller losses."
)

_REDUCTION_TEXT = (
    "Each scheme was run literally (normal equations; inner gradient steps), through the filter,"
    " and as one gradient step per task on the surrogate losses with linearly decaying step sizes."
    " All three coincide to rounding."
)

"""The reproduction report: figures as PNG and PDF, numbers as CSV and JSON, and one self-contained HTML page."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgetless import plots
from forgetless._base import files, html
from forgetless._base.progress import Progress, silent
from forgetless._base.tables import Table
from forgetless.reproduce import tables as reproduce
from forgetless.reproduce.tables import FAMILIES

PARTS = ("figure", "table", "rates", "curves", "reduction")


@dataclass(frozen=True)
class Section:
    """One part of the report: a table of numbers, how it is drawn, and what is said of it."""

    name: str
    table: Table
    draw: Callable[[Table], Any] | None
    alt: str
    caption: str


def sections(parts: Iterable[str], progress: Progress | None = None) -> list[Section]:
    """Compute the asked parts of the reproduction."""
    wanted, found = set(parts), []
    tell = progress or silent
    if "figure" in wanted:
        tell(0, 0, "figure: the best coefficient of two tasks")
        found.append(Section("figure", reproduce.optimum(), _draw_optimum, _FIGURE_ALT, _FIGURE_TEXT))
    if wanted & {"table", "rates"}:
        measured = reproduce.rates(progress=progress)
        if "table" in wanted:
            found.append(Section("table", reproduce.slopes(measured), None, "", _TABLE_TEXT))
        if "rates" in wanted:
            found.append(Section("rates", measured, _draw_rates, _RATES_ALT, _RATES_TEXT))
    if "curves" in wanted:
        tell(0, 0, "curves: exact and simulated")
        found.append(Section("curves", reproduce.curves(), _draw_curves, _CURVES_ALT, _CURVES_TEXT))
    if "reduction" in wanted:
        tell(0, 0, "reduction: both schemes as gradient descent")
        found.append(Section("reduction", reproduce.reduction(), _draw_reduction, _REDUCTION_ALT, _REDUCTION_TEXT))
    return found


def _draw_optimum(table: Table) -> Any:
    return plots.plot_optimum(table).figure


def _draw_reduction(table: Table) -> Any:
    return plots.plot_reduction(table).figure


def _draw_rates(table: Table) -> Any:
    import matplotlib.pyplot as plt

    shown = ["unseen task", "rare tasks", "ill-conditioned", "two tasks, π/64", "two tasks, π/16", "random, rank 1"]
    figure, axes = plt.subplots(2, 3, figsize=(2.1 * plots.COLUMN, 4.4))
    for family, ax in zip(shown, axes.ravel(), strict=True):
        assert family in FAMILIES
        plots.plot_rates(table, family, ax, legend=False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    return figure


def _draw_curves(table: Table) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(2 * plots.COLUMN, 4.4), sharex=True, sharey="row")
    for row, metric in zip(axes, ("seen_loss", "forgetting"), strict=True):
        for ax, ordering in zip(row, ("with replacement", "without replacement"), strict=True):
            plots.plot_curves(table, metric, ordering, ax)
    return figure


def write(parts: Iterable[Section], folder: Path) -> Path:
    """Write everything into ``folder`` and return the page's path.

    The folder is filled beside its place and moved there at the end, so that an interruption leaves what was there.
    """
    folder = check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        page = "".join(_section(part, fresh) for part in parts)
        (fresh / "report.html").write_text(html.page(_TITLE, _INTRODUCTION + page), encoding="utf-8")
        fresh.chmod(0o755)
        _swap(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return folder / "report.html"


_KNOWN = {"report.html", *(f"{part}.{kind}" for part in PARTS for kind in ("csv", "json", "png", "pdf"))}


def check_folder(folder: Path) -> Path:
    """Return the full path of a folder that a report may replace; refuse one that holds anything else."""
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder for the report")
    files.check_folder(folder.parent)
    others = sorted(path.name for path in folder.iterdir() if path.name not in _KNOWN) if folder.exists() else []
    if others:
        raise FileExistsError(f"{folder} holds other files ({others[0]}, …); give an empty or a new folder")
    return folder


def _sweep(folder: Path) -> None:
    """Remove what killed runs left beside the folder, an hour ago or earlier."""
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


def _section(part: Section, folder: Path) -> str:
    (folder / f"{part.name}.csv").write_text(part.table.to_csv(), encoding="utf-8", newline="")
    data = json.dumps(part.table.to_dict(), ensure_ascii=False, indent=1)
    (folder / f"{part.name}.json").write_text(data, encoding="utf-8")
    command = f"forgetless reproduce {part.name}"
    inner = _picture(part, folder) if part.draw else f'<div class="scroll">{html.table(part.table)}</div>'
    return (
        f'<section id="{part.name}"><h2>{html.text(part.table.title)}</h2>{inner}'
        f'<p class="small">{html.text(part.caption)}</p>{html.bullets(part.table.facts)}'
        f'<p class="small">Made by <code>{command}</code>; numbers in {part.name}.csv and {part.name}.json.</p>'
        "</section>"
    )


def _picture(part: Section, folder: Path) -> str:
    assert part.draw is not None
    with plots.publication() as mpl:
        mpl.use("Agg")
        figure = part.draw(part.table)
        for kind in ("png", "pdf"):
            figure.savefig(folder / f"{part.name}.{kind}", metadata={"CreationDate": None} if kind == "pdf" else None)
        import matplotlib.pyplot as plt

        plt.close(figure)
    return html.image((folder / f"{part.name}.png").read_bytes(), part.alt)


_TITLE = "Increasing regularization in continual linear regression: the claims, computed"

_INTRODUCTION = """<p>Levinstein et al. (2025) prove that pulling each new solution towards the previous one, with a
strength that increases over k tasks in random order, gives a loss of order 1/k on every collection of tasks that one
model fits. Every number below was computed on this machine, exactly (not sampled) unless it says simulated.</p>
"""

_FIGURE_ALT = (
    "Best fixed coefficient against the number of steps, both logarithmic, for five angles between two tasks: straight "
    "lines of slope one that break off and end at markers where the best coefficient becomes zero."
)

_FIGURE_TEXT = (
    "The paper's appendix reports that the best fixed coefficient of two tasks grows linearly with k and with the "
    "angle. That holds while kθ² is below about 1 (grey lines, k / ln cot(θ/2)). Then the best coefficient drops "
    "sharply, and from kθ² of about 2 on it is exactly zero: no regularization."
)

_TABLE_TEXT = (
    "Slopes of log loss against log k, beside the published guarantee for the same schedule and its certificate, a "
    "bound for every collection that one model fits, derived here and not published. Increasing strengths keep k·loss "
    "far below what is published, on every family. The list says which schedule had the smallest loss at which "
    "k: regularization where tasks interfere for long, none where they do not. Far less is proved for no "
    "regularization than is seen here; the schedules insure against the worst case, and are not the best everywhere."
)

_RATES_ALT = (
    "Six panels of worst-case loss against number of steps on logarithmic axes, one per family of tasks, with lines "
    "for no regularization, fixed and increasing strength, explicit and by step budget, and a guide of slope minus one."
)

_RATES_TEXT = (
    "The grey line is 1/k. On the unseen task no scheme passes the lower bound, and none can; on it and on the rare "
    "tasks the increasing schedules follow 1/k. On two nearly parallel tasks regularization is better while kθ² is "
    "small; on random tasks it costs. The loss is that of the worst unit teacher; lines end where it falls below 1e-8."
)

_CURVES_ALT = (
    "Four panels of seen-task loss and forgetting against steps, with and without replacement: exact lines run through "
    "the means of simulated runs, inside their bands."
)

_CURVES_TEXT = (
    "Lines are exact expectations, markers the means of 2000 simulated runs, bands their 10–90 % range. Without "
    "replacement each epoch of 12 tasks is reshuffled. Forgetting below zero means that later tasks improved earlier "
    "ones."
)

_REDUCTION_ALT = (
    "Paths of weights in the plane for explicit L2 and for a step budget, each overlaid exactly by open markers of "
    "gradient descent on surrogate losses, moving from the origin to the common solution."
)

_REDUCTION_TEXT = (
    "Each scheme was run literally (normal equations; inner gradient steps), through the filter, and as one gradient "
    "step per task on the surrogate losses with linearly decaying step sizes. All three coincide to rounding."
)

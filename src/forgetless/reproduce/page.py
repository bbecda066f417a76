"""The reproduction report: figures as PNG and PDF, numbers as CSV and JSON, and one self-contained
HTML page.
"""

import functools
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
    panels : tuple of pairs
        The parts of the figure: alternative text, and a function (table, ax=axes) that draws.
        Without any the page has the table.
    """

    name: str
    table: Table
    panels: tuple[tuple[str, Callable[..., Any]], ...] = ()


def sections(parts: Iterable[str]) -> list[Section]:
    """Return the computed parts of the reproduction."""
    wanted = [name for name in PARTS if name in set(parts)]
    rates = functools.cache(reproduce.rates)
    tables: dict[str, Callable[[], Any]] = {
        "figure": reproduce.optimum,
        "table": lambda: reproduce.slopes(rates()),
        "rates": rates,
        "unregularized": reproduce.unregularized,
        "curves": reproduce.curves,
        "reduction": reproduce.reduction,
        "optimal": reproduce.optimal,
    }
    return [Section(each, tables[each](), _PANELS.get(each, ())) for each in wanted]


SHOWN = (
    "unseen task",
    "rare tasks",
    "ill-conditioned",
    "two tasks, π/64",
    "two tasks, π/16",
    "random, rank 1",
)
"""Families of which the rates are drawn."""


def _figure(part: Section) -> Any:
    """Return the whole figure for print: all panels, with one legend below them."""
    import matplotlib.pyplot as plt

    columns = {1: 1, 6: 3}.get(len(part.panels), 2)
    rows = len(part.panels) // columns
    size = (max(1.4, 0.7 * columns) * plots.COLUMN, 0.4 + 2.2 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for ax, (_, draw) in zip(axes.flat, part.panels, strict=True):
        draw(part.table, ax=ax)
        if ax.get_legend():
            ax.get_legend().remove()
    handles, labels = axes[0, 0].get_legend_handles_labels()
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
        page = render("reproduce.html", title=_TITLE, made=made, sections=written)
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
    if not part.panels:
        return []
    with plots.publication() as mpl:
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        figure = _figure(part)
        for kind in ("png", "pdf"):
            figure.savefig(
                folder / f"{part.name}.{kind}",
                metadata={"CreationDate": None} if kind == "pdf" else None,
            )
        plt.close(figure)
        return [(_panel(part.table, draw, mpl), alt) for alt, draw in part.panels]


def _panel(table: Table, draw: Callable[..., Any], mpl: Any) -> bytes:
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
        draw(table, ax=ax)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        plt.close(figure)
    return buffer.getvalue()


_METRICS = {"seen_loss": "Seen-task loss", "forgetting": "Forgetting"}
_ORDERINGS = ("with replacement", "without replacement")

_PANELS: dict[str, tuple[tuple[str, Callable[..., Any]], ...]] = {
    "figure": (
        (
            "Best fixed coefficient against the number of steps, both logarithmic, for five angles"
            " between two tasks: straight lines of slope one that break off and end at markers"
            " where the best coefficient becomes zero.",
            figures.plot_optimum,
        ),
    ),
    "rates": tuple(
        (
            f"Worst-case loss against number of steps on logarithmic axes, {family}: no"
            " regularization, fixed and increasing strength, explicit and by step budget, and a"
            " guide of slope minus one.",
            functools.partial(figures.plot_rates, family=family),
        )
        for family in SHOWN
    ),
    "curves": tuple(
        (
            f"{title} against steps, {ordering}: exact lines run through the means of simulated"
            " runs, inside their bands.",
            functools.partial(figures.plot_curves, metric=metric, ordering=ordering),
        )
        for metric, title in _METRICS.items()
        for ordering in _ORDERINGS
    ),
    "reduction": (
        (
            "Paths of weights in the plane for explicit L2 and for a step budget, each overlaid"
            " exactly by open markers of gradient descent on surrogate losses, moving from the"
            " origin to the common solution.",
            figures.plot_reduction,
        ),
    ),
    "optimal": tuple(
        (
            f"(k+1) times the loss on the next task against k, {ordering}: the paper's 20, the"
            " bound computed for its schedule near 1, the minimax schedule's one half, the lower"
            " bound of any algorithm, and bad collections.",
            functools.partial(figures.plot_optimal, ordering=ordering),
        )
        for ordering in reversed(_ORDERINGS)
    ),
}

_TITLE = "Increasing regularization in continual linear regression: the claims, computed"

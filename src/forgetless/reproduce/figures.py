"""Figures of the reproduction, drawn from its tables, and the report that shows both.

Each ``plot_…`` takes the table of the same name in ``forgetless.reproduce`` and, if wanted, axes to
draw on; it returns the axes. ``sections`` computes the tables that a report needs, and ``write``
makes the report: figures as PNG and PDF, numbers as CSV and JSON, and one self-contained HTML page.

Examples
--------
>>> from forgetless import reproduce
>>> from forgetless.reproduce import figures
>>> ax = figures.plot_optimum(reproduce.optimum(64))
>>> ax.get_xlabel(), len(ax.get_legend().get_texts())
('number of steps k', 5)
"""

import functools
import io
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forgetless import io as files
from forgetless import plots, reproduce
from forgetless._table import Table, render
from forgetless._text import version
from forgetless.plots import axes_of, dots, look

# no mutant: looks of lines to compare with
_GUIDE = {"color": "0.6", "linewidth": 0.7, "zorder": 1}
# no mutant: looks of the solution
_STAR = {"marker": "*", "color": "black", "markersize": 8, "linewidth": 0}
# no mutant: looks of points over others
_HOLLOW = {"markersize": 6, "fillstyle": "none"}


def plot_optimum(table: Table, ax: Any = None) -> Any:
    """Draw λ⋆ against k for every angle, the linear regime in grey, and markers from where on it is
    exactly 0.

    Both axes are logarithmic, so that a line ends where λ⋆ becomes 0.
    """
    ax = axes_of(ax)
    for i, (angle, part) in enumerate(_parts(table, "angle")):
        best = part["coefficient"]
        ax.plot(part["k"], np.where(best > 0, best, np.nan), label=f"θ = {angle}", **look(i))
        if best[-1] == 0:
            # The first k from which on it stays at 0 follows the last positive value.
            first = np.flatnonzero(best)[-1] + 1
            ax.plot(part["k"][first], 0.02, clip_on=False, **dots(i))
        # λ⋆ ≈ k/ln cot(θ/2) while kθ² ≲ 1
        small = part["k"] * part["theta"] ** 2 <= 1
        ax.plot(part["k"][small], part["linear"][small], **_GUIDE)
    return _over_steps(ax, "best fixed coefficient λ⋆", ylim=(0.02, 300))


def plot_rates(table: Table, family: str, ax: Any = None) -> Any:
    """Draw loss against k for every schedule on one family, with 1/k and the lower bound 1/(8k).

    The lower bound is drawn for the family that it is about, that of the unseen task.
    """
    ax = axes_of(ax)
    for i, (name, part) in enumerate(_parts(table.where(family=family), "schedule")):
        style = {"marker": dots(i)["marker"], **look(i)}
        # On the curve of the explicit scheme, or close to it: open markers that leave it visible.
        if "budget" in name:
            style |= {"linestyle": ":", **_HOLLOW}
        k = part["k"]
        # What is rounding would stretch the axis to 1e-30.
        ax.plot(k, np.where(part["loss"] > 1e-12, part["loss"], np.nan), label=name, **style)
    ax.plot(k, 1 / k, label="1/k", **_GUIDE)
    if family == "unseen task":
        ax.plot(k, 1 / (8 * k), label="lower bound 1/(8k)", **_GUIDE | {"color": "black"})
    # Tasks that are solved exactly have losses that fall without end.
    bottom = max(1e-8, ax.get_ylim()[0])
    return _over_steps(ax, "worst-case loss / R²", title=family, ylim=(bottom, None))


def plot_unregularized(table: Table, ax: Any = None) -> Any:
    """Draw k·loss against k: guarantees for every collection, and losses that some have.

    A line that stays flat is a rate of 1/k.
    """
    ax = axes_of(ax)
    k, *names = table.columns
    for i, name in enumerate(names):
        ax.plot(table.columns[k], table.columns[name], label=name, **look(i))
    # no mutant: place of the legend, between the guarantee near 20 and all other lines
    return _over_steps(ax, "k · loss / R²D²", (0.02, 0.4))


def plot_reduction(table: Table, ax: Any = None) -> Any:
    """Draw the iterates of both schemes as lines and descent on their surrogates as open markers on
    top.

    Both axes have one scale, so that steps onto a task are seen at right angles to its solutions.
    """
    ax = axes_of(ax)
    for i, (scheme, part) in enumerate(_parts(table, "scheme")):
        # Learning starts at the origin, which the table leaves out.
        ax.plot([0, *part["w1"]], [0, *part["w2"]], label=scheme, **look(i))
        points = dots(i) | _HOLLOW
        ax.plot(part["descent1"], part["descent2"], label="descent on its surrogates", **points)
    # The teacher of all three tasks, as ``reproduce.reduction`` has it.
    ax.plot(1.0, -0.6, label="solution", **_STAR)
    ax.set(xlabel="w₁", ylabel="w₂")
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend()
    return ax


def _parts(table: Table, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the different values of a column, each with the other columns there as arrays.

    They come in the order in which they first occur, which gives the lines their colours.
    """
    parts = []
    for value in dict.fromkeys(table.columns[name]):
        columns = table.where(**{name: value}).columns
        parts.append((value, {key: np.array(column) for key, column in columns.items()}))
    return parts


def _over_steps(ax: Any, y: str, legend: Any = "best", **settings: Any) -> Any:
    """Make both axes logarithmic and name them, place the legend, and return them.

    Straight lines are powers of k, and lines of one slope have the same rate.
    """
    ax.set(xscale="log", yscale="log", xlabel="number of steps k", ylabel=y, **settings)
    ax.legend(loc=legend, fontsize="small")
    return ax


# ---- the report ----


Panel = tuple[str, Callable[..., Any]]
"""Alternative text, and a function of a table that draws."""

PARTS = ("figure", "table", "rates", "unregularized", "reduction")

SHOWN = (
    "unseen task",
    "rare tasks",
    "ill-conditioned",
    "two tasks, π/64",
    "two tasks, π/16",
    "random, rank 1",
)
"""Families of which the rates are drawn."""

_PANELS: dict[str, list[Panel]] = {
    "figure": [
        (
            "Best fixed coefficient against the number of steps, both logarithmic, for five angles"
            " between two tasks: straight lines of slope one that break off and end at markers"
            " where the best coefficient becomes zero.",
            plot_optimum,
        )
    ],
    "rates": [
        (
            f"Worst-case loss against number of steps on logarithmic axes, {family}: no"
            " regularization, fixed and increasing strength, explicit and by step budget, and a"
            " guide of slope minus one.",
            functools.partial(plot_rates, family=family),
        )
        for family in SHOWN
    ],
    "unregularized": [
        (
            "k times the loss against the number of steps: the paper's guarantee near 20, bounds of"
            " increasing, absent and fixed regularization between 0.27 and 0.45, and losses that"
            " some tasks have below them.",
            plot_unregularized,
        )
    ],
    "reduction": [
        (
            "Paths of weights in the plane for explicit L2 and for a step budget, each overlaid"
            " exactly by open markers of gradient descent on surrogate losses, moving from the"
            " origin to the common solution.",
            plot_reduction,
        )
    ],
}
"""The figures of every part; their alternative texts say what a reader would see."""

_TITLE = "Increasing regularization in continual linear regression: the claims, computed"


@dataclass(frozen=True)
class Section:
    """One part of the report: a table, and figures of it."""

    name: str
    table: Table
    panels: list[Panel]


def sections(parts: Iterable[str]) -> list[Section]:
    """Return the computed parts of the reproduction, in the order that was asked for.

    ``rates`` is computed once, whether one or two parts need it.

    Parameters
    ----------
    parts : iterable of str
        Some of ``PARTS``: "figure" is Figure 2 and "table" is Table 1, both measured; "rates" are
        the losses behind the table, "unregularized" answers the open question of Section 6, and
        "reduction" is Figure 1 in numbers.
    """
    # The slope of the table is fitted to what ``rates`` has measured.
    rates = functools.cache(reproduce.rates)
    tables: dict[str, Callable[[], Table]] = {
        "figure": reproduce.optimum,
        "table": lambda: reproduce.slopes(rates()),
        "rates": rates,
        "unregularized": reproduce.unregularized,
        "reduction": reproduce.reduction,
    }
    return [Section(each, tables[each](), _PANELS.get(each, [])) for each in parts]


def write(parts: Iterable[Section], folder: Path) -> Path:
    """Write everything into ``folder``, replacing it as a whole, and return the path of the
    page.

    A folder that holds anything but a report is left alone (FileExistsError). A run that is
    interrupted leaves the old report.

    Parameters
    ----------
    parts : iterable of Section
    folder : Path
        Gets report.html, and for every part NAME.csv, NAME.json and its figures as PNG and PDF.
    """
    folder = check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        fresh.mkdir()
        written = [(part, _write_section(part, fresh)) for part in parts]
        # The day, but no time and no machine: reports of one day are equal.
        made = f"forgetless {version()}, {time.strftime('%Y-%m-%d')}"
        page = render("reproduce.html", title=_TITLE, made=made, sections=written)
        (fresh / "report.html").write_text(page, encoding="utf-8")
        old = Path(scratch) / "old"
        try:
            if folder.exists():
                os.replace(folder, old)
            os.replace(fresh, folder)
        except BaseException:
            # Interrupted between the two: the scratch folder would take the old report along.
            if old.exists() and not folder.exists():
                os.replace(old, folder)
            raise
    return folder / "report.html"


def check_folder(folder: Path) -> Path:
    """Return the absolute path of a folder; FileExistsError if it holds anything but a report.

    A report replaces its folder as a whole: this asks, before minutes of computing, whether nothing
    of somebody else's would go with it.
    """
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder for the report")
    files.check_folder(folder.parent)
    # A folder that is not there yet holds nothing. Files are called NAME.csv or NAME-1.png.
    names = [path.name for path in folder.glob("*")]
    others = [each for each in names if re.split("[.-]", each)[0] not in (*PARTS, "report")]
    if others:
        raise FileExistsError(
            f"{folder} holds other files ({min(others)}, …); give an empty or a new folder"
        )
    return folder


def _write_section(part: Section, folder: Path) -> list[tuple[bytes, str]]:
    """Write numbers and figures of a part, and return its pictures with their alternative texts.

    Numbers are written twice: CSV for spreadsheets, and JSON with the facts that the table states.
    """
    part.table.to_frame().to_csv(folder / f"{part.name}.csv", index=False)
    data = json.dumps(part.table.to_dict(), ensure_ascii=False, indent=1)
    (folder / f"{part.name}.json").write_text(data, encoding="utf-8")
    # Of several figures each has a number behind the name of the part.
    pictures = []
    for i, (alternative, draw) in enumerate(part.panels, start=1):
        name = part.name
        if len(part.panels) > 1:
            name += f"-{i}"
        pictures.append((_draw(draw, part.table, folder / name), alternative))
    return pictures


def _draw(draw: Callable[..., Any], table: Table, path: Path) -> bytes:
    """Write a figure as PNG and PDF, and return it as SVG.

    Without dates and random names, so that a second run writes the same bytes.
    """
    with plots.publication() as mpl, mpl.rc_context({"svg.hashsalt": "forgetless"}):
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        figure = draw(table).figure
        picture = io.BytesIO()
        figure.savefig(path.with_suffix(".png"))
        figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
        figure.savefig(picture, format="svg", metadata={"Date": None})
        plt.close(figure)
        return picture.getvalue()

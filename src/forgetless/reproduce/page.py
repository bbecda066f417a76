"""The reproduction report: figures as PNG and PDF, numbers as CSV and JSON, and one self-contained
HTML page.
"""

import functools
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgetless import io as files
from forgetless import plots, reproduce
from forgetless._table import Table, render
from forgetless._text import version
from forgetless.reproduce import figures

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
            figures.plot_optimum,
        )
    ],
    "rates": [
        (
            f"Worst-case loss against number of steps on logarithmic axes, {family}: no"
            " regularization, fixed and increasing strength, explicit and by step budget, and a"
            " guide of slope minus one.",
            functools.partial(figures.plot_rates, family=family),
        )
        for family in SHOWN
    ],
    "unregularized": [
        (
            "k times the loss against the number of steps: the paper's guarantee near 20, bounds of"
            " increasing, absent and fixed regularization between 0.27 and 0.45, and losses that"
            " some tasks have below them.",
            figures.plot_unregularized,
        )
    ],
    "reduction": [
        (
            "Paths of weights in the plane for explicit L2 and for a step budget, each overlaid"
            " exactly by open markers of gradient descent on surrogate losses, moving from the"
            " origin to the common solution.",
            figures.plot_reduction,
        )
    ],
}
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
    """
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
        made = f"forgetless {version()}, {time.strftime('%Y-%m-%d')}"
        page = render("reproduce.html", title=_TITLE, made=made, sections=written)
        (fresh / "report.html").write_text(page, encoding="utf-8")
        old = Path(scratch) / "old"
        try:
            if folder.exists():
                os.replace(folder, old)
            os.replace(fresh, folder)
        except BaseException:
            # An interruption between the two: the scratch folder would take the old report along.
            if old.exists() and not folder.exists():
                os.replace(old, folder)
            raise
    return folder / "report.html"


def check_folder(folder: Path) -> Path:
    """Return the absolute path of a folder; FileExistsError if it holds anything but a report."""
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; give a folder for the report")
    files.check_folder(folder.parent)
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    others = [each for each in names if each.split(".")[0].split("-")[0] not in (*PARTS, "report")]
    if others:
        raise FileExistsError(
            f"{folder} holds other files ({min(others)}, …); give an empty or a new folder"
        )
    return folder


def _write_section(part: Section, folder: Path) -> list[tuple[bytes, str]]:
    """Write numbers and figures of a part, and return its pictures with their alternative texts."""
    part.table.to_frame().to_csv(folder / f"{part.name}.csv", index=False)
    data = json.dumps(part.table.to_dict(), ensure_ascii=False, indent=1)
    (folder / f"{part.name}.json").write_text(data, encoding="utf-8")
    pictures = []
    for i, (alternative, draw) in enumerate(part.panels, start=1):
        name = part.name if len(part.panels) == 1 else f"{part.name}-{i}"
        pictures.append((_draw(draw, part.table, folder / name), alternative))
    return pictures


def _draw(draw: Callable[..., Any], table: Table, path: Path) -> bytes:
    """Write a figure as PNG and PDF, and return it as SVG."""
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

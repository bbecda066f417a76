"""The figure of other papers in docs/paper.md: curves of three, and of a teacher that walks."""

from pathlib import Path
from typing import Any

from forgetless import plots
from forgetless._table import Table
from papers import goldfarb2024, karpel2026, lin2023, walking_teacher


def save(path: str | Path) -> None:
    """Draw the four panels and write them to a file."""
    with plots.publication() as mpl:
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(2, 2, figsize=(2 * plots.COLUMN, 4.8))
        lin(axes[0, 0])
        goldfarb(axes[0, 1])
        karpel(axes[1, 0])
        walk(axes[1, 1])
        figure.savefig(path)
        plt.close(figure)


def lin(ax: Any) -> None:
    """Draw forgetting against features per row."""
    _lines(ax, lin2023.curves(), ("features per row", "forgetting"), "similarity")
    ax.set(xscale="log", title=lin2023.PAPER)


def goldfarb(ax: Any) -> None:
    """Draw forgetting against dissimilarity; values below a thousandth of the largest are left
    out.
    """
    _lines(ax, goldfarb2024.curves(), ("dissimilarity", "forgetting"), "β =")
    ax.set(yscale="log", title=goldfarb2024.PAPER)
    ax.set_ylim(bottom=max(ax.get_ylim()[0], 1e-3 * ax.get_ylim()[1]))


def karpel(ax: Any) -> None:
    """Draw the best constant λ and its limit against the number of tasks."""
    columns = karpel2026.curves().columns
    ax.plot(columns["tasks"], columns["best constant"], label="exact", **plots.look(0))
    derived = {"color": "0.5", "linestyle": "--", "label": "limit, derived"}
    ax.plot(columns["tasks"], columns["limit"], **derived)
    ax.set(xlabel="tasks", ylabel="best constant", xscale="log", yscale="log")
    ax.set_title(karpel2026.PAPER)
    ax.legend(fontsize="small")


def walk(ax: Any) -> None:
    """Draw the optimal λ_t for several lengths of the teacher's steps."""
    _lines(ax, walking_teacher.curves(), ("task", "λ"), "step")
    ax.set(xscale="log", yscale="log", title="optimal λ for a teacher that walks")


def _lines(ax: Any, table: Table, names: tuple[str, str], parameter: str) -> None:
    """Draw one line for every value of the first column."""
    x, y = names
    first = next(iter(table.columns))
    for i, value in enumerate(dict.fromkeys(table.columns[first])):
        part = table.where(**{first: value}).columns
        ax.plot(part[x], part[y], label=f"{parameter} {value:g}", **plots.look(i))
    ax.set(xlabel=x, ylabel=y)
    ax.legend(fontsize="small")

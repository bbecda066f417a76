"""The figures of the paper.

Each function takes a table of ``reproduce`` and optional axes, and returns the axes.
"""

from typing import Any

import numpy as np

from forgetless._table import Table
from forgetless.plots import COLOURS, COLUMN, MARKERS, axes_of, look


def plot_optimum(table: Table, ax: Any = None) -> Any:
    """Draw λ⋆ against k for every angle, the linear regime in grey, and markers from where on it is
    exactly 0.
    """
    ax = axes_of(ax, width=1.4 * COLUMN)
    for i, angle in enumerate(dict.fromkeys(table.columns["angle"])):
        part = table.where(angle=angle).columns
        k, best = np.array(part["k"]), np.array(part["coefficient"])
        ax.plot(k, np.where(best > 0, best, np.nan), label=f"θ = {angle}", **look(i))
        top = int(np.argmax(best))
        named = {"color": COLOURS[i], "xytext": (-4, 5), "textcoords": "offset points"}
        ax.annotate(f"θ = {angle}", (k[top], best[top]), ha="right", **named)
        if best[-1] == 0:
            # the first k from which on it stays at 0
            tail = len(k) - int(np.argmax(best[::-1] > 0))
            ax.plot(k[tail], 0.02, marker=MARKERS[i], color=COLOURS[i], clip_on=False)
        small = k * part["theta"][0] ** 2 <= 1
        ax.plot(k[small], np.array(part["linear"])[small], color="0.6", linewidth=0.7, zorder=1)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="number of steps k",
        ylabel="best fixed coefficient λ⋆",
        ylim=(0.02, 300),
    )
    return ax


def plot_rates(table: Table, family: str, ax: Any = None, legend: bool = True) -> Any:
    """Draw loss against k for every schedule on one family, with slope guides and the lower bound
    1/(8k).
    """
    import matplotlib as mpl

    ax = axes_of(ax)
    part = table.where(family=family)
    for i, name in enumerate(dict.fromkeys(part.columns["schedule"])):
        line = part.where(schedule=name).columns
        loss = np.array(line["loss"])
        style = look(i)
        # on the curve of the explicit scheme, or close to it: open markers that leave it visible
        if "budget" in name:
            style |= {
                "linestyle": ":",
                "fillstyle": "none",
                "markersize": 1.8 * mpl.rcParams["lines.markersize"],
            }
        ax.plot(
            line["k"], np.where(loss > 1e-12, loss, np.nan), marker=MARKERS[i], label=name, **style
        )
    k = np.array(sorted(set(part.columns["k"])), dtype=float)
    ax.plot(k, 1 / k, color="0.6", linewidth=0.7, zorder=1)
    ax.annotate(
        "1/k",
        (k[-1], 1 / k[-1]),
        fontsize="small",
        color="0.4",
        xytext=(2, 2),
        textcoords="offset points",
    )
    if family == "unseen task":
        ax.plot(k, 1 / (8 * k), color="black", linewidth=0.8, label="lower bound 1/(8k)")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="number of steps k",
        ylabel="worst-case loss / R²",
        title=family,
    )
    ax.set_ylim(bottom=max(1e-8, ax.get_ylim()[0]))
    if legend:
        ax.legend()
    return ax


def plot_curves(table: Table, metric: str, ordering: str, ax: Any = None) -> Any:
    """Draw exact curves as lines and the simulated 10–90 % band behind them."""
    ax = axes_of(ax)
    for i, name in enumerate(dict.fromkeys(table.columns["schedule"])):
        part = table.where(metric=metric, ordering=ordering, schedule=name).columns
        ax.fill_between(
            part["k"], part["low"], part["high"], color=COLOURS[i], alpha=0.18, linewidth=0
        )
        ax.plot(
            part["k"], part["mean"], color=COLOURS[i], linewidth=0, marker=MARKERS[i], markevery=3
        )
        ax.plot(part["k"], part["exact"], label=name, **look(i))
    ax.axhline(0, color="0.5", linewidth=0.5)
    ax.set(xlabel="number of steps k", ylabel=metric.replace("_", "-task "), title=ordering)
    ax.legend()
    return ax


def plot_optimal(table: Table, ordering: str, ax: Any = None, legend: bool = True) -> Any:
    """Draw (k+1) times every bound as a line, every loss of a collection as markers, and the lower
    bound in black.
    """
    ax = axes_of(ax)
    part, styles = (
        table.where(ordering=ordering),
        {
            "published": ":",
            "computed": "--",
            "proved": "-",
        },
    )
    for name in dict.fromkeys(part.columns["line"]):
        line = part.where(line=name).columns
        k, value = np.array(line["k"]), np.array(line["value"])
        owner, kind = name.rsplit(", ", 1)
        colour = "black" if kind == "at least" else COLOURS[owner.startswith("minimax")]
        look_of = {
            "linestyle": styles.get(kind, "-"),
            "linewidth": 2.4 if kind == "proved" else 1.2,
        }
        if kind == "bad collection":
            look_of = {"linewidth": 0, "marker": MARKERS[owner.startswith("minimax")]}
        ax.plot(k, (k + 1) * value, color=colour, label=name, **look_of)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="number of steps k",
        ylabel="(k+1) · loss / R²D²",
        title=ordering,
    )
    ax.set_ylim(0.12, 40)
    ax.set_yticks([0.2, 0.5, 1, 2, 5, 10, 20], labels=["0.2", "0.5", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
    if legend:
        # between 20 and 1 nothing is drawn
        ax.legend(fontsize="small", loc="center", bbox_to_anchor=(0.5, 0.64))
    return ax


# Columns of x, y and of the lines, then the scales of the axes, for every figure of a paper
def plot_reduction(table: Table, ax: Any = None) -> Any:
    """Draw the iterates of both schemes as lines and descent on their surrogates as open markers on
    top.
    """
    ax = axes_of(ax)
    for i, scheme in enumerate(dict.fromkeys(table.columns["scheme"])):
        part = table.where(scheme=scheme).columns
        ax.plot([0, *part["w1"]], [0, *part["w2"]], label=scheme, **look(i))
        ax.plot(
            part["descent1"],
            part["descent2"],
            linewidth=0,
            marker=MARKERS[i],
            markersize=6,
            fillstyle="none",
            color=COLOURS[i],
            label="descent on its surrogates",
        )
    ax.plot(1.0, -0.6, marker="*", color="black", markersize=8, linewidth=0, label="solution")
    ax.set(xlabel="w₁", ylabel="w₂")
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend()
    return ax

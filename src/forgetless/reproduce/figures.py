"""Figures of the reproduction, drawn from its tables.

Each function takes the table of the same name in ``forgetless.reproduce`` and, if wanted, axes to
draw on; it returns the axes.

Examples
--------
>>> from forgetless import reproduce
>>> from forgetless.reproduce import figures
>>> ax = figures.plot_optimum(reproduce.optimum(64))
>>> ax.get_xlabel(), len(ax.get_legend().get_texts())
('number of steps k', 5)
"""

from typing import Any

import numpy as np

from forgetless._table import Table
from forgetless.plots import axes_of, dots, look


def plot_optimum(table: Table, ax: Any = None) -> Any:
    """Draw λ⋆ against k for every angle, the linear regime in grey, and markers from where on it is
    exactly 0.
    """
    ax = axes_of(ax)
    for i, (angle, part) in enumerate(_parts(table, "angle")):
        best = part["coefficient"]
        ax.plot(part["k"], np.where(best > 0, best, np.nan), label=f"θ = {angle}", **look(i))
        if best[-1] == 0:
            first = len(best) - int(np.argmax(best[::-1] > 0))  # from here on it stays at 0
            ax.plot(part["k"][first], 0.02, clip_on=False, **dots(i))
        small = part["k"] * part["theta"] ** 2 <= 1
        ax.plot(part["k"][small], part["linear"][small], color="0.6", linewidth=0.7, zorder=1)
    return _over_steps(ax, "best fixed coefficient λ⋆", ylim=(0.02, 300))


def plot_rates(table: Table, family: str, ax: Any = None) -> Any:
    """Draw loss against k for every schedule on one family, with 1/k and the lower bound 1/(8k)."""
    ax = axes_of(ax)
    for i, (name, part) in enumerate(_parts(table.where(family=family), "schedule")):
        style = {"marker": dots(i)["marker"], **look(i)}
        # on the curve of the explicit scheme, or close to it: open markers that leave it visible
        if "budget" in name:
            style |= {"linestyle": ":", "fillstyle": "none", "markersize": 6}
        k = part["k"]
        ax.plot(k, np.where(part["loss"] > 1e-12, part["loss"], np.nan), label=name, **style)
    ax.plot(k, 1 / k, color="0.6", linewidth=0.7, zorder=1, label="1/k")
    if family == "unseen task":
        ax.plot(k, 1 / (8 * k), color="black", linewidth=0.8, label="lower bound 1/(8k)")
    bottom = max(1e-8, ax.get_ylim()[0])
    return _over_steps(ax, "worst-case loss / R²", title=family, ylim=(bottom, None))


def plot_unregularized(table: Table, ax: Any = None) -> Any:
    """Draw k·loss against k: guarantees for every collection, and losses that some have."""
    ax = axes_of(ax)
    k, *names = table.columns
    for i, name in enumerate(names):
        ax.plot(table.columns[k], table.columns[name], label=name, **look(i))
    return _over_steps(ax, "k · loss / R²D²")


def plot_reduction(table: Table, ax: Any = None) -> Any:
    """Draw the iterates of both schemes as lines and descent on their surrogates as open markers on
    top.
    """
    ax = axes_of(ax)
    hollow = {"markersize": 6, "fillstyle": "none", "label": "descent on its surrogates"}
    for i, (scheme, part) in enumerate(_parts(table, "scheme")):
        ax.plot([0, *part["w1"]], [0, *part["w2"]], label=scheme, **look(i))
        ax.plot(part["descent1"], part["descent2"], **dots(i) | hollow)
    ax.plot(1.0, -0.6, marker="*", color="black", markersize=8, linewidth=0, label="solution")
    ax.set(xlabel="w₁", ylabel="w₂")
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend()
    return ax


def _parts(table: Table, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the different values of a column, each with the other columns there as arrays."""
    parts = {value: table.where(**{name: value}) for value in dict.fromkeys(table.columns[name])}
    return [
        (value, {key: np.array(column) for key, column in part.columns.items()})
        for value, part in parts.items()
    ]


def _over_steps(ax: Any, y: str, **settings: Any) -> Any:
    """Make both axes logarithmic and name them, and return them."""
    ax.set(xscale="log", yscale="log", xlabel="number of steps k", ylabel=y, **settings)
    ax.legend(fontsize="small")
    return ax

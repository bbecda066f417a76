"""The style of figures, and figures of results, which draw themselves by ``.plot()``.

A result has the method, so that nobody needs these functions; they live here because a result must
not import matplotlib. Every function takes axes, or makes new ones, and returns them, for titles
and limits of your own.

Colours are those of Okabe & Ito, which differ without colour vision; line styles and markers differ
in grey.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._text import figure_label, needs

__all__ = ["COLOURS", "COLUMN", "MARKERS", "STYLES", "dots", "look", "publication"]

COLUMN = 3.4
"""Width of a journal column in inches; two-panel figures take twice that."""

WIDTH, HEIGHT = 5.2, 3.4
"""Of the figure of one result, in inches: what a notebook shows at its usual size of letters."""

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]

STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), "-"]

MARKERS = ["o", "s", "^", "D", "v", "P", "x"]


@contextmanager
def publication() -> Iterator[Any]:
    """Set fonts that embed as text, thin lines and small type for the figures made inside.

    Use it for a paper: ``with fl.plots.publication(): curves.plot().figure.savefig("losses.pdf")``.
    The settings are in ``templates/publication.mplstyle``. Yields matplotlib.
    """
    import matplotlib as mpl

    with mpl.rc_context(fname=Path(__file__).with_name("templates") / "publication.mplstyle"):
        yield mpl


def axes_of(ax: Any, width: float = COLUMN, height: float = 2.6) -> Any:
    """Return the axes that were given, or new ones."""
    if ax is not None:
        return ax
    with needs("drawing", "matplotlib", "plot"):
        import matplotlib.pyplot as plt
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def look(i: int) -> dict[str, Any]:
    """Return colour and style of the i-th line."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}


def dots(i: int) -> dict[str, Any]:
    """Return colour and marker of the i-th line where it is points only."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linewidth": 0}


def plot_advice(advice: Any, ax: Any = None) -> Any:
    """Draw the objective against the scale for every shape of an ``Advice``, its best points and no
    regularization.

    A flat curve says that the choice of the scale hardly matters. Losses above thirty times the
    best are cut off.
    """
    ax = axes_of(ax, 1.4 * WIDTH, HEIGHT)
    for i, option in enumerate(advice.options):
        if len(option.scales) > 1:
            ax.plot(option.scales, option.losses, label=figure_label(option.shape, 60), **look(i))
            ax.plot(option.scale, option.loss, zorder=3, **dots(i))
        if option.shape == "no regularization":
            ax.axhline(option.loss, color="0.5", linewidth=0.8, zorder=1, label=option.shape)
    name = advice.objective.replace("_", " ")
    ax.set(xscale="log", yscale="log", xlabel="scale / R²", ylabel=name)
    # Far above the best nothing is decided; the curves may end a thousand times higher.
    best = advice.options[0]
    if best.loss > 0:
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, 0.7 * best.loss), min(high, 30 * best.loss))
    title = f"{advice.k} steps; best:\n{figure_label(best.code, 80)}"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def plot_metric(curves: Any, metric: str, ax: Any = None) -> Any:
    """Draw a metric of ``Curves``: lines over steps, or dots where one step was recorded.

    Of runs the line is the mean, and the band behind it holds the middle 80 % of them. Both axes
    are logarithmic where the values allow it.
    """
    steps = curves.steps
    values = curves.means(metric).reshape(-1, len(steps))
    # What is positive and nothing but rounding would stretch a logarithmic axis.
    floor = 1e-13 * np.nanmax(values) if np.nanmin(values) >= 0 else -np.inf
    values = np.where(values < floor, np.nan, values)
    runs = len(curves.coordinates.get("trial", ()))
    name = _named(metric, runs)
    labels = [figure_label(label, 60) for label in curves.labels]
    if len(steps) == 1:
        if not labels:
            raise ValueError(
                f"{metric} after {steps[0]} steps is {float(values[0, 0]):.6g}: one number, and"
                ' nothing to draw; pass record="log" for a curve'
            )
        return _row_each(labels, values[:, 0], f"{name} after {steps[0]} steps", ax)
    ax = _lines(labels, steps, values, name, ax)
    if runs > 1:
        every = curves.values[metric].reshape(-1, runs, len(steps))
        bands = np.quantile(every, [0.1, 0.9], axis=1)
        bands[bands < floor] = np.nan
        for i, (low, high) in enumerate(zip(*bands, strict=True)):
            ax.fill_between(steps, low, high, color=look(i)["color"], alpha=0.18, linewidth=0)
    return ax


def _named(metric: str, runs: int) -> str:
    """Return what the axis of a metric says."""
    if metric == "worst_case":
        return "worst-case loss, ‖w⋆‖ = 1"
    name = metric.replace("_", " ").replace("seen loss", "seen-task loss")
    return {0: f"expected {name}", 1: name}.get(runs, f"mean {name}")


def _row_each(labels: list[str], values: Any, name: str, ax: Any) -> Any:
    """Draw one dot for every label, with its number."""
    ax = axes_of(ax, WIDTH, 0.8 + 0.3 * len(labels))
    rows = range(len(labels))
    ax.plot(values, rows, **dots(0))
    for place in zip(values, rows, strict=True):
        ax.annotate(f"{place[0]:.3g}", place, xytext=(6, -3), textcoords="offset points")
    ax.set_yticks(rows, labels=labels)
    ax.set(xlabel=name)
    ax.grid(axis="y", linewidth=0.5)
    ax.margins(x=0.15, y=0.15)
    least = np.nanmin(values)
    if least > 0 and np.nanmax(values) > 30 * least:
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", labelbottom=False)
    elif least > 0:
        ax.set_xlim(left=0)
    ax.invert_yaxis()
    return ax


def _lines(labels: list[str], steps: Any, values: Any, name: str, ax: Any) -> Any:
    """Draw one line of values over steps for every label, or one without."""
    ax = axes_of(ax, WIDTH, HEIGHT)
    for i, line in enumerate(values):
        marker = dots(i)["marker"] if len(steps) <= 12 else None
        ax.plot(steps, line, label=labels[i] if labels else None, marker=marker, **look(i))
    wide = steps[0] > 0 and steps[-1] >= 10 * steps[0]
    positive = np.nanmin(values) > 0
    ax.set(xscale="log" if wide else "linear", yscale="log" if positive else "linear")
    ax.set(xlabel="number of steps", ylabel=name)
    if labels:
        ax.legend()
    return ax


def plot_bounds(comparison: Any, ax: Any = None) -> Any:
    """Draw the exact losses of a ``BoundComparison`` as lines, and every bound that applies to one
    of them as a dot.

    An upper bound points to the left, as the loss is at most that; a lower bound, which some tasks
    have, to the right. Colours are those of the three losses.
    """
    checks = [check for check in comparison.bounds if check.applies]
    checks.sort(key=lambda check: check.value)
    ax = axes_of(ax, 1.3 * WIDTH, 1.0 + 0.26 * max(3, len(checks)))
    names = ["average_loss", "seen_loss", "next_loss"]
    titles = ["exact average loss", "exact seen-task loss", "exact next-task loss"]
    for i, (name, title) in enumerate(zip(names, titles, strict=True)):
        value = getattr(comparison, name)
        if value is not None and value > 0:
            ax.axvline(value, label=title, **look(i))
    for row, check in enumerate(checks):
        mark = {"marker": "<" if check.kind == "upper" else ">"}
        ax.plot(check.value, row, **dots(names.index(check.quantity)) | mark)
    labels = [figure_label(f"{check.name} ({check.kind})", 60) for check in checks]
    ax.set_yticks(range(len(checks)), labels=labels)
    marks = "◂ at most, ▸ some tasks have this"
    ax.set(xscale="log", xlabel=f"loss after {comparison.k} steps; {marks}")
    ax.margins(y=0.15)
    ax.legend(loc="lower right")
    return ax


def plot_schedule(coefficients: Any, constant: float, title: str, ax: Any = None) -> Any:
    """Draw the coefficients of a schedule over the steps, and the best constant as a line."""
    ax = axes_of(ax, WIDTH, HEIGHT)
    t = np.arange(1, len(coefficients) + 1)
    ax.plot(t, coefficients, drawstyle="steps-mid", label="optimal", **look(0))
    ax.axhline(constant, label=f"best constant, λ = {constant:.3g}", **look(1))
    ax.set(xlabel="step t", ylabel="coefficient λ", title=figure_label(title, 80), ylim=(0, None))
    ax.legend()
    return ax

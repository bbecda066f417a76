"""The style of figures, and figures of results, which draw themselves by ``.plot()``.

A result has the method, so that nobody needs these functions; they live here because a result must
not import matplotlib. Every ``plot_…`` takes axes, or makes new ones, and returns them, for
titles and limits of your own.

Colours are those of Okabe & Ito, which differ without colour vision; line styles and markers differ
in grey.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._text import figure_label, needs

__all__ = ["COLOURS", "COLUMN", "MARKERS", "STYLES", "dots", "look", "publication"]

COLUMN = 3.4
"""Width of a journal column in inches; two-panel figures take twice that."""

WIDTH = 5.2
HEIGHT = 3.4
"""Of the figure of one result, in inches: what a notebook shows at its usual size of letters."""

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
"""Those of Okabe & Ito, as RGB; the first is that of the result, or of the best."""

# no mutant: lengths of dashes, of which any tell lines apart
STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 3))]
"""Of lines, as matplotlib names them: dashes and gaps are in units of the width of the line."""

MARKERS = ["o", "s", "^", "D", "v", "P", "x"]
"""Of points, as matplotlib names them."""


@contextmanager
def publication() -> Iterator[Any]:
    """Set fonts that embed as text, thin lines and small type for the figures made inside.

    Use it for a paper: ``with fl.plots.publication(): curves.plot().figure.savefig("losses.pdf")``.
    The settings are in ``templates/publication.mplstyle``. Yields matplotlib.
    """
    import matplotlib as mpl

    with mpl.rc_context(fname=Path(__file__).with_name("templates") / "publication.mplstyle"):
        yield mpl


# no mutant: a height of figures is a matter of taste
def axes_of(ax: Any, width: float = COLUMN, height: float = 2.6) -> Any:
    """Return the axes that were given, or new ones of a size in inches.

    What needs matplotlib and does not find it says how to install it.
    """
    if ax is not None:
        return ax
    with needs("drawing", "matplotlib", "plot"):
        import matplotlib.pyplot as plt
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def look(i: int) -> dict[str, Any]:
    """Return colour and style of the i-th line, as arguments of ``ax.plot``."""
    return {"color": _in_turn(COLOURS, i), "linestyle": _in_turn(STYLES, i)}


def dots(i: int) -> dict[str, Any]:
    """Return colour and marker of the i-th line where it is points only."""
    return {"color": _in_turn(COLOURS, i), "marker": _in_turn(MARKERS, i), "linewidth": 0}


def _in_turn(values: Sequence[Any], i: int) -> Any:
    """Return the i-th value, beginning again after the last."""
    return values[i % len(values)]


def plot_advice(advice: Any, ax: Any = None) -> Any:
    """Draw the objective against the scale for every shape of an ``Advice``, its best points and no
    regularization.

    A flat curve says that the choice of the scale hardly matters. Losses above thirty times the
    best are cut off.
    """
    # The legend stands to the right of the axes, and needs room for names of shapes.
    ax = axes_of(ax, 1.4 * WIDTH, HEIGHT)
    for i, option in enumerate(advice.options):
        if len(option.scales) > 1:
            ax.plot(option.scales, option.losses, label=figure_label(option.shape, 60), **look(i))
            ax.plot(option.scale, option.loss, zorder=3, **dots(i))
        if option.shape == "no regularization":
            # no mutant: width and order of a line are a matter of taste
            ax.axhline(option.loss, color="0.5", linewidth=0.8, zorder=1, label=option.shape)
    # Scales of all shapes are in units of R², so that one axis serves all of them.
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

    Of runs the line is the mean, and the band behind it holds the middle 80 % of them. Axes are
    logarithmic where the values allow it; lines then leave out zeros, and what is 1e-13 of the
    largest value.
    """
    # One row for every schedule, however many axes the curves have.
    steps = curves.steps
    values = curves.means(metric).reshape(-1, len(steps))
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
    # Values that are rounding beside the largest would stretch a logarithmic axis.
    floor = 1e-13 * np.nanmax(values) if np.nanmin(values) >= 0 else -np.inf
    ax = _lines(labels, steps, np.where(values < floor, np.nan, values), name, ax)
    if runs > 1:
        # One band for every schedule, behind its line and in its colour.
        every = curves.values[metric].reshape(-1, runs, len(steps))
        bands = np.quantile(every, [0.1, 0.9], axis=1)
        bands[bands < floor] = np.nan
        for i, (low, high) in enumerate(zip(*bands, strict=True)):
            ax.fill_between(steps, low, high, color=look(i)["color"], alpha=0.18, linewidth=0)
    return ax


def _named(metric: str, runs: int) -> str:
    """Return what the axis of a metric says: whether it is exact, of one run, or a mean of runs."""
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
        # no mutant: a label stands beside its dot, as far as looks best
        ax.annotate(f"{place[0]:.3g}", place, xytext=(6, -3), textcoords="offset points")
    ax.set_yticks(rows, labels=labels)
    ax.set(xlabel=name)
    ax.grid(axis="y", linewidth=0.5)  # no mutant: a width of lines
    ax.margins(x=0.15, y=0.15)  # no mutant: room around the dots
    least = np.nanmin(values)
    if least > 0 and np.nanmax(values) > 30 * least:
        # Labels of minor ticks would overlap on an axis so short.
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", labelbottom=False)
    elif least > 0:
        ax.set_xlim(left=0)
    # The first label on top.
    ax.invert_yaxis()
    return ax


def _lines(labels: list[str], steps: Any, values: Any, name: str, ax: Any) -> Any:
    """Draw one line of values over steps for every label, or one without."""
    ax = axes_of(ax, WIDTH, HEIGHT)
    for i, line in enumerate(values):
        style = look(i)
        # Points of a short record are visible, those of a long one would be a thick line.
        # no mutant: with or without points the same line is seen
        if len(steps) <= 12:
            style["marker"] = _in_turn(MARKERS, i)
        if labels:
            style["label"] = labels[i]
        ax.plot(steps, line, **style)
    if labels:
        ax.legend()
    # A logarithmic axis shows a record of at least one decade, and no zero.
    if steps[0] > 0 and steps[-1] >= 10 * steps[0]:
        ax.set_xscale("log")
    if np.nanmin(values) > 0:
        ax.set_yscale("log")
    ax.set(xlabel="number of steps", ylabel=name)
    return ax


def plot_bounds(comparison: Any, ax: Any = None) -> Any:
    """Draw the exact losses of a ``BoundComparison`` as lines, and every bound that applies to one
    of them as a dot.

    An upper bound points to the left, as the loss is at most that; a lower bound to the right: some
    collection has at least this loss. Colours are those of the three losses.
    """
    # The smallest at the bottom, next to the axis of losses.
    checks = [check for check in comparison.bounds if check.applies]
    checks.sort(key=lambda check: check.value)
    ax = axes_of(ax, 1.3 * WIDTH, 1.0 + 0.26 * max(3, len(checks)))
    titles = {
        "average_loss": "exact average loss",
        "seen_loss": "exact seen-task loss",
        "next_loss": "exact next-task loss",
    }
    for i, (name, title) in enumerate(titles.items()):
        # A loss that was not computed, or is zero, has no place on a logarithmic axis.
        value = getattr(comparison, name)
        if value and value > 0:
            ax.axvline(value, label=title, **look(i))
    marks = {"upper": "<", "lower": ">"}
    for row, check in enumerate(checks):
        style = dots([*titles].index(check.quantity))
        style["marker"] = marks[check.kind]
        ax.plot(check.value, row, **style)
    labels = [figure_label(f"{check.name} ({check.kind})", 60) for check in checks]
    ax.set_yticks(range(len(checks)), labels=labels)
    key = "◂ at most, ▸ some tasks have this"
    ax.set(xscale="log", xlabel=f"loss after {comparison.k} steps; {key}")
    ax.margins(y=0.15)  # no mutant: room around the dots
    ax.legend(loc="lower right")
    return ax


def plot_schedule(coefficients: Any, constant: float, title: str, ax: Any = None) -> Any:
    """Draw the coefficients of a schedule over the steps, and the best constant as a line.

    The title is the objective and its value; it may hold a name that somebody else chose.
    """
    ax = axes_of(ax, WIDTH, HEIGHT)
    # Steps are whole: the line has a level for each of them.
    t = np.arange(1, len(coefficients) + 1)
    ax.plot(t, coefficients, drawstyle="steps-mid", label="optimal", **look(0))
    ax.axhline(constant, label=f"best constant, λ = {constant:.3g}", **look(1))
    ax.set(xlabel="step t", ylabel="coefficient λ", title=figure_label(title, 80), ylim=(0, None))
    ax.legend()
    return ax

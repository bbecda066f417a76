"""Plots of a sweep: panels of lines with error bars and bounds."""

from collections.abc import Mapping
from typing import Any

from forgetless.plots.style import COLOURS, COLUMN, MARKERS, look
from forgetless.reporting.text import figure_label


def plot_lines(panels: Mapping[str, Any], x: str, y: str, ax: Any = None) -> Any:
    """Draw the panels of a sweep: points with bars of one standard error, and bounds as thin lines of the same colour.

    Takes lines by the titles of their panels; returns the axes, a list where there are several.
    """
    if not panels:
        raise ValueError("the store holds no results for this figure")
    if ax is not None and len(panels) > 1:
        raise ValueError(f"ax takes one panel, and the figure has {len(panels)}: {', '.join(panels)}; choose by where=")
    if ax is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(1, len(panels), figsize=(COLUMN * len(panels), 2.6), squeeze=False, layout="constrained")
        every = list(axes[0])
    else:
        every = [ax]
    for panel, (title, lines) in zip(every, panels.items(), strict=True):
        _plot_panel(panel, lines, x)
        panel.set(xlabel="number of steps k" if x == "k" else x, ylabel=y.replace("_", " "))
        panel.set_title(figure_label(title, 60))
    every[0].legend()
    return every[0] if len(every) == 1 else every


def _plot_panel(ax: Any, lines: Any, x: str) -> None:
    for i, line in enumerate(lines):
        _plot_line(ax, i, line)
    lowest = min(point.mean for line in lines for point in line.points)
    ax.set(xscale="linear" if x == "seed" else "log", yscale="log" if lowest > 0 else "linear")
    if lowest > 0:  # an error bar as long as its mean would have no end on a logarithmic axis
        ax.set_ylim(bottom=max(lowest / 5, ax.get_ylim()[0]))
    ticks = sorted({at for line in lines for at in line.x if at == at})
    if len(ticks) <= 8:
        ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.minorticks_off()


def _plot_line(ax: Any, i: int, line: Any) -> None:
    means = [point.mean for point in line.points]
    if len(line.x) == 1 and line.x[0] != line.x[0]:  # a schedule without a scale, against the scale
        ax.axhline(means[0], label=figure_label(line.name, 60), **look(i))
        return
    errors = [point.error for point in line.points]
    bars = None if None in errors else errors
    ax.errorbar(line.x, means, bars, marker=MARKERS[i % len(MARKERS)], label=figure_label(line.name, 60), **look(i))
    for kind in ("upper", "lower"):
        bound = [getattr(point, kind) for point in line.points]
        if None not in bound:
            ax.plot(line.x, bound, color=COLOURS[i % len(COLOURS)], linewidth=0.5, linestyle=":", zorder=1)

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
    for one, (title, lines) in zip(every, panels.items(), strict=True):
        for i, line in enumerate(lines):
            _plot_line(one, i, line)
        means = [point.mean for line in lines for point in line.points]
        one.set(xscale="linear" if x == "seed" else "log", yscale="log" if min(means) > 0 else "linear")
        if min(means) > 0:  # a bar as long as its mean would reach down for ever
            one.set_ylim(bottom=max(min(means) / 5, one.get_ylim()[0]))
        ticks = sorted({at for line in lines for at in line.x if at == at})
        if len(ticks) <= 8:
            one.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
            one.minorticks_off()
        one.set(
            xlabel="number of steps k" if x == "k" else x, ylabel=y.replace("_", " "), title=figure_label(title, 60)
        )
    every[0].legend()
    return every[0] if len(every) == 1 else every


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

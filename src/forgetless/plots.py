"""Plots of the tables of ``reproduce`` and of advice: each takes a table and optional axes, and returns the axes.

Colours are Okabe & Ito's, told apart without colour vision; line styles and markers tell them apart in grey.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from forgetless._base.tables import Table
from forgetless._base.words import drawn

COLUMN = 3.4
"""Width of a journal column in inches; two-panel figures take twice that."""

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]

STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), "-"]

MARKERS = ["o", "s", "^", "D", "v", "P", "x"]


@contextmanager
def publication() -> Iterator[Any]:
    """Set fonts that embed as text, thin lines and small type for the figures made inside."""
    import matplotlib as mpl

    settings: Any = {
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": 8,
        "legend.fontsize": 7,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "lines.linewidth": 1.2,
        "lines.markersize": 3,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.linewidth": 0.3,
        "grid.alpha": 0.6,
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "savefig.dpi": 200,
        "figure.constrained_layout.use": True,
    }
    with mpl.rc_context(settings):
        yield mpl


def _axes(ax: Any, width: float = COLUMN, height: float = 2.6) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height))[1]


def _look(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}


def plot_optimum(table: Table, ax: Any = None) -> Any:
    """Draw λ⋆ against k for every angle, with the linear regime in grey."""
    ax = _axes(ax, width=1.4 * COLUMN)
    for i, angle in enumerate(dict.fromkeys(table.columns["angle"])):
        part = table.where(angle=angle).columns
        k, best = np.array(part["k"]), np.array(part["coefficient"])
        ax.plot(k, np.where(best > 0, best, np.nan), label=f"θ = {angle}", **_look(i))
        if best[-1] == 0:
            tail = len(k) - int(np.argmax(best[::-1] > 0))  # the first k from which on it stays at 0
            ax.plot(k[tail], 0.02, marker=MARKERS[i], color=COLOURS[i], clip_on=False)
        small = k * part["theta"][0] ** 2 <= 1
        ax.plot(k[small], np.array(part["linear"])[small], color="0.6", linewidth=0.7, zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="number of steps k", ylabel="best fixed coefficient λ⋆", ylim=(0.02, 300))
    note = "markers: exactly 0 from there on\ngrey: k / ln cot(θ/2)"
    ax.legend(title=note, title_fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def plot_rates(table: Table, family: str, ax: Any = None, legend: bool = True) -> Any:
    """Draw loss against k for every schedule on one family, with slope guides and the lower bound 1/(8k)."""
    ax = _axes(ax)
    part = table.where(family=family)
    for i, name in enumerate(dict.fromkeys(part.columns["schedule"])):
        line = part.where(schedule=name).columns
        loss = np.array(line["loss"])
        ax.plot(line["k"], np.where(loss > 1e-12, loss, np.nan), marker=MARKERS[i], label=name, **_look(i))
    k = np.array(sorted(set(part.columns["k"])), dtype=float)
    ax.plot(k, 1 / k, color="0.6", linewidth=0.7, zorder=1)
    ax.annotate("1/k", (k[-1], 1 / k[-1]), fontsize=6, color="0.4", xytext=(2, 2), textcoords="offset points")
    if family == "unseen task":
        ax.plot(k, 1 / (8 * k), color="black", linewidth=0.8, label="lower bound 1/(8k)")
    ax.set(xscale="log", yscale="log", xlabel="number of steps k", ylabel="worst-case loss / R²", title=family)
    ax.set_ylim(bottom=max(1e-8, ax.get_ylim()[0]))
    if legend:
        ax.legend()
    return ax


def plot_curves(table: Table, metric: str, ordering: str, ax: Any = None) -> Any:
    """Draw exact curves as lines and the simulated 10–90 % band behind them."""
    ax = _axes(ax)
    for i, name in enumerate(dict.fromkeys(table.columns["schedule"])):
        part = table.where(metric=metric, ordering=ordering, schedule=name).columns
        ax.fill_between(part["k"], part["low"], part["high"], color=COLOURS[i], alpha=0.18, linewidth=0)
        ax.plot(part["k"], part["mean"], color=COLOURS[i], linewidth=0, marker=MARKERS[i], markevery=3)
        ax.plot(part["k"], part["exact"], label=name, **_look(i))
    ax.axhline(0, color="0.5", linewidth=0.5)
    ax.set(xlabel="number of steps k", ylabel=metric.replace("_", "-task "), title=ordering)
    ax.legend()
    return ax


def plot_reduction(table: Table, ax: Any = None) -> Any:
    """Draw the iterates of both schemes as lines and descent on their surrogates as open markers on top."""
    ax = _axes(ax)
    for i, scheme in enumerate(dict.fromkeys(table.columns["scheme"])):
        part = table.where(scheme=scheme).columns
        ax.plot([0, *part["w1"]], [0, *part["w2"]], label=scheme, **_look(i))
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


def plot_lines(panels: Mapping[str, Any], x: str, y: str, ax: Any = None) -> Any:
    """Draw the panels of a sweep: points with bars of one standard error, and bounds as thin lines of the same colour.

    Takes lines by the titles of their panels; returns the axes, a list where there are several.
    """
    if not panels:
        raise ValueError("there is nothing to draw: the store holds no results for this figure")
    if ax is not None and len(panels) > 1:
        raise ValueError(f"ax takes one panel, and the figure has {len(panels)}: {', '.join(panels)}; choose by where=")
    if ax is None:
        import matplotlib.pyplot as plt

        made = plt.subplots(1, len(panels), figsize=(COLUMN * len(panels), 2.6), squeeze=False, layout="constrained")
        every = list(made[1][0])
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
        one.set(xlabel="number of steps k" if x == "k" else x, ylabel=y.replace("_", " "), title=drawn(title, 60))
    every[0].legend()
    return every[0] if len(every) == 1 else every


def _plot_line(ax: Any, i: int, line: Any) -> None:
    means = [point.mean for point in line.points]
    if len(line.x) == 1 and line.x[0] != line.x[0]:  # a schedule without a scale, against the scale
        ax.axhline(means[0], label=drawn(line.name, 60), **_look(i))
        return
    errors = [point.error for point in line.points]
    bars = None if None in errors else errors
    ax.errorbar(line.x, means, bars, marker=MARKERS[i % len(MARKERS)], label=drawn(line.name, 60), **_look(i))
    for kind in ("upper", "lower"):
        bound = [getattr(point, kind) for point in line.points]
        if None not in bound:
            ax.plot(line.x, bound, color=COLOURS[i % len(COLOURS)], linewidth=0.5, linestyle=":", zorder=1)


def plot_forgetting(tasks: list[str], errors: Any, seen: Any, ax: Any = None, shown: int = 6) -> Any:
    """Draw the error of some tasks from when they were learned on, and of all seen tasks in black."""
    ax = _axes(ax)
    steps = np.arange(1, len(tasks) + 1)
    picked = np.unique(np.linspace(0, len(tasks) - 1, min(shown, len(tasks))).round().astype(int))
    for i, m in enumerate(picked):
        marker = MARKERS[i] if m == len(tasks) - 1 else None  # the last task is a single point
        ax.plot(steps[m:], np.sqrt(errors[m:, m]), label=drawn(tasks[m]), marker=marker, **_look(i % 6))
    ax.plot(steps, np.sqrt(seen), color="black", linewidth=1.8, label="all seen")
    ax.set(xlabel="tasks learned", ylabel="RMSE on held-out rows", ylim=(0, None))
    ax.legend(ncols=2, fontsize=6)
    return ax


def plot_history(history: dict[str, Any], ax: Any = None) -> Any:
    """Draw the error before and after learning each task, and the strength on a second axis."""
    ax = _axes(ax)
    ax.plot(history["task"], np.sqrt(history["mse_before"]), label="before learning", **_look(0))
    ax.plot(history["task"], np.sqrt(history["mse_after"]), label="after learning", **_look(1))
    ax.set(xlabel="task", ylabel="RMSE", ylim=(0, None))
    twin = ax.twinx()
    twin.plot(history["task"], history["strength"], color="0.6", linewidth=0.8)
    twin.set(ylabel="strength λ", yscale="log" if np.all(history["strength"] > 0) else "linear")
    twin.grid(visible=False)
    twin.spines["right"].set_visible(True)
    ax.legend(fontsize=6)
    return ax


def plot_befores(steps: Any, lines: dict[str, Any], ax: Any = None) -> Any:
    """Draw mean squared errors of each task before it was learned, of a model and of what needs no features."""
    ax = _axes(ax)
    for i, (name, squares) in enumerate(lines.items()):
        ax.plot(steps, np.sqrt(squares), label=drawn(name), **_look(i))
    ax.set(xlabel="task", ylabel="RMSE before learning", ylim=(0, None))
    ax.legend(fontsize=6)
    return ax


def plot_advice(advice: Any, ax: Any = None) -> Any:
    """Draw the objective against the scale for every shape of an ``Advice``, its best points and no regularization."""
    if ax is None:
        ax = _axes(ax, width=1.6 * COLUMN)
        ax.figure.set_layout_engine("constrained")  # the legend is beside the axes
    for i, curve in enumerate(curve for curve in advice.curves if len(curve.scales) > 1):
        scales, losses = np.array(curve.scales), np.array(curve.losses)
        best = int(np.argmin(losses))
        ax.plot(scales, losses, label=drawn(curve.title, 60), **_look(i))
        ax.plot(scales[best], losses[best], marker=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], zorder=3)
    for curve in advice.curves:
        if len(curve.scales) == 1:
            ax.axhline(curve.losses[0], color="0.5", linewidth=0.8, zorder=1, label=drawn(curve.title, 60))
    if advice.least > 0 and advice.objective == "average_loss":
        ax.axhline(advice.least, color="black", linewidth=0.8, linestyle=":", zorder=1, label="least possible")
    names = {"average_loss": "expected loss", "seen_loss": "seen-task loss", "worst_case": "worst-case loss"}
    ax.set(xscale="log", yscale="log", xlabel="scale / R²", ylabel=names.get(advice.objective, "held-out loss"))
    # Far above the best nothing is decided; the curves may end a thousand times higher.
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, 0.7 * advice.options[0].loss), min(high, 30 * advice.options[0].loss))
    title = f"{advice.k} steps over {advice.n_tasks} tasks; best:\n{drawn(advice.options[0].title, 80)}"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax

"""Plots of results: curves, worst cases, bounds, schedules and advice."""

from typing import Any

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless.plots.style import COLOURS, HEIGHT, MARKERS, WIDTH, axes_of, look
from forgetless.reporting.text import figure_label


def plot_advice(advice: Any, ax: Any = None) -> Any:
    """Draw the objective against the scale for every shape of an ``Advice``, its best points and no regularization."""
    ax = axes_of(ax, 1.4 * WIDTH, HEIGHT)
    for i, curve in enumerate(curve for curve in advice.curves if len(curve.scales) > 1):
        scales, losses = np.array(curve.scales), np.array(curve.losses)
        best = int(np.argmin(losses))
        ax.plot(scales, losses, label=figure_label(curve.title, 60), **look(i))
        ax.plot(scales[best], losses[best], marker=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], zorder=3)
    for curve in advice.curves:
        if len(curve.scales) == 1:
            ax.axhline(curve.losses[0], color="0.5", linewidth=0.8, zorder=1, label=figure_label(curve.title, 60))
    if advice.least > 0 and advice.objective == "average_loss":
        ax.axhline(advice.least, color="black", linewidth=0.8, linestyle=":", zorder=1, label="least possible")
    names = {"average_loss": "expected loss", "seen_loss": "seen-task loss", "worst_case": "worst-case loss"}
    ax.set(xscale="log", yscale="log", xlabel="scale / R²", ylabel=names.get(advice.objective, "held-out loss"))
    # Far above the best nothing is decided; the curves may end a thousand times higher.
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, 0.7 * advice.options[0].loss), min(high, 30 * advice.options[0].loss))
    title = f"{advice.k} steps over {advice.n_tasks} tasks; best:\n{figure_label(advice.options[0].title, 80)}"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def plot_metric(curves: Any, metric: str, ax: Any = None) -> Any:
    """Draw a metric of a ``Trace`` or ``Expectation``: lines over steps, or dots where one step was recorded.

    Of a trace the line is the mean, and the band behind it holds the middle 80 % of the runs.
    """
    each = curves._each()
    values = [part.means(metric) for part in each]
    message = f"{metric} after {curves.steps[-1]} steps is {float(values[0][-1]):.6g}"
    name = metric.replace("_", " ").replace("seen loss", "seen-task loss")
    ax = _lines_or_dots(curves.labels, curves.steps, values, f"expected {name}", message, ax)
    if len(curves.steps) == 1:
        return ax
    for i, part in enumerate(each):
        runs = to_numpy(part.values[metric]) if hasattr(part, "n_trials") else np.zeros((1, 0))
        if len(runs) > 1:
            low, high = (_above_rounding(end, values) for end in np.quantile(runs, [0.1, 0.9], axis=0))
            ax.fill_between(part.steps, low, high, color=COLOURS[i % len(COLOURS)], alpha=0.18, linewidth=0)
    if hasattr(curves, "n_trials"):
        ax.set_ylabel(f"mean {name}" if curves.n_trials > 1 else name)
    return ax


def plot_worst(worst: Any, ax: Any = None) -> Any:
    """Draw a ``WorstCase`` against the steps; dots where there is one."""
    message = f"the worst-case loss after {worst.steps[-1]} steps is {float(worst.curves[0, -1]):.6g}"
    return _lines_or_dots(worst.labels, worst.steps, list(worst.curves), "worst-case loss, ‖w⋆‖ = 1", message, ax)


def _lines_or_dots(labels: Any, steps: Any, values: list[Any], name: str, message: str, ax: Any) -> Any:
    """Draw one line of values over steps for every label; one dot for each where there is a single step."""
    values = [_above_rounding(each, values) for each in values]
    if len(steps) == 1:
        if not labels:
            raise ValueError(f'{message}: one number, and nothing to draw; pass record="log" for a curve, or several k')
        return _dots(labels, [float(each[0]) for each in values], f"{name} after {steps[0]} steps", ax)
    ax = axes_of(ax, WIDTH, HEIGHT)
    marked = len(steps) <= 12
    for i, each in enumerate(values):
        label = figure_label(labels[i], 60) if labels else None
        ax.plot(steps, each, marker=MARKERS[i % len(MARKERS)] if marked else None, label=label, **look(i))
    wide = steps[0] > 0 and steps[-1] >= 10 * steps[0]
    ax.set(xscale="log" if wide else "linear", yscale="log" if _ends(values)[0] > 0 else "linear")
    ax.set(xlabel="number of steps", ylabel=name)
    if labels:
        ax.legend()
    return ax


def _dots(labels: Any, values: list[float], name: str, ax: Any) -> Any:
    """Draw one labelled value per row."""
    ax = axes_of(ax, WIDTH, 0.8 + 0.3 * len(labels))
    for i, value in enumerate(values):
        ax.plot(value, i, marker=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], linewidth=0)
        ax.annotate(f"{value:.3g}", (value, i), xytext=(6, -3), textcoords="offset points")
        ax.axhline(i, color="0.85", linewidth=0.5, zorder=0)
    ax.set_yticks(range(len(labels)), labels=[figure_label(label, 30) for label in labels])
    ax.set(xlabel=name)
    ax.margins(x=0.15, y=0.15)
    low, high = _ends([np.array(values)])
    if low > 0 and high > 30 * low:
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", labelbottom=False)
    elif low > 0:
        ax.set_xlim(left=0)
    ax.invert_yaxis()
    return ax


def _ends(values: list[Any]) -> tuple[float, float]:
    return min(float(np.nanmin(each, initial=np.inf)) for each in values), max(
        float(np.nanmax(each)) for each in values
    )


def _above_rounding(each: Any, values: list[Any]) -> Any:
    """Return values with NaN for positive rounding errors, which would stretch a logarithmic axis."""
    low, high = _ends(values)
    return np.where(each < 1e-13 * high, np.nan, each) if low >= 0 < high else each


def plot_bounds(certificate: Any, ax: Any = None) -> Any:
    """Draw the exact losses of a ``BoundComparison`` as lines, and every bound that applies to one of them as a dot."""
    applying = sorted((check for check in certificate.bounds if check.applies), key=lambda check: check.value)
    ax = axes_of(ax, 1.3 * WIDTH, 1.0 + 0.26 * max(3, len(applying)))
    titles = {"average_loss": "exact average loss", "seen_loss": "exact seen-task loss"}
    for i, (name, title) in enumerate(titles.items()):
        value = getattr(certificate, name)
        if value is not None and value > 0:
            ax.axvline(value, label=title, **look(i))
    for row, check in enumerate(applying):
        at = list(titles).index(check.quantity)
        ax.plot(check.value, row, marker="<" if check.kind == "upper" else ">", color=COLOURS[at], linewidth=0)
    ax.set_yticks(range(len(applying)), labels=[figure_label(f"{check.name} ({check.kind})", 60) for check in applying])
    ax.set(xscale="log", xlabel=f"loss after {certificate.k} steps; ◂ upper bound, ▸ lower bound")
    ax.margins(y=0.15)
    ax.legend(loc="lower right")
    return ax


def plot_comparisons(certificates: Any, ax: Any = None) -> Any:
    """Draw the exact average loss of several schedules, each on the range between its sharpest bounds."""
    ax = axes_of(ax, 1.2 * WIDTH, 0.8 + 0.35 * len(certificates))
    for row, part in enumerate(certificates.values()):
        ends = [part.sharpest(kind) for kind in ("lower", "upper")]
        values = [check.value for check in ends if check is not None and check.value > 0]
        exact = part.average_loss
        everything = [*values, *([exact] if exact else [])]
        ax.plot(
            [min(everything), max(everything)] if everything else [], [row, row][: 2 * bool(everything)], color="0.6"
        )
        for check, marker in zip(ends, "><", strict=True):
            if check is not None and check.value > 0:
                ax.plot(check.value, row, marker=marker, color="0.4", linewidth=0)
        if exact:
            ax.plot(exact, row, marker="o", color=COLOURS[0], linewidth=0)
    ax.set_yticks(range(len(certificates)), labels=[figure_label(label, 30) for label in certificates])
    first = next(iter(certificates.values()))
    ax.set(xscale="log", xlabel=f"average loss after {first.k} steps: exact ●, at most ◂, at least ▸")
    ax.margins(y=0.2)
    ax.invert_yaxis()
    return ax


def plot_schedule(coefficients: Any, constant: float | None, title: str, ax: Any = None) -> Any:
    """Draw the coefficients of a schedule over the steps, and the best constant as a line."""
    ax = axes_of(ax, WIDTH, HEIGHT)
    values = np.asarray(coefficients)
    ax.plot(np.arange(1, len(values) + 1), values, drawstyle="steps-mid", label="optimal", **look(0))
    if constant is not None:
        ax.axhline(constant, label=f"best constant, λ = {constant:.3g}", **look(1))
    ax.set(xlabel="step t", ylabel="coefficient λ", title=figure_label(title, 80), ylim=(0, None))
    ax.legend()
    return ax

"""Plots of a stream: forgetting, errors and the history of a model."""

from typing import Any

import numpy as np

from forgetless.plots.style import HEIGHT, MARKERS, WIDTH, axes_of, look
from forgetless.reporting.text import figure_label


def plot_forgetting(tasks: list[str], errors: Any, seen: Any, ax: Any = None, shown: int = 6) -> Any:
    """Draw the error of some tasks from when they were learned on, and of all seen tasks in black."""
    ax = axes_of(ax)
    steps = np.arange(1, len(tasks) + 1)
    picked = np.unique(np.linspace(0, len(tasks) - 1, min(shown, len(tasks))).round().astype(int))
    for i, m in enumerate(picked):
        marker = MARKERS[i] if m == len(tasks) - 1 else None  # the last task is a single point
        ax.plot(steps[m:], np.sqrt(errors[m:, m]), label=figure_label(tasks[m]), marker=marker, **look(i % 6))
    ax.plot(steps, np.sqrt(seen), color="black", linewidth=1.8, label="all seen")
    ax.set(xlabel="tasks learned", ylabel="RMSE on held-out rows", ylim=(0, None))
    ax.legend(ncols=2, fontsize=6)
    return ax


def plot_history(history: dict[str, Any], ax: Any = None) -> Any:
    """Draw the error before and after learning each task, and the strength on a second axis."""
    ax = axes_of(ax, WIDTH, HEIGHT)
    ax.plot(history["task"], np.sqrt(history["mse_before"]), label="before learning", **look(0))
    ax.plot(history["task"], np.sqrt(history["mse_after"]), label="after learning", **look(1))
    ax.set(xlabel="task", ylabel="RMSE", ylim=(0, None))
    twin = ax.twinx()
    twin.plot(history["task"], history["strength"], color="0.6", linewidth=0.8)
    twin.set(ylabel="strength λ", yscale="log" if np.all(history["strength"] > 0) else "linear")
    twin.grid(visible=False)
    twin.spines["right"].set_visible(True)
    ax.legend()
    return ax


def plot_befores(steps: Any, lines: dict[str, Any], ax: Any = None) -> Any:
    """Draw mean squared errors of each task before it was learned, of a model and of means that need no features."""
    ax = axes_of(ax)
    for i, (name, squares) in enumerate(lines.items()):
        ax.plot(steps, np.sqrt(squares), label=figure_label(name), **look(i))
    ax.set(xlabel="task", ylabel="RMSE before learning", ylim=(0, None))
    ax.legend(fontsize=6)
    return ax

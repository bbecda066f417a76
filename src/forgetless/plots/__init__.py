"""Plots: each takes numbers and optional axes, and returns the axes."""

from forgetless.plots.paper import plot_curves, plot_optimal, plot_optimum, plot_rates, plot_reduction
from forgetless.plots.results import (
    COLOURS,
    COLUMN,
    MARKERS,
    STYLES,
    plot_advice,
    plot_befores,
    plot_bounds,
    plot_comparisons,
    plot_forgetting,
    plot_history,
    plot_lines,
    plot_metric,
    plot_schedule,
    plot_worst,
    publication,
)

__all__ = [
    "COLOURS",
    "COLUMN",
    "MARKERS",
    "STYLES",
    "plot_advice",
    "plot_befores",
    "plot_bounds",
    "plot_comparisons",
    "plot_curves",
    "plot_forgetting",
    "plot_history",
    "plot_lines",
    "plot_metric",
    "plot_optimal",
    "plot_optimum",
    "plot_rates",
    "plot_reduction",
    "plot_schedule",
    "plot_worst",
    "publication",
]

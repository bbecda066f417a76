"""The style of figures, and the figures of the paper; results draw themselves by ``.plot()``."""

from forgetless.plots.paper import (
    plot_curves,
    plot_optimal,
    plot_optimum,
    plot_rates,
    plot_reduction,
)
from forgetless.plots.results import (
    COLOURS,
    COLUMN,
    MARKERS,
    STYLES,
    publication,
)

__all__ = [
    "COLOURS",
    "COLUMN",
    "MARKERS",
    "STYLES",
    "plot_curves",
    "plot_optimal",
    "plot_optimum",
    "plot_rates",
    "plot_reduction",
    "publication",
]

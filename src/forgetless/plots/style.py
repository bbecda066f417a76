"""Style of all plots: colours, line styles, markers, and the settings of figures for print.

Colours are Okabe & Ito's, distinguishable without colour vision; line styles and markers distinguish them in grey.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from forgetless._core.extras import needs

COLUMN = 3.4
"""Width of a journal column in inches; two-panel figures take twice that."""

WIDTH, HEIGHT = 5.2, 3.4
"""Of the figure of one result, in inches: what a notebook shows at its usual size of letters."""

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


def axes_of(ax: Any, width: float = COLUMN, height: float = 2.6) -> Any:
    """Return ``ax``, or new axes if it is None."""
    if ax is not None:
        return ax
    with needs("drawing", "matplotlib", "plot"):
        import matplotlib.pyplot as plt
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def look(i: int) -> dict[str, Any]:
    """Return colour and style of the i-th line."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}

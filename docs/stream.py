"""The figure of estimators.md: ``python docs/stream.py docs/stream.svg``.

The error on every month of a stream that drifts, before the month is learned. Rivals keep rows and are fitted again
every month: on all rows, and on the last four months, which is the best of 2, 3, 4, 6 and 8.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import RidgeCV

import forgetless as fl

mpl.use("svg")

MONTHS, ROWS, FEATURES, STEP, STREAMS = 36, 60, 20, 0.3, 20


class Retrained(RegressorMixin, BaseEstimator):
    """Ridge regression that keeps the rows of the last months and is fitted again every month."""

    def __init__(self, kept=MONTHS):
        self.kept = kept

    def partial_fit(self, X, y):
        self.rows_ = [*getattr(self, "rows_", []), (X, y)][-self.kept :]
        self.model_ = RidgeCV(np.logspace(-3, 3, 13)).fit(*map(np.concatenate, zip(*self.rows_, strict=True)))
        return self

    def predict(self, X):
        return self.model_.predict(X)


MODELS = {
    "RidgeCV on all rows, kept": Retrained(),
    "RidgeCV on the last 4 months, kept": Retrained(4),
    "StreamingRidge()": fl.StreamingRidge(),
    "StreamingRidge(adaptive=True)": fl.StreamingRidge(adaptive=True),
}


def months(seed):
    """Return months with noise 1, whose weights take a random step of length 0.3 after each."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    found = []
    for _ in range(MONTHS):
        X = rng.standard_normal((ROWS, FEATURES))
        found.append((X, X @ weights + rng.standard_normal(ROWS)))
        weights = weights + STEP * rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    return found


def error(model):
    """Return the root of the mean squared error of every month from the second on, over all streams."""
    squares = []
    for seed in range(STREAMS):
        own = type(model)(**model.get_params())
        squares.append(fl.evaluate_stream(own, months(seed)).before[1:])
    return np.sqrt(np.mean(squares, axis=0))


def draw(path: Path) -> None:
    """Write the figure to a file; the legend has the error of the last year."""
    import matplotlib.pyplot as plt

    style = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}
    style |= {f"{part}.labelsize": 11 for part in ("axes", "xtick", "ytick")} | {"legend.fontsize": 10}
    with fl.plots.publication(), mpl.rc_context(style):
        figure, ax = plt.subplots(figsize=(6.2, 3.4))
        for i, (name, model) in enumerate(MODELS.items()):
            values = error(model)
            label = f"{name}: {np.sqrt(np.mean(values[-12:] ** 2)):.3f}"
            ax.plot(range(2, MONTHS + 1), values, label=label, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i])
        ax.set(xlabel="month", ylabel="error before learning", ylim=(1, 1.75))
        ax.legend(frameon=False, loc="upper left")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

"""The figure of the README and of the first page: ``python docs/picture.py docs/picture.svg``.

Twenty tasks of five rows in ten dimensions with one teacher and label noise: the loss above the smallest that one model
can have on all of them. Label noise makes tasks disagree, which is where regularization, and its increase, pays.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import forgetless as fl

mpl.use("svg")

SCHEDULES = {"unregularized": "none", "fixed strength": "fixed", "increasing strength": "increasing"}


def tasks() -> fl.TaskCollection:
    """Return the tasks of the figure."""
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal(10)
    rows = [rng.standard_normal((5, 10)) for _ in range(20)]
    return fl.TaskCollection([(X, X @ teacher + 0.5 * rng.standard_normal(5)) for X in rows])


def draw(path: Path, k: int = 1000) -> None:
    """Write the figure to a file."""
    import matplotlib.pyplot as plt

    data = tasks()
    style = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}
    style |= {f"{part}.labelsize": 11 for part in ("axes", "xtick", "ytick")} | {"legend.fontsize": 11}
    with fl.plots.publication(), mpl.rc_context(style):
        figure, ax = plt.subplots(figsize=(6.2, 3.4))
        runs = fl.simulate(data, SCHEDULES, k, n_trials=200, seed=0, metrics="average_loss")
        exact = fl.expect(data, SCHEDULES, k, record=runs.steps)
        least = float(fl.metrics.average_loss(data, data.teacher()))
        for i, label in enumerate(SCHEDULES):
            low, high = np.quantile(runs.sel(schedule=label).average_loss - least, [0.1, 0.9], axis=0)
            ax.fill_between(runs.steps, low, high, color=fl.plots.COLOURS[i], alpha=0.18, linewidth=0)
            ax.plot(
                runs.steps,
                exact.sel(schedule=label).average_loss - least,
                color=fl.plots.COLOURS[i],
                linestyle=fl.plots.STYLES[i],
                label=label,
            )
        ax.set(
            xscale="log", yscale="log", xlabel="tasks learned, in random order", ylabel="loss above the least possible"
        )
        ax.set_yticks([0.001, 0.01, 0.1, 1, 10], labels=["0.001", "0.01", "0.1", "1", "10"])
        ax.set_xticks([1, 10, 100, 1000], labels=["1", "10", "100", "1000"])
        ax.minorticks_off()
        ax.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

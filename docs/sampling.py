"""The second figure of laboratory.md: ``python docs/sampling.py docs/sampling.svg``.

The relative error of a mean over simulated runs against their number, measured against the exact expectation, and the
estimated rounding error of the latter.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import forgetless as fl

mpl.use("svg")

RUNS = 100_000


def draw(path: Path, k: int = 100) -> None:
    """Write the figure to a file."""
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(2)
    teacher = rng.standard_normal(6)
    rows = [rng.standard_normal((2, 6)) for _ in range(10)]
    tasks = fl.TaskCollection([(X, X @ teacher) for X in rows])
    exact = fl.expect(tasks, "increasing", k)
    losses = fl.simulate(
        tasks, "increasing", k, n_trials=RUNS, seed=0, metrics="average_loss", record="last"
    ).average_loss[:, 0]
    counts = np.unique(np.geomspace(10, RUNS, 60).round().astype(int))
    means = np.cumsum(losses)[counts - 1] / counts
    truth = exact.average_loss[0]
    style = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}
    style |= {f"{part}.labelsize": 11 for part in ("axes", "xtick", "ytick")} | {"legend.fontsize": 10}
    with fl.plots.publication(), mpl.rc_context(style):
        figure, ax = plt.subplots(figsize=(6.2, 3.0))
        lines = {
            "mean of simulated runs": np.abs(means / truth - 1),
            "their standard error": losses.std(ddof=1) / truth / np.sqrt(counts),
            "estimate of the rounding error of expect": np.full(len(counts), exact.errors["average_loss"]),
        }
        for i, (label, values) in enumerate(lines.items()):
            ax.plot(counts, values, label=label, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i])
        ax.set(xscale="log", yscale="log", xlabel="runs", ylabel="relative error", ylim=(1e-15, 3))
        ax.set_xticks([10, 100, 1000, 10_000, 100_000], labels=["10", "100", "1000", "10,000", "100,000"])
        ax.set_yticks([1e-14, 1e-10, 1e-6, 1e-2], labels=["1e-14", "1e-10", "1e-6", "0.01"])
        ax.minorticks_off()
        ax.legend(frameon=False, loc="center left")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

"""The figure of docs/unregularized.md: ``python docs/unregularized.py docs/unregularized.svg``.

k times what is known of the worst expected loss after k steps, in units of R²D²: proved upper bounds for increasing,
fixed and no regularization, the paper's two guarantees, and lower bounds.
"""

import itertools
import math
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import forgetless as fl

mpl.use("svg")

STEPS = np.rint(2.0 ** np.arange(2, 12.5, 0.5)).astype(int)
UPPER = {
    "at most: increasing, scale 1": fl.schedules.increasing(1.0),
    "at most: no regularization": fl.Projection(),
    "at most: fixed, λ = 3R²/7": fl.Ridge(3 / 7),
}
PUBLISHED = {
    "increasing: 20k/(k+1)": lambda k: 20 * k / (k + 1),
    "fixed, λ = R²(ln k − 1): 5 ln k": lambda k: 5 * math.log(k),
}


def chains(k: int) -> float:
    """Return the largest k·loss of jump chains for k unregularized steps, over some parameters."""
    parameters = itertools.product(range(1, 7), np.arange(0.05, 0.4, 0.05), np.arange(0.05, 0.4, 0.05))
    made = [fl.theory.constructions.jump_chain(n, k, epsilon=e, ratio=r) for n, e, r in parameters]
    return k * max(chain.claim(fl.Projection(), k) for chain in made)


def any_algorithm(k: int) -> float:
    """Return k times the lower bound of every algorithm."""
    return k * fl.theory.catalogue["any algorithm, one task more"].at(k)


def draw(path: Path) -> None:
    """Write the figure to a file."""
    import matplotlib.pyplot as plt

    style = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}
    style |= {f"{part}.labelsize": 10 for part in ("axes", "xtick", "ytick")}
    style |= {"legend.fontsize": 9.5, "axes.titlesize": 10}
    steps = [int(k) for k in STEPS]
    with fl.plots.publication(), mpl.rc_context(style):
        figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(4.7, 5.0), height_ratios=(1, 2.6))
        for i, (label, value) in enumerate(PUBLISHED.items()):
            top.plot(steps, [value(k) for k in steps], color="0.35", linestyle=fl.plots.STYLES[i], label=label)
        for i, (label, schedule) in enumerate(UPPER.items()):
            constants = [fl.upper_bound(schedule, k).constant for k in steps]
            bottom.plot(steps, constants, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i], label=label)
        lower = {"at least: no regularization": chains, "at least: any algorithm": any_algorithm}
        for label, value in lower.items():
            colour = fl.plots.COLOURS[1] if value is chains else "black"
            bottom.plot(steps, [value(k) for k in steps], color=colour, linestyle=":", marker=".", label=label)
        top.set(yscale="log", ylim=(5, 150), title="guarantees of the paper")
        top.set_yticks([5, 10, 20, 40], labels=["5", "10", "20", "40"])
        bottom.set_title("computed here, for the worst tasks")
        bottom.set(
            xscale="log",
            ylim=(0.1, 0.64),
            ylabel="k · expected loss / (R²D²)",
            xlabel="k, tasks drawn with replacement",
        )
        bottom.set_xticks([10, 100, 1000], labels=["10", "100", "1000"])
        for ax in (top, bottom):
            ax.minorticks_off()
            ax.legend(frameon=False, loc="upper left")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

"""The first figure of laboratory.md: ``python docs/orders.py docs/orders.svg``.

Eight tasks of two rows in twelve dimensions that one model fits, learned without regularization in four orders: exact
expectations. The last order is that of extending.md, whose state is the last task.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import forgetless as fl
from forgetless.orderings import Moves

mpl.use("svg")


class Sticky(fl.orderings.Ordering):
    """Each task is repeated with probability 0.9."""

    def n_states(self, n_tasks, k):
        return n_tasks

    def moves(self, n_tasks, t):
        m = np.arange(n_tasks)
        if t == 0:
            return Moves(0 * m, m, m, np.full(n_tasks, 1 / n_tasks))
        target, source = np.divmod(np.arange(n_tasks**2), n_tasks)
        return Moves(source, target, target, np.where(source == target, 0.9, 0.1 / (n_tasks - 1)))

    def blocks(self, n_tasks, k, n_trials, rng):
        raise NotImplementedError("this figure only expects")


ORDERS = {
    "each repeated with probability 0.9": Sticky(),
    "independent draws": "with-replacement",
    "in turn": "cyclic",
    "random epochs": "random-reshuffling",
}


def draw(path: Path, k: int = 200) -> None:
    """Write the figure to a file."""
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(1)
    teacher = rng.standard_normal(12)
    rows = [rng.standard_normal((2, 12)) for _ in range(8)]
    tasks = fl.TaskCollection([(X, X @ teacher) for X in rows])
    style = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}
    style |= {f"{part}.labelsize": 11 for part in ("axes", "xtick", "ytick")} | {"legend.fontsize": 10}
    with fl.plots.publication(), mpl.rc_context(style):
        figure, ax = plt.subplots(figsize=(6.2, 3.4))
        for i, (label, ordering) in enumerate(ORDERS.items()):
            exact = fl.expect(tasks, "none", k, ordering=ordering, record="all")
            line = {"color": fl.plots.COLOURS[i], "linestyle": fl.plots.STYLES[i]}
            ax.plot(exact.steps, exact.average_loss, label=label, **line)
        ax.set(yscale="log", xlabel="steps", ylabel="expected average loss", ylim=(1e-8, 20))
        ax.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1], labels=["1e-8", "1e-6", "1e-4", "0.01", "1"])
        ax.minorticks_off()
        ax.legend(frameon=False, loc="lower left")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

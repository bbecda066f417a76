"""The pictures of theory.md and which-lambda.md: ``python docs/theory.py docs/theory.svg [docs/which-lambda.svg]``."""

import sys
from typing import Any

import matplotlib as mpl
import numpy as np

import forgetless as fl

mpl.use("svg")

STYLE = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}


def shuffled(ax: Any) -> None:
    """Draw (k+1) times bounds of the loss on the next task, without replacement."""
    catalogue = fl.theory.catalogue
    steps = 2 ** np.arange(2, 11)
    lines = {
        "paper's schedule, published": (":", lambda k: catalogue["increasing"].at(k)),
        "paper's schedule, computed": ("--", lambda k: bound(fl.schedules.increasing(), k)),
        "minimax schedule, proved": ("-", lambda k: catalogue["minimax, next task"].at(k, eta=1.0)),
        "any algorithm, at least": ("-.", lambda k: catalogue["any algorithm, next task"].at(k)),
    }

    def bound(schedule: Any, k: int) -> float:
        return fl.upper_bound(schedule, k, quantity="next_loss").value

    for i, (name, (style, value)) in enumerate(lines.items()):
        scaled = [(k + 1) * value(k) for k in steps.tolist()]
        ax.plot(steps, scaled, label=name, color=fl.plots.COLOURS[i], linestyle=style, linewidth=3 - 0.6 * i)
    ax.set(xscale="log", yscale="log", xlabel="number of steps k", ylabel="(k+1) · loss / R²D²", ylim=(0.3, 40))
    ax.legend(loc="center right", bbox_to_anchor=(1.0, 0.66))


def advised(ax: Any) -> None:
    """Draw what advice compares on the tasks of which-lambda.md."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
    by_age = np.argsort(np.argsort(X[:, 0], kind="stable")) * 20 // len(y)
    fl.advise(fl.TaskCollection.from_arrays(X, y, groups=by_age), k=200).plot(ax)


def main(paths: list[str]) -> None:
    """Write the figures to files."""
    import matplotlib.pyplot as plt

    for path, draw in zip(paths, (shuffled, advised), strict=False):
        with fl.plots.publication(), mpl.rc_context(STYLE):
            figure, ax = plt.subplots(figsize=(6.2, 3.6))
            draw(ax)
            figure.savefig(path, format="svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The pictures of theory.md and which-lambda.md: ``python docs/theory.py docs/theory.svg [docs/which-lambda.svg]``."""

import sys
from typing import Any

import matplotlib as mpl
import numpy as np

import forgetless as fl
from forgetless import reproduce

mpl.use("svg")

STYLE = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}


def shuffled(ax: Any) -> None:
    """Draw bounds and losses on the next task, without replacement."""
    fl.plots.plot_optimal(reproduce.optimal(), "without replacement", ax=ax)


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

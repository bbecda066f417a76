"""Two figures of the records: the gains with their intervals, and how the score depends on the strength."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from deep.protocol import counted
from deep.report import PAIRS, gains
from forgetless.plots import COLOURS, MARKERS, STYLES, publication

SHAPES = ("fixed", "increasing", "linear", "reversed")


def draw(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Write ``gains.png`` and ``strengths.png`` to the folder."""
    import matplotlib.pyplot as plt

    written = []
    with publication():
        for name, panel, label in (
            ("gains", _gains, "gain over the fixed schedule, points (95 % interval)"),
            ("strengths", _strengths, "strength c of the pull (L2)"),
        ):
            columns = min(4, len(records))
            rows = math.ceil(len(records) / columns)
            figure, axes = plt.subplots(rows, columns, figsize=(2.1 * columns + 0.8, 1.6 * rows + 0.5), squeeze=False)
            for record, ax in zip(records, axes.flat, strict=False):
                panel(record, ax)
                ax.set_title(record["stream"])
            for ax in axes.flat[len(records) :]:
                ax.set_axis_off()
            if name == "gains":
                for ax in axes[:, 1:].flat:
                    ax.set_yticklabels([])
            else:
                figure.supylabel("validation score, %", fontsize=8)
                handles, labels = axes.flat[0].get_legend_handles_labels()
                figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
            figure.supxlabel(label, fontsize=8)
            written.append(folder / f"{name}.png")
            figure.savefig(written[-1])
            plt.close(figure)
    return written


def _gains(record: dict[str, Any], ax: Any) -> None:
    names = [*PAIRS, "L2 reversed"]
    found = {row["method"]: row for row in gains(record)}
    for y, name in enumerate(reversed(names)):
        row, colour = found[name], COLOURS[6 if name == "L2 reversed" else 0]
        ax.plot([row["low"], row["high"]], [y, y], color=colour)
        ax.plot(row["gain"], y, MARKERS[0], color=colour)
    ax.axvline(0.0, color="black", linewidth=0.6)
    ax.set_yticks(range(len(names)), list(reversed(names)))


def _strengths(record: dict[str, Any], ax: Any) -> None:
    for i, shape in enumerate(SHAPES):
        tried = sorted(record["tuning"][f"L2 {shape}"]["tried"])
        means = [100 * float(np.mean(counted(scores))) for _, scores in tried]
        ax.plot(
            [c for c, _ in tried], means, color=COLOURS[i], linestyle=STYLES[i], marker=MARKERS[i], label=f"{shape}"
        )
    alone = 100 * float(np.mean(counted(record["tuning"]["finetune"]["tried"][0][1])))
    ax.axhline(alone, color="grey", linewidth=0.8, label="no pull")
    ax.set_xscale("log")
    best = max(float(np.max(line.get_ydata())) for line in ax.get_lines())
    ax.set_ylim(max(ax.get_ylim()[0], best - 30), best + 2)

"""The report of a fitted stream: one HTML page with forgetting curves, and the same facts in words."""

import io
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from forgetless import plots
from forgetless._base import html
from forgetless._base.files import replace_file
from forgetless._base.tables import Table
from forgetless.streams.run import StreamRun

SHOWN_TASKS = 6
"""How many single tasks are drawn, spread over the stream."""


def summary(run: StreamRun) -> dict[str, float | int]:
    """Return the figures of a stream: root mean squared errors, each task counting the same."""
    after = np.diag(run.errors)
    found: dict[str, float | int] = {
        "tasks": len(run.tasks),
        "prequential_rmse": math.sqrt(run.model.prequential_mse_),
        "rmse_when_learned": float(np.sqrt(after.mean())),
        "rmse_at_the_end": float(np.sqrt(run.errors[-1].mean())),
        "rmse_of_the_mean": float(np.sqrt(run.constant.mean())),
        "forgotten_tasks": int(np.sum(run.forgetting > 0)),
    }
    if run.joint is not None:
        found["rmse_of_joint_ridge"] = float(np.sqrt(run.joint.mean()))
    return found


def sentences(run: StreamRun) -> list[str]:
    """Return what a user should know, in words and numbers."""
    s = summary(run)
    lines = [
        f"Rows of a task not yet learned are predicted with a root mean squared error of {s['prequential_rmse']:.4g} "
        "(prequential: predict, then learn).",
        f"Held-out rows: {s['rmse_when_learned']:.4g} just after their task was learned, "
        f"{s['rmse_at_the_end']:.4g} at the end; {s['forgotten_tasks']:.0f} of {len(run.tasks)} tasks got worse.",
        f"Predicting the mean, without any feature: {s['rmse_of_the_mean']:.4g}.",
    ]
    if "rmse_of_joint_ridge" in s:
        lines.append(
            f"Ridge regression on all tasks together, which must keep a d × d matrix: {s['rmse_of_joint_ridge']:.4g}."
        )
    if s["rmse_at_the_end"] > s["rmse_of_the_mean"]:
        lines.append(
            "The model is worse than the mean: try a weaker strength (increasing:0.1, ridge:1), scaled features, or an "
            "intercept. The schedules by name insure against the worst case and are often too strong in practice."
        )
    return lines


def per_task(run: StreamRun) -> Table:
    """Return one row per task: error when learned and at the end."""
    history = run.model.history_
    task, n_rows, strength = (history[name].tolist() for name in ("task", "n_rows", "strength"))
    known = dict(zip(task, zip(n_rows, strength, strict=True), strict=True))
    seen = [known.get(t, (None, None)) for t in range(1, len(run.tasks) + 1)]
    columns: dict[str, list[Any]] = {
        "task": run.tasks,
        "rows": [pair[0] for pair in seen],
        "strength": [pair[1] for pair in seen],
        "RMSE when learned": np.sqrt(np.diag(run.errors)).tolist(),
        "RMSE at the end": np.sqrt(run.errors[-1]).tolist(),
        "of the mean": np.sqrt(run.constant).tolist(),
    }
    return Table("Every task", columns, number=".3g")


def write(run: StreamRun, path: Path, settings: str) -> None:
    """Write the page to ``path``, whole or not at all."""
    body = (
        f'<p class="small">{html.text(settings)}</p>{html.bullets(sentences(run))}'
        f"<h2>Forgetting</h2>{_picture(run)}"
        '<p class="small">Left: root mean squared error on held-out rows of single tasks from when they were learned '
        "on, and of all tasks seen so far (black). A curve that rises is forgetting. Right: error of each task before "
        "and after learning it, on the rows it was learned from, and the strength of regularization (grey, right axis)."
        f'</p><h2>Every task</h2><div class="scroll">{html.table(per_task(run))}</div>'
    )
    replace_file(path, html.page(f"A stream of {len(run.tasks)} tasks", body).encode())


def _picture(run: StreamRun) -> str:
    with plots.publication() as mpl:
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(2.1 * plots.COLUMN, 2.8))
        plots.plot_forgetting(run.tasks, run.errors, run.seen, left, SHOWN_TASKS)
        plots.plot_history(run.model.history_, right)
        buffer = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # letters of labels that the font lacks are drawn as boxes
            figure.savefig(buffer, format="png")
        plt.close(figure)
    return html.image(
        buffer.getvalue(),
        "Left, error of single tasks and of all seen tasks against the number of tasks learned; right, error before "
        "and after learning each task, with the strength of regularization.",
    )

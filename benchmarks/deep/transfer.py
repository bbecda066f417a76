"""Does a mechanism that is chosen on the first tasks serve the whole stream? ``python -m deep.transfer``.

The choice is that of ``flt.advise`` with a budget of 21 runs: every mechanism with the five values of its grid, and
none. No mechanism needs the number of tasks, so that one run over the stream contains the run over its first tasks. The
mean validation score over the first tasks chooses; the mean test score over all tasks at the end is what it led to.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from deep.data import load
from deep.methods import METHODS
from deep.protocol import VERSION, resumed
from deep.streams import STREAMS, Stream, make
from deep.training import Run, Settings, _State
from forgetless.io import replace_file
from forgetless.reporting.table import Table
from forgetless.torch.advice import GRIDS

FIRST_SEED = 2000
METHOD_OF = {"merge": "merge inverse", "moving": "EMA", "step_size": "lr inverse", "proximal": "EWC linear"}


def candidates(k: int) -> dict[str, list[tuple[str, str, float]]]:
    """Return (label, method of the suite, its value for k tasks) of all candidates by mechanism."""
    by_mechanism = {"none": [("none", "finetune", 1.0)]}
    for mechanism, method in METHOD_OF.items():
        scale = k / 2 if mechanism == "proximal" else 1.0  # "linear" has strengths of mean c, the advice c per task
        by_mechanism[mechanism] = [(f"{mechanism} {c:.3g}", method, c * scale) for c in sorted(GRIDS[mechanism])]
    return by_mechanism


def trained(stream: Stream, runs: list[Run], how: Settings, after: tuple[int, ...]) -> tuple[dict[int, Any], Any]:
    """Return validation scores over the tasks so far, after each of these numbers of them, and final test scores."""
    state, early = _State(stream, runs, how, torch.float32), {}
    for t in range(1, stream.spec.k + 1):
        state.learn(t)
        if t in after:
            with state.averaged():
                early[t] = torch.stack([state.scores("val", stream.order[:, u]) for u in range(t)]).mean(0)
    state.params = state.averages.weights(state.params)
    tasks = [torch.full_like(stream.order[:, 0], m) for m in range(stream.spec.n_tasks)]
    return early, torch.stack([state.scores("test", task) for task in tasks]).mean(0)


def measure(stream: Stream, how: Settings, after: tuple[int, ...]) -> dict[str, Any]:
    """Return the scores of all candidates: ``early`` by number of tasks, and ``final``, rows with one score a seed."""
    labels, final, n_seeds = [], [], len(stream.seeds)
    early: dict[int, list[list[float]]] = {m: [] for m in after}
    for own in candidates(stream.spec.k).values():
        runs = [Run(METHODS[method], c, seed) for _, method, c in own for seed in range(n_seeds)]
        first, last = trained(stream, runs, how, after)
        for i, (label, _, _) in enumerate(own):
            rows = slice(i * n_seeds, (i + 1) * n_seeds)
            labels.append(label)
            final.append(last[rows].tolist())
            for m in after:
                early[m].append(first[m][rows].tolist())
    return {"labels": labels, "final": final, "early": {str(m): rows for m, rows in early.items()}}


def table(records: dict[str, dict[str, Any]]) -> Table:
    """Return one row for a stream and a number of first tasks: final scores of what is chosen, and of what is best."""
    keys = ("stream", "tasks", "none", "one seed chooses", "all seeds choose", "choice", "best", "in hindsight")
    columns: dict[str, list[Any]] = {key: [] for key in keys}
    for name, record in records.items():
        final = 100 * _finite(np.array(record["final"], float))
        means = final.mean(1)
        for m, early in record["early"].items():
            alone, together = chosen(np.array(early, float))
            cells = [
                name,
                int(m),
                means[0],
                float(np.mean([final[row, seed] for seed, row in enumerate(alone)])),
                means[together],
                record["labels"][together],
                means.max(),
                record["labels"][int(means.argmax())],
            ]
            for key, cell in zip(keys, cells, strict=True):
                columns[key].append(cell)
    formats = dict.fromkeys(("none", "one seed chooses", "all seeds choose", "best"), ".1f")
    title = "Accuracy or R² in % at the end of the stream, by a choice on its first tasks"
    return Table(title, columns, formats=formats)


def chosen(early: NDArray[np.float64]) -> tuple[list[int], int]:
    """Return the candidate (row) that each seed chooses by itself, and the one that their mean chooses."""
    counted = _finite(early)
    return counted.argmax(0).tolist(), int(counted.mean(1).argmax())


def _finite(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores as ``flt.advise`` counts them: a run that diverged is worse than any other."""
    return np.where(np.isfinite(scores), scores, -np.inf)


@click.command()
@click.argument("streams", nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="results/transfer", show_default=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder with idx files.")
@click.option("--seeds", type=click.IntRange(1), default=4, show_default=True)
@click.option("--after", type=click.IntRange(2), multiple=True, default=(3, 5), show_default=True)
@click.option("--toy", is_flag=True, help="Tiny tasks, to see that all works.")
def main(streams: tuple[str, ...], out: Path, data: Path | None, seeds: int, after: tuple[int, ...], toy: bool) -> None:
    """Choose a mechanism on the first tasks of STREAMS, and compare its final score with the best candidate's."""
    from deep.suite import TOY

    how, records = TOY if toy else Settings(), {}
    for name in streams:
        file, spec = out / f"{name}.json", STREAMS[name]
        early = tuple(m for m in after if m < spec.k)
        if not early:
            raise click.BadParameter(f"{name} has {spec.k} tasks; choose after fewer", param_hint="--after")
        numbers = list(range(FIRST_SEED, FIRST_SEED + seeds))
        settings = {**asdict(how), "hidden": list(how.hidden)}
        identity = {"spec": asdict(spec), "settings": settings, "seeds": numbers, "after": list(early)}
        record = resumed(file, {"version": VERSION} | identity, {})
        if "final" not in record:
            stream = make(spec, numbers, load(spec.data, data), how.n, how.n_eval, "cpu")
            record |= measure(stream, how, early)
            replace_file(file, json.dumps(record, indent=1).encode())
        records[name] = record
    shown = table(records)
    click.echo("\n".join([shown.title, shown.text()]))


if __name__ == "__main__":
    main()

"""The rules, and one stream under them.

- All runs of a seed share tasks, order, initial weights and batches: differences between methods are paired.
- Every method is tuned alike: nine values of its strength c on a fixed geometric grid, then two more around an inner
  optimum, or beyond one at the edge. What counts is the mean validation score over all tasks after the last step, over
  the tuning seeds. An optimum that is then still at an edge is flagged.
- The report is on other seeds and on test rows, with that one c.

A stream's results are one JSON file, written after every phase; a phase that is there is not computed again.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deep.data import Pool
from deep.methods import METHODS, Method
from deep.streams import Spec, Stream, make
from deep.training import ORDER, Run, Settings, train
from forgetless.io.atomic import replace_file

VERSION = 1
FIRST_REPORTED = 1000
"""Reporting seeds count from here, tuning seeds from 0."""


def run(
    name: str,
    spec: Spec,
    pool: Pool,
    out: Path,
    *,
    how: Settings,
    tuning_seeds: int,
    report_seeds: int,
    device: str,
    at_once: int,
    deadline: float,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Tune and report every method on one stream; return the record that is also in ``out/name.json``."""
    tuning, reporting = list(range(tuning_seeds)), list(range(FIRST_REPORTED, FIRST_REPORTED + report_seeds))
    given = {
        "version": VERSION,
        "stream": name,
        "spec": asdict(spec),
        "settings": {**asdict(how), "hidden": list(how.hidden)},
        "tuning_seeds": tuning,
        "report_seeds": reporting,
    }
    record = _resumed(out / f"{name}.json", given)
    methods = list(METHODS.values())

    def save(phase: str, begun: float) -> None:
        record["phase"] = phase
        record["seconds"][phase] = round(time.monotonic() - begun, 1)
        replace_file(out / f"{name}.json", json.dumps(record, indent=1, ensure_ascii=False).encode())
        tell(f"{name}: {phase} after {record['seconds'][phase]:.0f} s")

    def tried(configs: list[tuple[Method, float]], stream: Stream) -> None:
        for method, c, found in _trained(configs, stream, how, at_once, part="val", deadline=deadline):
            record["tuning"][method.name]["tried"].append([c, found["score"]])

    if record["phase"] in ("begun", "coarse"):
        stream = make(spec, tuning, pool, how.n, how.n_eval, device)
    if record["phase"] == "begun":
        begun = time.monotonic()
        record |= {"device": _device(device), "torch": torch.__version__}
        record["tuning"] = {method.name: {"tried": []} for method in methods}
        tried([(method, c) for method in methods for c in method.grid()], stream)
        save("coarse", begun)
    if record["phase"] == "coarse":
        begun = time.monotonic()
        tried([(method, c) for method in methods for c in method.finer(best(record, method.name))], stream)
        for method in methods:
            values, chosen = [c for c, _ in record["tuning"][method.name]["tried"]], best(record, method.name)
            edge = len(values) > 1 and chosen in (min(values), max(values))
            record["tuning"][method.name] |= {"best": chosen, "edge": edge}
        save("tuned", begun)
    if record["phase"] == "tuned":
        begun = time.monotonic()
        stream = make(spec, reporting, pool, how.n, how.n_eval, device)
        final = [(method, record["tuning"][method.name]["best"]) for method in methods]
        record["report"] = {}
        for method, c, found in _trained(final, stream, how, at_once, part="test", full=True, deadline=deadline):
            record["report"][method.name] = {"c": c} | found
        save("done", begun)
    return record


def best(record: dict[str, Any], method: str) -> float:
    """Return the value of c with the best mean validation score so far; what diverged counts as −1."""
    tried = record["tuning"][method]["tried"]
    return float(max(tried, key=lambda each: np.mean(counted(each[1])))[0])


def counted(scores: list[float | None]) -> Any:
    """Return scores as tuning counts them: at least −1, also where training diverged."""
    return np.maximum([-1.0 if score is None else score for score in scores], -1.0)


def _trained(configs: list[tuple[Method, float]], stream: Stream, how: Settings, at_once: int, **options: Any) -> Any:
    """Yield every configuration with what was found for it, a list over seeds by name; ``at_once`` runs at a time."""
    configs = sorted(configs, key=lambda each: ORDER.index(each[0].metric))
    seeds = range(len(stream.seeds))
    width = max(1, at_once // len(seeds))
    for i in range(0, len(configs), width):
        mine = configs[i : i + width]
        found, _ = train(stream, [Run(method, c, seed) for method, c in mine for seed in seeds], how, **options)
        for j, (method, c) in enumerate(mine):
            rows = slice(j * len(seeds), (j + 1) * len(seeds))
            yield method, c, {key: _plain(value[rows]) for key, value in found.items()}


def _plain(values: Any) -> Any:
    """Return numbers as JSON can hold them, nothing where they are not finite."""
    if np.ndim(values) > 1:
        return [_plain(row) for row in values]
    return [round(float(value), 6) if math.isfinite(value) else None for value in values]


def _resumed(file: Path, given: dict[str, Any]) -> dict[str, Any]:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        return {**given, "phase": "begun", "seconds": {}}
    try:
        record: dict[str, Any] = json.loads(file.read_text())
        other = [key for key, value in given.items() if record.get(key) != value]
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} is not a record of this benchmark ({error}); remove it") from error
    if other:
        raise ValueError(
            f"{file} was made with another {', '.join(other)}; choose another folder with --out, or remove the file"
        )
    return record


def _device(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "processor"

"""The rules, and one stream under them.

- All runs of a seed share tasks, order, initial weights and batches: differences between methods are paired.
- Every method is tuned alike: nine values of its parameter on a fixed geometric grid, then two more around an inner
  optimum, or beyond one at the edge. The criterion is the mean validation score over all tasks after the last step,
  over the tuning seeds. An optimum that is then still at an edge is flagged. A second parameter is tuned after the
  first, with as many values.
- The report is on other seeds and on test rows, with that one value; and with up to two others that resampled tuning
  seeds would have chosen, so that intervals can include the noise of tuning.

A stream's results are one JSON file, written after every stack of runs; what is there is not computed again.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deep.methods import Method, stages
from deep.training import ORDER, OutOfTime, Run
from forgetless.io import replace_file

VERSION = 3
FIRST_REPORTED = 1000
"""Reporting seeds count from here, tuning seeds from 0."""
N_RESAMPLED = 1000


@dataclass(frozen=True)
class Problem:
    """A stream to be learned: its identity as JSON holds it, the data of some seeds, and the trainer of a stack."""

    name: str
    spec: dict[str, Any]
    settings: dict[str, Any]
    make: Callable[[list[int]], Any]
    train: Callable[..., Any]  # stream, runs, *, part, full, deadline → (arrays with one row a run, parameters)


@dataclass(frozen=True)
class Effort:
    """Numbers of seeds, runs trained together, the deadline, and the methods."""

    methods: list[Method]
    tuning_seeds: int
    report_seeds: int
    at_once: int
    deadline: float = math.inf
    alternatives: int = 2
    every: int = 1  # value of the grid


def run(problem: Problem, effort: Effort, out: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Tune and report every method on one stream; return the record that is also in ``out/name.json``."""
    file = out / f"{problem.name}.json"
    identity = {
        "version": VERSION,
        "stream": problem.name,
        "spec": problem.spec,
        "settings": problem.settings,
        "tuning_seeds": list(range(effort.tuning_seeds)),
        "report_seeds": list(range(FIRST_REPORTED, FIRST_REPORTED + effort.report_seeds)),
    }
    empty = {"phase": "tuning", "seconds": 0.0, "tuning": {}, "report": {}}
    record, begun = resumed(file, identity, empty), time.monotonic()
    record |= {"device": _device(), "torch": torch.__version__}
    earlier = record["seconds"]

    def save(phase: str) -> None:
        record["phase"], record["seconds"] = phase, round(earlier + time.monotonic() - begun, 1)
        replace_file(file, json.dumps(record, indent=1, ensure_ascii=False).encode())

    if record["phase"] == "tuning" or any(method.name not in record["tuning"] for method in effort.methods):
        stream = problem.make(record["tuning_seeds"])
        for n, stage in enumerate(stages(effort.methods), 1):
            for configs in (_coarse, _finer):
                chosen_configs = configs(record, stage, effort.every)
                for method, c, scores in _trained(problem, stream, chosen_configs, record, effort, part="val"):
                    record["tuning"].setdefault(method.name, {"tried": []})["tried"].append([c, scores["score"]])
                    save("tuning")
            for method in stage:
                values, chosen = [c for c, _ in record["tuning"][method.name]["tried"]], best(record, method.name)
                record["tuning"][method.name] |= {
                    "best": chosen,
                    "edge": len(values) > 1 and chosen in (min(values), max(values)),
                }
            tell(f"{problem.name}: stage {n} tuned after {time.monotonic() - begun:.0f} s")
        save("tuned")
        del stream
    if record["phase"] == "tuned" or any(method.name not in record["report"] for method in effort.methods):
        stream = problem.make(record["report_seeds"])
        final = [
            (method, c)
            for method in effort.methods
            for c in candidates(record, method.name, effort.alternatives)
            if f"{c:.6g}" not in record["report"].get(method.name, {}).get("others", {})
        ]
        for method, c, scores in _trained(problem, stream, final, record, effort, part="test", full=True):
            row = record["report"].setdefault(method.name, {"others": {}})
            row["others"][f"{c:.6g}"] = scores["score"]
            if c == record["tuning"][method.name]["best"]:
                row |= {"c": c} | scores
            save("tuned")
        save("done")
        tell(f"{problem.name}: done after {time.monotonic() - begun:.0f} s")
    return record


def best(record: dict[str, Any], method: str) -> float:
    """Return the value with the best mean validation score so far; what diverged counts as −1."""
    tried = record["tuning"][method]["tried"]
    return float(max(tried, key=lambda each: np.mean(counted(each[1])))[0])


def choices(record: dict[str, Any], method: str) -> Any:
    """Return the value that each of 1000 resamples of the tuning seeds chooses, the same resamples for all methods."""
    tried = record["tuning"][method]["tried"]
    scores = np.array([counted(each[1]) for each in tried])
    n = scores.shape[1]
    picks = np.random.default_rng(0).integers(n, size=(N_RESAMPLED, n))
    return np.array([c for c, _ in tried])[scores[:, picks].mean(-1).argmax(0)]


def candidates(record: dict[str, Any], method: str, alternatives: int) -> list[float]:
    """Return the chosen value, and those that resampled tuning seeds choose most often otherwise."""
    chosen = best(record, method)
    values, counts = np.unique(choices(record, method), return_counts=True)
    order = [float(values[i]) for i in np.argsort(-counts) if values[i] != chosen]
    return [chosen, *order[:alternatives]]


def counted(scores: list[float | None]) -> Any:
    """Return scores as tuning counts them: at least −1, also where training diverged."""
    return np.maximum([-1.0 if score is None else score for score in scores], -1.0)


def _coarse(record: dict[str, Any], stage: list[Method], every: int) -> list[tuple[Method, float]]:
    return [(method, c) for method in stage for c in method.grid(every) if c not in _tried(record, method)]


def _finer(record: dict[str, Any], stage: list[Method], every: int) -> list[tuple[Method, float]]:
    configs = []
    for method in stage:
        grid = [(c, scores) for c, scores in record["tuning"][method.name]["tried"] if c in method.grid(every)]
        chosen = max(grid, key=lambda each: np.mean(counted(each[1])))[0]
        configs += [(method, c) for c in method.finer(chosen, every) if c not in _tried(record, method)]
    return configs


def _tried(record: dict[str, Any], method: Method) -> list[float]:
    return [c for c, _ in record["tuning"].get(method.name, {"tried": []})["tried"]]


def _trained(
    problem: Problem,
    stream: Any,
    configs: list[tuple[Method, float]],
    record: dict[str, Any],
    effort: Effort,
    **options: Any,
) -> Iterator[tuple[Method, float, dict[str, Any]]]:
    """Yield every configuration with its results, a list over seeds by name; ``at_once`` runs at a time."""
    seeds = range(len(record["tuning_seeds"] if options["part"] == "val" else record["report_seeds"]))
    width = max(1, effort.at_once // len(seeds))
    for group in sorted({method.group for method, _ in configs}):
        own = sorted((each for each in configs if each[0].group == group), key=lambda each: ORDER.index(each[0].metric))
        for i in range(0, len(own), width):
            stack = own[i : i + width]
            runs = [Run(method, c, seed, _tuned_values(record, method)) for method, c in stack for seed in seeds]
            if time.monotonic() > effort.deadline:
                raise OutOfTime
            results, _ = problem.train(stream, runs, deadline=effort.deadline, **options)
            for j, (method, c) in enumerate(stack):
                rows = slice(j * len(seeds), (j + 1) * len(seeds))
                yield method, c, {key: _plain(value[rows]) for key, value in results.items()}


def _tuned_values(record: dict[str, Any], method: Method) -> tuple[tuple[str, float], ...]:
    return tuple((parameter, record["tuning"][source]["best"]) for parameter, source in method.sources)


def _plain(values: Any) -> Any:
    """Return numbers as JSON can hold them, nothing where they are not finite."""
    if np.ndim(values) > 1:
        return [_plain(row) for row in values]
    return [round(float(value), 6) if math.isfinite(value) else None for value in values]


def resumed(file: Path, identity: dict[str, Any], empty: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a file, or an empty one; ValueError if it was made under other conditions."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        return identity | empty
    try:
        record: dict[str, Any] = json.loads(file.read_text())
        other = [key for key, value in identity.items() if record.get(key) != value]
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} is not a record of this benchmark ({error}); remove it") from error
    if other:
        raise ValueError(
            f"{file} was made with another {', '.join(other)}; choose another folder with --out, or remove the file"
        )
    return record


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"


def problem_of_images(name: str, spec: Any, pool: Any, how: Any, device: str) -> Problem:
    """Return a stream of images or of a table as a problem."""
    from deep.streams import make
    from deep.training import train

    return Problem(
        name,
        asdict(spec),
        {**asdict(how), "hidden": list(how.hidden)},
        lambda seeds: make(spec, seeds, pool, how.n, how.n_eval, device),
        lambda stream, runs, **options: train(stream, runs, how, **options),
    )

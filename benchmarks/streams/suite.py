"""Many streams and methods, one after another; what is done is kept, and the next run goes on."""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._text import version
from forgetless.io import replace_file
from streams.data import STREAMS, load_stream
from streams.data.packaged import DataMissingError
from streams.methods import methods
from streams.protocol import tuned

Tell = Callable[[str], None]


def bench(
    streams: Sequence[str],
    out: Path,
    *,
    only: Sequence[str] = (),
    seeds: int = 1,
    units: float = 0.0,
    minutes: float = math.inf,
    tell: Tell = print,
) -> list[dict[str, Any]]:
    """Run all methods on the streams, all if none is named, but for what is done in ``out``; return the records.

    Parameters
    ----------
    streams : sequence of str
        Names of ``streams.data.STREAMS``.
    out : Path
        A folder with one file per stream.
    only : sequence of str
        Parts of names of methods.
    seeds : int
        Orders and held-out rows that are tried for streams without an order in time.
    units : float
        Columns are multiplied by random factors from 10^−units to 10^units after they were brought to the units of
        the first tasks, as if nobody had done so.
    minutes : float
        Stop after so long.
    tell : callable
        Is told what was done.
    """
    deadline, records = time.monotonic() + 60 * minutes, []
    for name in _known(streams):
        file = out / f"{name}{f'-units-{units:g}' if units else ''}.json"
        try:
            record = _stream(name, file, only, seeds, units, deadline, tell)
        except DataMissingError as error:
            tell(f"{name}: left out, since {error}")
            continue
        if record["scores"]:
            records.append(record)
        if time.monotonic() > deadline:
            tell(f"the time is up in {name}; the same command goes on with the next method")
            break
    return records


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a folder."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def _known(streams: Sequence[str]) -> Sequence[str]:
    for name in streams:
        if name not in STREAMS:
            raise ValueError(f"stream must be one of {', '.join(STREAMS)}, got {name!r}")
    return streams or STREAMS


def _stream(
    name: str, file: Path, only: Sequence[str], seeds: int, units: float, deadline: float, tell: Tell
) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"stream": name, "scores": {}}
    if record.get("forgetless") not in (None, version()):
        raise ValueError(f"{file} was made by forgetless {record['forgetless']}; remove it, or give another folder")
    for seed in range(seeds):
        stream = load_stream(name, seed)
        if stream.timed and seed:
            break
        if stream.kind == "regression":  # features of images and texts are in one unit already
            stream = stream.standardized()
        if units:
            factors = 10.0 ** np.random.default_rng([seed, 9]).uniform(-units, units, stream.n_features)
            stream = stream.scaled(factors)
        tasks = list(stream)
        record |= {
            "forgetless": version(), "title": stream.name, "source": stream.source, "kind": stream.kind,
            "task": stream.task, "timed": stream.timed, "n_tasks": stream.n_tasks, "n_features": stream.n_features,
            "rows": sum(len(task.y) for task in tasks), "units": units,
        }  # fmt: skip
        found = methods(stream, tasks)
        chosen = [method for method in found if not only or any(part in method for part in only)]
        if not chosen:
            tell(f"{name}: no method has {' or '.join(map(repr, only))} in its name; there are {', '.join(found)}")
        for method in chosen:
            if str(seed) in record["scores"].get(method, {}):
                continue
            if time.monotonic() > deadline:
                return record
            start, done = time.perf_counter(), record["scores"].setdefault(method, {})
            done[str(seed)] = tuned(found[method], tasks, stream).to_dict()
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(record, indent=1).encode())
            final = done[str(seed)]["final"]
            words = "diverged" if final is None else f"error {final:.4g}, {done[str(seed)]['nbytes'] / 1e6:.3g} MB"
            tell(f"{name}, seed {seed}, {method}: {words} ({time.perf_counter() - start:.1f} s)")
    return record

"""Traces and expectations in files: sealed archives of arrays, with where they come from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless.errors import FileError
from forgetless.io.archive import Fields, pack, refusing, unpack
from forgetless.io.atomic import replace_file
from forgetless.io.provenance import Recorded, provenance_of
from forgetless.metrics import METRICS, TASK_METRICS
from forgetless.reporting.text import printable

FORMAT, VERSION = "forgetless-result", 1
WHAT = "result"


def write(curves: Any, path: str | Path, note: str, facts: Mapping[str, Any]) -> None:
    """Write curves with their labels, some more ``facts`` and a note of the user's, whole or not at all."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": type(curves).__name__,
        "labels": list(curves.labels),
        "note": str(note),
        "provenance": provenance_of(curves.made),
        **facts,
    }
    arrays = {f"value.{name}": to_numpy(value) for name, value in curves.values.items()}
    weights = getattr(curves, "weights", None)
    if weights is not None:
        arrays["weights"] = to_numpy(weights)
    replace_file(Path(path), pack(header, {"steps": curves.steps, **arrays}))


def read(kind: str, path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header of a file and the fields of the result in it, all checked; FileError for anything else."""
    header, arrays = unpack(path, FORMAT, WHAT, (VERSION,))
    path = Path(path)
    if header.get("kind") != kind:
        found = printable(str(header.get("kind")), 60)
        raise FileError(f"{path.name} holds {found}, not {kind}; use fl.{found}.load")
    with refusing(path, WHAT):
        return header, _fields(kind, header, Fields(arrays))


def _fields(kind: str, header: dict[str, Any], stored: Fields) -> dict[str, Any]:
    labels = _labels(header.get("labels"))
    steps = stored.array("steps", "i", (None,), low=0).astype(np.int64)
    if len(steps) == 0 or (np.diff(steps) <= 0).any():
        raise ValueError("steps do not increase")
    before: tuple[int | None, ...] = (len(labels),) if labels else ()
    if kind == "Trace":
        before = (*before, None)
    part, values = stored.part("value."), {}
    for name in (*METRICS, *TASK_METRICS):
        if name in part:
            shape = (*before, len(steps), *([None] if name in TASK_METRICS else []))
            values[name] = part.array(name, "f", shape, finite=False).astype(np.float64)
    part.end()
    if not values:
        raise ValueError("no metric was stored")
    if len({value.shape[: len(before)] for value in values.values()}) > 1 or 0 in next(iter(values.values())).shape:
        raise ValueError("metrics of different or no runs")
    found: dict[str, Any] = {"steps": steps, "values": values, "labels": labels}
    found["made"] = Recorded(_origin(header.get("provenance")))
    if kind == "Trace":
        found["weights"] = _weights(stored, next(iter(values.values())).shape[: len(before)], len(steps))
    else:
        found |= {"method": _text(header.get("method"), "method"), "errors": _errors(header.get("errors"), values)}
    stored.end()
    return found


def _weights(stored: Fields, runs: tuple[int, ...], n_steps: int) -> Any:
    if "weights" not in stored:
        return None
    weights = stored.array("weights", "f", None, finite=False)
    if weights.shape[: len(runs) + 1] != (*runs, n_steps) or weights.ndim - len(runs) not in (2, 3):
        raise ValueError(f"weights have the shape {weights.shape}")
    return weights


def _labels(stored: Any) -> tuple[str | int, ...]:
    if not isinstance(stored, list) or not all(type(each) in (str, int) for each in stored):
        raise ValueError("labels are neither words nor positions")
    if len(set(stored)) < len(stored):
        raise ValueError("two labels are the same")
    return tuple(stored)


def _errors(stored: Any, values: Mapping[str, Any]) -> dict[str, float]:
    if not isinstance(stored, dict) or set(stored) != set(values):
        raise ValueError("errors are not those of the metrics")
    if not all(type(each) in (int, float) and 0 <= each <= 1 for each in stored.values()):
        raise ValueError("errors are not between 0 and 1")
    return {name: float(stored[name]) for name in values}


def _text(stored: Any, name: str) -> str:
    if not isinstance(stored, str) or len(stored) > 1000:
        raise ValueError(f"{name} is no short text")
    return stored


def _origin(stored: Any) -> dict[str, Any]:
    if not isinstance(stored, dict):
        raise ValueError("its provenance is not told by names")
    return stored

"""Traces and expectations as documents: their arrays, labels and provenance."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless.io.document import Document, Fields
from forgetless.io.provenance import RecordedOrigin
from forgetless.metrics import METRICS, TASK_METRICS


def to_document(curves: Any, facts: Mapping[str, Any], note: str) -> Document:
    """Return the document of curves, with some more ``facts`` in its header."""
    arrays = {f"value.{name}": to_numpy(value) for name, value in curves.values.items()}
    if getattr(curves, "weights", None) is not None:
        arrays["weights"] = to_numpy(curves.weights)
    header = {"labels": list(curves.labels), **facts}
    kind = type(curves).__name__.lower()
    return Document(kind, header, {"steps": curves.steps, **arrays}, curves.provenance, note)


def fields_from(document: Document) -> dict[str, Any]:
    """Return the fields of the trace or expectation in a document; ValueError if one of them is not valid."""
    header, stored, is_trace = document.header, Fields(document.arrays), document.kind == "trace"
    labels = _labels(header.get("labels"))
    steps = stored.array("steps", "i", (None,), low=0).astype(np.int64)
    if len(steps) == 0 or (np.diff(steps) <= 0).any():
        raise ValueError("steps do not increase")
    before: tuple[int | None, ...] = ((len(labels),) if labels else ()) + ((None,) if is_trace else ())
    values = _values(stored.part("value."), before, len(steps))
    fields = {"steps": steps, "values": values, "labels": labels, "origin": RecordedOrigin(document.provenance)}
    if is_trace:
        fields["weights"] = _weights(stored, next(iter(values.values())).shape[: len(before)], len(steps))
    else:
        fields |= {"method": _text(header.get("method"), "method"), "errors": _errors(header.get("errors"), values)}
    stored.end()
    return fields


def _values(stored: Fields, before: tuple[int | None, ...], n_steps: int) -> dict[str, Any]:
    values = {}
    for name in (*METRICS, *TASK_METRICS):
        if name in stored:
            shape = (*before, n_steps, *([None] if name in TASK_METRICS else []))
            values[name] = stored.array(name, "f", shape, finite=False).astype(np.float64, copy=False)
    stored.end()
    if not values:
        raise ValueError("no metric was stored")
    if len({value.shape[: len(before)] for value in values.values()}) > 1 or 0 in next(iter(values.values())).shape:
        raise ValueError("metrics have different numbers of runs, or none")
    return values


def _weights(stored: Fields, runs: tuple[int, ...], n_steps: int) -> Any:
    if "weights" not in stored:
        return None
    weights = stored.array("weights", "f", finite=False)
    if weights.shape[: len(runs) + 1] != (*runs, n_steps) or weights.ndim - len(runs) not in (2, 3):
        raise ValueError(f"weights have the shape {weights.shape}")
    return weights


def _labels(stored: Any) -> tuple[str | int, ...]:
    if not isinstance(stored, list) or not all(type(each) in (str, int) for each in stored):
        raise ValueError("labels are neither text nor positions")
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
        raise ValueError(f"{name} is not a short text")
    return stored

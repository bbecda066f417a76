"""Models as files: arrays, and everything else as JSON values. Nothing in a file is executed."""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from forgetless import io, schedules
from forgetless.estimators.mixture import PRIOR
from forgetless.estimators.temperature import INVERSES
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.schedules.named import NAMES, Named

_PARTS: dict[str, tuple[str, dict[str, str]]] = {
    "Before": ("base", {}),
    "ClassState": ("classifier", {"classes": "c", "counts": "c"}),
    "Dense": ("moments", {"matrix": "dd"}),
    "Fit": ("rows", {"coef": "dc", "intercept": "c", "scale": "d", "minimum": "c", "noise": "c"}),
    "LogisticState": ("logistic", {}),
    "LowRank": ("moments", {"vectors": "*d", "rest": "d"}),
    "Memory": ("memory", {}),
    "Mixture": ("mixture", {"shares": "m"}),
    "Rows": (
        "rows",
        {"mean": "d", "target": "c", "cross": "dc", "squares": "c", "low": "d", "high": "d"},
    ),
    "SchemeState": ("schemes", {"last": "wc", "average": "wc"}),
    "State": ("ridge", {}),
    "Temperature": ("temperature", {"losses": "t"}),
}
"""Module of every class that a state is made of, and the shapes of its arrays: d features, c
targets, w weights with the intercept, m parts of a mixture, t temperatures, and any number (*).
"""

MODELS = {
    "ContinualGD": "schemes",
    "ContinualRidge": "schemes",
    "StreamingLogistic": "logistic",
    "StreamingRidge": "ridge",
    "StreamingRidgeClassifier": "classifier",
}

_SCHEDULES: dict[str, Any] = {
    **{filter_.__name__: filter_ for filter_ in (GradientDescent, Projection, Ridge)},
    **{name: getattr(schedules, name) for name in (*NAMES, "constant")},
}
"""Filters and schedules that a file may name."""


def to_document(model: Any) -> io.Document:
    """Return a fitted model as arrays and plain values, which a file may hold beside others."""
    arrays, plan = flatten(model._fitted())
    header = {
        "model": type(model).__name__,
        "parameters": _plain(model.get_params(deep=False)),
        "features": model.n_features_in_,
        "names": [str(name) for name in getattr(model, "feature_names_in_", ())],
        "targets": list(model._y_shape),
        "groups": model.__dict__.get("_n_groups"),
        "tasks": model.n_tasks_seen_,
        "start": _plain(model._start),
        "state": plan,
    }
    return io.Document("model", header, arrays)


def from_document(document: io.Document) -> Any:
    """Return the model of a document; ValueError where a value is not valid."""
    header = document.header
    if header["model"] not in MODELS:
        raise ValueError(f"it holds no known model, but {header['model']!r}")
    parameters = {name: _restored(value) for name, value in header["parameters"].items()}
    model = _class(MODELS[header["model"]], header["model"])(**parameters)
    model._check_parameters()
    arrays = dict(document.arrays)
    d = header["features"]
    w = d + 1 if getattr(model, "fit_intercept", False) else d
    sizes = {"d": d, "w": w, "m": len(PRIOR), "t": len(INVERSES)}
    model._state = _built(header["state"], arrays, sizes)
    _check(type(model._state) is model._states, "type of its state")
    _check(is_classifier(model) or header["targets"] in ([], [sizes["c"]]), "number of targets")
    if arrays:
        raise ValueError(f"{next(iter(arrays))} does not belong there")
    model._cache = []
    model._n_seen = int(header["tasks"])
    model._start = dict(header["start"])
    model._y_shape = tuple(header["targets"])
    model.n_features_in_ = d
    if header["groups"] is not None:
        model._n_groups = int(header["groups"])
    if header["names"]:
        model.feature_names_in_ = np.array(header["names"], dtype=object)
        _check(len(header["names"]) == d, "names of features")
    return model


def flatten(
    value: Any, name: str = "", arrays: dict[str, Any] | None = None
) -> tuple[dict[str, Any], Any]:
    """Return the arrays inside nested tuples and dataclasses by name, and the plan to build it
    again as plain values.
    """
    arrays = {} if arrays is None else arrays
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "Mm":  # labels of classes may be dates
            return arrays, {"times": value.astype(np.int64).tolist(), "dtype": value.dtype.str}
        if value.dtype.kind in "OUS":
            return arrays, {"labels": [_plain(each) for each in value.tolist()]}
        arrays[name] = value
        return arrays, {"array": name}
    if is_dataclass(value) and not isinstance(value, type):
        items = [(field.name, getattr(value, field.name)) for field in fields(value)]
    elif isinstance(value, tuple):
        named = value._asdict().items() if hasattr(value, "_asdict") else enumerate(value)
        items = [(str(key), part) for key, part in named]
    else:
        return arrays, {"value": _plain(value)}
    parts = [flatten(part, f"{name}.{key}".lstrip("."), arrays)[1] for key, part in items]
    return arrays, {"type": type(value).__name__, "parts": parts}


def _built(plan: Any, arrays: dict[str, Any], sizes: dict[str, int]) -> Any:
    """Return the value of a plan, and take its arrays out; ValueError where one has not the
    ``sizes`` of its axes.
    """
    if not isinstance(plan, dict) or len(plan) not in (1, 2):
        raise ValueError("its plan is not one")
    if "array" in plan:
        array = arrays.pop(plan["array"], None)
        if array is None or array.dtype.kind not in "fiub":
            raise ValueError(f"{plan['array']} is missing or does not hold numbers")
        return array
    if "labels" in plan:
        return np.array(plan["labels"])
    if "times" in plan:
        return np.array(plan["times"], dtype=np.int64).astype(plan["dtype"])
    if "value" in plan:
        return plan["value"]
    parts = [_built(part, arrays, sizes) for part in plan["parts"]]
    if plan["type"] == "tuple":
        return tuple(parts)
    module, shapes = _PARTS[plan["type"]]
    kind = _class(module, plan["type"])
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    _check(len(parts) == len(names), f"number of parts of {plan['type']}")
    for name, part in zip(names, parts, strict=True):
        if name in shapes:
            _check_array(part, shapes[name], sizes, name)
    return kind(*parts)


def _check_array(array: Any, axes: str, sizes: dict[str, int], name: str) -> None:
    """Raise ValueError unless an array is finite and has the sizes of its axes; the first array
    with targets says how many there are.
    """
    is_array = isinstance(array, np.ndarray) and array.ndim == len(axes)
    _check(is_array, f"shape of {name}")
    expected = [sizes.setdefault(axis, n) for axis, n in zip(axes, array.shape, strict=True)]
    sizes.pop("*", None)
    _check(list(array.shape) == expected, f"shape of {name}")
    _check(array.dtype.kind != "f" or bool(np.isfinite(array).all()), f"range of {name}")


def _check(valid: bool, what: str) -> None:
    if not valid:
        raise ValueError(f"the {what} is not valid")


def _class(module: str, name: str) -> Any:
    return getattr(import_module(f"forgetless.estimators.{module}"), name)


def _plain(value: Any) -> Any:
    """Return a value as one of JSON; TypeError for anything else."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, Filter):
        return _plain({"name": type(value).__name__, "arguments": value.parameters})
    if isinstance(value, Named) and value.name in _SCHEDULES:
        return _plain({"name": value.name, "arguments": value.arguments})
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{value!r} cannot be stored in a file; use plain values and schedules of"
        " forgetless.schedules, or joblib.dump for this model"
    )


def _restored(plain: Any) -> Any:
    """Return the value of a parameter: a schedule where it names one."""
    if not isinstance(plain, dict):
        return plain
    _check(plain["name"] in _SCHEDULES, "name of its schedule")
    arguments = {name: _restored(each) for name, each in plain["arguments"].items()}
    return _SCHEDULES[plain["name"]](**arguments)

"""Models as files: arrays, and everything else as JSON values. Nothing in a file is executed."""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from forgetless import io, schedules
from forgetless._validate import Floats
from forgetless.filters import GradientDescent, Projection, Ridge
from forgetless.schedules.named import NAMES, Named

_PARTS = {
    "Before": "base",
    "ClassState": "classifier",
    "Dense": "moments",
    "Fit": "rows",
    "LogisticState": "logistic",
    "LowRank": "moments",
    "Memory": "memory",
    "Mixture": "mixture",
    "Rows": "rows",
    "SchemeState": "schemes",
    "State": "ridge",
    "Temperature": "temperature",
}
"""Module of every class that a state is made of."""

MODELS = {
    "ContinualGD": "schemes",
    "ContinualRidge": "schemes",
    "StreamingLogistic": "logistic",
    "StreamingRidge": "ridge",
    "StreamingRidgeClassifier": "classifier",
}

_FILTERS: dict[str, Any] = {
    "GradientDescent": GradientDescent,
    "Projection": Projection,
    "Ridge": Ridge,
}
"""Filters that a file may name."""


def to_document(model: Any) -> io.Document:
    """Return a fitted model as arrays and plain values."""
    arrays, plan = flatten(model._fitted())
    parameters = model.get_params(deep=False)
    if "schedule" in parameters:
        parameters["schedule"] = _plain_schedule(parameters["schedule"])
    header = {
        "model": type(model).__name__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "features": model.n_features_in_,
        "names": [str(name) for name in getattr(model, "feature_names_in_", ())],
        "targets": list(model._y_shape),
        "groups": model.__dict__.get("_n_groups"),
        "state": plan,
    }
    return io.Document("model", header, arrays)


def from_document(document: io.Document) -> Any:
    """Return the model of a document; ValueError where a value is not valid."""
    header = document.header
    if header["model"] not in MODELS:
        raise ValueError(f"it holds no known model, but {header['model']!r}")
    parameters = dict(header["parameters"])
    if "schedule" in parameters:
        parameters["schedule"] = _schedule(parameters["schedule"])
    model = _class(MODELS[header["model"]], header["model"])(**parameters)
    model._check_parameters()
    arrays = dict(document.arrays)
    model._state = _built(header["state"], arrays)
    if arrays:
        raise ValueError(f"{next(iter(arrays))} does not belong there")
    model._cache = []
    model._y_shape = tuple(header["targets"])
    model.n_features_in_ = header["features"]
    if header["groups"] is not None:
        model._n_groups = int(header["groups"])
    if header["names"]:
        model.feature_names_in_ = np.array(header["names"], dtype=object)
        _check(len(header["names"]) == model.n_features_in_, "names of features")
    model._check_state()
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


def _built(plan: Any, arrays: dict[str, Any]) -> Any:
    """Return the value of a plan, and take its arrays out."""
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
    parts = [_built(part, arrays) for part in plan["parts"]]
    if plan["type"] == "tuple":
        return tuple(parts)
    kind = _class(_PARTS[plan["type"]], plan["type"])
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    _check(len(parts) == len(names), f"number of parts of {plan['type']}")
    return kind(*parts)


def check_rows(rows: Any, d: int, c: int) -> None:
    """Raise ValueError unless the statistics of rows in a file are valid ones."""
    _check(type(rows).__name__ == "Rows" and rows.n > 0, "number of rows")
    for name, shape in {"mean": (d,), "low": (d,), "high": (d,), "target": (c,)}.items():
        check_array(getattr(rows, name), shape, name)
    check_array(rows.cross, (d, c), "cross")
    check_array(rows.squares, (c,), "squares", low=0.0)
    _check(bool((rows.low <= rows.high).all()), "ranges of columns")
    if type(rows.gram).__name__ == "Dense":
        matrix = rows.gram.matrix
        check_array(matrix, (d, d), "matrix")
        largest = float(np.abs(matrix).max(initial=0.0))
        _check(bool((np.abs(matrix - matrix.T) <= 1e-9 * largest).all()), "symmetry of its matrix")
        _check(bool((matrix.diagonal() >= -1e-9 * largest).all()), "diagonal of its matrix")
    else:
        _check(type(rows.gram).__name__ == "LowRank", "second moments")
        check_array(rows.gram.vectors, (len(rows.gram.vectors), d), "vectors")
        check_array(rows.gram.rest, (d,), "rest", low=0.0)


def check_memory(memory: Any, d: int, c: int) -> None:
    """Raise ValueError unless a memory in a file is a valid one."""
    check_rows(memory.rows, d, c)
    check_fit(memory.fit, d, c)


def check_fit(fit: Any, d: int, c: int) -> None:
    """Raise ValueError unless a solution in a file is a valid one."""
    _check(type(fit).__name__ == "Fit" and fit.strength > 0, "strength of its solution")
    check_array(fit.coef, (d, c), "coef")
    check_array(fit.intercept, (c,), "intercept")
    check_array(fit.scale, (d,), "scale", low=0.0)
    check_array(fit.minimum, (c,), "minimum", low=0.0)
    check_array(fit.noise, (c,), "noise", low=0.0)


def check_array(array: Any, shape: tuple[int, ...], name: str, low: float = -np.inf) -> Floats:
    """Return an array of a file; ValueError unless it has the shape and is finite."""
    _check(isinstance(array, np.ndarray) and array.shape == shape, f"shape of {name}")
    _check(bool(np.isfinite(array).all()) and bool((array >= low).all()), f"range of {name}")
    return np.asarray(array, dtype=np.float64)


def _check(valid: bool, what: str) -> None:
    if not valid:
        raise ValueError(f"the {what} is not valid")


def _class(module: str, name: str) -> Any:
    return getattr(import_module(f"forgetless.estimators.{module}"), name)


def _plain(value: Any) -> Any:
    """Return a value as one of JSON; TypeError for anything else."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{value!r} cannot be stored in a file; use plain values, or joblib.dump for this model"
    )


def _plain_schedule(schedule: Any) -> Any:
    """Return a schedule of this package by its name and its arguments, a filter by its fields."""
    if schedule is None or isinstance(schedule, str | int | float):
        return schedule
    if isinstance(schedule, Named) and schedule.name in (*NAMES, "constant"):
        arguments = {name: _plain_schedule(each) for name, each in schedule.arguments.items()}
        return {"name": schedule.name, "arguments": arguments}
    if type(schedule) in _FILTERS.values():
        fields_ = {name: np.asarray(each).tolist() for name, each in schedule.parameters.items()}
        return {"name": type(schedule).__name__, "arguments": fields_}
    if isinstance(schedule, list):
        return schedule
    raise TypeError(
        f"schedule {schedule!r} cannot be stored in a file; use one of forgetless.schedules, or"
        " joblib.dump for this model"
    )


def _schedule(plain: Any) -> Any:
    """Return the schedule of plain values."""
    if not isinstance(plain, dict):
        return plain
    makers = {**_FILTERS, **{name: getattr(schedules, name) for name in (*NAMES, "constant")}}
    _check(plain["name"] in makers, "name of its schedule")
    return makers[plain["name"]](
        **{name: _schedule(each) for name, each in plain["arguments"].items()}
    )

"""States: nested tuples and dataclasses with arrays at the leaves, and how files hold them.

A field of one name has the same axes wherever it stands, so that features and targets can be added
to a whole state at once, and arrays in files be checked:

    d  features, of which more may come
    w  weights of features, and the intercept behind them
    c  targets, of which more may come
    *  any number

A file has the arrays, and a plan of JSON values that says how they are put together. ``flatten``
takes the arrays out and returns the plan, ``_built`` puts them back:

    array                    {"array": its name}
    labels of classes        {"labels": list, "dtype": of the array}
    tuple or dataclass       {"type": its class, "parts": plans}
    schedule or filter       {"schedule": its name, "arguments": plans}
    number, text, None       itself

Nothing in a file is executed: a plan may name the classes below, and nothing else.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from forgetless import io
from forgetless._validate import Array

AXES = {
    **dict.fromkeys(("high", "low", "mean", "rest", "scale"), "d"),
    **dict.fromkeys(("intercept", "minimum", "noise", "squares", "target"), "c"),
    **dict.fromkeys(("coef", "cross"), "dc"),
    **dict.fromkeys(("average", "last"), "wc"),
    "matrix": "dd",
    "vectors": "*d",
}
"""Axes of the arrays in a state, by the names of the fields."""

MODULES = {
    "Before": "",
    "ClassState": "classifier",
    "ContinualGD": "schemes",
    "ContinualRidge": "schemes",
    "Dense": "moments",
    "Fit": "rows",
    "LogisticState": "logistic",
    "LowRank": "moments",
    "Memory": "memory",
    "Mixture": "memory",
    "Rows": "rows",
    "SchemeState": "schemes",
    "State": "ridge",
    "StreamingLogistic": "logistic",
    "StreamingRidge": "ridge",
    "StreamingRidgeClassifier": "classifier",
    "Temperature": "classifier",
}
"""Modules of the models, and of the classes that a state is made of; the package itself for one."""

FILTERS = ("GradientDescent", "Projection", "Ridge")
"""Filters that a file may name, besides all schedules."""


# --- more features and targets ---


def widened(record: Any, d: int, count: int) -> Any:
    """Return a record with ``count`` more features behind the first d, zero in all rows."""

    def wide(array: Array, axes: str) -> Array:
        for axis, letter in enumerate(axes):
            # An intercept stays behind the features.
            if letter in "dw":
                array = np.insert(array, np.full(count, d), 0.0, axis=axis)
        return array

    return _mapped(record, wide)


def with_targets(record: Any, place: Array) -> Any:
    """Return a record with targets in another order: column j is that of place j before; those of
    place −1 are new, and were always zero.
    """

    def placed(array: Array, axes: str) -> Array:
        if not axes.endswith("c"):
            return array
        return np.where(place >= 0, array[..., place], 0.0)

    return _mapped(record, placed)


def _mapped(value: Any, change: Callable[[Array, str], Array], name: str = "") -> Any:
    """Return a record with every array changed by a function of it and its axes."""
    if isinstance(value, np.ndarray):
        return change(value, AXES.get(name, ""))
    kind = type(value)
    if kind is tuple:
        return tuple(_mapped(part, change) for part in value)
    # The fields of a NamedTuple or dataclass; numbers have none.
    names = getattr(kind, "__annotations__", None)
    if names is None:
        return value
    fields = [_mapped(getattr(value, each), change, each) for each in names]
    return kind(*fields)


# --- files ---


def to_document(model: Any) -> io.Document:
    """Return a fitted model as arrays and plain values, which a file may hold beside others."""
    arrays: dict[str, Any] = {}
    state = model._fitted()
    # The state belongs to the values that these parameters had at the first task.
    parameters = {**model.get_params(deep=False), **model._start}
    header = {
        "model": type(model).__name__,
        "parameters": {name: flatten(value, arrays, name) for name, value in parameters.items()},
        "features": model.n_features_in_,
        "names": list(getattr(model, "feature_names_in_", ())),
        "targets": list(model._y_shape),
        "tasks": model.n_tasks_seen_,
        "state": flatten(state, arrays),
    }
    return io.Document("model", header, arrays)


def from_document(document: io.Document) -> Any:
    """Return the model of a document; an error where a value is not valid.

    Parameters are checked as those of a new model, arrays by the axes of their fields. Whatever
    else does not fit together is an error of the first solution.
    """
    header = document.header
    fields = io.Fields(document.arrays)
    sizes: dict[str, int] = {}
    plans = header["parameters"]
    parameters = {name: _built(plan, fields, sizes) for name, plan in plans.items()}
    model = _class(header["model"])(**parameters)
    model._check_parameters()
    d = header["features"]
    sizes |= {"d": d, "w": d + bool(getattr(model, "fit_intercept", False))}
    model._state = _built(header["state"], fields, sizes)
    fields.end()
    names = header["names"]
    targets = header["targets"]
    has_targets = is_classifier(model) or targets in ([], [sizes["c"]])
    if not has_targets or len(names) not in (0, d):
        raise ValueError("its targets or the names of its features do not fit its state")
    # What a stream would have left beside the state.
    model._cache = []
    model._n_seen = int(header["tasks"])
    model._start = {name: parameters[name] for name in model._fixed}
    model._y_shape = tuple(targets)
    model.n_features_in_ = d
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    model._linear()  # an error where arrays do not fit together
    return model


def flatten(value: Any, arrays: dict[str, Any], name: str = "") -> Any:
    """Return the plan of a value; its arrays of floats are added to ``arrays``.

    Parameters
    ----------
    value : array, number, text, tuple, schedule, or object of a class in ``MODULES`` or ``FILTERS``
    arrays : dict
        Of arrays by their paths, such as "memory.rows.mean".
    name : str
        The path of the value.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            arrays[name] = value
            return {"array": name}
        # NumPy makes dates from integers.
        labels = value.astype(np.int64) if value.dtype.kind in "Mm" else value
        return {"labels": labels.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str | list):
        return value
    kind = type(value).__name__
    items: dict[Any, Any]
    # A schedule has what a file needs; asking for its class would import all of them.
    if kind == "Named":
        kind = value.name
        items = value.arguments
    elif kind == "tuple":
        items = dict(enumerate(value))
    else:
        items = {key: getattr(value, key) for key in getattr(value, "__annotations__", ())}
    prefix = f"{name}." if name else ""
    plans = {key: flatten(part, arrays, f"{prefix}{key}") for key, part in items.items()}
    if kind in (*MODULES, "tuple"):
        return {"type": kind, "parts": list(plans.values())}
    if type(value).__name__ in ("Named", *FILTERS):
        return {"schedule": kind, "arguments": plans}
    raise TypeError(
        f"{value!r} cannot be stored in a file; use plain values and schedules of"
        " forgetless.schedules, or joblib.dump for this model"
    )


def _built(plan: Any, fields: io.Fields, sizes: dict[str, Any], name: str = "") -> Any:
    """Return the value of a plan; ValueError where an array has not the ``sizes`` of its axes, of
    which the first array with targets adds their number.

    Parameters
    ----------
    plan : JSON value
    fields : Fields
        Arrays of the file, which are taken out.
    sizes : dict of str to int
        Length of every axis of ``AXES``.
    name : str
        The field that the value is for.
    """
    axes = AXES.get(name)
    if not isinstance(plan, dict):
        if axes is not None:
            raise ValueError(f"{name} is no array")
        return plan
    if "array" in plan:
        shape = None
        if axes is not None:
            shape = tuple(sizes.get(axis) for axis in axes)
        array = fields.array(plan["array"], "f", shape)
        # All arrays of one model have as many targets as the first of them.
        if axes is not None and axes[-1] == "c":
            sizes["c"] = array.shape[-1]
        # Every state is computed in float64.
        return array.astype(np.float64, copy=False)
    if "labels" in plan:
        return np.array(plan["labels"], dtype=plan["dtype"])
    if "schedule" in plan:
        make = _maker(plan["schedule"])
        arguments = plan["arguments"].items()
        return make(**{key: _built(part, fields, sizes) for key, part in arguments})
    parts = plan["parts"]
    if plan["type"] == "tuple":
        return tuple(_built(part, fields, sizes) for part in parts)
    # The name of a field says which axes its array has.
    kind = _class(plan["type"])
    pairs = zip(kind.__annotations__, parts, strict=True)
    values = [_built(part, fields, sizes, key) for key, part in pairs]
    return kind(*values)


def _maker(name: str) -> Any:
    """Return the function or class of a schedule or filter."""
    # Models of tables have none, so that reading one imports neither module.
    if name in FILTERS:
        return getattr(import_module("forgetless.filters"), name)
    return import_module("forgetless.schedules.named").MAKERS[name]


def _class(name: str) -> Any:
    """Return a class of a model or of a part of its state."""
    return getattr(import_module(f".{MODULES[name]}", "forgetless.estimators"), name)

"""Models in files: parameters in the header, the state as arrays, whose shapes are checked when
they are read.

Rows that a model was trained on are not among them.
"""

import math
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._core.text import printable
from forgetless._schedule import NAMES, Named
from forgetless.estimators._units import Units
from forgetless.estimators.history import COLUMNS, INVERSES, Calibration, History
from forgetless.estimators.low_rank import LowRankMemory
from forgetless.estimators.state import Iterate, Origin, State
from forgetless.estimators.strength import Auto, Steady
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.io import Document, Fields, write

STATES = ("learn", "predict")

CLASSES = {
    "ContinualGD": "ridge",
    "ContinualLogistic": "logistic",
    "ContinualRidge": "ridge",
    "ContinualRidgeClassifier": "classifier",
    "JointRidge": "baselines",
    "RecursiveLeastSquares": "baselines",
}
"""Modules of the classes that files hold."""

FIELDS = (Auto, LowRankMemory, Steady, GradientDescent, Projection, Ridge)
"""Classes of parameters that are stored as their fields."""


def save(model: Any, path: Any, part: str) -> None:
    """Write a fitted model to a file: see ``StreamingRegressor.save``."""
    write(path, *to_document(model, part)[:3])


def to_document(model: Any, part: str = "learn") -> Document:
    """Return the document of a fitted model; ``part`` is "predict" for the weights alone."""
    if part not in STATES:
        raise ValueError(f"state must be one of {', '.join(STATES)}, got {part!r}")
    state = model._fitted()
    predict = part == "predict" or state.origin.frozen
    if predict:
        state = state.in_user_units
    else:
        # parameters that contradict the state would make a file that cannot be loaded
        model._current()
    header = {
        "class": type(model).__name__,
        "state": STATES[predict],
        "parameters": _parameters(model, predict),
    }
    arrays: dict[str, Any] = {"coef": state.coef, "n_tasks": state.n_tasks, "ranges": state.ranges}
    if state.calibration is not None:
        arrays |= _named("calibration", state.calibration._asdict())
    if type(state.intercept) is not float:
        arrays["intercept"] = state.intercept
    for name in ("feature_names", "classes"):
        _store_labels(getattr(state.origin, name), name, header, arrays)
    if not predict:
        arrays |= _learning_arrays(state)
    stored = {name: _numpy(value) for name, value in arrays.items() if value is not None}
    return Document("model", header, stored)


def _parameters(model: Any, predict: bool) -> dict[str, Any]:
    """Return the parameters of a model as JSON values."""
    parameters = {name: _encoded(value) for name, value in model.get_params(deep=False).items()}
    # without its schedule the model must not be an automatic one
    if any(map(_is_note, parameters.values())):
        parameters |= {name: _encoded(value) for name, value in _without_schedule(model).items()}
    if predict:  # a function that cannot be stored is needed for learning only
        parameters = {
            name: None if _is_note(value) else value for name, value in parameters.items()
        }
    return parameters


def _without_schedule(model: Any) -> dict[str, Any]:
    """Return the parameters with which a model whose schedule is missing has the same state."""
    values = {
        name: model._value(name)
        for name in ("fit_intercept", "standardize", "memory")
        if hasattr(model, name)
    }
    return values | ({"alpha": 1.0} if hasattr(model, "alpha") and model.alpha is None else {})


def _learning_arrays(state: State) -> dict[str, Any]:
    """Return the parts of a state that prediction does not need; not the rule, which follows from
    the parameters.
    """
    history = state.history
    arrays: dict[str, Any] = {
        "radius": float(state.radius),
        "inverse_strength": float(state.inverse_strength),
        "n_groups": state.origin.n_groups,
        "class_counts": state.class_counts,
        "history.prequential": np.array([history.total, history.mean]),
        **_named("history", history.columns()),
    }
    if state.memory is not None:
        arrays |= _named("memory", state.memory.arrays())
    for name in ("iterate", "units"):
        part = getattr(state, name)
        if part is not None:
            arrays |= _named(name, part._asdict())
    return arrays


def _named(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with the name of the part of a state that they belong to."""
    return {f"{part}.{name}": value for name, value in values.items()}


def _numpy(value: Any) -> Any:
    """Return an array of any library, or a number, as a NumPy array."""
    return (
        value
        if hasattr(value, "shape") and not isinstance(value, np.generic)
        else np.asarray(value)
    )


def _store_labels(values: Any, name: str, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Store names or classes: numbers as an array, times as integers with their dtype, text in the
    header.
    """
    if values is None:
        return
    labels = np.asarray(values)
    if labels.dtype.kind in "OUS":
        header[name] = labels.astype(np.str_).tolist()
        return
    if labels.dtype.kind in "mM":
        header[f"{name}_dtype"], labels = labels.dtype.str, labels.view(np.int64)
    arrays[name] = labels


def from_document(document: Document) -> Any:
    """Return the model in a document; ValueError where a value is not valid."""
    header = document.header
    name, state, parameters = (header.get(key) for key in ("class", "state", "parameters"))
    if not isinstance(name, str) or name not in CLASSES:
        raise ValueError(
            f"it holds a {printable(str(name), 60)}, which is none of {', '.join(CLASSES)}"
        )
    if state not in STATES or not isinstance(parameters, dict):
        raise ValueError("its header lacks the state or the parameters of the model")
    cls = getattr(import_module(f"forgetless.estimators.{CLASSES[name]}"), name)
    if set(parameters) != set(cls._get_param_names()):
        raise ValueError(f"its parameters are not those of {name}")
    model = cls(**{key: _decoded(value, key) for key, value in parameters.items()})
    fields = Fields(document.arrays)
    # Shapes follow from that of coef and from the parameters; an array too many is an error.
    loaded = _weights(fields, header, model)
    if state == "predict":
        loaded = loaded._replace(origin=loaded.origin._replace(frozen=True), radius=math.nan)
    else:
        loaded = _with_learning_parts(loaded, fields, model)
    model._state = model._planned(loaded)  # checks the parameters
    fields.end()
    return model


def _weights(fields: Fields, header: Mapping[str, Any], model: Any) -> State:
    """Return the state for prediction."""
    fixed = model._fixed()
    coef = fields.array("coef", "f")
    if coef.ndim not in (1, 2) or coef.size == 0:
        raise ValueError(f"coef has the shape {coef.shape}")
    # as a step leaves it: products round by the order of rows in memory
    coef = np.ascontiguousarray(coef.T).T
    d = coef.shape[-1]
    targets = coef.shape[:-1]
    # Python's float where none was learned: it leaves the dtype of predictions as it is
    intercept: Any = 0.0
    if fixed["fit_intercept"] or "intercept" in fields:
        intercept = fields.array("intercept", "f", targets)[()]
    classes = _labels(fields, header, "classes", targets)
    if model._has_classes != (classes is not None):
        raise ValueError("it has no classes, or classes of a regression")
    return State(
        Origin(
            fixed,
            n_features=d,
            feature_names=_labels(fields, header, "feature_names", (d,)),
            classes=classes,
        ),
        History([]),
        coef,
        intercept,
        fields.integer("n_tasks", 1),
        ranges=fields.array("ranges", "f", (2, d)) if "ranges" in fields else None,
        calibration=_calibration(fields) if "calibration.rows" in fields else None,
    )


def _calibration(fields: Fields) -> Calibration:
    losses = fields.array("calibration.losses", "f", INVERSES.shape)
    return Calibration(losses, fields.number("calibration.rows"))


def _labels(fields: Fields, header: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    """Return what ``_store_labels`` stored; None if that is nothing."""
    if name in header:
        labels = np.array(header[name], dtype=object if name == "feature_names" else np.str_)
        if labels.shape != shape or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"{name} are not {shape} strings")
        return labels
    if name not in fields:
        return None
    labels = fields.array(name, "biuf", shape)
    dtype = header.get(f"{name}_dtype")
    if dtype is None:
        return labels
    if np.dtype(dtype).kind not in "mM":
        raise ValueError(f"{name} are not times")
    return labels.view(dtype)


def _with_learning_parts(state: State, fields: Fields, model: Any) -> State:
    """Return a state with everything that learning needs."""
    fixed = state.origin.fixed
    d = len(state.weights)
    c = 1 if state.coef.ndim == 1 else len(state.coef)
    n_groups = fields.integer("n_groups", 1) if "n_groups" in fields else None
    # Which arrays a memory has depends on the rule of the model, which takes them out itself.
    memory = fields.part("memory.")
    iterate = None
    if fixed.get("average") is not None:
        weights = fields.array("iterate.weights", "f", state.weights.shape)
        iterate = Iterate(weights, fields.number("iterate.total"))
    counts = fields.array("class_counts", "f", (c,), low=0.0) if model._has_classes else None
    state = state._replace(
        origin=state.origin._replace(n_groups=n_groups),
        history=_history(fields),
        radius=fields.number("radius"),
        inverse_strength=fields.number("inverse_strength"),
        memory=model._read_memory(memory, d, c),
        iterate=iterate,
        units=_units(fields, d - state.fit_intercept) if fixed["standardize"] else None,
        class_counts=counts,
    )
    memory.end()
    return state


def _history(fields: Fields) -> History:
    # Values that are unknown for a task are NaN; nothing is computed from these columns.
    columns = [fields.array(f"history.{name}", "if", (None,), finite=False) for name in COLUMNS]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    total, mean = fields.array("history.prequential", "f", (2,), low=0.0).tolist()
    return History(rows, len(rows), total, mean)


def _units(fields: Fields, d: int) -> Units:
    names = ("mean", "spread", "scale")
    mean, spread, scale = (fields.array(f"units.{name}", "f", (d,)) for name in names)
    centred = bool(fields.array("units.centred", "b", ()))
    return Units(fields.number("units.total"), mean, spread, scale, centred)


def _is_note(value: Any) -> bool:
    """Return whether a stored parameter only describes a value that could not be stored."""
    return isinstance(value, dict) and "not_stored" in value


def _encoded(value: Any) -> Any:
    """Return a parameter as JSON can hold it; a note for one that it cannot."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "coefficients"):  # the result of optimal_schedule
        value = schedules.from_coefficients(value.coefficients)
    if isinstance(value, Named) and value.name in (*NAMES, "constant"):
        kind = value.name
        values = value.arguments
    elif isinstance(value, FIELDS):
        kind = type(value).__name__
        values = vars(value)
    else:
        return {"not_stored": repr(value)}
    plain = {
        name: _encoded(each) if isinstance(each, Filter) else np.asarray(each).tolist()
        for name, each in values.items()
    }
    return {"kind": kind, **plain}


def _decoded(value: Any, name: str) -> Any:
    if _is_note(value):
        warnings.warn(
            f"{name}={printable(str(value['not_stored']), 200)} could not be stored; set it again"
            f" with model.set_params({name}=...) before the model learns more",
            UserWarning,
            stacklevel=2,
        )
        return None
    if isinstance(value, list):
        raise ValueError(f"{name} is a list")
    if not isinstance(value, dict):
        return value
    makers = {kind.__name__: kind for kind in FIELDS}
    makers |= {kind: getattr(schedules, kind) for kind in (*NAMES, "constant")}
    kind = value.get("kind")
    if kind not in makers:
        raise ValueError(f"{name} must name one of {', '.join(makers)}, got {kind!r}")
    values = {
        key: _decoded(each, key) if isinstance(each, dict) else each
        for key, each in value.items()
        if key != "kind"
    }
    try:
        return makers[kind](**values)
    except TypeError as error:
        raise ValueError(f"{kind} has the wrong parameters ({error})") from None

"""Models as documents: parameters in the header, the state as arrays, each of which is validated
when it is read.

Rows that a model was trained on are not among them.
"""

import dataclasses
import math
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from forgetless._core.text import printable
from forgetless.estimators._units import Units
from forgetless.estimators.calibration import INVERSES, Calibration
from forgetless.estimators.history import COLUMNS, SIZE, History
from forgetless.estimators.low_rank import LowRankMemory
from forgetless.estimators.state import Iterate, Origin, State
from forgetless.io.document import Document, Fields, write
from forgetless.schedules.base import Auto
from forgetless.schedules.names import describe, from_plain

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

PLAIN = {"Auto": Auto, "LowRankMemory": LowRankMemory}
"""Classes of parameters that are stored as their fields."""

COUNTS = ("task", "n_rows")
"""Columns of a history that hold integers."""


def save(model: Any, path: Any, part: str) -> None:
    """Write a fitted model to a file: see ``StreamingRegressor.save``."""
    write(path, to_document(model, part))


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
    parameters = {name: _encoded(value) for name, value in model.get_params(deep=False).items()}
    # without its schedule the model must not be an automatic one
    if any(map(_is_note, parameters.values())):
        parameters |= {name: _encoded(value) for name, value in _without_schedule(model).items()}
    if predict:  # a function that cannot be stored is needed for learning only
        parameters = {
            name: None if _is_note(value) else value for name, value in parameters.items()
        }
    header = {"class": type(model).__name__, "state": STATES[predict], "parameters": parameters}
    arrays: dict[str, Any] = {"coef": state.coef, "n_tasks": state.n_tasks}
    if state.calibration is not None:
        arrays |= {
            "calibration.losses": state.calibration.losses,
            "calibration.rows": state.calibration.rows,
        }
    if type(state.intercept) is not float:
        arrays["intercept"] = state.intercept
    if state.ranges is not None:
        arrays["ranges"] = state.ranges
    for name in ("feature_names", "classes"):
        _store_labels(getattr(state.origin, name), name, header, arrays)
    if not predict:
        arrays |= _learning_arrays(state)
    return Document("model", header, {name: _numpy(value) for name, value in arrays.items()})


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
    }
    parts = {
        "history": {**history.columns(), "prequential": np.array([history.total, history.mean])}
    }
    if state.iterate is not None:
        parts["iterate"] = state.iterate._asdict()
    if state.memory is not None:
        parts["memory"] = state.memory.arrays()
    if state.units is not None:
        parts["units"] = state.units._asdict()
    if state.origin.n_groups is not None:
        arrays["n_groups"] = state.origin.n_groups
    if state.class_counts is not None:
        arrays["class_counts"] = state.class_counts
    return arrays | {
        f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()
    }


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
    loaded = _weights(fields, header, model)
    if state == "predict":
        loaded = loaded._replace(origin=loaded.origin._replace(frozen=True), radius=math.nan)
        model._state = model._planned(loaded)  # checks the parameters
    else:
        model._state = model._planned(_with_learning_parts(loaded, fields, model))
    fields.end()
    return model


def _weights(fields: Fields, header: Mapping[str, Any], model: Any) -> State:
    """Return the state for prediction."""
    fixed = model._fixed()
    if not isinstance(fixed["fit_intercept"], bool):
        raise ValueError("fit_intercept is not a boolean")
    coef = fields.array("coef", "f")
    if coef.ndim not in (1, 2) or coef.size == 0:
        raise ValueError(f"coef has the shape {coef.shape}")
    # as a step leaves it: products round by the order of rows in memory
    coef = np.ascontiguousarray(coef.T).T
    d, targets = coef.shape[-1], coef.shape[:-1]
    # Python's float where none was learned: it leaves the dtype of predictions as it is
    intercept: Any = 0.0
    if "intercept" in fields:
        intercept = fields.array("intercept", "f", targets)
        intercept = intercept if intercept.ndim else intercept[()]
    elif fixed["fit_intercept"]:
        raise ValueError("intercept is missing")
    if not fixed["fit_intercept"] and np.any(intercept):
        raise ValueError("intercept is not zero, although fit_intercept is False")
    names = _labels(fields, header, "feature_names", d) if "feature_names" in header else None
    classes = _classes(fields, header, targets) if model._has_classes else None
    origin = Origin(fixed, n_features=d, feature_names=names, classes=classes)
    ranges = fields.array("ranges", "f", (2, d)) if "ranges" in fields else None
    n_tasks = fields.integer("n_tasks", 1)
    calibration = (
        _calibration(fields.part("calibration.")) if "calibration.rows" in fields else None
    )
    return State(
        origin,
        History([]),
        coef,
        intercept,
        n_tasks,
        ranges=ranges,
        calibration=calibration,
    )


def _calibration(fields: Fields) -> Calibration:
    losses = fields.array("losses", "f", INVERSES.shape, low=0.0)
    calibration = Calibration(losses, fields.number("rows"))
    fields.end()
    return calibration


def _labels(fields: Fields, header: Mapping[str, Any], name: str, count: int) -> Any:
    if name in header:
        labels = header[name]
        if (
            not isinstance(labels, list)
            or not all(isinstance(label, str) for label in labels)
            or len(labels) != count
        ):
            raise ValueError(f"{name} are not {count} strings")
        return np.array(labels, dtype=object if name == "feature_names" else np.str_)
    labels = fields.array(name, "biuf", (count,))
    dtype = header.get(f"{name}_dtype")
    if dtype is None:
        return labels
    if labels.dtype != np.int64 or np.dtype(dtype).kind not in "mM":
        raise ValueError(f"{name} are not times")
    return labels.view(np.dtype(dtype))


def _classes(fields: Fields, header: Mapping[str, Any], targets: tuple[int, ...]) -> Any:
    classes = _labels(fields, header, "classes", targets[0] if targets else -1)
    if len(np.unique(classes)) < len(classes) or np.any(np.sort(classes) != classes):
        raise ValueError("classes must be different and sorted")
    return classes


def _with_learning_parts(state: State, fields: Fields, model: Any) -> State:
    """Return a state with everything that learning needs, each part validated."""
    fixed, n_tasks = state.origin.fixed, state.n_tasks
    d, c = len(state.weights), 1 if state.coef.ndim == 1 else len(state.coef)
    n_groups = fields.integer("n_groups", 1) if "n_groups" in fields else None
    memory = fields.part("memory.")
    state = state._replace(
        origin=state.origin._replace(n_groups=n_groups),
        history=_history(fields.part("history."), n_tasks),
        radius=fields.number("radius"),
        inverse_strength=fields.number("inverse_strength"),
        memory=model._read_memory(memory, d, c),
        iterate=(
            None
            if fixed.get("average") is None
            else _iterate(fields.part("iterate."), state.weights, n_tasks)
        ),
        units=(
            _units(fields.part("units."), d, state.fit_intercept) if fixed["standardize"] else None
        ),
        class_counts=(
            fields.array("class_counts", "f", (c,), low=0.0) if model._has_classes else None
        ),
    )
    memory.end()
    return state


def _history(fields: Fields, n_tasks: int) -> History:
    task = fields.array("task", "i", (None,), low=1, high=n_tasks)
    columns = {"task": task, "n_rows": fields.array("n_rows", "i", task.shape, low=0)}
    # Values that are unknown for a task are NaN; nothing is computed from these columns.
    columns |= {
        name: fields.array(name, "f", task.shape, finite=False)
        for name in COLUMNS
        if name not in COUNTS
    }
    if len(task) > SIZE:
        raise ValueError(f"history.task has {len(task)} tasks, more than {SIZE}")
    total, mean = fields.array("prequential", "f", (2,), low=0.0).tolist()
    fields.end()
    rows = list(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))
    return History(rows, len(rows), total, mean)


def _iterate(fields: Fields, average: Any, n_tasks: int) -> Iterate:
    weights = fields.array("weights", "f", average.shape)
    if weights.dtype != average.dtype:
        raise ValueError(f"iterate has the dtype {weights.dtype}, the weights {average.dtype}")
    # A sum of n powers of numbers up to 1, the last of which is 1.
    total = float(fields.array("total", "f", (), low=1.0, high=n_tasks * (1 + 1e-9)))
    fields.end()
    return Iterate(weights, total)


def _units(fields: Fields, n_weights: int, intercept: bool) -> Units:
    d, total = n_weights - intercept, fields.number("total")
    mean = fields.array("mean", "f", (d,)).astype(np.float64)
    spread, scale = (
        fields.array(name, "f", (d,), low=0.0).astype(np.float64) for name in ("spread", "scale")
    )
    centred = bool(fields.array("centred", "b", ()))
    fields.end()
    if not total > 0 or (centred and not intercept):
        raise ValueError(
            "units contradict the model: without rows, or centred without an intercept"
        )
    return Units(total, mean, spread, scale, centred)


def _is_note(value: Any) -> bool:
    """Return whether a stored parameter only describes a value that could not be stored."""
    return isinstance(value, dict) and "not_stored" in value


def _encoded(value: Any) -> Any:
    """Return a parameter as JSON can hold it; a note for one that it cannot."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Auto | LowRankMemory):
        return {"kind": type(value).__name__, **dataclasses.asdict(value)}
    try:
        return describe(value)
    except TypeError:
        return {"not_stored": repr(value)}


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
    if value.get("kind") in PLAIN:
        return PLAIN[value["kind"]](**{key: each for key, each in value.items() if key != "kind"})
    return from_plain(value)

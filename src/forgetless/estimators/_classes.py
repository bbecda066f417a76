"""Classes of a stream, some of which come later: one not met yet has weights of zero, as if it had been declared."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from forgetless._core import validate
from forgetless._core.arrays import Array, namespace_of, to_numpy, zeros
from forgetless.estimators.state import State

COUNTS = "class_counts_"
"""Where a state keeps the number of rows of every class."""


def labels_of(y: Any) -> Any:
    """Return labels as a NumPy array."""
    return to_numpy(y) if is_array_api_obj(y) else np.asarray(y)


def with_classes(state: State, labels: Any) -> State:
    """Return the state of a stream that also knows the classes among ``labels``.

    Targets of a class never met are 0 at every row, so its weights would be zero had it been declared at first.
    """
    found, known = np.unique(labels), state.origin.classes
    if known is None:
        memory = {**state.memory, COUNTS: np.zeros(len(found))}
        return state._replace(origin=state.origin._replace(classes=found), memory=memory)
    if len(np.setdiff1d(found, known)) == 0:
        return state
    if (found.dtype.kind in "US") != (known.dtype.kind in "US"):
        raise ValueError(
            f"labels {found.tolist()[:5]} are of another kind than the classes {known.tolist()[:5]}; convert them"
        )
    classes = np.union1d(known, found)
    place = np.where(np.isin(classes, known), np.searchsorted(known, classes), -1)
    changed: dict[str, Any] = {"origin": state.origin._replace(classes=classes)}
    changed["memory"] = {**state.memory, COUNTS: _placed(state.memory[COUNTS], place)}
    if state.coef is not None:
        changed["coef"] = _placed(state.coef, place)
        if state.fit_intercept:
            changed["intercept"] = _placed(state.intercept, place)
        else:
            changed["intercept"] = zeros((len(classes),), state.coef)
    if state.iterate is not None:
        changed["iterate"] = state.iterate._replace(weights=_placed(state.iterate.weights.T, place).T)
    if state.advisor is not None:
        xp, few = namespace_of(state.advisor.weights), state.advisor
        weights = xp.permute_dims(_placed(xp.permute_dims(few.weights, (2, 0, 1)), place), (1, 2, 0))
        changed["advisor"] = few._replace(weights=weights, answers=_placed(few.answers.T, place).T)
    if state.holdout is not None and state.holdout.y is not None:
        changed["holdout"] = state.holdout._replace(y=_placed(state.holdout.y.T, place).T)
    return state._replace(**changed)


def _placed(array: Array, place: Any) -> Array:
    """Return lines of an array in another order, with lines of zeros where ``place`` is -1."""
    empty = zeros((1, *array.shape[1:]), array)
    return namespace_of(array).concat([array[at : at + 1, ...] if at >= 0 else empty for at in place.tolist()], axis=0)


def counted(state: State, labels: Any) -> State:
    """Return the state that has counted the rows of a task."""
    classes = state.origin.classes
    more = np.bincount(np.searchsorted(classes, labels), minlength=len(classes)).astype(np.float64)
    return state._replace(memory={**state.memory, COUNTS: state.memory[COUNTS] + more})


def check_class_weight(class_weight: Any) -> None:
    """Refuse what is neither None, ``"balanced"`` nor a mapping of classes to weights."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict of weights, got {class_weight!r}")
    for label, weight in class_weight.items():
        validate.number(f"class_weight[{label!r}]", weight, "use 1 for a class like any other")


def weighed(state: State, labels: Any, class_weight: Any, sample_weight: Any) -> Any:
    """Return the weights of the rows of a task, those of their classes included."""
    if class_weight is None:
        return sample_weight
    classes, counts = state.origin.classes, state.memory[COUNTS]
    if isinstance(class_weight, str):
        met = np.maximum(counts, 1.0)
        weights = counts.sum() / np.count_nonzero(counts) / met
    else:
        weights = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    rows = weights[np.searchsorted(classes, labels)]
    if sample_weight is None:
        return rows
    given = np.asarray(labels_of(sample_weight), dtype=np.float64)
    if given.ndim and given.shape != rows.shape:
        raise ValueError(f"sample_weight must have one value per row, shape {rows.shape}, got {given.shape}")
    return rows * given

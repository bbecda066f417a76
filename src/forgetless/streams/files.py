"""Models in files: versioned ``.npz`` archives without pickles, hashed, written atomically, the previous one kept."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from forgetless._base.arrays import to_numpy
from forgetless._base.files import replace_file
from forgetless.schedules.names import describe, from_plain
from forgetless.solvers.rows import is_sparse
from forgetless.streams._monitor import COLUMNS, History, Holdout
from forgetless.streams._replay import Advisor, Window

FORMAT = "forgetless-model"


VERSION = 1


def save(model: Any, path: str | Path) -> None:
    """Write a fitted streaming model to ``path``.

    The file appears whole or not at all: it is written beside, synced to disk and renamed. A model that was there
    before is kept as ``path`` + ``.previous``. Weights, counters, history and held-out rows are stored as arrays,
    parameters as JSON; a schedule that is a function of your own cannot be stored and must be given again to ``load``.
    Arrays of other libraries are stored as NumPy's, and loaded as such.

    Parameters
    ----------
    model : fitted streaming estimator
    path : str or Path

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from forgetless import ContinualRidge
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> ContinualRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).save(path)
    >>> ContinualRidge.load(path).coef_.tolist()
    [1.0]
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    path = Path(path)
    arrays = _arrays_of(model)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": type(model).__name__,
        "parameters": {name: _encoded(value, name) for name, value in model.get_params(deep=False).items()},
        "counters": {
            name: value for name, value in vars(model).items() if name.endswith("_") and type(value) in (int, float)
        },
        "totals": [model._history.total, model._history.squares],
        "groups": vars(model).get("_n_groups"),
        "holdout_seed": None if model._holdout is None else model._holdout.seed,
    }
    arrays["header"] = np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
    arrays["sha256"] = np.frombuffer(_digest(arrays), dtype=np.uint8)
    buffer = io.BytesIO()
    assert not any(array.dtype.hasobject for array in arrays.values())  # savez(allow_pickle=False) came after NumPy 2.0
    np.savez(buffer, **arrays)
    replace_file(path, buffer.getvalue())


def load(cls: Any, path: str | Path, parameters: dict[str, Any]) -> Any:
    """Return the model of class ``cls`` stored at ``path``; ``parameters`` replace stored ones."""
    path = Path(path)
    header, arrays = _read(path)
    if header["class"] != cls.__name__:
        raise ValueError(f"{path.name} holds a {header['class']}, not a {cls.__name__}; use {header['class']}.load")
    stored: dict[str, Any] = {}
    unknown = set(parameters) - set(header["parameters"])
    if unknown:
        raise TypeError(f"{cls.__name__} has no parameter {', '.join(sorted(unknown))}")
    for name, value in header["parameters"].items():
        stored[name] = parameters[name] if name in parameters else _decoded(value, name, path)
    model = cls(**stored)
    model.__dict__.update(header["counters"])
    for name, value in arrays.items():
        if name.startswith("state."):
            setattr(model, name.removeprefix("state."), value if value.ndim else value[()])
    model._target_shape = model.coef_.shape[:-1]
    if header["groups"] is not None:
        model._n_groups = header["groups"]
    table = {name: arrays[f"history.{name}"] for name in COLUMNS}
    model._history = History.from_arrays(model.history_size, table, *header["totals"])
    model._holdout = None
    if header["holdout_seed"] is not None:
        model._holdout = Holdout(model.holdout, model.holdout_size, header["holdout_seed"])
        model._holdout.parts = _held_parts(arrays)
    if "advisor.numbers" in arrays:
        model._advisor = _advisor(arrays)
    model._fixed = {name: header["parameters"][name] for name in model._fixed_names()}
    model._check_parameters()
    return model


def stored_class(path: str | Path) -> str:
    """Return the name of the class of the model stored at ``path``."""
    return str(_read(Path(path))[0]["class"])


def _arrays_of(model: Any) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name, value in vars(model).items():
        if not name.endswith("_") or type(value) in (int, float):
            continue
        array = to_numpy(value) if is_array_api_obj(value) else np.asarray(value)
        arrays[f"state.{name}"] = array.astype(np.str_) if array.dtype.kind == "O" else array
    for name, column in model._history.to_arrays().items():
        arrays[f"history.{name}"] = column
    if model._holdout is not None:
        for i, (task, X, y) in enumerate(model._holdout.parts):
            arrays[f"held.{i}.task"], arrays[f"held.{i}.y"] = np.array(task), to_numpy(y)
            _put_matrix(arrays, f"held.{i}.", X)
    if vars(model).get("_advisor") is not None:
        _put_advisor(arrays, model._advisor)
    return arrays


def _put_matrix(arrays: dict[str, Any], at: str, X: Any) -> None:
    if is_sparse(X):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[at + part] = np.asarray(getattr(X, part))
    else:
        arrays[at + "X"] = to_numpy(X)


def _matrix(arrays: dict[str, Any], at: str) -> Any:
    if at + "X" in arrays:
        return arrays[at + "X"]
    from scipy import sparse

    triple = arrays[at + "data"], arrays[at + "indices"], arrays[at + "indptr"]
    return sparse.csr_array(triple, shape=tuple(arrays[at + "shape"]))


def _put_advisor(arrays: dict[str, Any], advisor: Advisor) -> None:
    arrays["advisor.numbers"] = np.array([advisor.coefficient, advisor.pending])
    window = advisor.window
    if window is None:
        return
    for name in ("anchor", "gram", "errors", "middle"):
        if getattr(window, name) is not None:
            arrays[f"advisor.{name}"] = getattr(window, name)
    arrays["advisor.weights"], arrays["advisor.half"] = np.array(window.weights), np.array(window.half)
    for i, (X, y) in enumerate(zip(window.rows, window.targets, strict=True)):
        arrays[f"advisor.{i}.y"] = y
        _put_matrix(arrays, f"advisor.{i}.", X)


def _advisor(arrays: dict[str, Any]) -> Advisor:
    coefficient, pending = arrays["advisor.numbers"].tolist()
    if "advisor.anchor" not in arrays:
        return Advisor(None, coefficient, int(pending))
    weights = arrays["advisor.weights"].tolist()
    window = Window(
        arrays["advisor.anchor"],
        [_matrix(arrays, f"advisor.{i}.") for i in range(len(weights))],
        [arrays[f"advisor.{i}.y"] for i in range(len(weights))],
        weights,
        arrays["advisor.gram"],
        arrays["advisor.errors"],
        arrays.get("advisor.middle"),
        int(arrays["advisor.half"]),
    )
    return Advisor(window, coefficient, int(pending))


def _held_parts(arrays: dict[str, Any]) -> list[tuple[int, Any, Any]]:
    parts: list[tuple[int, Any, Any]] = []
    while f"held.{len(parts)}.task" in arrays:
        at = f"held.{len(parts)}."
        parts.append((int(arrays[at + "task"]), _matrix(arrays, at), arrays[at + "y"]))
    return parts


def _encoded(value: Any, name: str) -> Any:
    """Return a parameter as JSON can hold it; what it cannot becomes a note of what was there."""
    if name == "random_state" and not isinstance(value, int):
        return None  # the seed it gave is stored with the held-out rows
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        return describe(value)
    except TypeError:
        return {"not_stored": repr(value)}


def _decoded(value: Any, name: str, path: Path) -> Any:
    if not isinstance(value, dict):
        return value
    if "not_stored" in value:
        raise ValueError(
            f"{path.name} was saved with {name}={value['not_stored']}, which cannot be stored; "
            f"give it again: load(path, {name}=...)"
        )
    return from_plain(value)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {path}")
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive can make zipfile and NumPy raise almost anything
        raise ValueError(
            f"{path.name} is damaged or not a model file ({type(error).__name__}); "
            f"the model before it may be in {path.name}.previous"
        ) from error
    try:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise KeyError(FORMAT)
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ValueError(f"{path.name} is not a forgetless model; models are written by model.save(path)") from None
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path.name} has format version {header.get('version')}, this forgetless reads {VERSION}; "
            "upgrade forgetless"
        )
    stored = arrays.pop("sha256", None)
    if stored is None or stored.tobytes() != _digest(arrays):
        raise ValueError(
            f"{path.name} is damaged: its contents do not match their hash; use {path.name}.previous if there is one"
        )
    return header, arrays


def _digest(arrays: dict[str, Any]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{arrays[name].shape}|".encode())
        digest.update(array.tobytes())
    return digest.digest()

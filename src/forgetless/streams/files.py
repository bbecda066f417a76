"""Models in files: versioned ``.npz`` archives without pickles, hashed, written atomically, the previous one kept."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._base.files import replace_file
from forgetless.schedules.plain import describe, from_plain
from forgetless.streams.state import State

FORMAT = "forgetless-model"


VERSION = 2


STATE = "state."
"""How the names of the arrays of a state begin."""


def save(state: State, kind: str, parameters: Mapping[str, Any], path: str | Path) -> None:
    """Write a fitted streaming model to ``path``: what ``model.save(path)`` does.

    The file appears whole or not at all: it is written beside, synced to disk and renamed. A model that was there
    before is kept as ``path`` + ``.previous``. The state is stored as arrays, parameters as JSON; a schedule that is a
    function of your own cannot be stored and must be given again to ``load``. Arrays of other libraries are stored as
    NumPy's, and loaded as such.

    Parameters
    ----------
    state : State
    kind : str
        Name of the class of the model.
    parameters : mapping
        Those of its constructor.
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
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": kind,
        "parameters": {name: _encoded(value, name) for name, value in parameters.items()},
    }
    arrays = {STATE + name: array for name, array in state.to_arrays().items()}
    arrays["header"] = np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
    arrays["sha256"] = np.frombuffer(_digest(arrays), dtype=np.uint8)
    buffer = io.BytesIO()
    assert not any(array.dtype.hasobject for array in arrays.values())  # savez(allow_pickle=False) came after NumPy 2.0
    np.savez(buffer, **arrays)
    replace_file(Path(path), buffer.getvalue(), keep_previous=True)


def load(kind: str, path: str | Path, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], State]:
    """Return parameters and state of the model of class ``kind`` at ``path``; ``parameters`` replace stored ones."""
    path = Path(path)
    header, arrays = _read(path)
    if header["class"] != kind:
        raise ValueError(f"{path.name} holds a {header['class']}, not a {kind}; use {header['class']}.load")
    unknown = set(parameters) - set(header["parameters"])
    if unknown:
        raise TypeError(f"{kind} has no parameter {', '.join(sorted(unknown))}")
    stored = {
        name: parameters[name] if name in parameters else _decoded(value, name, path)
        for name, value in header["parameters"].items()
    }
    state = {name.removeprefix(STATE): array for name, array in arrays.items() if name.startswith(STATE)}
    return stored, State.from_arrays(state)


def stored_class(path: str | Path) -> str:
    """Return the name of the class of the model stored at ``path``."""
    return str(_read(Path(path))[0]["class"])


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

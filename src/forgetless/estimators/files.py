"""Models in files: versioned ``.npz`` archives without pickles, hashed, written atomically, the previous one kept."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from forgetless.errors import FileError
from forgetless.estimators import _stored
from forgetless.estimators.state import State
from forgetless.io.archive import pack, refusing, unpack
from forgetless.io.atomic import replace_file
from forgetless.reporting.text import printable
from forgetless.schedules.plain import describe, from_plain

FORMAT = "forgetless-model"


VERSION = 6


STATE = "state."
"""How the names of the arrays of a state begin."""


STATES = ("learn", "predict")


KINDS = {
    "ContinualGD": "forgetless.estimators.budget",
    "ContinualRidge": "forgetless.estimators.ridge",
    "ContinualRidgeClassifier": "forgetless.estimators.classifier",
    "JointRidge": "forgetless.estimators.baselines",
    "RecursiveLeastSquares": "forgetless.estimators.baselines",
}
"""Where the classes of models are."""

AVERAGING = ("ContinualGD", "ContinualRidge", "ContinualRidgeClassifier")
"""Those that may answer with an average."""

REMEMBERING = ("ContinualRidge", "ContinualRidgeClassifier")
"""Those that may remember directions."""


def save(
    state: State,
    kind: str,
    parameters: Mapping[str, Any],
    path: str | Path,
    part: str = "learn",
    *,
    encoder: Mapping[str, Any] | None = None,
    table: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted streaming model to ``path``: what ``model.save(path)`` does.

    The file appears whole or not at all: it is written beside, synced to disk and renamed. A model that was there
    before is kept as ``path`` + ``.previous``. The state is stored as arrays, parameters as JSON; a schedule that is a
    function of your own cannot be stored and must be given again to ``load``. Arrays of other libraries are stored as
    NumPy's, and loaded as such.

    Rows that the model was trained on are not stored. Directions that it remembers are, as combinations of all rows
    seen (of a single row there is only one), and so are the random sums of rows that ``schedule="auto"`` keeps.
    Held-out rows are, where ``holdout`` asked for them.

    Parameters
    ----------
    state : State
    kind : str
        Name of the class of the model.
    parameters : mapping
        Those of its constructor.
    path : str or Path
    part : {"learn", "predict"}
        All that is needed to go on learning; or the weights alone, of which a model can only predict.
    encoder : mapping, optional
        The encoder of its tables, as JSON can hold it.
    table : mapping, optional
        What the tables are about: see ``TaskPipeline.table_``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from forgetless import ContinualRidge
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> ContinualRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).save(path)
    >>> ContinualRidge.load(path).coef_.tolist()
    [1.0]
    """
    if part not in STATES:
        raise ValueError(f"state must be one of {', '.join(STATES)}, got {part!r}")
    predict = part == "predict" or state.origin.frozen
    encoded = {name: _encoded(value, name) for name, value in parameters.items()}
    if predict:  # what cannot be stored is needed for learning only
        encoded = {name: None if is_note(value) else value for name, value in encoded.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": kind,
        "state": STATES[predict],
        "parameters": encoded,
        **({} if encoder is None else {"encoder": encoder}),
        **({} if table is None else {"table": table}),
    }
    arrays = {STATE + name: array for name, array in _stored.to_arrays(state, predict=predict).items()}
    # Whoever writes the weights alone does not want the rest beside them.
    replace_file(Path(path), pack(header, arrays))


def load(
    cls: Any, path: str | Path, parameters: Mapping[str, Any], *, encoded: bool = False
) -> tuple[dict[str, Any], State]:
    """Return parameters and state of the model of class ``cls`` at ``path``; ``parameters`` replace stored ones.

    Models that were saved with an encoder are refused unless ``encoded``, since alone they would misread tables.
    """
    path = Path(path)
    header, arrays = read(path)
    kind, known = header["class"], header["parameters"]
    if "encoder" in header and not encoded:
        raise FileError(f"{path.name} holds a model with the encoder of its tables; use forgetless.load_model")
    if kind != cls.__name__:
        kind = printable(kind, 60)
        raise FileError(f"{path.name} holds a {kind}, not a {cls.__name__}; use {kind}.load")
    unknown = set(parameters) - set(known)
    if unknown:
        raise TypeError(f"{cls.__name__} has no parameter {', '.join(sorted(unknown))}")
    with refusing(path, "model"):
        stored = {
            name: parameters[name] if name in parameters else _decoded(value, name, path)
            for name, value in known.items()
        }
        state = _stored.from_arrays(arrays, cls._remembered, labels=cls._has_classes)
    if state.origin.frozen != (header.get("state") == "predict"):
        raise FileError(f"{path.name} is damaged or not a model file (arrays of its state are missing)")
    return stored, state


def load_any(path: str | Path) -> Any:
    """Return the model at ``path``, of whichever class of this package it is, without its encoder if it has one.

    A schedule that could not be stored is left out: the model predicts, and learns by its other parameters.
    """
    return load_parts(path)[1]


def load_parts(path: str | Path) -> tuple[dict[str, Any], Any]:
    """Return the header of a model file, with what is stored of its encoder, and the model."""
    path = Path(path)
    header, _ = read(path)
    if header["class"] not in KINDS:
        raise FileError(f"{path.name} holds a {printable(header['class'], 60)}, which is none of {', '.join(KINDS)}")
    kind = getattr(import_module(KINDS[header["class"]]), header["class"])
    noted = {name: None for name, value in header["parameters"].items() if is_note(value)}
    with refusing(path, "model"):
        return header, kind._loaded(path, noted, encoded=True)


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header of a model file and the arrays of its state, which are not checked yet but for their hash."""
    path = Path(path)
    header, arrays = unpack(path, FORMAT, "model", tuple(range(2, VERSION + 1)))
    with refusing(path, "model"):
        if not isinstance(header.get("class"), str) or not isinstance(header.get("parameters"), dict):
            raise ValueError("it does not say of which class the model is")
        if not all(name.startswith(STATE) for name in arrays):
            raise ValueError("it holds arrays that do not belong to a model")
        found = {name.removeprefix(STATE): array for name, array in arrays.items()}
        found = _stored.upgraded(found) if header["version"] == 2 else found
        if header["version"] < 4 and header["class"] in AVERAGING:
            header, found = _with(header, {"average": None}), _stored.with_average(found)
        if header["version"] < 5 and header["class"] in REMEMBERING:
            header, found = (
                _with(header, _stored.DIRECTIONS | {"forget": 0.0, "objective": "seen"}),
                _stored.with_directions(found),
            )
            if header["class"] == "ContinualRidgeClassifier":
                header = _with(header, {"class_weight": None})
        if header["version"] < 6:
            header, found = _with(header, {"standardize": False}), _stored.with_units(found)
        return header, found


def _with(header: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header of an older file as if it had been written with the parameters that it does not know."""
    return {**header, "parameters": {**header["parameters"], **parameters}}


def held_rows(arrays: Mapping[str, Any]) -> int:
    """Return how many rows of the user's data are among the arrays of a state."""
    return int(np.sum(arrays["holdout.counts"])) if "holdout.counts" in arrays else 0


def is_note(value: Any) -> bool:
    """Return whether a stored parameter only says what could not be stored."""
    return isinstance(value, dict) and "not_stored" in value


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
    if is_note(value):
        name, was = printable(name, 60), printable(str(value["not_stored"]), 200)
        raise FileError(
            f"{path.name} was saved with {name}={was}, which cannot be stored; give it again: load(path, {name}=...)"
        )
    if isinstance(value, list):
        raise ValueError(f"{name} is a list")
    return from_plain(value) if isinstance(value, dict) else value

"""A state as arrays, for files, and back: every array is checked against what the model will do with it.

Rows that the model was trained on are not among them. Those held out are: they were asked for, with ``holdout``.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless.estimators._candidates import SKETCH, STRENGTHS, Candidates
from forgetless.estimators._lost import PLACES, Lost
from forgetless.estimators._units import Units
from forgetless.estimators.directions import Directions
from forgetless.estimators.monitor import COLUMNS, History, Holdout
from forgetless.estimators.state import Iterate, Origin, State
from forgetless.io.archive import Fields, from_json
from forgetless.solvers.rows import check_sparse, is_sparse

DIRECTIONS = {"rank": 0, "metric": "isotropic", "precision": "float16"}
"""What models of older files remember beside the weights: nothing."""

COUNTS = ("task", "n_rows")
"""Columns of a history that hold whole numbers."""


def to_arrays(state: State, *, predict: bool = False) -> dict[str, Any]:
    """Return a state as NumPy arrays; with ``predict`` the weights alone, and what belongs to them.

    The plan is not among them, which follows from the parameters.
    """
    state = state.shown if predict else state  # in the user's units, which needs no others beside it
    origin = state.origin
    found: dict[str, Any] = {"coef": to_numpy(state.coef), "n_tasks": np.array(state.n_tasks)}
    if type(state.intercept) is not float:
        found["intercept"] = to_numpy(state.intercept) if hasattr(state.intercept, "ndim") else state.intercept
    for name in ("n_features", "feature_names", "classes"):
        value = getattr(origin, name)
        if value is not None:
            array = np.asarray(value)
            found[name] = array.astype(np.str_) if array.dtype.kind == "O" else array
    found["fixed"] = np.frombuffer(json.dumps(origin.fixed, default=_plain, sort_keys=True).encode(), dtype=np.uint8)
    if predict:
        return {name: np.asarray(value) for name, value in found.items()}
    found["radius"] = np.array(state.radius)
    if state.iterate is not None:
        found |= {"iterate": to_numpy(state.iterate.weights), "iterate_total": np.array(state.iterate.total)}
    if origin.n_groups is not None:
        found["n_groups"] = np.array(origin.n_groups)
    history = state.history
    parts: dict[str, Mapping[str, Any]] = {
        "history": {**history.columns(), "prequential": np.array([history.total, history.mean])},
        "memory": state.memory,
    }
    if state.holdout is not None:
        parts["holdout"] = _held(state.holdout)
    if state.directions is not None:
        parts["directions"] = _remembered(state.directions.mixed())
    if state.units is not None:
        parts["units"] = {name: np.asarray(value) for name, value in state.units._asdict().items()}
    if state.advisor is not None:
        parts["advisor"] = {name: _as_numpy(value) for name, value in state.advisor._asdict().items()}
    found |= {f"{part}.{name}": value for part, held in parts.items() for name, value in held.items()}
    return {name: np.asarray(value) for name, value in found.items()}


def _held(holdout: Holdout) -> dict[str, Any]:
    arrays: dict[str, Any] = {"seed": np.array(holdout.seed), "tasks": holdout.tasks, "counts": holdout.counts}
    if holdout.X is None:
        return arrays
    X = holdout.X
    if is_sparse(X):
        return arrays | {"y": holdout.y} | {part: getattr(X, part) for part in ("data", "indices", "indptr")}
    return arrays | {"y": holdout.y, "X": to_numpy(X)}


def _remembered(directions: Directions) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "units": to_numpy(directions.units),
        "sizes": directions.sizes,
        "numbers": np.array([directions.cut, directions.seen, directions.unit]),
    }
    if directions.diagonal is not None:
        arrays["diagonal"] = to_numpy(directions.diagonal)
    if directions.lost is not None:
        arrays |= {"lost": directions.lost.sketch, "shared": np.array([directions.lost.shared, directions.lost.met])}
    return arrays


def from_arrays(arrays: Mapping[str, Any], memory: Mapping[str, str], *, labels: bool = False) -> State:
    """Return the state that ``to_arrays`` described; ValueError where an array is not what it must be.

    Parameters
    ----------
    arrays : mapping
    memory : mapping of names to str
        What a baseline remembers: "dd" is an array of shape (d, d), d being the number of weights and c of targets.
    labels : bool
        Whether it is that of a classifier.
    """
    fields = Fields(arrays)
    fixed = from_json(fields.array("fixed", "u", (None,)).tobytes())
    if not isinstance(fixed, dict) or not isinstance(fixed.get("fit_intercept"), bool | int):
        raise ValueError("fixed parameters are not those of a model")
    coef = fields.array("coef", "f", None)
    if coef.ndim not in (1, 2) or coef.size == 0:
        raise ValueError(f"coef has the shape {coef.shape}")
    coef = np.ascontiguousarray(coef.T).T  # as a step leaves it: products round by how rows lie in memory
    d, targets = coef.shape[-1], coef.shape[:-1]
    intercept: Any = 0.0  # Python's where none was learned: it leaves the precision of predictions as it is
    if "intercept" in fields:
        intercept = fields.array("intercept", "f", targets)
        intercept = intercept if intercept.ndim else intercept[()]
    elif fixed["fit_intercept"]:
        raise ValueError("intercept is missing")
    origin = Origin(
        fixed,
        fields.integer("n_groups", 1) if "n_groups" in fields else None,
        fields.integer("n_features", d, d),
        fields.array("feature_names", "U", (d,)) if "feature_names" in fields else None,
        _classes(fields, targets) if labels else None,
    )
    n_tasks = fields.integer("n_tasks", 1)
    if len(fields) == 0:
        frozen = origin._replace(frozen=True)
        return State(frozen, History(_size(fixed, "history_size", 0), []), None, coef, intercept, n_tasks, math.nan)
    weights = {"d": d + bool(fixed["fit_intercept"]), "c": targets[0] if targets else 1}
    held, remembered, advised = fields.part("holdout."), fields.part("memory."), fields.part("advisor.")
    kept, measured = fields.part("directions."), fields.part("units.")
    if bool(fixed.get("standardize")) != bool(len(measured)):
        raise ValueError(f"standardize is {fixed.get('standardize')!r}, which its units contradict")
    if (bool(fixed.get("rank")) or fixed.get("metric") == "diagonal") != bool(len(kept)):
        raise ValueError("rank and metric contradict what is remembered")
    if bool(fixed.get("holdout")) != bool(len(held)):
        raise ValueError(f"holdout is {fixed.get('holdout')!r}, which its held-out rows contradict")
    state = State(
        origin,
        _history(fields.part("history."), _size(fixed, "history_size", 0), n_tasks),
        _holdout(held, fixed, d, weights["c"], n_tasks, coef.dtype) if len(held) else None,
        coef,
        intercept,
        n_tasks,
        fields.number("radius"),
        _advisor(advised, weights, coef.dtype) if len(advised) else None,
        _memory(remembered, memory, weights),
        iterate=None if fixed.get("average") is None else _iterate(fields, weights, n_tasks, coef.dtype),
        directions=_directions(kept, fixed, weights["d"]) if len(kept) else None,
        units=_units(measured, d, bool(fixed["fit_intercept"])) if len(measured) else None,
    )
    fields.end()
    return state


def _iterate(fields: Fields, sizes: Mapping[str, int], n_tasks: int, dtype: Any) -> Iterate:
    weights = fields.array("iterate", "f", (sizes["d"], sizes["c"]))
    if weights.dtype != dtype:
        raise ValueError(f"iterate has the dtype {weights.dtype}, the weights {dtype}")
    # A sum of n powers of numbers up to 1, the last of which is 1.
    return Iterate(weights, float(fields.array("iterate_total", "f", (), low=1.0, high=n_tasks * (1 + 1e-9))))


def _directions(fields: Fields, fixed: Mapping[str, Any], d: int) -> Directions:
    rank = _size(fixed, "rank", 0)
    units = fields.array("units", "f", (None, d), low=-1.0, high=1.0, half=True)
    if str(units.dtype) != fixed.get("precision") or len(units) > rank:
        raise ValueError(f"directions.units are {len(units)} rows of {units.dtype}, which rank or precision contradict")
    sizes = fields.array("sizes", "f", (len(units),), low=0.0).astype(np.float64)
    cut, seen, unit = fields.array("numbers", "f", (3,), low=0.0).tolist()
    diagonal = fields.array("diagonal", "f", (d,), low=0.0) if fixed.get("metric") == "diagonal" else None
    lost = _lost(fields) if "lost" in fields else None
    fields.end()
    return Directions(units, sizes, cut, seen, unit, diagonal, lost=lost)


def _lost(fields: Fields) -> Lost:
    sketch = fields.array("lost", "f", (None, None)).astype(np.float64)
    if sketch.shape[0] != sketch.shape[1] or not PLACES[0] <= len(sketch) <= PLACES[1]:
        raise ValueError(f"directions.lost has the shape {sketch.shape}")
    return Lost(sketch, *fields.array("shared", "f", (2,)).tolist())


def _units(fields: Fields, d: int, intercept: bool) -> Units:
    total = fields.number("total")
    mean = fields.array("mean", "f", (d,)).astype(np.float64)
    spread, scale = (fields.array(name, "f", (d,), low=0.0).astype(np.float64) for name in ("spread", "scale"))
    centred = bool(fields.array("centred", "b", ()))
    fields.end()
    if not total > 0 or (centred and not intercept):
        raise ValueError("units contradict the model: without rows, or centred without an intercept")
    return Units(total, mean, spread, scale, centred)


def _size(fixed: Mapping[str, Any], name: str, low: int) -> int:
    value = fixed.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    return value


def _classes(fields: Fields, targets: tuple[int, ...]) -> Any:
    classes = fields.array("classes", "biufUmM", (*targets,) if len(targets) == 1 else (-1,))
    if len(classes) < 1 or len(np.unique(classes)) < len(classes) or np.any(np.sort(classes) != classes):
        raise ValueError("classes must be at least one, different and sorted")
    return classes


def _history(fields: Fields, size: int, n_tasks: int) -> History:
    task = fields.array("task", "i", (None,), low=1, high=n_tasks)
    columns = {"task": task, "n_rows": fields.array("n_rows", "i", task.shape, low=0)}
    # What is not known of a task is NaN; nothing is computed from these columns.
    columns |= {name: fields.array(name, "f", task.shape, finite=False) for name in COLUMNS if name not in COUNTS}
    if len(task) > size:
        raise ValueError(f"history.task has {len(task)} tasks, more than history_size={size}")
    total, mean = fields.array("prequential", "f", (2,), low=0.0).tolist()
    fields.end()
    rows = list(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))
    return History(size, rows, len(rows), total, mean)


def _holdout(fields: Fields, fixed: Mapping[str, Any], d: int, c: int, n_tasks: int, dtype: Any) -> Holdout:
    size, share = _size(fixed, "holdout_size", 1), fixed.get("holdout")
    if not isinstance(share, float) or not 0.0 < share < 1.0:
        raise ValueError(f"holdout must be a share, got {share!r}")
    empty = Holdout(share, size, fields.integer("seed", 0, 2**62))
    tasks = fields.array("tasks", "i", (None,), low=0, high=n_tasks - 1).astype(np.int64)
    counts = fields.array("counts", "i", tasks.shape, low=1, high=size).astype(np.int64)
    if len(tasks) == 0:
        fields.end()
        return empty
    n = int(counts.sum())
    if len(tasks) > size:
        raise ValueError(f"holdout.tasks has {len(tasks)} tasks, more than holdout_size={size}")
    y = fields.array("y", "f", (n, c))
    X: Any
    if "X" in fields:
        X = fields.array("X", "f", (n, d))
    else:
        from scipy import sparse

        data, indptr = fields.array("data", "f", (None,)), fields.array("indptr", "i", (n + 1,))
        X = check_sparse(sparse.csr_array((data, fields.array("indices", "i", data.shape), indptr), shape=(n, d)))
    fields.end()
    if X.dtype != dtype:
        raise ValueError(f"holdout rows have the dtype {X.dtype}, the weights {dtype}")
    return empty._replace(X=X, y=y, tasks=tasks, counts=counts)


def _advisor(fields: Fields, sizes: Mapping[str, int], dtype: Any) -> Candidates:
    count, d, c = len(STRENGTHS), sizes["d"], sizes["c"]
    weights = fields.array("weights", "f", (count, d, c))
    if weights.dtype != dtype:
        raise ValueError(f"advisor.weights have the dtype {weights.dtype}, the weights {dtype}")
    found = Candidates(
        weights,
        fields.array("squares", "f", (d,), low=0.0).astype(np.float64),
        fields.array("before", "f", (count,), low=0.0).astype(np.float64),
        fields.array("sketch", "f", (SKETCH, d)),
        fields.array("answers", "f", (SKETCH, c)),
        fields.number("unit"),
        fields.integer("tasks", 1),
        fields.integer("chosen", 0, count - 1),
    )
    fields.end()
    return found


def _memory(fields: Fields, shapes: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
    found = {name: fields.array(name, "f", tuple(sizes[side] for side in shape)) for name, shape in shapes.items()}
    fields.end()
    return {name: value if value.ndim else value.item() for name, value in found.items()}


def upgraded(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a version 2 file as those of version 3; they are checked afterwards.

    It had the sum of squared errors instead of their mean, held-out rows task by task, and the rows of a replay window,
    which are left out.
    """
    found = {name: array for name, array in arrays.items() if not name.startswith(("advisor.", "holdout."))}
    old: dict[str, Any] = {name[8:]: array for name, array in arrays.items() if name.startswith("holdout.")}
    total, squares = np.asarray(found.pop("history.sums"), dtype=np.float64).reshape(2).tolist()
    found["history.prequential"] = np.array([total, squares / total if total > 0 else 0.0])
    if not old:
        return found
    found["holdout.seed"] = old.pop("seed")
    count = sum(name.endswith(".task") for name in old)
    ys = [np.asarray(old[f"{i}.y"]) for i in range(count)]
    ys = [y.reshape(len(y), -1) for y in ys]
    found["holdout.tasks"] = np.array([int(old[f"{i}.task"]) for i in range(count)], dtype=np.int64)
    found["holdout.counts"] = np.array([len(y) for y in ys], dtype=np.int64)
    if count:
        found["holdout.y"] = np.concatenate(ys)
        if "0.X" in old:
            found["holdout.X"] = np.concatenate([old[f"{i}.X"] for i in range(count)])
        else:
            for part in ("data", "indices"):
                found[f"holdout.{part}"] = np.concatenate([old[f"{i}.{part}"] for i in range(count)])
            lengths = [np.diff(old[f"{i}.indptr"]) for i in range(count)]
            found["holdout.indptr"] = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return found


def with_average(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a version 3 file as those of version 4, which may hold an average."""
    return _with_fixed(arrays, {"average": None})


def with_directions(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a version 4 file as those of version 5, which may remember directions.

    A classifier also counts the rows of its classes; how many there were is not known. What ``schedule="auto"`` chose
    is left out: it now chooses among candidates, which begin with the weights that are there.
    """
    found = _with_fixed(arrays, DIRECTIONS)
    found.pop("advisor.coefficient", None)
    if "classes" in found and "radius" in found:
        found["memory.class_counts_"] = np.zeros(len(found["classes"]))
    return found


def with_units(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a version 5 file as those of version 6, which may have units of its own."""
    return _with_fixed(arrays, {"standardize": False})


def _with_fixed(arrays: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    fields = Fields(arrays)
    fixed = from_json(fields.array("fixed", "u", (None,)).tobytes())
    if not isinstance(fixed, dict):
        raise ValueError("fixed parameters are not those of a model")
    text = json.dumps({**fixed, **more}, sort_keys=True)
    return {**arrays, "fixed": np.frombuffer(text.encode(), dtype=np.uint8)}


def _as_numpy(value: Any) -> Any:
    """Return an array of any library as NumPy's, and a number as an array without dimensions."""
    return to_numpy(value) if hasattr(value, "shape") else np.array(value)


def _plain(value: Any) -> Any:
    """Return a NumPy number as JSON knows it."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} cannot be stored")

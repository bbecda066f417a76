"""What a store holds as tables: all of it, means over seeds for a figure, and a summary for a paper."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from forgetless.reporting.table import Noted, Table
from forgetless.sweeps.grid import AXES
from forgetless.sweeps.store import RESULTS, Store

LAST = 4
"""Values of k, the largest ones, that a slope is fitted on."""


def wide(
    rows: Iterable[Sequence[Any]], order: Mapping[str, Iterable[str]], facts: Iterable[str] = (), whole: bool = False
) -> Table:
    """Return rows of the view ``results`` as a table with a column per metric, sorted as the axes are in ``order``.

    The ``whole`` has bounds of rounding errors too, and from which version and cell each row is.
    """
    ranks = {axis: {label: i for i, label in enumerate(labels)} for axis, labels in order.items()}
    at = {name: i for i, name in enumerate(RESULTS)}
    cells: dict[tuple[Any, ...], dict[str, tuple[Any, Any, Any]]] = {}
    parts = (*AXES, "step", "version", "key")
    metrics: dict[str, None] = {}
    for row in rows:
        place = tuple(row[at[name]] for name in parts)
        found = (row[at["value"]], row[at["standard_error"]], row[at["rounding"]])
        cells.setdefault(place, {})[row[at["metric"]]] = found
        metrics[row[at["metric"]]] = None

    def rank(place: tuple[Any, ...]) -> tuple[Any, ...]:
        tasks, schedule, scale, ordering, k, seed, step, made_by, _ = place
        named = (("tasks", tasks), ("ordering", ordering), ("schedule", schedule))
        return (
            *(ranks.get(axis, {}).get(name, math.inf) for axis, name in named),
            scale or 0,
            k,
            seed or 0,
            step,
            made_by,
        )

    places = sorted(cells, key=rank)
    columns: dict[str, list[Any]] = {axis: [place[i] for place in places] for i, axis in enumerate(AXES)}
    steps = [place[parts.index("step")] for place in places]
    if whole or steps != columns["k"]:
        columns["step"] = steps
    for name in sorted(metrics, key=lambda name: ("." in name, name)):
        values, errors, roundings = zip(*(cells[place].get(name, (None,) * 3) for place in places), strict=True)
        columns[name] = list(values)
        if any(error is not None for error in errors):
            columns[f"{name} ±"] = list(errors)
        if whole and any(each is not None for each in roundings):
            columns[f"{name} rounding"] = list(roundings)
    if whole:
        columns |= {name: [place[parts.index(name)] for place in places] for name in ("version", "key")}
    return Table("Sweep", columns, tuple(facts))


def lacking(missing: int | None, failed: int) -> list[str]:
    """Return in words how many cells of a sweep have no results."""
    return [f"{count} cells {what}" for count, what in ((missing, "are missing"), (failed, "failed")) if count]


def of_store(path: str | os.PathLike[str]) -> tuple[Table, str]:
    """Return what a store holds of the version of the sweep run last, and the name of the first metric."""
    with Store(path) as store:
        sweep = store.last_sweep()
        rows = list(store.rows(sweep["version"]))
        facts = lacking(store.status().columns["missing"][0], len(store.failures()))
        others = {name: count for name, count in sorted(store.versions().items()) if name != sweep["version"]}
    if others:
        facts.append(
            f"{sum(others.values())} cells of other versions of forgetless ({', '.join(others)}) are left out; "
            "an export has them"
        )
    return wide(rows, sweep["axes"], facts), str(sweep["settings"]["metrics"][0])


def everything(path: str | os.PathLike[str]) -> Table:
    """Return every number in a store, of all versions, with the version and the key of its cell."""
    with Store(path) as store:
        return wide(store.rows(), store.last_sweep()["axes"], whole=True)


class Point(NamedTuple):
    """A mean over seeds, with its standard error where there is one, and the means of the bounds."""

    mean: float
    error: float | None
    upper: float | None = None
    lower: float | None = None


def points(table: Table, y: str, by: Sequence[str]) -> dict[tuple[Any, ...], Point]:
    """Return the means over seeds of a column for all values of some axes, at the last recorded step."""
    check_column(table, y)
    columns = {name: table.columns[name] for name in by}
    groups: dict[tuple[Any, ...], list[int]] = {}
    steps = table.columns.get("step", table.columns["k"])
    for i in range(len(table)):
        if steps[i] == table.columns["k"][i]:
            groups.setdefault(tuple(column[i] for column in columns.values()), []).append(i)
    return {place: _point(table, y, group) for place, group in groups.items()}


def _point(table: Table, y: str, at: list[int]) -> Point:
    def mean(name: str) -> float | None:
        found = [table.columns[name][i] for i in at] if name in table.columns else []
        known = [float(each) for each in found if each is not None]
        return float(np.mean(known)) if known and len(known) == len(found) else None

    values = [math.nan if table.columns[y][i] is None else float(table.columns[y][i]) for i in at]
    error = None
    if len(values) > 1:  # over seeds: of the tasks, the orders, or both
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    elif f"{y} ±" in table.columns:
        error = table.columns[f"{y} ±"][at[0]]
    return Point(float(np.mean(values)), error, mean(f"{y}.upper"), mean(f"{y}.lower"))


def check_column(table: Table, name: str, allowed: Sequence[str] | None = None) -> None:
    """Refuse a column that the table does not have."""
    known = [each for each in table.columns if not each.endswith("±")] if allowed is None else list(allowed)
    if name not in known:
        raise ValueError(f"there is no {name!r} in this sweep; it has {', '.join(known)}")


def varying(table: Table) -> list[str]:
    """Return the axes that have more than one value, without the seed."""
    return [axis for axis in AXES if axis != "seed" and len(set(table.columns[axis])) > 1]


class Line(NamedTuple):
    """A line of a figure: its name, and its points."""

    name: str
    x: list[float]
    points: list[Point]


def panels(table: Table, x: str, y: str, hue: str) -> dict[str, list[Line]]:
    """Return the panels of a figure by their titles: one for every value of the axes that are neither x nor hue.

    Of the scales, unless they are one of the two, the best at each point is taken, and the name of the line says so.
    """
    for name in (x, hue):
        check_column(table, name, AXES)
    if x == hue:
        raise ValueError(f"x and hue must be two axes, got {x!r} for both")
    if x not in ("k", "scale", "seed"):
        raise ValueError(f"x must be k, scale or seed, whose values are numbers, got {x!r}")
    others = [axis for axis in varying(table) if axis not in (x, hue, "scale")]
    tuned = "scale" not in (x, hue)
    by = [*others, hue, x, "scale"] if tuned else [*others, hue, x]
    found: dict[str, dict[str, dict[float, list[Point]]]] = {}
    for place, point in points(table, y, by).items():
        title = ", ".join(
            f"{axis} {value}" if axis == "k" else str(value) for axis, value in zip(others, place, strict=False)
        )
        at = place[len(others) + 1]
        line = found.setdefault(title, {}).setdefault(str(place[len(others)]), {})
        line.setdefault(math.nan if at is None else float(at), []).append(point)
    return {title: [_line(name, at) for name, at in lines.items()] for title, lines in found.items()}


def _line(name: str, at: dict[float, list[Point]]) -> Line:
    most = max(len(each) for each in at.values())
    best = {x: min(each, key=lambda point: point.mean) for x, each in at.items()}
    xs = sorted(best)
    return Line(f"{name}, best of {most} scales" if most > 1 else name, xs, [best[x] for x in xs])


def summary(table: Table, y: str) -> Table:
    """Return a table for a paper: a row for tasks, ordering and schedule, with the best of its scales at the largest k.

    Columns: the mean over seeds ± its standard error at every k, the slope of log y in log k fitted on the largest
    values of k ± its standard error, k·y at the largest k, and there the least upper and the largest lower bound.
    """
    if not len(table):
        why = f" ({'; '.join(table.facts)})" if table.facts else ""
        raise ValueError(f"the store holds no results of this sweep{why}; run it, or see why its cells failed")
    ks = sorted(set(table.columns["k"]))
    rows, short, names = [], [], ("tasks", "ordering", "schedule")
    found = points(table, y, [*names, "scale", "k"])
    if not found:
        raise ValueError("a summary is made of the values at step k, and none was recorded; record the last step too")
    shown = [name for name in names if name == "schedule" or len(set(table.columns[name])) > 1]
    for place in dict.fromkeys(key[:3] for key in found):
        own = {key[3:]: point.mean for key, point in found.items() if key[:3] == place}
        end = max(k for _, k in own)
        # What is not a number compares as nothing does, and must not be the best.
        best, _ = min((at for at in own if at[1] == end), key=lambda at: (math.isnan(own[at]), own[at]))
        if end < ks[-1]:
            short.append(f"{', '.join(map(str, place))}: nothing at k = {ks[-1]}, the largest is {end}")
        curve = {k: found[(*place, best, k)] for k in ks if (*place, best, k) in found}
        row: dict[str, Any] = {name: value for name, value in zip(names, place, strict=True) if name in shown}
        if len(set(table.columns["scale"])) > 1:
            row["scale"] = best
        row |= {f"k = {k}": _noted(curve.get(k)) for k in ks}
        slope, error = slope_of({k: point.mean for k, point in curve.items()})
        last = curve.get(ks[-1])
        row |= {"slope": _noted(None if slope is None else Point(slope, error), ".2f")}
        row |= {f"k·{y}": None if last is None else ks[-1] * last.mean}
        row |= {"upper bound": last and last.upper, "lower bound": last and last.lower}
        rows.append(row)
    keep = [name for name in rows[0] if "bound" not in name or any(row[name] is not None for row in rows)]
    made = Table.of_rows(f"{y}, mean ± standard error", [{name: row[name] for name in keep} for row in rows])
    fitted = ks[-LAST:]
    fact = f"slope of log {y} in log k, fitted on k = {', '.join(map(str, fitted))}; bounds at k = {ks[-1]}"
    return Table(made.title, made.columns, (fact, *short, *table.facts), formats={"slope": ".2f"})


def slope_of(curve: Mapping[int, float]) -> tuple[float | None, float | None]:
    """Return the slope of log y in log k over the largest values of k, and its standard error where three are known.

    Examples
    --------
    >>> from forgetless.sweeps.report import slope_of
    >>> slope, error = slope_of({16: 1 / 16, 64: 1 / 64, 256: 1 / 256})
    >>> round(slope, 6), round(error, 6)
    (-1.0, 0.0)
    """
    known = [(k, value) for k, value in sorted(curve.items())[-LAST:] if value > 0]
    if len(known) < 2:
        return None, None
    x, z = np.log([k for k, _ in known]), np.log([value for _, value in known])
    centred = x - x.mean()
    slope = float(centred @ z / (centred @ centred))
    if len(known) < 3:
        return slope, None
    left = z - z.mean() - slope * centred
    return slope, math.sqrt(float(left @ left) / (len(known) - 2) / float(centred @ centred))


def _noted(point: Point | None, number: str = ".2g") -> Noted:
    if point is None:
        return Noted(None, "")
    return Noted(point.mean, "" if point.error is None else f" ± {point.error:{number}}")

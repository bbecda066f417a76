"""Tables of a store: all numbers, means over seeds for a figure, and a summary for a paper."""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from forgetless.reporting.table import Noted, Table
from forgetless.sweeps.grid import AXES
from forgetless.sweeps.store import RESULTS, Store

LAST = 4
"""Number of the largest values of k that a slope is fitted on."""


def wide(
    rows: Iterable[Sequence[Any]],
    order: Mapping[str, Iterable[str]],
    facts: Iterable[str] = (),
    full: bool = False,
) -> Table:
    """Return rows of the view ``results`` as a table with a column per metric, sorted as the axes
    are in ``order``.

    A ``full`` table also has rounding errors, versions and keys.
    """
    parts = (*AXES, "step", "version", "key")
    cells: dict[tuple[Any, ...], dict[str, tuple[Any, Any, Any]]] = {}
    for values in rows:
        row = dict(zip(RESULTS, values, strict=True))
        numbers = (row["value"], row["standard_error"], row["rounding"])
        cells.setdefault(tuple(row[name] for name in parts), {})[row["metric"]] = numbers
    ranks = {axis: {label: i for i, label in enumerate(labels)} for axis, labels in order.items()}

    def rank(cell: tuple[Any, ...]) -> tuple[Any, ...]:
        tasks, schedule, scale, ordering, k, seed, step, version, _ = cell
        labels = (("tasks", tasks), ("ordering", ordering), ("schedule", schedule))
        places = (ranks.get(axis, {}).get(label, math.inf) for axis, label in labels)
        return (*places, scale or 0, k, seed or 0, step, version)

    keys = sorted(cells, key=rank)
    columns: dict[str, list[Any]] = {name: [key[i] for key in keys] for i, name in enumerate(parts)}
    extra = {name: columns.pop(name) for name in ("step", "version", "key")}
    if full or extra["step"] != columns["k"]:
        columns["step"] = extra["step"]
    for name in sorted(
        {name for cell in cells.values() for name in cell}, key=lambda name: ("." in name, name)
    ):
        values, errors, rounding = zip(
            *(cells[key].get(name, (None,) * 3) for key in keys), strict=True
        )
        columns[name] = list(values)
        if any(error is not None for error in errors):
            columns[f"{name} ±"] = list(errors)
        if full and any(error is not None for error in rounding):
            columns[f"{name} rounding"] = list(rounding)
    if full:
        columns |= {name: extra[name] for name in ("version", "key")}
    return Table("Sweep", columns, tuple(facts))


def lacking(missing: int | None, failed: int) -> list[str]:
    """Return sentences about the cells of a sweep without results."""
    return [
        f"{count} cells {what}"
        for count, what in ((missing, "are missing"), (failed, "failed"))
        if count
    ]


def of_store(path: str | os.PathLike[str]) -> tuple[Table, str]:
    """Return the results of the sweep run last, of its version of the package, and the name of its
    first metric.
    """
    with Store(path) as store:
        sweep = store.last_sweep()
        rows = list(store.rows(sweep["version"]))
        facts = lacking(store.status().columns["missing"][0], len(store.failures()))
        others = {
            name: count
            for name, count in sorted(store.versions().items())
            if name != sweep["version"]
        }
    if others:
        facts.append(
            f"{sum(others.values())} cells of other versions of forgetless ({', '.join(others)})"
            " are left out; an export has them"
        )
    return wide(rows, sweep["axes"], facts), str(sweep["settings"]["metrics"][0])


def failure_lines(failures: Table) -> list[str]:
    """Return a line for every kind of error: its first message in full, how many cells have it, and
    the first of them.

    Messages that differ in numbers only, such as that of a seed, are of one kind.
    """
    kinds: dict[str, list[int]] = {}
    for i, error in enumerate(failures.columns["error"]):
        kinds.setdefault(re.sub(r"\d+", "#", error), []).append(i)
    lines = []
    for rows in sorted(kinds.values(), key=len, reverse=True):
        values = {axis: failures.columns[axis][rows[0]] for axis in AXES}
        first = ", ".join(f"{axis} {value}" for axis, value in values.items() if value is not None)
        count = f"{len(rows)} cells, the first at" if len(rows) > 1 else "1 cell, at"
        lines.append(f"{failures.columns['error'][rows[0]]} ({count} {first})")
    return lines


def everything(path: str | os.PathLike[str]) -> Table:
    """Return every number in a store, of all versions, with the version and the key of its cell."""
    with Store(path) as store:
        return wide(store.rows(), store.last_sweep()["axes"], full=True)


class Point(NamedTuple):
    """A mean over seeds, with its standard error where there is one, and the means of the
    bounds.
    """

    mean: float
    error: float | None
    upper: float | None = None
    lower: float | None = None


def points(table: Table, y: str, by: Sequence[str]) -> dict[tuple[Any, ...], Point]:
    """Return the means over seeds of a column for all values of some axes, at the last recorded
    step.
    """
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
        values: list[Any] = (
            [table.columns[name][i] for i in at] if name in table.columns else [None]
        )
        return None if None in values else float(np.mean(values))

    values = [math.nan if table.columns[y][i] is None else float(table.columns[y][i]) for i in at]
    error = None
    if len(values) > 1:  # over seeds: of the tasks, the orders, or both
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    elif f"{y} ±" in table.columns:
        error = table.columns[f"{y} ±"][at[0]]
    return Point(float(np.mean(values)), error, mean(f"{y}.upper"), mean(f"{y}.lower"))


def check_column(table: Table, name: str, allowed: Sequence[str] | None = None) -> None:
    """Raise ValueError if the table has no such column."""
    names = (
        [each for each in table.columns if not each.endswith("±")]
        if allowed is None
        else list(allowed)
    )
    if name not in names:
        raise ValueError(f"there is no {name!r} in this sweep; it has {', '.join(names)}")


def varying(table: Table) -> list[str]:
    """Return the axes that have more than one value, without the seed."""
    return [axis for axis in AXES if axis != "seed" and len(set(table.columns[axis])) > 1]


class Line(NamedTuple):
    """A line of a figure."""

    name: str
    x: list[float]
    points: list[Point]


def panels(table: Table, x: str, y: str, hue: str) -> dict[str, list[Line]]:
    """Return the panels of a figure by their titles: one for every value of the axes that are
    neither x nor hue.

    Of the scales, unless they are one of the two, the best at each point is taken, and named in the
    label of the line.
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
    figure: dict[str, dict[str, dict[float, list[Point]]]] = {}
    for place, point in points(table, y, by).items():
        title = ", ".join(
            f"{axis} {value}" if axis == "k" else str(value)
            for axis, value in zip(others, place, strict=False)
        )
        at = place[len(others) + 1]
        line = figure.setdefault(title, {}).setdefault(str(place[len(others)]), {})
        line.setdefault(math.nan if at is None else float(at), []).append(point)
    return {
        title: [_line(name, at) for name, at in lines.items()] for title, lines in figure.items()
    }


def _line(name: str, at: dict[float, list[Point]]) -> Line:
    most = max(len(each) for each in at.values())
    best = {x: min(each, key=lambda point: point.mean) for x, each in at.items()}
    xs = sorted(best)
    return Line(f"{name}, best of {most} scales" if most > 1 else name, xs, [best[x] for x in xs])


def summary(table: Table, y: str) -> Table:
    """Return a table for a paper: a row for tasks, ordering and schedule, with the best of its
    scales at the largest k.

    Columns: the mean over seeds ± its standard error at every k, the slope of log y in log k fitted
    on the largest values of k ± its standard error, k·y at the largest k, and there the least upper
    and the largest lower bound.
    """
    if not len(table):
        reason = f" ({'; '.join(table.facts)})" if table.facts else ""
        raise ValueError(
            f"the store holds no results of this sweep{reason}; run it, or see why its cells failed"
        )
    names = ("tasks", "ordering", "schedule")
    means = points(table, y, [*names, "scale", "k"])
    if not means:
        raise ValueError(
            "a summary needs the values at step k, and none was recorded; record the last step too"
        )
    ks = sorted(set(table.columns["k"]))
    varies = {name: len(set(table.columns[name])) > 1 for name in (*names, "scale")} | {
        "schedule": True
    }
    rows, facts = (
        [],
        [f"slope of log {y} in log k, fitted on k = {', '.join(map(str, ks[-LAST:]))}"],
    )
    facts[0] += f"; bounds at k = {ks[-1]}"
    for labels in dict.fromkeys(key[:3] for key in means):
        scale, curve = _best_scale(
            {key[3:]: point for key, point in means.items() if key[:3] == labels}
        )
        if (last := max(curve)) < ks[-1]:
            facts.append(
                f"{', '.join(map(str, labels))}: nothing at k = {ks[-1]}, the largest is {last}"
            )
        left = {
            name: each
            for name, each in zip((*names, "scale"), (*labels, scale), strict=True)
            if varies[name]
        }
        rows.append(left | _summary_row(curve, ks, y))
    columns = [
        name
        for name in rows[0]
        if "bound" not in name or any(row[name] is not None for row in rows)
    ]
    rounded = Table.of_rows(
        f"{y}, mean ± standard error", [{name: row[name] for name in columns} for row in rows]
    )
    return Table(rounded.title, rounded.columns, (*facts, *table.facts), formats={"slope": ".2f"})


def _best_scale(curves: Mapping[tuple[Any, ...], Point]) -> tuple[Any, dict[int, Point]]:
    """Return the scale with the least mean at the largest k, NaN being the largest, and its means
    by k.
    """
    last = max(k for _, k in curves)
    means = {scale: point.mean for (scale, k), point in curves.items() if k == last}
    best = min(means, key=lambda scale: (math.isnan(means[scale]), means[scale]))
    return best, {k: point for (scale, k), point in curves.items() if scale == best}


def _summary_row(curve: Mapping[int, Point], ks: Sequence[int], y: str) -> dict[str, Any]:
    slope, error = slope_of({k: point.mean for k, point in curve.items()})
    last = curve.get(ks[-1])
    return {
        **{f"k = {k}": _noted(curve.get(k)) for k in ks},
        "slope": _noted(None if slope is None else Point(slope, error), ".2f"),
        f"k·{y}": None if last is None else ks[-1] * last.mean,
        "upper bound": last and last.upper,
        "lower bound": last and last.lower,
    }


def slope_of(curve: Mapping[int, float]) -> tuple[float | None, float | None]:
    """Return the slope of log y in log k over the largest values of k, and its standard error from
    three on.

    Examples
    --------
    >>> from forgetless.sweeps.report import slope_of
    >>> slope, error = slope_of({16: 1 / 16, 64: 1 / 64, 256: 1 / 256})
    >>> round(slope, 6), round(error, 6)
    (-1.0, 0.0)
    """
    pairs = [(k, value) for k, value in sorted(curve.items())[-LAST:] if value > 0]
    if len(pairs) < 2:
        return None, None
    x, z = np.log(np.transpose(pairs))
    centred = x - x.mean()
    slope = float(centred @ z / (centred @ centred))
    if len(pairs) < 3:
        return slope, None
    residuals = z - z.mean() - slope * centred
    return slope, math.sqrt(
        float(residuals @ residuals) / (len(pairs) - 2) / float(centred @ centred)
    )


def _noted(point: Point | None, number: str = ".2g") -> Noted:
    if point is None:
        return Noted(None, "")
    return Noted(point.mean, "" if point.error is None else f" ± {point.error:{number}}")

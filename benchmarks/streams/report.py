"""What was found: a table for each stream, one over all of them, and error against memory as figures."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._table import Table

Record = dict[str, Any]

OURS = ("r = 0", "r = 10", "r = 30", "r = 100")
BOUND = "joint ridge"
"""Sees all rows at once, with d × d numbers."""

FAMILIES = {
    "r = ": "forgetless",
    "reservoir": "reservoir",
    "frequent": "frequent directions",
    "joint ridge": "joint ridge, fewer to all features",
}


def mean(record: Record, method: str, name: str = "final") -> float:
    """Return a number of a method, averaged over seeds; infinite where a run diverged, NaN where there is none."""
    values = [score[name] for score in record["scores"].get(method, {}).values()]
    return float(np.mean([math.inf if value is None else value for value in values])) if values else math.nan


def table(record: Record) -> Table:
    """Return one row per method, the smallest error first."""
    methods = sorted(record["scores"], key=lambda method: mean(record, method))
    rows = [
        {
            "method": method,
            "final": mean(record, method),
            "next task": mean(record, method, "prequential"),
            "forgotten": mean(record, method) - mean(record, method, "learned"),
            "kB": mean(record, method, "nbytes") / 1e3,
            "seconds": mean(record, method, "seconds"),
        }
        for method in methods
    ]
    unit = "share of wrong classes" if record["kind"] == "classes" else "mean square over the variance"
    title = (
        f"{record['title']} ({record['source']}): {record['n_tasks']} tasks by {record['task']}, "
        f"{record['rows']} rows, {record['n_features']} features; {unit}"
    )
    return Table.of_rows(title, rows)


def overview(records: list[Record]) -> Table:
    """Return the error on all tasks of every stream: ours by memory, the bound, and the best other method below d²."""
    rows = []
    for record in records:
        others = [method for method in record["scores"] if not method.startswith("r = ") and method not in _LARGE]
        best = min(others, key=lambda method: mean(record, method), default=None)
        row: dict[str, Any] = {"stream": record["title"], "d": record["n_features"]}
        row |= {method: mean(record, method) for method in OURS}
        row |= {"auto": _smallest(record, "auto"), "increasing": mean(record, "increasing")}
        row |= {BOUND: mean(record, BOUND), "best other": best or "–"}
        row["its error"] = mean(record, best) if best else math.nan
        rows.append(row)
    facts = tuple(fact for rank in (30, 100) if (fact := _against_rows(records, rank)))
    return Table.of_rows("Error on all tasks after the last", rows, facts)


_LARGE = ("joint ridge", "RLS", "increasing")


def _smallest(record: Record, part: str) -> float:
    found = [mean(record, method) for method in record["scores"] if part in method]
    return min(found, default=math.nan)


def _against_rows(records: list[Record], rank: int) -> str:
    ratios = [mean(record, f"r = {rank}") / mean(record, f"reservoir, {rank} rows") for record in records]
    known = [ratio for ratio in ratios if math.isfinite(ratio)]
    if not known:
        return ""
    total = math.exp(float(np.mean(np.log(known))))
    return f"r = {rank} over a reservoir of {rank} rows: {total:.2f} in the geometric mean of {len(known)} streams"


def plot_frontier(record: Record, ax: Any) -> Any:
    """Draw error against memory: a line for every family of methods, a point with its name for each of the others."""
    drawn = set()
    for name, methods in _families(record).items():
        points = sorted((mean(record, method, "nbytes"), mean(record, method)) for method in methods)
        points = [point for point in points if math.isfinite(point[1])]
        drawn |= set(methods)
        if points:
            width = 2 if name.startswith("forgetless") else 1
            ax.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name, linewidth=width)
    others = {method: (mean(record, method, "nbytes"), mean(record, method)) for method in record["scores"]}
    others = {method: at for method, at in others.items() if method not in drawn and math.isfinite(at[1])}
    for names, at in _apart(others):
        ax.plot(*at, marker="x", color="0.4", linestyle="none")
        ax.annotate(names, at, xytext=(4, 0), textcoords="offset points", fontsize=6, va="center")
    ax.set(xscale="log", yscale="log", xlabel="bytes", ylabel="error on all tasks", title=record["title"])
    _plain_ticks(ax)
    ax.legend(fontsize=7)
    return ax


def _apart(points: dict[str, tuple[float, float]], near: float = 1.1) -> list[tuple[str, tuple[float, float]]]:
    """Return names and places, with one name for all that would be written over each other."""
    found: list[tuple[list[str], tuple[float, float]]] = []
    for name, at in sorted(points.items(), key=lambda item: item[1][1]):
        for names, place in found:
            if 1 / near < at[1] / place[1] < near and 0.5 < at[0] / place[0] < 2.0:
                names.append(name)
                break
        else:
            found.append(([name], at))
    return [(", ".join(names), place) for names, place in found]


def _families(record: Record) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for method in record["scores"]:
        for part, name in FAMILIES.items():
            if method.startswith(part):
                label = f"{name}, {method.split(', ')[1]}" if part == "r = " and ", " in method else name
                found.setdefault(label, []).append(method)
    return found


def plot_summary(records: list[Record], ax: Any) -> Any:
    """Draw the error over that of joint ridge regression against r, a line for every stream, and their mean."""
    lines = np.array([[mean(record, method) / mean(record, BOUND) for method in OURS] for record in records])
    lines = lines[np.isfinite(lines).sum(axis=1) > 1]
    for line in lines:
        ax.plot(range(len(OURS)), line, color="0.75", linewidth=1)
    whole = lines[np.isfinite(lines).all(axis=1)]
    if len(whole):
        means = np.exp(np.log(whole).mean(axis=0))
        ax.plot(range(len(OURS)), means, marker="o", label=f"geometric mean of {len(whole)} streams with all four")
        ax.legend(fontsize=7)
    ax.axhline(1.0, color="0.3", linewidth=0.8, linestyle=":")
    ax.set_xticks(range(len(OURS)), OURS)
    ax.set(yscale="log", ylabel=f"error over that of {BOUND}", title=f"{len(lines)} streams")
    _plain_ticks(ax)
    return ax


def _plain_ticks(ax: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def figures(records: list[Record], folder: Path) -> list[Path]:
    """Write one figure per stream and one over all as SVG, and return their files."""
    import matplotlib.pyplot as plt

    from forgetless.plots import publication

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with publication():
        for record in [*records, None]:
            figure, ax = plt.subplots(figsize=(5.0, 3.4))
            file = folder / f"{record['stream'] if record else 'summary'}.svg"
            if record:
                plot_frontier(record, ax)
            else:
                plot_summary(records, ax)
            figure.savefig(file)
            plt.close(figure)
            made.append(file)
    return made

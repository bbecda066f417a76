"""Mechanisms against each other: scores of all methods, and whether combinations beat the best single mechanism."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deep.methods import COMBINATIONS, METHODS, SINGLES
from deep.protocol import N_RESAMPLED, choices, counted
from forgetless._table import Table

OTHERS = ("finetune", "replay", "replay, lr decreasing", "joint")
"""Methods that are no answer: they do nothing, or see old data."""


def points(record: dict[str, Any], method: str, c: float | None = None) -> Any:
    """Return the scores of a method on the reporting seeds in points, with its tuned value or another one."""
    row = record["report"][method]
    return 100 * counted(row["score"] if c is None else row["others"].get(f"{c:.6g}", row["score"]))


def difference(record: dict[str, Any], method: str, other: str) -> dict[str, float]:
    """Return the paired gain in points, with a 95 % interval of t, and one that includes the noise of tuning.

    The second one resamples tuning seeds, which may choose another value, and reporting seeds, 1000 times. A value that
    was not reported counts as the chosen one; of two parameters only the second is chosen anew.
    """
    from scipy.stats import t as student

    d = points(record, method) - points(record, other)
    n, mean = len(d), float(np.mean(d))
    half = float(student.ppf(0.975, n - 1) * np.std(d, ddof=1)) / math.sqrt(n)
    picks = np.random.default_rng(1).integers(n, size=(N_RESAMPLED, n))
    resampled = [_resampled(record, name, picks) for name in (method, other)]
    low, high = np.quantile(resampled[0] - resampled[1], [0.025, 0.975])
    return {
        "gain": mean,
        "low": mean - half,
        "high": mean + half,
        "low_tuning": float(low),
        "high_tuning": float(high),
        "wins": int((d > 0).sum()),
        "seeds": n,
    }


def _resampled(record: dict[str, Any], method: str, picks: Any) -> Any:
    scores = {c: points(record, method, c) for c in set(choices(record, method))}
    return np.array([scores[c][pick].mean() for c, pick in zip(choices(record, method), picks, strict=True)])


def chosen(record: dict[str, Any], names: Sequence[str]) -> str:
    """Return the method of these with the best validation score on the tuning seeds."""

    def score(name: str) -> float:
        return max(float(np.mean(counted(scores))) for _, scores in record["tuning"][name]["tried"])

    return max(names, key=score)


def decision(records: list[dict[str, Any]]) -> Table:
    """Return one row per stream: the best combination against the best single mechanism, both chosen by tuning.

    Of those that were run; all of them, but for runs with ``--method``.
    """
    keys = ("stream", "single", "its score", "combination", "its score ", "gain", "with tuning", "over best reported")
    columns: dict[str, list[Any]] = {key: [] for key in keys}
    above = 0
    for record in records:
        singles, combinations = ([n for n in names if n in record["report"]] for names in (SINGLES, COMBINATIONS))
        if not singles or not combinations:
            continue
        single, combination = chosen(record, singles), chosen(record, combinations)
        hindsight = max(singles, key=lambda name: points(record, name).mean())
        first, strict = difference(record, combination, single), difference(record, combination, hindsight)
        above += first["low_tuning"] > 0 and first["low"] > 0
        cells = [
            record["stream"],
            single,
            points(record, single).mean(),
            combination,
            points(record, combination).mean(),
            f"{first['gain']:+.2f} [{first['low']:.2f}, {first['high']:.2f}] {first['wins']}/{first['seeds']}",
            f"[{first['low_tuning']:.2f}, {first['high_tuning']:.2f}]",
            f"{strict['gain']:+.2f} [{strict['low']:.2f}, {strict['high']:.2f}]",
        ]
        for key, cell in zip(keys, cells, strict=True):
            columns[key].append(cell)
    fact = f"the interval of the gain is above 0, also with the noise of tuning, on {above} of {len(columns['stream'])}"
    formats = {"its score": ".1f", "its score ": ".1f"}
    return Table("The best combination against the best single mechanism", columns, (fact,), formats=formats)


def standing(records: list[dict[str, Any]]) -> Table:
    """Return one row per method and one column per stream: the score in points; * tuned to an edge."""
    names = [name for name in METHODS if any(name in record["report"] for record in records)]
    columns: dict[str, list[Any]] = {"method": names}
    for record in records:
        cells = []
        for name in names:
            if "score" not in record["report"].get(name, {}):
                cells.append("")
                continue
            edge = "*" if record["tuning"][name]["edge"] else ""
            cells.append(f"{points(record, name).mean():.1f}{edge}")
        columns[record["stream"]] = cells
    best = [
        f"{record['stream']}: best without old data "
        f"{max((n for n in record['report'] if n not in OTHERS), key=lambda n: points(record, n).mean())}"
        for record in records
    ]
    return Table("Scores in % on the reporting seeds", columns, tuple(best))


def robustness(records: list[dict[str, Any]]) -> Table:
    """Return how far methods without old data are below the best of them, in points: mean and maximum over streams."""
    names = [name for name in METHODS if name not in OTHERS and METHODS[name].announced == 1.0]
    names = [name for name in names if all(name in record["report"] for record in records)]
    scores = np.array([[points(record, name).mean() for name in names] for record in records])
    below = scores.max(1, keepdims=True) - scores
    order = np.argsort(below.mean(0))
    columns = {
        "method": [names[i] for i in order],
        "below the best, mean": below.mean(0)[order].tolist(),
        "largest": below.max(0)[order].tolist(),
    }
    fact = f"of {len(records)} streams, on the reporting seeds: a description, not a test"
    return Table("Robustness", columns, (fact,), formats={"below the best, mean": ".1f", "largest": ".1f"})


def quarters(records: list[dict[str, Any]], names: tuple[str, ...]) -> Table:
    """Return the mean score over the tasks so far at each quarter of the stream."""
    columns: dict[str, list[Any]] = {key: [] for key in ("stream", "method", "1/4", "1/2", "3/4", "1")}
    for record in records:
        for name in names:
            along = record["report"].get(name, {}).get("along")
            if not along:
                continue
            means = 100 * np.mean([counted(row) for row in along], 0)
            quarterly = means if len(means) == 4 else [math.nan, math.nan, math.nan, means[-1]]
            cells = [record["stream"], name, *quarterly]
            for key, cell in zip(columns, cells, strict=True):
                columns[key].append(cell)
    return Table("Along the stream", columns, formats=dict.fromkeys(("1/4", "1/2", "3/4", "1"), ".1f"))

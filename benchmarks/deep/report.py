"""What was found: paired differences with intervals, corrected for their number, as records and as a table."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from deep import rivals
from deep.language import LANGUAGES
from deep.methods import METHODS, METRICS
from deep.protocol import counted
from deep.streams import STREAMS
from forgetless._table import Table
from forgetless.io import replace_file

PAIRS = tuple(m.name for m in METHODS.values() if m.base and m.schedule in ("increasing", "decreasing"))
"""Schedules that are claimed to be better than the fixed one of the same kind; Holm's correction is over these."""

ALONG = ("EWC linear", "EWC increasing", "lr cosine", "EMA", "merge inverse", "EWC linear, EMA")


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the records of all finished streams of a folder, in the order in which they are listed."""
    files = [folder / f"{name}.json" for name in (*STREAMS, *LANGUAGES)]
    records = [json.loads(file.read_text()) for file in files if file.exists()]
    return [record for record in records if record["phase"] == "done"]


def write(folder: Path) -> list[Path]:
    """Write ``table.txt``, all tables of what is finished in a folder, and ``gains.json``, all comparisons."""
    records = read(folder)
    if not records:
        return []
    compared_alike = [each(records) for each in (rivals.standing, rivals.decision, rivals.robustness)]
    compared_alike.append(rivals.quarters(records, ALONG))
    complete = [record for record in records if set(PAIRS) <= set(record["report"])]
    tables = [*compared_alike, *([overview(complete), untuned(complete)] if complete else []), *map(table, records)]
    text = "\n\n".join("\n".join([each.title, each.text(), *each.facts]) for each in tables)
    compared = json.dumps([row for record in records for row in gains(record)], indent=1)
    for name, content in (("table.txt", text + "\n"), ("gains.json", compared)):
        replace_file(folder / name, content.encode())
    return [folder / "table.txt", folder / "gains.json"]


def learns(record: dict[str, Any]) -> bool:
    """Return whether fine-tuning learns its tasks: half as well, at least, as joint training knows them all.

    Where it does not, training diverged or hardly moved, and nothing is to be forgotten.
    """
    if not {"finetune", "joint"} <= set(record["report"]):
        return True  # not to be judged where only some methods were run
    learned = np.mean(counted(record["report"]["finetune"]["learned"]))
    return bool(learned >= 0.5 * np.mean(counted(record["report"]["joint"]["score"])))


def gains(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return for every method with a fixed counterpart the paired gain in points, its 95 % interval and p-values.

    ``p``: of a two-sided t-test of the differences; ``holm``: of the claimed ones, times Holm's factor.
    """
    from scipy.stats import t as student

    rows = []
    for method in METHODS.values():
        if method.base not in record["report"] or method.name not in record["report"]:
            continue
        d = _points(record, method.name) - _points(record, str(method.base))
        n, mean = len(d), float(np.mean(d))
        error = float(np.std(d, ddof=1)) / math.sqrt(n)
        half = float(student.ppf(0.975, n - 1)) * error
        p = float(2 * student.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0)
        rows.append(
            {
                "stream": record["stream"],
                "method": method.name,
                "base": method.base,
                "gain": mean,
                "low": mean - half,
                "high": mean + half,
                "wins": int((d > 0).sum()),
                "seeds": n,
                "p": p,
            }
        )
    claimed = sorted((row for row in rows if row["method"] in PAIRS), key=lambda row: row["p"])
    largest = 0.0
    for i, row in enumerate(claimed):
        largest = max(largest, min(1.0, (len(claimed) - i) * row["p"]))
        row["holm"] = largest
    return rows


def near(record: dict[str, Any], method: str, points: float = 1.0) -> tuple[float, float]:
    """Return the smallest and the largest c that was tried and is within so many points of the best one."""
    means = _tuned(record, method)
    close = [c for c, mean in means.items() if mean >= max(means.values()) - points]
    return min(close), max(close)


def table(record: dict[str, Any]) -> Table:
    """Return one row per method: the score on the reporting seeds, and the gain over the fixed schedule."""
    spec, compared = record["spec"], {row["method"]: row for row in gains(record)}
    columns: dict[str, list[Any]] = {
        key: []
        for key in ("method", "score", "± sd", "learned", "forgotten", "worst task", "c", "c within 1 point", "gain")
    }
    for name, row in record["report"].items():
        score, (low, high) = _points(record, name), near(record, name)
        flag = " (edge)" if record["tuning"][name]["edge"] else ""
        cells = [
            name,
            np.mean(score),
            np.std(score, ddof=1),
            *(100 * np.mean(np.asarray(row[key], float)) for key in ("learned", "forgotten", "worst")),
            f"{row['c']:.3g}{flag}",
            "" if METHODS[name].knob == "none" else f"{low:.2g} to {high:.2g}",
            gain_error_text(compared[name]) if name in compared else "",
        ]
        for key, cell in zip(columns, cells, strict=True):
            columns[key].append(cell)
    unit = {1: "R²", 256: "1 − bits/8 per byte"}.get(spec["outputs"], "accuracy")
    kind = ", ".join(str(spec[key]) for key in ("data", "network", "loss", "optimizer", "rank") if key in spec)
    title = (
        f"{record['stream']}: {unit} in % over all {spec['n_tasks']} tasks after {spec['k']} steps "
        f"({kind}; {len(record['report_seeds'])} seeds)"
    )
    formats = dict.fromkeys(("score", "± sd", "learned", "forgotten", "worst task"), ".1f")
    facts = () if learns(record) else ("fine-tuning does not learn its tasks here; choose another learning rate",)
    return Table(title, columns, facts, formats=formats)


def gain_error_text(row: dict[str, Any]) -> str:
    """Return a gain with its interval and wins, such as "+1.2 [0.3, 2.1] 7/8"."""
    return f"{row['gain']:+.1f} [{row['low']:.1f}, {row['high']:.1f}] {row['wins']}/{row['seeds']}"


def overview(records: list[dict[str, Any]]) -> Table:
    """Return one row per stream: fine-tuning, the gain of every claimed pair, the control, and the references."""
    columns: dict[str, list[Any]] = {"stream": [], "fine-tuning": []}
    names = [*PAIRS, "L2 reversed"]
    columns |= {name: [] for name in names}
    columns |= {"replay": [], "joint": []}
    idle = [record["stream"] for record in records if not learns(record)]
    records = [record for record in records if learns(record)]
    for record in records:
        compared = {row["method"]: row for row in gains(record)}
        columns["stream"].append(record["stream"])
        columns["fine-tuning"].append(_points(record, "finetune").mean())
        for name in names:
            row = compared[name]
            base = _points(record, row["base"]).mean()
            columns[name].append(f"{base:.1f} {row['gain']:+.1f} [{row['low']:.1f}, {row['high']:.1f}]")
        for name in ("replay", "joint"):
            columns[name].append(_points(record, name).mean())
    wins = [(row["gain"] > 0, row["low"] > 0, row.get("holm", 1.0) < 0.05) for row in _claimed(records)]
    total = np.sum(wins, axis=0) if wins else np.zeros(3, int)
    fact = (
        f"of {len(wins)} comparisons {total[0]} gains are positive, {total[1]} with a 95 % interval above 0, "
        f"{sum(bool(w[1] and w[2]) for w in wins)} also after Holm's correction within the stream; "
        f"{sum(row['high'] < 0 for row in _claimed(records))} intervals are below 0"
    )
    left_out = [f"left out, since fine-tuning does not learn there: {', '.join(idle)}"] if idle else []
    formats = dict.fromkeys(("fine-tuning", "replay", "joint"), ".1f")
    title = "Fixed schedule, and the gain of the increasing one"
    return Table(title, columns, (fact, *left_out), formats=formats)


def untuned(records: list[dict[str, Any]]) -> Table:
    """Return for every pull what one strength for all streams is worth: tuning seeds, validation scores, in points."""
    records = [record for record in records if learns(record)]
    columns: dict[str, list[Any]] = {
        key: [] for key in ("pull", "c", "above fine-tuning", "at least", "tuned fixed", "lost")
    }
    for label in METRICS.values() if records else ():
        means = {
            name: [_tuned(record, name) for record in records] for name in (f"{label} fixed", f"{label} increasing")
        }
        alone = [max(_tuned(record, "finetune").values()) for record in records]
        fixed = [max(each.values()) - base for each, base in zip(means[f"{label} fixed"], alone, strict=True)]
        for c in METHODS[f"{label} increasing"].grid():
            above = [each[c] - base for each, base in zip(means[f"{label} increasing"], alone, strict=True)]
            lost = [max(each.values()) - each[c] for each in means[f"{label} increasing"]]
            cells = [f"{label} increasing", c, np.mean(above), min(above), np.mean(fixed), np.mean(lost)]
            for key, cell in zip(columns, cells, strict=True):
                columns[key].append(cell)
    formats = {"c": ".3g"} | dict.fromkeys(("above fine-tuning", "at least", "tuned fixed", "lost"), ".1f")
    return Table("One strength for all streams", columns, formats=formats)


def _tuned(record: dict[str, Any], method: str) -> dict[float, float]:
    return {c: 100 * float(np.mean(counted(scores))) for c, scores in record["tuning"][method]["tried"]}


def _claimed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for record in records for row in gains(record) if row["method"] in PAIRS]


def _points(record: dict[str, Any], method: str) -> Any:
    return 100 * counted(record["report"][method]["score"])

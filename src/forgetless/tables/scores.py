"""Errors of a task before it is learned, beside those of what anybody could have predicted.

A *record* is what a model stores of a task: its number of rows, its errors, those of the mean of
all targets before (of the most frequent class), and those of ridge regression on all rows before.
*Totals* are sums over all tasks: of the targets and, for classes, of right and wrong predictions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from forgetless._validate import Floats

SAMPLE = 1000
"""Rows of a task for which intervals are computed, spread evenly over it."""

WITHIN = 1.645
"""Standard deviations of an interval for 90 % of the rows."""

BINS = 10
"""Of probabilities, for the calibration of classifiers."""

LEAST = 1e-6
"""Smallest probability in a log-loss."""

Totals = dict[str, Any]


def start(y: Any) -> Totals:
    """Return the totals before the first task."""
    if y.dtype.kind == "f":
        return {"rows": 0, "mean": 0.0, "squares": 0.0}
    zeros = np.zeros(BINS).tolist()
    return {"rows": 0, "classes": {}, "confusion": {}, "bins": [zeros, zeros, zeros]}


def after(totals: Totals, y: Any) -> Totals:
    """Return the totals with the targets of a task."""
    rows = totals["rows"] + len(y)
    if "mean" not in totals:
        counts = dict(totals["classes"])
        for label, count in zip(*np.unique(y, return_counts=True), strict=True):
            counts[str(label)] = counts.get(str(label), 0) + int(count)
        return {**totals, "rows": rows, "classes": counts}
    gap = float(y.mean()) - totals["mean"]
    squares = totals["squares"] + float(np.sum((y - y.mean()) ** 2))
    squares += gap * gap * totals["rows"] * len(y) / rows
    return {"rows": rows, "mean": totals["mean"] + gap * len(y) / rows, "squares": squares}


def predictions(estimator: Any, features: Floats) -> dict[str, Any]:
    """Return predictions of an estimator and of ridge regression on all rows so far."""
    if hasattr(estimator, "predict_proba"):
        return {"probabilities": estimator.predict_proba(features)}
    rows = estimator.rows_
    fit = rows.solve(estimator.alpha_)
    ridge = features @ fit.coef[:, 0] + fit.intercept[0]
    return {"predicted": estimator.predict(features), "ridge": ridge}


def deviations(estimator: Any, features: Floats) -> Any:
    """Return the standard deviations of targets around their predictions; of classes none."""
    if hasattr(estimator, "predict_proba"):
        return np.zeros(0)
    return estimator.predict(features, return_std=True)[1]


def record(found: Mapping[str, Any], y: Any, totals: Totals, sample: slice) -> dict[str, Any]:
    """Return the errors of a task with predictions ``found``.

    Parameters
    ----------
    found : dict
        Of ``predictions`` and ``deviations``, the latter of a sample.
    y : array of shape (n,)
    totals : dict
        Of the tasks before.
    sample : slice
        Rows of the sample.
    """
    if "probabilities" in found:
        return _of_classes(found["probabilities"], y, totals)
    residuals = y - found["predicted"]
    squares = residuals**2
    half = WITHIN * found["deviations"]
    sizes = np.abs(residuals)
    return {
        "error": float(squares.mean()),
        "spread": _standard_error(squares),
        "bias": float(residuals.mean()),
        "mean": float(np.mean((y - totals["mean"]) ** 2)),
        "ridge": float(np.mean((y - found["ridge"]) ** 2)),
        "within": float(np.quantile(sizes, 0.9)),
        "interval": float(np.median(half)),
        "covered": float(np.mean(sizes[sample] <= half)),
    }


def _of_classes(probabilities: Floats, y: Any, totals: Totals) -> dict[str, Any]:
    labels, p_true = _true_probabilities(probabilities, y, totals)
    wrong = labels != y
    most = max(sorted(totals["classes"]), key=lambda label: totals["classes"][label])
    shares = {label: count / totals["rows"] for label, count in totals["classes"].items()}
    base = np.array([shares.get(label, 0.0) for label in y])
    return {
        "error": float(wrong.mean()),
        "spread": _standard_error(wrong.astype(np.float64)),
        "loss": float(-np.log(np.maximum(p_true, LEAST)).mean()),
        "mean": float(np.mean(y != most)),
        "base_loss": float(-np.log(np.maximum(base, LEAST)).mean()),
        "predicted": len(np.unique(labels)),
    }


def _true_probabilities(probabilities: Floats, y: Any, totals: Totals) -> tuple[Any, Floats]:
    """Return predicted labels, and the probability of the true one, 0 for new classes."""
    classes = np.array(sorted(totals["classes"]))
    labels = classes[probabilities.argmax(axis=1)]
    places = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    known = classes[places] == y
    return labels, np.where(known, probabilities[np.arange(len(y)), places], 0.0)


def confused(totals: Totals, found: Mapping[str, Any], y: Any, classes: Any) -> Totals:
    """Return the totals with the predictions of a task: pairs of a true and a predicted class, and
    by its probability how often the predicted class was right.
    """
    probabilities = found["probabilities"]
    labels = classes[probabilities.argmax(axis=1)]
    confusion = {label: dict(row) for label, row in totals["confusion"].items()}
    pairs, counts = np.unique(np.stack([y, labels]), axis=1, return_counts=True)
    for true, predicted, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
        row = confusion.setdefault(true, {})
        row[predicted] = row.get(predicted, 0) + count
    largest = probabilities.max(axis=1)
    place = np.minimum((largest * BINS).astype(np.int64), BINS - 1)
    sums = (np.ones(len(y)), largest, (labels == y).astype(np.float64))
    added = [np.bincount(place, weights, BINS) for weights in sums]
    bins = [(np.array(old) + new).tolist() for old, new in zip(totals["bins"], added, strict=True)]
    return {**totals, "confusion": confusion, "bins": bins}


def _standard_error(values: Floats) -> float:
    return float(values.std() / np.sqrt(len(values)))


def pooled(history: Any, name: str) -> float | None:
    """Return the mean over rows of an item of the records that have it; None if none has."""
    pairs = [(each[name], each["rows"]) for each in history if each.get(name) is not None]
    if not pairs:
        return None
    values, rows = zip(*pairs, strict=True)
    return float(np.average(values, weights=rows))

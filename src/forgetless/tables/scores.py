"""Errors of a task before it is learned, beside those of what anybody could have predicted.

A *record* is what a model stores of a task: its number of rows, its errors, those of the mean of
all targets before (of the most frequent class), and those of ridge regression on all rows before.
The latter costs nothing but a product: the streaming estimator has the statistics of all rows, and
its solution is what scikit-learn's ``Ridge`` would give when it is fitted again on all of them.

=============  ==================================================================================
``error``      mean squared error; of classes the fraction of wrong rows
``spread``     standard error of ``error``
``bias``       mean of target − prediction
``mean``       error of the mean of all targets before; of classes of the most frequent one
``ridge``      error of ridge regression on all rows before
``within``     90 % of the rows have a smaller absolute error
``interval``   median half width of 90 % intervals
``covered``    fraction of rows inside of these
``loss``       of classes: log-loss, and ``base_loss`` that of their shares in all rows before
``predicted``  of classes: how many different ones were predicted
=============  ==================================================================================
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from forgetless._running import few_threads, gram_work
from forgetless._validate import Floats

SAMPLE = 1000
"""Rows of a task for which intervals are computed, spread evenly over it."""

WITHIN = 1.645
"""Standard deviations of an interval for 90 % of the rows."""

BINS = 10
"""Of probabilities, for the calibration of classifiers."""

LEAST = 1e-6
"""Smallest probability in a log-loss."""

Found = dict[str, Floats]
"""Predictions of a task, by name."""

few = few_threads(lambda _, features, *__: gram_work(features.shape))
"""Keeps predictions of an estimator to one thread where they are short."""


@few
def predictions(estimator: Any, features: Floats) -> Found:
    """Return predictions of an estimator and of ridge regression on all rows so far."""
    if hasattr(estimator, "predict_proba"):
        return {"probabilities": estimator.predict_proba(features)}
    fit = estimator.rows_.solve(estimator.alpha_)
    ridge = features @ fit.coef[:, 0] + fit.intercept[0]
    return {"predicted": estimator.predict(features), "ridge": ridge}


def of_numbers(found: Found, y: Floats, mean: float) -> dict[str, float]:
    """Return the errors of a task with targets ``y``, of which ``mean`` was that of all before."""
    residuals = y - found["predicted"]
    return {
        "error": float(np.mean(residuals**2)),
        "spread": _standard_error(residuals**2),
        "bias": float(residuals.mean()),
        "mean": float(np.mean((y - mean) ** 2)),
        "ridge": float(np.mean((y - found["ridge"]) ** 2)),
        "within": float(np.quantile(np.abs(residuals), 0.9)),
    }


@few
def of_intervals(estimator: Any, features: Floats, y: Floats) -> dict[str, float]:
    """Return the median half width of 90 % intervals, and the fraction of rows that they hold."""
    predicted, deviations = estimator.predict(features, return_std=True)
    half = WITHIN * deviations
    return {
        "interval": float(np.median(half)),
        "covered": float(np.mean(np.abs(y - predicted) <= half)),
    }


def of_classes(found: Found, y: Any, shares: Mapping[str, float]) -> dict[str, float]:
    """Return the errors of a task with classes ``y``, of which ``shares`` has the fractions in all
    rows before, in the order of the probabilities.
    """
    classes = np.array(list(shares))
    probabilities = found["probabilities"]
    labels = classes[probabilities.argmax(axis=1)]
    # A class that comes for the first time had the probability 0.
    places = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    is_known = classes[places] == y
    p_true = np.where(is_known, probabilities[np.arange(len(y)), places], 0.0)
    p_base = np.where(is_known, np.array(list(shares.values()))[places], 0.0)
    most = max(shares, key=lambda label: shares[label])
    return {
        "error": float(np.mean(labels != y)),
        "spread": _standard_error(labels != y),
        "loss": _log_loss(p_true),
        "mean": float(np.mean(y != most)),
        "base_loss": _log_loss(p_base),
        "predicted": len(np.unique(labels)),
    }


def _log_loss(probabilities: Floats) -> float:
    return float(-np.log(np.maximum(probabilities, LEAST)).mean())


def _standard_error(values: Any) -> float:
    return float(np.std(values) / np.sqrt(len(values)))


Pairs = Counter[tuple[str, str]]
"""Numbers of rows by true and predicted class."""


def pairs(found: Found, y: Any, classes: Any) -> Pairs:
    """Return the numbers of rows of a task by true and predicted class."""
    labels = classes[found["probabilities"].argmax(axis=1)]
    return Counter(zip(y.tolist(), labels.tolist(), strict=True))


def calibration(found: Found, y: Any, classes: Any) -> Floats:
    """Return rows, sums of the largest probability, and right predictions, by the largest
    probability, (3, BINS).
    """
    probabilities = found["probabilities"]
    largest = probabilities.max(axis=1)
    # Booleans would not be added up.
    is_right = (classes[probabilities.argmax(axis=1)] == y).astype(np.float64)
    return np.array(
        [
            np.histogram(largest, BINS, (0.0, 1.0), weights=each)[0]
            for each in (np.ones(len(y)), largest, is_right)
        ]
    )


def pooled(history: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means over rows of all errors of the tasks that have some; nothing if none has."""
    known = [each for each in history if each["error"] is not None]
    if not known:
        return {}
    frame = pd.DataFrame(known).drop(columns=["task", "rows", "changes"])
    means = np.average(frame, axis=0, weights=[each["rows"] for each in known])
    return dict(zip(frame.columns, means.tolist(), strict=True))

"""Errors of a task before it is learned, beside those of what anybody could have predicted.

A *record* is what a model stores of a task: its number of rows, its errors, those of the mean of
all targets before (of the most frequent class), and those of ridge regression on all rows before.
The latter costs nothing but a product: the streaming estimator has the statistics of all rows, and
its solution is what scikit-learn's ``Ridge`` would give when it is fitted again on all of them.

An *alarm* is a task that a model predicted far worse, before it learned it, than the tasks before,
or of which a column changed so much that the model cannot be right: a task to look at, not a cause.
Gradual drift raises none: the errors by task show it. ``benchmarks/alarms.py`` measures how often
alarms are false and how many changes they find.

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

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forgetless._validate import Array
from forgetless.estimators.inputs import Linear
from forgetless.tables.features import Features, few, linear

SAMPLE = 1000
"""Rows of a task for which intervals are computed, spread evenly over it."""

WITHIN = 1.645
"""Standard deviations of an interval for 90 % of the rows."""

BINS = 10
"""Of probabilities, for the calibration of classifiers."""

LEAST = 1e-6
"""Smallest probability in a log-loss."""

Record = dict[str, Any]
"""What is known of a task."""

Found = dict[str, Array]
"""Predictions of a task, by name."""


@few
def predictions(estimator: Any, features: Features) -> Found:
    """Return predictions of an estimator and of ridge regression on all rows so far, and for some
    rows half the widths of 90 % intervals, NaN for the others.
    """
    if hasattr(estimator, "predict_proba"):
        probabilities = estimator.predict_proba(features.toarray())
        labels = estimator.classes_[probabilities.argmax(axis=1)]
        return {"probabilities": probabilities, "labels": labels}
    # With the strength that the estimator has chosen, so that the memory is the only difference.
    fit = estimator.rows_.solve(estimator.alpha_)
    n = features.shape[0]
    half = np.full(n, np.nan)
    # The standard deviations of all rows would cost as much as learning them.
    step = -(-n // SAMPLE)
    half[::step] = WITHIN * estimator.predict(features.toarray(step), return_std=True)[1]
    return {
        "predicted": features.predict(linear(estimator)),
        "ridge": features.predict(Linear(fit.coef, fit.intercept)),
        "half": half,
    }


def of_numbers(found: Found, y: Array, mean: float) -> dict[str, float]:
    """Return the errors of a task with targets ``y``, of which ``mean`` was that of all before."""
    residuals = y - found["predicted"]
    half = found["half"]
    return {
        "error": float(np.mean(residuals**2)),
        "spread": _standard_error(residuals**2),
        "bias": float(residuals.mean()),
        "mean": float(np.mean((y - mean) ** 2)),
        "ridge": float(np.mean((y - found["ridge"]) ** 2)),
        "within": float(np.quantile(np.abs(residuals), 0.9)),
        "interval": float(np.nanmedian(half)),
        "covered": float(np.mean(np.abs(residuals) <= half, where=half >= 0.0)),
    }


def of_classes(found: Found, y: Any, shares: dict[str, float]) -> dict[str, float]:
    """Return the errors of a task with classes ``y``, of which ``shares`` has the fractions in all
    rows before, in the order of the probabilities.
    """
    labels = found["labels"]
    wrong = labels != y
    # A class that comes for the first time has the place −1, where the probability is 0.
    places = pd.Index(list(shares)).get_indexer(y)
    probabilities = np.c_[found["probabilities"], np.zeros(len(y))]
    most = max(shares, key=shares.__getitem__)
    return {
        "error": float(np.mean(wrong)),
        "spread": _standard_error(wrong),
        "loss": _log_loss(probabilities[np.arange(len(y)), places]),
        "mean": float(np.mean(y != most)),
        "base_loss": _log_loss(np.append(list(shares.values()), 0.0)[places]),
        "predicted": len(np.unique(labels)),
    }


def _log_loss(probabilities: Array) -> float:
    """Return the log-loss of the probabilities of the true classes."""
    # A logarithm of a probability is at most 0; its negative would print as "-0" where all are 1.
    return abs(float(np.log(np.maximum(probabilities, LEAST)).mean()))


def _standard_error(values: Any) -> float:
    """Return the standard error of the mean of values."""
    return float(np.std(values) / len(values) ** 0.5)


def pairs(found: Found, y: Any) -> Any:
    """Return the numbers of rows of a task by true and predicted class."""
    return Counter(zip(y.tolist(), found["labels"].tolist(), strict=True))


def calibration(found: Found, y: Any) -> Array:
    """Return rows, sums of the largest probability, and right predictions, by the largest
    probability, (3, BINS).
    """
    largest = found["probabilities"].max(axis=1)
    # Booleans would not be added up.
    weights = (np.ones(len(y)), largest, 1.0 * (found["labels"] == y))
    sums = [np.histogram(largest, BINS, (0.0, 1.0), weights=each)[0] for each in weights]
    return np.array(sums)


def pooled(history: Sequence[Record]) -> dict[str, float]:
    """Return the means over rows of all errors of the tasks that have some; nothing if none has."""
    # A mean of means of tasks, weighted by rows, is the mean of all rows.
    known = pd.DataFrame([each for each in history if each["error"] is not None])
    if known.empty:
        return {}
    errors = known.drop(columns=["task", "rows", "changes"])
    sums = known["rows"] @ errors
    return dict(sums / known["rows"].sum())


def checked(plain: Record) -> Record:
    """Return the record of a task; ValueError unless its items are what reports expect."""
    for name in plain.keys() - {"task", "changes"}:
        value = plain[name]
        # True is an int for isinstance.
        if value is not None and not (type(value) in (int, float) and np.isfinite(value)):
            raise ValueError(f"{name} of a task is not a number")
    if not isinstance(plain["task"], str) or plain["rows"] < 1:
        raise ValueError("a task has no name or no rows")
    changes = [[str(column), str(text), bool(severe)] for column, text, severe in plain["changes"]]
    return {**plain, "changes": changes}


# --- alarms ---

FEWEST = 2
"""Errors of earlier tasks without which there is no alarm: the first can be of the third task."""

USUAL = 5
"""Errors of earlier tasks from which on they tell how much errors vary."""

WINDOW = 20
"""Tasks that are looked back to."""

LARGER = 1.5
ERRORS = 3.0
"""With few earlier errors: factor over the largest of them, and standard errors of the task's own
error."""

DEVIATIONS = 4.0
"""With more of them: robust standard deviations of the logarithms above their median."""

WILD = 100.0
"""Times the median error that are an alarm whatever the standard error: one wrong target among n
has the error v²/n and the standard error v²/n too, so that no number of standard errors tells.
Among 1,841 tasks of 100 real tables it adds one alarm to 189."""

FEW_ROWS = 0.5
"""A standard error that is a larger fraction of the error shows that fewer than four rows have
nearly all of it: k equal ones give 1/√k."""

BIASED = 0.3
BIAS_ERRORS = 5.0
"""Mean residual that is shown as a note, in RMSEs and in standard errors: 27 % of real tasks have
one, so that it is no alarm."""


TOLD = 3
"""Changes that an alarm tells."""

AGAIN = "fit the corrected table, from a model that has not learned this task"
"""How a task is unlearned: a model file is kept, and nothing is subtracted from it."""

REMEDIES = {
    "; unit": f"Convert the column to the unit of earlier tasks; if it is learned already, {AGAIN}",
    "labels never": "Correct labels that are known ones in another spelling; new ones have no"
    " effect until they are learned",
    "is not in": "Add the column, or give it the name that it had",
    "missing,": "Find out why values are missing; gaps that are to stay are learned as such",
    "begins on": "Check the dates; if they are right, go on",
    "": "Check where the column comes from; if it is right, start again from this task",
}
"""What to do about severe changes whose text, of ``changes.py``, has these words."""


class Alarm(NamedTuple):
    """A task, what is wrong with it, and what to do."""

    task: str
    text: str
    remedy: str

    def sentence(self) -> str:
        """Return the alarm as a line."""
        return f"{self.task}: {self.text}. {self.remedy}"


def alarms(history: Sequence[Record], objective: str = "next") -> list[Alarm]:
    """Return the alarms of tasks that have been learned.

    A severe change of a column explains an error, and is named instead of it.

    Parameters
    ----------
    history : sequence of records of ``TableModel.history_``
    objective : "next" or "all"
        What the model was fitted for; it decides what to advise.

    Examples
    --------
    >>> errors = [None, 1.0, 1.1, 0.9, 5.0, 1.0]
    >>> tasks = [{"task": str(t), "rows": 100, "error": e, "spread": 0.1, "changes": []}
    ...          for t, e in enumerate(errors)]
    >>> [alarm.task for alarm in alarms(tasks)]
    ['4']
    """
    found = []
    for t, record in enumerate(history):
        severe = [each for each in record["changes"] if each[2]]
        if severe:
            found.append(of_changes(record["task"], severe))
        elif is_out_of_line(history[:t], record):
            found.append(_of_error(history[:t], record, objective))
    return found


def is_out_of_line(before: Sequence[Record], record: Record) -> bool:
    """Return whether the error of a task is far above those of the tasks before it."""
    errors = _errors(before)
    now = record["error"]
    if now is None or len(errors) < FEWEST:
        return False
    usual = float(np.median(errors))
    # A fraction of wrong rows may well be a hundred times that of a model that is nearly perfect.
    if now > WILD * usual and "loss" not in record:
        return True
    # The standard error of a mean of squares is itself uncertain with heavy tails.
    base = max(errors)
    limit = LARGER * base
    if len(errors) >= USUAL:
        base = usual
        logs = np.log(np.maximum(errors, 1e-300))
        # 1.4826 median deviations are a standard deviation of normal errors, √(2/n) that of a task
        # of n rows whose squared errors are χ².
        deviation = 1.4826 * np.median(np.abs(logs - np.median(logs)))
        deviation = max(deviation, math.sqrt(2.0 / record["rows"]))
        limit = usual * math.exp(DEVIATIONS * deviation)
    return bool(now > limit and now - ERRORS * record["spread"] > base)


def level_note(history: Sequence[Record]) -> str:
    """Return a sentence on the last task if all of it was predicted too low or too high."""
    errors = _errors(history[:-1])
    last = history[-1]
    if not errors or last.get("bias") is None:
        return ""
    bias = last["bias"]
    # A mean of n residuals has the standard error √(error/n).
    least = BIASED * np.mean(errors) ** 0.5
    error = (last["error"] / last["rows"]) ** 0.5
    if abs(bias) <= max(least, BIAS_ERRORS * error):
        return ""
    where = "low" if bias > 0 else "high"
    return f"{last['task']} was predicted too {where} by {abs(bias):.4g} on average"


def _errors(records: Sequence[Record]) -> list[float]:
    """Return the errors of the last records that have some."""
    known = [record["error"] for record in records if record["error"] is not None]
    return known[-WINDOW:]


def of_changes(task: str, severe: Sequence[Any]) -> Alarm:
    """Return the alarm of a task with severe changes, each a column, a text and True.

    The first ones are told, with what to do about the first kind in ``REMEDIES``.
    """
    text = "; ".join(f"{column} {change}" for column, change, _ in severe[:TOLD])
    remedy = next(REMEDIES[words] for words in REMEDIES if words in text)
    return Alarm(task, text, remedy)


def _of_error(before: Sequence[Record], record: Record, objective: str) -> Alarm:
    """Return the alarm of a task whose error is out of line, as a multiple of the median error.

    Of numbers the multiple is that of RMSEs, which have the unit of the target.
    """
    usual = np.median(_errors(before))
    times = record["error"] / max(usual, 1e-300)
    if "loss" not in record:
        times = math.sqrt(times)
    text = f"the error is {times:.3g} times the usual one"
    # A model that has learned a wrong task is wrong for the next ones too.
    remedy = (
        "If the task before has an alarm, mend that one first; else look at the rows of this one,"
        " and if what they show is to stay, start again from it"
    )
    if objective == "all":
        remedy += ", or fit with --objective next, which follows changes"
    if record["spread"] > FEW_ROWS * record["error"]:
        text += ", nearly all of it of a few rows"
        remedy = f"Look for targets that are wrong, correct them, and {AGAIN}"
    return Alarm(record["task"], text, remedy)

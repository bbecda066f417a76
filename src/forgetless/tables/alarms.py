"""Alarms: tasks that a model predicted far worse, before it learned them, than the tasks before.

An alarm is a task to look at, not a cause. Gradual drift raises none: the errors by task show it.
``benchmarks/alarms.py`` measures how often alarms are false and how many changes they find.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

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

BIASED = 0.3
BIAS_ERRORS = 5.0
"""Mean residual that is shown as a note, in RMSEs and in standard errors: 27 % of real tasks have
one, so that it is no alarm."""


class Alarm(NamedTuple):
    """A task, what is wrong with it, and what to do."""

    task: str
    text: str
    remedy: str

    def sentence(self) -> str:
        """Return the alarm as a line."""
        return f"{self.task}: {self.text}. {self.remedy}"


def alarms(history: Sequence[Mapping[str, Any]], objective: str = "next") -> list[Alarm]:
    """Return the alarms of tasks that have been learned.

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
            found.append(_of_columns(str(record["task"]), severe))
        elif is_out_of_line(history[:t], record):
            found.append(_of_error(history[:t], record, objective))
    return found


def is_out_of_line(before: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> bool:
    """Return whether the error of a task is far above those of the tasks before it."""
    errors = _errors(before)
    now = record["error"]
    if now is None or len(errors) < FEWEST:
        return False
    if len(errors) < USUAL:
        # The standard error of a mean of squares is itself uncertain with heavy tails.
        return bool(now - ERRORS * record["spread"] > max(errors) and now > LARGER * max(errors))
    logs = np.log(np.maximum(errors, 1e-300))
    middle = float(np.median(logs))
    # 1.4826 median deviations are a standard deviation of normal errors, √(2/n) that of a task of
    # n rows whose squared errors are χ².
    deviation = 1.4826 * float(np.median(np.abs(logs - middle)))
    deviation = max(deviation, math.sqrt(2.0 / record["rows"]))
    is_far = math.log(max(now, 1e-300)) > middle + DEVIATIONS * deviation
    return is_far and now - ERRORS * record["spread"] > math.exp(middle)


def level_note(history: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the last task if all of it was predicted too low or too high."""
    errors = _errors(history[:-1])
    last = history[-1] if history else {}
    if not errors or last.get("bias") is None:
        return ""
    typical = math.sqrt(float(np.mean(errors)))
    bias = last["bias"]
    error = math.sqrt(last["error"] / last["rows"])
    if abs(bias) <= BIASED * typical or abs(bias) <= BIAS_ERRORS * error:
        return ""
    where = "low" if bias > 0 else "high"
    return f"{last['task']} was predicted too {where} by {abs(bias):.4g} on average"


def _errors(records: Sequence[Mapping[str, Any]]) -> list[float]:
    known = [record["error"] for record in records if record["error"] is not None]
    return known[-WINDOW:]


def _of_columns(task: str, severe: Sequence[Any]) -> Alarm:
    more = "" if len(severe) == 1 else f", and {len(severe) - 1} more columns changed"
    column, text, _ = severe[0]
    remedy = (
        f"Check the unit and the source of {column}; if the table is right, go on, or start again"
        " from this task"
    )
    return Alarm(task, f"{column} {text}{more}", remedy)


def _of_error(
    before: Sequence[Mapping[str, Any]], record: Mapping[str, Any], objective: str
) -> Alarm:
    usual = float(np.median(_errors(before)))
    times = record["error"] / max(usual, 1e-300)
    if record.get("loss") is None:
        times = math.sqrt(times)
    remedy = "Look at its rows; if what it shows is to stay, start again from this task"
    if objective == "all":
        remedy += ", or fit with --objective next, which follows changes"
    return Alarm(str(record["task"]), f"the error is {times:.1f} times the usual one", remedy)

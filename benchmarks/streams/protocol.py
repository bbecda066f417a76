"""How a learner is judged on a stream, and how its settings are chosen without looking ahead.

A task is learned once. *Prequential* is the error of predicting a task's rows before it is learned, from the first task
after those that give the units. *Final* is the error on the held-out rows of all tasks after the last one, tasks
counting alike; *learned* the same right after each task, so that their difference is what was forgotten. Errors are
mean squares over the variance of the targets, or shares of wrong classes.

Settings are tuned on the first third of the tasks, for every method alike: the one with the smallest error on held-out
rows of these tasks after the last of them learns the whole stream. The rest of the stream is never looked at twice.
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from streams.data import Stream, Task

Maker = Callable[[], Any]
"""Makes a learner with ``partial_fit``, ``predict`` and ``nbytes_``."""


@dataclass(frozen=True)
class Score:
    """What a learner did on a stream; ``setting`` is the index of the one that was chosen, of ``tried``.

    ``kept`` is the share of what was seen that a memory holds, NaN where there is none.
    """

    prequential: float
    final: float
    learned: float
    seconds: float
    nbytes: int
    kept: float = math.nan
    setting: int = 0
    tried: int = 1

    @property
    def forgotten(self) -> float:
        """How much the error on a task grew after it was learned, in the mean."""
        return self.final - self.learned

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, None for those that are not finite."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def evaluate(make: Maker, tasks: Sequence[Task], kind: str, n_first: int = 0) -> Score:
    """Let one learner meet all tasks in turn."""
    model, before, rows, after, seconds = make(), 0.0, 0, [], 0.0
    unit = _unit(tasks, kind)
    for t, task in enumerate(tasks):
        if t >= max(1, n_first):
            before += _error(model, task.X, task.y, kind) * len(task.y)
            rows += len(task.y)
        start = time.perf_counter()
        model.partial_fit(task.X, task.y)
        seconds += time.perf_counter() - start
        after.append(_error(model, task.X_held, task.y_held, kind))
    final = float(np.mean([_error(model, task.X_held, task.y_held, kind) for task in tasks])) / unit
    prequential = before / rows / unit if rows else math.nan
    kept = float(getattr(model, "retained_fraction_", math.nan))
    return Score(prequential, final, float(np.mean(after)) / unit, seconds, int(model.nbytes_), kept)


def tuned(makers: Sequence[Maker], tasks: Sequence[Task], stream: Stream) -> Score:
    """Choose a setting on the first third of the tasks, and let it meet all of them."""
    chosen = 0
    if len(makers) > 1:
        few = tasks[: max(2, math.ceil(len(tasks) / 3))]
        finals = [_safe(make, few, stream.kind, 0).final for make in makers]
        chosen = int(np.argmin([each if math.isfinite(each) else math.inf for each in finals]))
    score = _safe(makers[chosen], tasks, stream.kind, stream.n_first)
    return Score(**{**asdict(score), "setting": chosen, "tried": len(makers)})


def _safe(make: Maker, tasks: Sequence[Task], kind: str, n_first: int) -> Score:
    """Evaluate; a learner that diverges has an infinite error, and that is its score."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return evaluate(make, tasks, kind, n_first)
    except (ValueError, ArithmeticError) as error:
        if not any(word in str(error) for word in ("infinity", "NaN", "finite", "overflow")):
            raise
        return Score(math.inf, math.inf, math.inf, math.nan, 0)


def _unit(tasks: Sequence[Task], kind: str) -> float:
    if kind == "classes":
        return 1.0
    return float(np.concatenate([task.y for task in tasks]).var()) or 1.0


def _error(model: Any, X: Any, y: Any, kind: str) -> float:
    found = model.predict(X)
    return float(np.mean(found != y) if kind == "classes" else np.mean((found - y) ** 2))

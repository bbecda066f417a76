"""``explore``: the page with tasks and a schedule, for a notebook, a file or a server."""

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless.explorer.page import page
from forgetless.explorer.plain import FEATURES, MOST_STEPS, is_literal, plain_schedule, plain_tasks
from forgetless.filters import Filter
from forgetless.guarantees.upper import upper_bound
from forgetless.io.atomic import replace_file
from forgetless.schedules import Schedule, resolve
from forgetless.schedules.presets import Increasing
from forgetless.tasks import TaskCollection


@dataclass(frozen=True, eq=False)
class Explorer:
    """A page in which a schedule is drawn and its exact expected loss follows; a notebook shows it.

    Attributes
    ----------
    tasks : TaskCollection or None
    data : dict
        The content of the page, as plain values.
    """

    tasks: TaskCollection | None
    data: dict[str, Any] = field(repr=False)

    @property
    def html(self) -> str:
        """The whole page, which needs no other file and no network."""
        if self.data.get("large"):
            raise ValueError(
                f"the page computes in up to {FEATURES} coordinates; these span"
                f" {self.data['large']['span']}; open them with Python behind the page: forgetless"
                " explore FILE"
            )
        return page(self.data)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, which any browser opens, and return its path."""
        target = Path(path)
        replace_file(target, self.html.encode())
        return target

    def _repr_html_(self) -> str:
        # Without allow-same-origin the page can reach nothing of the notebook around it.
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            'title="forgetless explorer" style="width:100%;height:900px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        inside = "no tasks" if self.tasks is None else repr(self.tasks)
        return (
            f"Explorer({inside}): show it in a notebook, or open the file that"
            " .save('explorer.html') writes"
        )


def explore(
    tasks: TaskCollection | None = None,
    schedule: Schedule | Filter | None = None,
    k: int | None = None,
    *,
    source: dict[str, Any] | None = None,
    large: bool = False,
) -> Explorer:
    """Return a page in which schedules are drawn by hand and their exact expected loss follows.

    Parameters
    ----------
    tasks : TaskCollection, optional
        With one target. The page computes in the coordinates of the joint span, up to 60 of them;
        without tasks it starts with three that have noisy labels, and others can be chosen or
        loaded in it.
    schedule : schedule or filter, optional
        Of ``Ridge``, ``GradientDescent`` or ``Projection``; ``schedules.increasing()`` if omitted.
    k : int, optional
        Number of steps, up to 5000; that of the schedule, or 100, if omitted.
    source : dict, optional
        Where the tasks come from, for the Python code that the page writes.
    large : bool, default False
        Whether to accept tasks beyond the page's own engine, for a server that computes them.

    Returns
    -------
    Explorer
        Shown inline by a notebook; ``.save("explorer.html")`` writes it to a file.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.theory.constructions.two_tasks(np.pi / 8)
    >>> shown = fl.explore(tasks, fl.schedules.increasing(), k=50)
    >>> len(shown.html) < 300_000
    True
    """
    if tasks is None:
        state: dict[str, Any] = {} if k is None else {"k": _steps(k)}
        if schedule is not None:
            raise TypeError(
                "schedule needs tasks, whose radius is its unit; pass tasks too, or leave it out"
            )
        return Explorer(None, {"state": state})
    if not isinstance(tasks, TaskCollection):
        raise TypeError(
            f"tasks must be a TaskCollection, got {type(tasks).__name__}; wrap pairs as"
            " fl.TaskCollection(pairs)"
        )
    if tasks.n_targets > 1:
        raise ValueError(
            f"tasks must have one target to be explored, got {tasks.n_targets}; choose a column"
            " of y"
        )
    horizon = schedule.horizon if isinstance(schedule, Filter) else None
    k = _steps(k if k is not None else horizon or 100)
    chosen = Increasing() if schedule is None else schedule
    state = {"kind": "data", "k": k, **plain_schedule(chosen, k, tasks.radius)}
    data: dict[str, Any] = {"state": state, "source": source or _source(tasks)}
    if min(tasks.n_features, tasks.span_dimension) <= FEATURES:
        data["tasks"] = plain_tasks(tasks)
    elif large:
        data["large"] = _facts(tasks)
    else:
        raise ValueError(
            f"tasks must span at most {FEATURES} coordinates for the page, got"
            f" {tasks.span_dimension}; use fewer features, or open their file with Python behind"
            " the page: forgetless explore FILE"
        )
    data["upper_bound"] = _upper_bound(tasks, chosen, k)
    return Explorer(tasks, data)


def _steps(k: Any) -> int:
    steps = validate.integer("k", k, 1, "ask for at least one step")
    if steps > MOST_STEPS:
        raise ValueError(
            f"k must be at most {MOST_STEPS} for the page, got {steps}; use fl.expect for more"
            " steps"
        )
    return steps


def _source(tasks: TaskCollection) -> dict[str, Any] | None:
    """Return the origin of the tasks for the code on the page; None where the code holds their
    rows.
    """
    if is_literal(tasks):
        return None
    return {
        "kind": "given",
        "code": "tasks = ...  # the TaskCollection that fl.explore was called with",
    }


def _facts(tasks: TaskCollection) -> dict[str, Any]:
    """Return facts about tasks that are not on the page."""
    return {
        "d": tasks.n_features,
        "span": tasks.span_dimension,
        "M": tasks.n_tasks,
        "radius": tasks.radius,
        "distance": _distance(tasks),
        "realizable": tasks.is_realizable(),
    }


def _distance(tasks: TaskCollection) -> float:
    return float(np.linalg.norm(tasks.teacher()))


def _upper_bound(tasks: TaskCollection, schedule: Schedule | Filter, k: int) -> float | None:
    """Return the upper bound of a schedule for tasks that one model fits; None where there is
    none.
    """
    if not tasks.is_realizable() or tasks.radius == 0:
        return None
    try:
        filter_ = resolve(schedule, k, tasks.radius)
        return upper_bound(filter_, k, radius=tasks.radius, distance=_distance(tasks)).value
    except ValueError:  # of steps that no theorem covers
        return None

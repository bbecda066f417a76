"""``explore``: one self-contained HTML page with a user's tasks and schedule, for a notebook, a file or a server."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import to_numpy
from forgetless.explorer.plain import FEATURES, MOST_STEPS, is_literal, plain_schedule, plain_tasks
from forgetless.filters import Filter
from forgetless.guarantees.upper import upper_bound
from forgetless.io.atomic import replace_file
from forgetless.schedules import Schedule, resolve
from forgetless.schedules.presets import Increasing
from forgetless.tasks import TaskCollection

ASSETS = Path(__file__).with_name("assets")

ENGINE = (
    "engine/spectrum.js",
    "engine/problem.js",
    "engine/moments.js",
    "engine/draws.js",
    "engine/one_order.js",
    "engine/engine.js",
)
"""The exact engine, which needs nothing else."""

SCRIPTS = (
    *ENGINE,
    "page/tasks.js",
    "page/reading.js",
    "page/npz.js",
    "page/schedules.js",
    "page/state.js",
    "page/descent.js",
    "page/plot.js",
    "page/search.js",
    "page/draw.js",
    "page/losses.js",
    "page/geometry.js",
    "page/code.js",
    "page/export.js",
    "page/server.js",
    "page/results.js",
    "page/walk.js",
    "page/app.js",
    "page/controls.js",
    "page/files.js",
)
"""All scripts of the page, each one idea, in an order in which each knows those above it."""


def read(*names: str) -> str:
    """Return assets one after the other."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def page(data: Mapping[str, Any] | None = None, *, served: bool = False) -> str:
    """Return the whole page.

    Parameters
    ----------
    data : mapping, optional
        Plain values: ``state``, ``tasks``, ``source``, ``upper_bound``; a server adds ``token``, ``held``, ``large``.
    served : bool, default False
        Whether the page may connect to the server that it comes from.

    Examples
    --------
    >>> from forgetless.explorer.page import page
    >>> "Draw the regularization" in page(), len(page()) < 300_000
    (True, True)
    """
    style, script = read("style.css"), "\n".join(["(() => {", read(*SCRIPTS), "window.App = App;", "})();"])
    parts = {
        "policy": policy(style, script, served=served),
        "style": style,
        "data": embedded({"shipped": shipped(), "constants": constants(), **(data or {})}),
        "script": script,
    }
    # In one pass over the template, so that nothing in a part is taken for a place.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], read("index.html"))


def policy(style: str, script: str, *, served: bool) -> str:
    """Return the Content-Security-Policy: this style, this script, pictures made here, and no connection to others."""
    allowed = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data: blob:",
        "connect-src": "'self'" if served else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Mapping[str, Any]) -> str:
    r"""Return plain values as JSON that cannot end its HTML element, whatever text is in it.

    Examples
    --------
    >>> from forgetless.explorer.page import embedded
    >>> print(embedded({"label": "</script><b>"}))
    {"label":"\u003c/script\u003e\u003cb\u003e"}
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def constants() -> dict[str, float]:
    """Return the constants c of guarantees c·R²D²/(k+1) for the theorem's schedule, by what the page calls them."""
    from forgetless.theory.bounds import catalogue

    names = {
        "paper": "increasing",
        "seen": "increasing, seen tasks",
        "ridge": "increasing, every k",
        "size": "increasing, one gradient step, every k",
    }
    k = 3  # all are c/(k+1)
    return {key: round((k + 1) * catalogue[name].evaluate(k, 1.0, 1.0), 9) for key, name in names.items()}


@cache
def shipped() -> tuple[dict[str, Any], ...]:
    """Return the worst collections known, as the page takes them."""
    from forgetless.guarantees.collection import load_worst_collection

    titles = {"none": "no regularization", "fixed": "the fixed schedule", "increasing": "the theorem's schedule"}
    collections = []
    for schedule, title in titles.items():
        for k in (64, 256):
            worst = load_worst_collection(schedule, k)
            plain = {"name": f"{schedule}-{k}", "title": f"{title}, k = {k}", "schedule": schedule, "k": k}
            plain |= {"rows": worst.rows.tolist(), "counts": worst.counts.tolist(), "teacher": worst.teacher.tolist()}
            collections.append(plain)
    return tuple(collections)


@dataclass(frozen=True, eq=False)
class Explorer:
    """An interactive schedule editor that shows the exact expected loss; notebooks display it.

    Attributes
    ----------
    tasks : TaskCollection or None
    data : dict
        What is inside the page, as plain values.
    """

    tasks: TaskCollection | None
    data: dict[str, Any] = field(repr=False)

    @property
    def html(self) -> str:
        """The whole page, which needs no other file and no network."""
        if self.data.get("large"):
            raise ValueError(
                f"the page computes in up to {FEATURES} coordinates; these span {self.data['large']['span']}; open "
                "them with Python behind the page: forgetless explore FILE"
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
        return f"Explorer({inside}): show it in a notebook, or open the file that .save('explorer.html') writes"


def explore(
    tasks: TaskCollection | None = None,
    schedule: Schedule | Filter | None = None,
    k: int | None = None,
    *,
    source: dict[str, Any] | None = None,
    large: bool = False,
) -> Explorer:
    """Return an interactive schedule editor that shows the exact expected loss.

    Parameters
    ----------
    tasks : TaskCollection, optional
        With one target. The page computes in the coordinates of the joint span, up to 60 of them; without tasks it
        starts with two at an angle, and others can be chosen or loaded in it.
    schedule : schedule or filter, optional
        Of ``Ridge``, ``GradientDescent`` or ``Projection``; ``schedules.increasing()`` if omitted.
    k : int, optional
        Number of steps, up to 5000; that of the schedule, or 100, if omitted.
    source : dict, optional
        Where the tasks come from, for the Python code that the page writes.
    large : bool, default False
        Whether tasks that the page cannot compute with are taken, for a server that does.

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
            raise TypeError("schedule needs tasks, whose radius is its unit; pass tasks too, or leave it out")
        return Explorer(None, {"state": state})
    if not isinstance(tasks, TaskCollection):
        raise TypeError(
            f"tasks must be a TaskCollection, got {type(tasks).__name__}; wrap pairs as fl.TaskCollection(pairs)"
        )
    if tasks.n_targets > 1:
        raise ValueError(f"tasks must have one target to be explored, got {tasks.n_targets}; choose a column of y")
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
            f"tasks must span at most {FEATURES} coordinates for the page, got {tasks.span_dimension}; use fewer "
            "features, or open their file with Python behind the page: forgetless explore FILE"
        )
    data["upper_bound"] = _upper_bound(tasks, chosen, k)
    return Explorer(tasks, data)


def _steps(k: Any) -> int:
    n_steps = validate.integer("k", k, 1, "ask for at least one step")
    if n_steps > MOST_STEPS:
        raise ValueError(f"k must be at most {MOST_STEPS} for the page, got {n_steps}; use fl.expect for more steps")
    return n_steps


def _source(tasks: TaskCollection) -> dict[str, Any] | None:
    """Return how the page's code gets the tasks; None where it can hold their rows."""
    if is_literal(tasks):
        return None
    return {"kind": "given", "code": "tasks = ...  # the TaskCollection that fl.explore was called with"}


def _facts(tasks: TaskCollection) -> dict[str, Any]:
    """Return the facts that the page shows about tasks that only Python holds."""
    return {
        "d": tasks.n_features,
        "span": tasks.span_dimension,
        "M": tasks.n_tasks,
        "radius": tasks.radius,
        "distance": _distance(tasks),
        "realizable": tasks.is_realizable(),
    }


def _distance(tasks: TaskCollection) -> float:
    return float(np.linalg.norm(to_numpy(tasks.teacher())))


def _upper_bound(tasks: TaskCollection, schedule: Schedule | Filter, k: int) -> float | None:
    """Return the upper bound of a schedule for tasks that one model fits; None where there is none."""
    if not tasks.is_realizable() or tasks.radius == 0:
        return None
    try:
        filter_ = resolve(schedule, k, tasks.radius)
        return upper_bound(filter_, k, radius=tasks.radius, distance=_distance(tasks)).value
    except ValueError:  # of steps that no theorem covers
        return None

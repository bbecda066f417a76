"""The explorer: one self-contained page in which schedules are drawn and their exact loss follows.

The page is put together from the files in ``assets``. Its JavaScript has an exact engine of its own
and connects to nothing: a Content-Security-Policy allows this script and this style alone.
"""

import base64
import hashlib
import json
import re
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless.filters import GradientDescent, Projection, Ridge
from forgetless.io import replace_file
from forgetless.lab.problem import check_tasks
from forgetless.schedules import Named, ScheduleLike, resolve
from forgetless.schedules.named import as_schedule
from forgetless.tasks import TaskCollection

__all__ = ["explore"]


ASSETS = Path(__file__).with_name("assets")

ENGINE = ("spectrum", "problem", "moments", "draws", "one_order", "engine")
"""The scripts of the exact engine, each after those that it uses."""

PAGE = (
    *("tasks", "schedules", "state", "descent", "plot", "search", "draw", "losses"),
    *("code", "results", "app", "controls", "take"),
)
"""The scripts of the page."""

FEATURES = 60
"""Coordinates in which the page computes."""

_MOST_STEPS = 5000
"""Steps that the page draws."""

_MOST_BYTES = 5_000_000
"""Size of a page."""

_LITERAL = 20_000
"""Numbers up to which the page holds the rows as they are, so that its code can hold them too."""


def explore(
    tasks: TaskCollection | None = None,
    schedule: ScheduleLike | None = None,
    k: int | None = None,
    *,
    out: str | Path | None = None,
    show: bool = True,
    source: str | None = None,
) -> Path:
    """Write a page in which schedules are drawn by hand and their exact expected loss follows, open
    it in a browser, and return its path.

    The page is one HTML file that needs neither Python nor a network; send it to others.

    Parameters
    ----------
    tasks : TaskCollection, optional
        With one target, in at most 60 coordinates of the joint span. Without tasks the page starts
        with three that have noisy labels; others can be chosen in it.
    schedule : schedule, filter, name or number, optional
        Of ``Ridge``, ``GradientDescent`` or ``Projection``; ``schedules.increasing()`` if omitted.
    k : int, optional
        Number of steps, up to 5000; that of the schedule, or 100, if omitted.
    out : path, optional
        Where to write it; a temporary file if omitted.
    show : bool, default True
        Whether to open it in a browser.
    source : str, optional
        Python code that assigns ``tasks``, for the code that the page writes; needed for more than
        20,000 numbers, which that code does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.theory.constructions.two_tasks(np.pi / 8)
    >>> path = fl.explore(tasks, fl.schedules.increasing(), k=50, show=False)
    >>> path.stat().st_size < 300_000
    True
    """
    text = page(_data(tasks, schedule, k, source)).encode()
    if len(text) > _MOST_BYTES:
        raise ValueError(
            f"tasks must fit into a page of {_MOST_BYTES / 1e6:g} MB, these take"
            f" {len(text) / 1e6:.1f}; explore some of the tasks, or use fl.expect"
        )
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="forgetless-")) / "explorer.html"
    path = Path(out)
    replace_file(path, text)
    if show:
        webbrowser.open(path.resolve().as_uri())
    return path


def page(data: Mapping[str, Any]) -> str:
    """Return the whole page with plain values inside: ``state``, ``tasks`` and ``source``."""
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    files = [f"engine/{name}.js" for name in ENGINE] + [f"page/{name}.js" for name in PAGE]
    scripts = [(ASSETS / name).read_text(encoding="utf-8") for name in files]
    script = "\n".join(["(() => {", *scripts, "window.App = App;", "})();"])
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "style": style,
        "data": embedded({"constants": constants(), **data}),
        "script": script,
    }
    template = (ASSETS / "index.html").read_text(encoding="utf-8")
    # In one pass over the template, so that text in a part is never taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Mapping[str, Any]) -> str:
    r"""Return plain values as JSON that cannot end the element around it, whatever text they hold.

    Examples
    --------
    >>> from forgetless.explorer import embedded
    >>> print(embedded({"label": "</script><b>"}))
    {"label":"\u003c/script\u003e\u003cb\u003e"}
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def constants() -> dict[str, float]:
    """Return the constants c of guarantees c·R²D²/(k+1) for the theorem's schedule, by what the
    page calls them.
    """
    from forgetless.theory.bounds import catalogue

    names = {
        "paper": "increasing",
        "seen": "increasing, seen tasks",
        "ridge": "increasing, every k",
        "size": "increasing, one gradient step, every k",
    }
    # All are c/(k+1).
    return {key: round(4 * catalogue[name].at(3), 9) for key, name in names.items()}


def _data(tasks: Any, schedule: Any, k: int | None, source: str | None) -> dict[str, Any]:
    """Return the content of the page as plain values."""
    if tasks is None:
        if schedule is not None:
            raise TypeError(
                "schedule needs tasks, whose radius is its unit; pass tasks too, or leave it out"
            )
        return {"state": {} if k is None else {"k": _steps(k)}}
    check_tasks(tasks)
    if tasks.n_targets > 1 or tasks.noise or tasks.walk:
        raise ValueError(
            f"tasks must have one target and neither noise nor walk to be explored, got"
            f" {tasks.n_targets}, {tasks.noise:g} and {tasks.walk:g}; choose a column of y"
        )
    if min(tasks.n_features, tasks.span_dimension) > FEATURES:
        raise ValueError(
            f"tasks must span at most {FEATURES} coordinates for the page, got"
            f" {tasks.span_dimension}; use fewer features, or fl.expect"
        )
    horizon = getattr(schedule, "horizon", None)
    k = _steps(k if k is not None else horizon or 100)
    chosen = as_schedule("increasing" if schedule is None else schedule, tasks.n_tasks)
    drawn = plain_schedule(chosen, k, tasks.radius)
    n_numbers = sum(task.X.shape[0] for task in tasks) * tasks.n_features
    literal = tasks.n_features <= FEATURES and n_numbers <= _LITERAL
    if source is None and not literal:
        source = "tasks = ...  # the TaskCollection that fl.explore was called with"
    return {
        "state": {"kind": "data", "k": k, **drawn},
        "tasks": _plain_tasks(tasks, literal),
        "source": source,
    }


def _steps(k: Any) -> int:
    steps = validate.integer("k", k, 1, "ask for at least one step")
    if steps > _MOST_STEPS:
        raise ValueError(
            f"k must be at most {_MOST_STEPS} for the page, got {steps}; use fl.expect for more"
            " steps"
        )
    return steps


def _plain_tasks(tasks: TaskCollection, literal: bool) -> dict[str, Any]:
    """Return tasks as plain values: their rows, or fewer rows with the same losses.

    Losses depend on the singular values s, the singular vectors V and the targets alone, so that
    s∘V can replace the rows; where there are more features than coordinates of the joint span, in
    these coordinates.
    """
    if literal:
        rows = [
            {"X": np.asarray(task.X).tolist(), "y": np.ravel(task.y).tolist(), "floor": 0.0}
            for task in tasks
        ]
        return {"d": tasks.n_features, "tasks": rows}
    basis = np.eye(tasks.n_features)
    if tasks.n_features > FEATURES:
        basis = tasks.span
    rows = []
    for task in tasks:
        s = np.asarray(task.singular_values)
        X = s[:, None] * (np.asarray(task.singular_vectors) @ basis)
        y = s * np.ravel(task.targets)
        rows.append({"X": X.tolist(), "y": y.tolist(), "floor": task.floor})
    return {"d": basis.shape[1], "tasks": rows}


def plain_schedule(schedule: ScheduleLike, k: int, radius: float) -> dict[str, Any]:
    """Return a schedule as the state of the page: its name, or the value of every step in units of
    R².
    """
    if isinstance(schedule, Named) and schedule.name == "increasing":
        return {"scheme": "ridge", "schedule": {"preset": schedule.name, **schedule.arguments}}
    filter_ = resolve(schedule, k, radius)
    square = radius * radius or 1.0
    if isinstance(filter_, Projection):
        return {"scheme": "ridge", "schedule": {"preset": "none"}}
    if isinstance(filter_, Ridge):
        return {"scheme": "ridge", "schedule": _values(filter_.coefficient, k, 1 / square)}
    if not isinstance(filter_, GradientDescent):
        raise TypeError(
            "schedule must be of Ridge, GradientDescent or Projection to be drawn, got"
            f" {filter_!r}; use fl.expect"
        )
    counts = np.unique(filter_.n_steps)
    sizes = np.unique(filter_.step_size)
    if counts.size == 1:
        drawn = _values(filter_.step_size, k, square)
        return {"scheme": "size", "n": int(counts[0]), "schedule": drawn}
    if sizes.size == 1:
        drawn = _values(filter_.n_steps, k, 1.0)
        return {"scheme": "budget", "size": float(sizes[0] * square), "schedule": drawn}
    raise ValueError(
        "schedule must have one n_steps or one step_size for all steps to be drawn, got many of"
        " both; use fl.expect"
    )


def _values(values: Any, k: int, unit: float) -> dict[str, Any]:
    each = np.broadcast_to(np.asarray(values, dtype=np.float64), (k,))
    return {"preset": "given", "values": (each * unit).tolist()}

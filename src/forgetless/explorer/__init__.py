"""The explorer: one self-contained page in which schedules are drawn and their exact loss follows.

The page is put together from the files in ``assets``: ``engine`` computes, ``page`` draws and
listens. Its JavaScript has an exact engine of its own and connects to nothing: a
Content-Security-Policy allows this script and this style alone. Python hands over the tasks, the
schedule to begin with and the proved constants as one JSON value.

The engine is tested against ``fl.expect`` on the same tasks; it follows second moments in the joint
span of the tasks, and is limited by ``FEATURES`` coordinates for that reason.
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
from forgetless.lab import check_tasks
from forgetless.schedules import Named, ScheduleLike, resolve
from forgetless.schedules.named import as_schedule
from forgetless.tasks import TaskCollection

__all__ = ["explore"]


ASSETS = Path(__file__).with_name("assets")

ENGINE = ("spectrum", "problem", "moments", "draws", "one_order", "engine")
"""The scripts of the exact engine, each after those that it uses."""

PAGE = (
    "tasks",
    "schedules",
    "state",
    "descent",
    "plot",
    "search",
    "draw",
    "losses",
    "code",
    "results",
    "app",
    "controls",
    "take",
)
"""The scripts of the page, in the same way."""

FEATURES = 60
"""Coordinates in which the page computes: second moments are matrices of this size."""

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
    # A browser opens the file after this function has returned: nobody may remove it.
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="forgetless-")) / "explorer.html"
    path = Path(out)
    replace_file(path, text)
    if show:
        webbrowser.open(path.resolve().as_uri())
    return path


def page(data: Mapping[str, Any]) -> str:
    """Return the whole page with plain values inside: ``state``, ``tasks`` and ``source``.

    Parameters
    ----------
    data : mapping
        ``state`` has what the address of a page has, such as k and the schedule; ``tasks`` and
        ``source`` are there where tasks were given.
    """
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    files = [f"engine/{name}.js" for name in ENGINE] + [f"page/{name}.js" for name in PAGE]
    scripts = [(ASSETS / name).read_text(encoding="utf-8") for name in files]
    # One function keeps all names but App out of the global scope of the page.
    script = "\n".join(["(() => {", *scripts, "window.App = App;", "})();"])
    # Script and style are allowed by their digests: any other text in the page is not executed.
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
    """Return the source expression of a Content-Security-Policy for an inline text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(data: Mapping[str, Any]) -> str:
    r"""Return plain values as JSON that cannot end the element around it, whatever text they hold.

    NaN and infinities are refused, since no other JSON reader knows them.

    Examples
    --------
    >>> from forgetless.explorer import embedded
    >>> print(embedded({"label": "</script><b>"}))
    {"label":"\u003c/script\u003e\u003cb\u003e"}
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # These letters occur inside strings only, where an escape stands for the same letter.
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def constants() -> dict[str, float]:
    """Return the constants c of guarantees c·R²D²/(k+1) for the theorem's schedule, by what the
    page calls them.

    The page shows them beside the exact loss. They come from the catalogue, their only
    place.
    """
    from forgetless.theory.bounds import catalogue

    # What is guaranteed by the paper for both losses, and here for ridge steps and single gradient
    # steps.
    names = {
        "paper": "increasing",
        "seen": "increasing, seen tasks",
        "ridge": "increasing, every k",
        "size": "increasing, one gradient step, every k",
    }
    # All are c/(k+1).
    return {key: round(4 * catalogue[name].at(3), 9) for key, name in names.items()}


def _data(tasks: Any, schedule: Any, k: int | None, source: str | None) -> dict[str, Any]:
    """Return the content of the page as plain values, of arguments as those of ``explore``.

    Errors say what the page cannot draw, and which function of the library can compute it. Rows go
    into the page as they are where they are few: then the code that it writes holds them too.
    """
    # The page has tasks of its own, and its address says with which of them it starts.
    if tasks is None:
        if schedule is not None:
            raise TypeError(
                "schedule needs tasks, whose radius is its unit; pass tasks too, or leave it out"
            )
        state = {}
        if k is not None:
            state["k"] = _steps(k)
        return {"state": state}
    # The engine of the page has one column of weights and exact labels.
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
    # A schedule for a fixed number of steps says how many; 100 are quick and show every shape.
    if k is None:
        k = getattr(schedule, "horizon", None) or 100
    k = _steps(k)
    if schedule is None:
        schedule = "increasing"
    chosen = as_schedule(schedule, tasks.n_tasks)
    drawn = plain_schedule(chosen, k, tasks.radius)
    # Where the rows are many, the page has fewer with the same losses, and no code that makes them.
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
    """Return a number of steps that the page can draw; ValueError for more.

    The engine of the page follows them one by one, and a drawing has one number for each.
    """
    steps = validate.steps(k)
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
    basis = np.eye(tasks.n_features)
    if tasks.n_features > FEATURES:
        basis = tasks.span
    rows = []
    for task in tasks:
        X = np.asarray(task.X)
        y = np.ravel(task.y)
        # The least loss of the task: rows as they are have it by themselves.
        floor = 0.0
        if not literal:
            # ½‖Xw − y‖² = ½‖s∘(Vw − targets)‖² + floor
            s = np.asarray(task.singular_values)
            X = s[:, None] * (np.asarray(task.singular_vectors) @ basis)
            y = s * np.ravel(task.targets)
            floor = task.floor
        rows.append({"X": X.tolist(), "y": y.tolist(), "floor": floor})
    return {"d": basis.shape[1], "tasks": rows}


def plain_schedule(schedule: ScheduleLike, k: int, radius: float) -> dict[str, Any]:
    """Return a schedule as the state of the page: its name, or the value of every step in units of
    R².

    The page draws one number a step: λ of explicit L2, or of a budget either its number of gradient
    steps or their size, where the other one is the same at all steps.
    """
    # By its name the scale of the increasing schedule can be changed in the page.
    if isinstance(schedule, Named) and schedule.name == "increasing":
        return {"scheme": "ridge", "schedule": {"preset": schedule.name, **schedule.arguments}}
    filter_ = resolve(schedule, k, radius)
    square = radius * radius or 1.0
    drawn: dict[str, Any] = {"preset": "none"}
    if isinstance(filter_, Ridge):
        drawn = _values(filter_.coefficient, k, 1 / square)
    if isinstance(filter_, Ridge | Projection):
        return {"scheme": "ridge", "schedule": drawn}
    if not isinstance(filter_, GradientDescent):
        raise TypeError(
            "schedule must be of Ridge, GradientDescent or Projection to be drawn, got"
            f" {filter_!r}; use fl.expect"
        )
    counts = np.unique(filter_.n_steps)
    sizes = np.unique(filter_.step_size)
    if counts.size == 1:
        drawn = _values(filter_.step_size, k, square)
        return {"scheme": "size", "n": counts.item(), "schedule": drawn}
    if sizes.size == 1:
        drawn = _values(filter_.n_steps, k, 1.0)
        return {"scheme": "budget", "size": sizes.item() * square, "schedule": drawn}
    raise ValueError(
        "schedule must have one n_steps or one step_size for all steps to be drawn, got many of"
        " both; use fl.expect"
    )


def _values(values: Any, k: int, unit: float) -> dict[str, Any]:
    """Return one value or k of them as k values in a unit, the way the page keeps a drawing."""
    each = np.broadcast_to(np.asarray(values, dtype=np.float64), (k,))
    return {"preset": "given", "values": (each * unit).tolist()}

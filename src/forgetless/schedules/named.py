"""What a schedule is, and what stands for one; the schedules themselves are in ``schedules``.

A formula is a function (k, R², further arguments) → filter. Decorated with ``schedule`` it becomes
a function of the further arguments that returns a ``Named`` schedule, which is that formula with
these arguments. ``resolve`` returns the filter of k steps for all that users may give for one.
"""

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._text import closest
from forgetless.filters import Filter, Projection, Ridge

Schedule = Callable[[int, float], Filter]
"""A function (k, R) → filter; R is the radius of the tasks, the largest of their spectral norms."""

ScheduleLike = Schedule | Filter | str | float
"""A schedule or what stands for one: a filter for every step, a name, or a number λ."""

Schedules = ScheduleLike | Sequence[ScheduleLike] | Mapping[str, ScheduleLike]
"""One of these, or a list or a dict of several."""

Labels = tuple[str | int, ...]
"""Of several schedules: the keys of a dict, the positions in a list; empty for one alone."""

NAMES = (
    "fixed",
    "increasing",
    "fixed_budget",
    "increasing_budget",
    "minimax",
    "minimax_budget",
    "cyclic",
    "end_ramp",
)
"""Schedules that a name may stand for. Their strengths are proportional to R², so that a
factor in units of R² scales them."""


@dataclass(frozen=True, repr=False)
class Named:
    """A schedule of ``fl.schedules``: a formula with its arguments.

    Two are equal if their names and arguments are, and a pickle or a file holds nothing else.

    Attributes
    ----------
    name : str
        The function that made it.
    arguments : dict
        All arguments by name, checked, as Python's own numbers.

    Examples
    --------
    >>> import forgetless as fl
    >>> schedule = fl.schedules.increasing(0.5)
    >>> schedule.name, schedule.arguments
    ('increasing', {'scale': 0.5})
    """

    name: str
    arguments: dict[str, Any] = field(hash=False)

    def __call__(self, k: int, radius: float) -> Filter:
        """Return the filter for k steps on tasks of radius R."""
        k = validate.integer("k", k, 1, "ask for at least one step")
        # A damaged model file can ask for 2³¹ steps, and Linux ends a process that tries that.
        validate.check_memory(k, f"a schedule of {k:,} strengths", "use fewer steps", 2**31)
        radius = validate.number("radius", radius, "use tasks.radius")
        square = radius * radius
        if not 0.0 < square < math.inf and radius > 0:
            raise ValueError(
                f"radius² must be a float, got radius {radius!r}; rescale the data towards 1"
            )
        # A pickle holds no code: the formula is that of the version that reads it.
        formula = MAKERS[self.name].__wrapped__
        return _of_length(formula(k, square, **self.arguments), k)

    @property
    def horizon(self) -> int | None:
        """The number of steps of a ``constant`` whose filter has one value for each, else None."""
        return getattr(self.arguments.get("filter"), "horizon", None)

    def __repr__(self) -> str:
        values = (f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({', '.join(values)})"


MAKERS: dict[str, Any] = {}
"""The functions of ``schedules`` by their names."""

Check = Callable[[str, Any], Any]
"""A function (name, value of an argument) → checked value."""


def schedule(formula: Callable[..., Filter], **own: Check) -> Callable[..., Named]:
    """Return the function of the further arguments of a formula that returns the schedule.

    Each of them needs a check: that of its name in ``CHECKS``, or one in ``own``. The function
    checks its arguments at once; the formula runs when the schedule is called.

    Examples
    --------
    >>> from forgetless import Ridge
    >>> @schedule
    ... def growing(k, square, scale=1.0):
    ...     return Ridge(scale * square * np.arange(1, k + 1))
    >>> growing(2)
    growing(scale=2.0)
    >>> growing(2)(3, radius=2.0).coefficient.tolist()
    [8.0, 16.0, 24.0]
    >>> del MAKERS["growing"]
    """
    checks = CHECKS | own
    # What remains to be given: all arguments but k and R².
    _, _, *others = inspect.signature(formula).parameters.values()
    signature = inspect.Signature(others, return_annotation=Named)

    @functools.wraps(formula)
    def make(*args: Any, **kwargs: Any) -> Named:
        # Positional and keyword arguments alike, and all defaults.
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        arguments = {name: checks[name](name, each) for name, each in given.arguments.items()}
        return Named(formula.__name__, arguments)

    make.__signature__ = signature  # type: ignore[attr-defined]
    MAKERS[formula.__name__] = make
    return make


def amount(
    hint: str,
    *,
    positive: bool = False,
    most: float = math.inf,
) -> Check:
    """Return the check of a nonnegative number, or of one in (0, ``most``]."""

    def check(name: str, value: Any) -> float:
        number = validate.number(name, value, hint, positive=positive)
        if number > most:
            raise ValueError(f"{name} must lie in (0, {most:g}], got {number}; {hint}")
        return number

    return check


def count(hint: str) -> Check:
    """Return the check of a positive integer."""
    return lambda name, value: validate.integer(name, value, 1, hint)


def counts(name: str, value: Any) -> Any:
    """Return one positive integer, or a list of one per step."""
    checked = validate.integers_per_step(name, value, "give whole numbers of gradient steps")
    return np.array(checked).tolist()


def filter_itself(name: str, value: Any) -> Filter:
    """Return a filter."""
    if not isinstance(value, Filter):
        raise TypeError(
            f"{name} must be a filter, got {value!r}; wrap a coefficient as fl.Ridge(coefficient)"
        )
    return value


def tasks_or_ensemble(name: str, value: Any) -> Any:
    """Return tasks or an ensemble: what has ``mean_remaining``, the mean of 1 − φ."""
    if not hasattr(value, "mean_remaining"):
        raise TypeError(f"{name} must be a TaskCollection or an ensemble, got {value!r}")
    return value


CHECKS: dict[str, Check] = {
    "distance": amount("it is that of the start from the solution", positive=True),
    "eta": amount("1 is for labels that one model fits; noise needs less", positive=True, most=1),
    "filter": filter_itself,
    "length": amount("give a part of the steps, such as 1/8", positive=True, most=1),
    "n_steps": count("give a whole number of gradient steps"),
    "n_tasks": count("give the number of tasks in one cycle"),
    "noise": amount("0 is for labels without noise"),
    "scale": amount("smaller values regularize less, 0 not at all"),
    "tasks": tasks_or_ensemble,
    "walk": amount("0 is for a solution that stays"),
}
"""The checks of arguments by their names."""


def _of_length(filter_: Filter, k: int) -> Filter:
    """Return a filter if it is one of k steps."""
    if filter_.horizon not in (None, k):
        raise ValueError(
            f"schedule gives {filter_.horizon} steps but k is {k}; use one value per step, or set"
            f" k={filter_.horizon}"
        )
    return filter_


def resolve(
    schedule: ScheduleLike,
    k: int,
    radius: float,
    n_tasks: int | None = None,
) -> Filter:
    """Return the filter of k steps on tasks of radius R, for anything that stands for a schedule.

    The name "cyclic" needs ``n_tasks``.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.resolve("increasing", k=2, radius=1.0).coefficient.round(3).tolist()
    [4.333, 6.5]
    """
    # A filter stands for itself; all else is called with k and R.
    chosen = as_schedule(schedule, n_tasks)
    result = chosen if isinstance(chosen, Filter) else chosen(k, radius)
    if not isinstance(result, Filter):
        raise TypeError(
            f"schedule must return a filter such as fl.Ridge(coefficients), got {result!r}; call a"
            " function that returns a schedule with its own arguments first"
        )
    return _of_length(result, k)


def as_schedule(value: Any, n_tasks: int | None = None) -> Any:
    """Return the schedule or filter that a schedule, filter, name or number stands for."""
    if isinstance(value, str):
        return _by_name(value, n_tasks)
    # One schedule of k strengths, or k schedules? The user must say.
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(
            f"schedule is an array of shape {value.shape}; give λ_1..λ_k as"
            " fl.schedules.from_coefficients(array), or a list of numbers for one schedule each"
        )
    if isinstance(value, numbers.Real | np.ndarray) and not isinstance(value, bool | np.bool_):
        return Ridge(float(value))
    if isinstance(value, Filter | Named):
        return value
    # Tasks in the place of a schedule: arguments of an upper bound in the wrong order.
    if hasattr(value, "mean_remaining"):
        raise TypeError(
            "schedule comes first, and an upper bound knows the tasks by k and R only; for given"
            " tasks use fl.compare_bounds(tasks, schedule, k) or fl.expect(tasks, schedule, k)"
        )
    if not callable(value):
        raise TypeError(
            "schedule must be a schedule, a filter, a name such as 'increasing' or a number λ, got"
            f" {value!r}"
        )
    # ``fl.schedules.increasing`` instead of ``increasing()``.
    if inspect.isclass(value) or value in MAKERS.values():
        name = value.__name__
        raise TypeError(f"schedule is {name} itself; make one by calling it: {name}(…)")
    try:
        inspect.signature(value).bind(1, 1.0)
    except TypeError as error:
        raise TypeError(
            "schedule must be a function of k and R that returns a filter, such as lambda k, R:"
            f" fl.Ridge(R**2), but {value!r} does not take two arguments: {error}"
        ) from None
    return value


def _by_name(text: str, n_tasks: int | None) -> Any:
    name = text.replace("-", "_")
    if name == "none":
        return Projection()
    if name not in NAMES:
        raise ValueError(
            f"there is no schedule {text!r}; {closest(name, NAMES)}use none, {', '.join(NAMES)}, or"
            " a function of fl.schedules with arguments"
        )
    if name == "cyclic" and n_tasks is None:
        raise ValueError("schedule 'cyclic' needs a number of tasks; use fl.schedules.cyclic(M)")
    return MAKERS[name](n_tasks) if name == "cyclic" else MAKERS[name]()


def several(value: Any, k: int) -> tuple[list[Any], Labels]:
    """Return the schedules of a list or a dict with their labels, or a single one without.

    A list of k numbers is refused: it may be meant for one schedule of k steps.

    Examples
    --------
    >>> several({"none": "none", "λ = 2": 2.0}, k=9)
    (['none', 2.0], ('none', 'λ = 2'))
    """
    if isinstance(value, Mapping):
        wrong = [label for label in value if not isinstance(label, str) or not label.strip()]
        if wrong:
            raise TypeError(
                f"schedule must have strings for labels, got {wrong[0]!r}; name each by a string"
            )
        labels: Labels = tuple(value)
        items = list(value.values())
    elif isinstance(value, list | tuple):
        labels = tuple(range(len(value)))
        items = list(value)
        if len(items) == k != 1 and all(isinstance(each, numbers.Real) for each in items):
            raise TypeError(
                f"schedule is a list of {k} numbers, as many as steps: for λ_1..λ_k use"
                " fl.schedules.from_coefficients(numbers), and for several schedules of one λ each"
                " a list of fl.Ridge(number)"
            )
    else:
        return [value], ()  # one alone
    if not items:
        raise ValueError(
            f"schedule must hold at least one schedule, got an empty {type(value).__name__}"
        )
    return items, labels

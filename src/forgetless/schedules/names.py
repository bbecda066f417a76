"""The one registry of schedules: what each is called, how it is written, and what is known of it.

The command line, the estimators, files and advice read it: a new schedule is one class in ``presets`` and one
:class:`Entry` here.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from forgetless.filters import Filter, GradientDescent, Projection, Ridge, Stages
from forgetless.schedules import presets, shapes
from forgetless.schedules.base import Preset


@dataclass(frozen=True)
class Entry:
    """What is known of one kind of schedule.

    Attributes
    ----------
    kind : type
        Its class; the name of the class stands in files.
    code : str
        What a Python program calls it by.
    name : str or None
        What the command line and the estimators call it; None for kinds that text cannot give.
    arguments : dict
        Its parameters that may follow the name after a colon, in order, with the function that reads each.
    proportional : bool
        Whether strengths are proportional to R², so that a new radius only scales them.
    budget : bool
        Whether its steps are a budget of gradient steps.
    title : callable
        A schedule in a few words, with strengths in units of R².
    """

    kind: type
    code: str
    name: str | None = None
    arguments: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    proportional: bool = False
    budget: bool = False
    title: Callable[[Any], str] = repr

    @property
    def usage(self) -> str:
        """The name with its arguments, those that may be left out in brackets."""
        parameters = {field.name: field for field in dataclasses.fields(self.kind)}
        text, ends = str(self.name), ""
        for i, argument in enumerate(self.arguments):
            part = f"{',' if i else ':'}{argument.upper()}"
            optional = parameters[argument].default is not dataclasses.MISSING or argument in _KNOWN
            text, ends = (f"{text}[{part}", f"{ends}]") if optional else (f"{text}{part}", ends)
        return text + ends


def _number(text: str) -> float:
    if "/" not in text:
        return float(text)
    try:
        return float(Fraction(text))  # 13/3
    except (ZeroDivisionError, OverflowError):
        raise ValueError(text) from None


_KNOWN = ("n_tasks",)  # Arguments that may be left out because the caller knows them
_SCALE = {"scale": _number}


def _ridge_title(ridge: Ridge) -> str:
    return "given coefficients" if ridge.horizon else f"constant, λ = {ridge.coefficient:.3g}"


def _ramp_title(ramp: shapes.EndRamp) -> str:
    part = "all steps" if ramp.length == 1 else f"last 1/{1 / ramp.length:.3g}"
    return f"end ramp, {part}, {ramp.scale:.3g} R² a step"


def _budget_title(budget: presets.IncreasingBudget) -> str:
    plural = "step" if budget.n_steps == 1 else "steps"
    return f"increasing budget, scale {budget.scale:.3g}, {budget.n_steps} {plural}"


def _increasing_title(increasing: presets.Increasing) -> str:
    theorem = increasing == presets.Increasing()
    return "increasing, theorem" if theorem else f"increasing, scale {increasing.scale:.3g}"


REGISTRY = (
    Entry(Projection, "Projection", "none", title=lambda _: "no regularization"),
    Entry(Ridge, "Ridge", "ridge", {"coefficient": _number}, title=_ridge_title),
    Entry(GradientDescent, "GradientDescent"),
    Entry(Stages, "Stages"),
    Entry(presets.Fixed, "fixed", "fixed", proportional=True, title=lambda _: "fixed, near-optimal"),
    Entry(presets.Increasing, "increasing", "increasing", _SCALE, proportional=True, title=_increasing_title),
    Entry(
        presets.FixedBudget,
        "fixed_budget",
        "fixed-budget",
        {"n_steps": int},
        proportional=True,
        budget=True,
        title=lambda _: "fixed budget",
    ),
    Entry(
        presets.IncreasingBudget,
        "increasing_budget",
        "increasing-budget",
        {"n_steps": int, **_SCALE},
        proportional=True,
        budget=True,
        title=_budget_title,
    ),
    Entry(
        presets.CappedBudget,
        "capped_budget",
        "capped-budget",
        proportional=True,
        budget=True,
        title=lambda _: "capped budget",
    ),
    Entry(
        presets.Cyclic,
        "cyclic",
        "cyclic",
        {"n_tasks": int},
        proportional=True,
        title=lambda _: "cyclic, Cai & Diakonikolas",
    ),
    Entry(
        shapes.EndRamp,
        "end_ramp",
        "end-ramp",
        {"length": _number, **_SCALE},
        proportional=True,
        title=_ramp_title,
    ),
    Entry(
        shapes.NoiseAware,
        "noise_aware",
        "noise-aware",
        _SCALE,
        proportional=True,
        title=lambda s: f"noise-aware, {s.scale:.3g} R² k/ln k",
    ),
    Entry(shapes.Constant, "constant"),
    Entry(shapes.Coefficients, "from_coefficients"),
    Entry(presets.UnregularizedFirst, "unregularized_first"),
)

_BY_CLASS = {entry.kind: entry for entry in REGISTRY}
_BY_NAME = {entry.name: entry for entry in REGISTRY if entry.name}


def entry_of(schedule: Any) -> Entry | None:
    """Return the entry of a schedule or filter of this package; None for any other."""
    return _BY_CLASS.get(type(schedule))


def is_proportional(schedule: Any) -> bool:
    """Return whether strengths are known to be proportional to R²."""
    entry = entry_of(schedule)
    return entry is not None and entry.proportional


def title_of(schedule: Any) -> str:
    """Return a schedule in a few words."""
    entry = entry_of(schedule)
    return repr(schedule) if entry is None else entry.title(schedule)


def names() -> list[str]:
    """Return all names, without arguments."""
    return [str(name) for name in _BY_NAME]


def usage(*extra: str) -> str:
    """Return all names with their arguments, for a help text or an error; ``extra`` names come first."""
    names = [*extra, *(entry.usage for entry in _BY_NAME.values())]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def named(text: str, *others: str, **known: Any) -> Any:
    """Return the schedule that a text such as "increasing:0.5" or "end-ramp:1/8,2" names.

    Parameters
    ----------
    text : str
        A name, and after a colon its arguments, separated by commas.
    *others : str
        Names that the caller understands itself, listed where a name is refused.
    **known
        Arguments that the caller knows, such as ``n_tasks``; taken where the text leaves them out.

    Examples
    --------
    >>> from forgetless.schedules.names import named
    >>> named("end-ramp:1/8,2")
    EndRamp(length=0.125, scale=2.0)
    >>> named("cyclic", n_tasks=10)
    Cyclic(n_tasks=10)
    """
    name, colon, rest = text.partition(":")
    entry = _BY_NAME.get(name.replace("_", "-"))  # as Python writes them, too
    given = rest.split(",") if colon else []
    if entry is None or len(given) > len(entry.arguments):
        raise ValueError(f"there is no schedule {text!r}; use {usage(*others)}")
    values = {argument: known[argument] for argument in entry.arguments if argument in known}
    for (argument, read), part in zip(entry.arguments.items(), given, strict=False):
        try:
            values[argument] = read(part.strip())
        except ValueError:
            kind = "a whole number" if read is int else "a number"
            raise ValueError(f"{argument} of {name!r} must be {kind}, got {part!r}: {entry.usage}") from None
    required = [f.name for f in dataclasses.fields(entry.kind) if f.default is dataclasses.MISSING]
    missing = [argument for argument in required if argument not in values]
    if missing:
        raise ValueError(f"schedule {text!r} needs {missing[0]}: {entry.usage}")
    return entry.kind(**values)


def code(schedule: Any) -> str | None:
    """Return a Python expression for a schedule of this package, ``fl`` being forgetless; None for any other.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.schedules.names import code
    >>> code(fl.schedules.unregularized_first(fl.schedules.end_ramp(scale=2.0)))
    'fl.schedules.unregularized_first(schedule=fl.schedules.end_ramp(length=0.125, scale=2.0))'
    """
    schedule = as_listed(schedule)
    entry = entry_of(schedule)
    if entry is None:
        return None
    home = "fl." if isinstance(schedule, Filter) else "fl.schedules."
    values = {field.name: getattr(schedule, field.name) for field in dataclasses.fields(schedule)}
    defaults = {field.name: field.default for field in dataclasses.fields(schedule)}
    if all(values[name] is defaults[name] or _same(values[name], defaults[name]) for name in values):
        return f"{home}{entry.code}()"
    written = {name: _written(value) for name, value in values.items()}
    if None in written.values():
        return None
    return f"{home}{entry.code}({', '.join(f'{name}={value}' for name, value in written.items())})"


def _same(value: Any, default: Any) -> bool:
    return isinstance(value, int | float) and isinstance(default, int | float) and value == default


def _is_schedule(value: Any) -> bool:
    return isinstance(value, Filter) or callable(value)


def _written(value: Any) -> str | None:
    if _is_schedule(value):
        return code(value)
    if isinstance(value, tuple) and any(map(_is_schedule, value)):
        parts = [code(each) for each in value]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"
    return repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


def as_listed(schedule: Any) -> Any:
    """Return an optimised schedule as its coefficients: how it was found is left out."""
    if isinstance(schedule, Preset) and entry_of(schedule) is None and hasattr(schedule, "coefficients"):
        return shapes.Coefficients(schedule.coefficients)
    return schedule

"""The registry of schedules: names, code, titles, properties and conversion to plain data.

The command line, the estimators, files and advice use it: a new schedule is one class in
``presets`` and one :class:`Entry` here.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from forgetless.filters import Filter, GradientDescent, PerTask, Projection, Ridge, Stages
from forgetless.schedules import presets
from forgetless.schedules.base import Preset, Schedule, resolve
from forgetless.schedules.exchangeable import Minimax, MinimaxBudget
from forgetless.schedules.tracking import Steady


@dataclass(frozen=True)
class Entry:
    """One kind of schedule."""

    kind: type  # its class, whose name is used in files
    code: str  # its name in Python
    # its name in text, such as on the command line; None if text cannot express it
    name: str | None = None
    # Parameters that may follow the name after a colon, in order, with the parser of each
    arguments: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    title: Callable[[Any], str] = repr  # a short description, with strengths in units of R²
    # whether strengths are proportional to R², so that a new radius only scales them
    proportional: bool = False
    budget: bool = False  # whether its steps are budgets of gradient steps

    @property
    def usage(self) -> str:
        """The name with its arguments, optional ones in brackets."""
        parameters = {field.name: field for field in dataclasses.fields(self.kind)}
        text, ends = str(self.name), ""
        for i, argument in enumerate(self.arguments):
            part = f"{',' if i else ':'}{argument.upper()}"
            optional = (
                parameters[argument].default is not dataclasses.MISSING or argument in _IMPLIED
            )
            text, ends = (f"{text}[{part}", f"{ends}]") if optional else (f"{text}{part}", ends)
        return text + ends


def _number(text: str) -> float:
    if "/" not in text:
        return float(text)
    try:
        return float(Fraction(text))  # 13/3
    except (ZeroDivisionError, OverflowError):
        raise ValueError(text) from None


_IMPLIED = ("n_tasks",)  # arguments that may be left out because the caller supplies them
_SCALE = {"scale": _number}


def _flag(text: str) -> bool:
    if text != "per-task":
        raise ValueError(text)
    return True


_MINIMAX = {"eta": _number, "noise": _number, "per_task": _flag}
_KIND_OF_TEXT: dict[Any, str] = {int: "a whole number", _flag: "'per-task' or left out"}


def _ridge_title(ridge: Ridge) -> str:
    return "given coefficients" if ridge.horizon else f"constant, λ = {ridge.coefficient:.3g}"


def _ramp_title(ramp: presets.EndRamp) -> str:
    part = "all steps" if ramp.length == 1 else f"last 1/{1 / ramp.length:.3g}"
    return f"end ramp, {part}, {ramp.scale:.3g} R² a step"


def _budget_title(budget: presets.IncreasingBudget) -> str:
    plural = "step" if budget.n_steps == 1 else "steps"
    return f"increasing budget, scale {budget.scale:.3g}, {budget.n_steps} {plural}"


def _increasing_title(increasing: presets.Increasing) -> str:
    theorem = increasing == presets.Increasing()
    return "increasing, theorem" if theorem else f"increasing, scale {increasing.scale:.3g}"


def _minimax_title(schedule: Minimax | MinimaxBudget) -> str:
    parts = ["minimax"]
    if isinstance(schedule, MinimaxBudget):
        parts = [
            f"minimax budget, {schedule.n_steps} {'step' if schedule.n_steps == 1 else 'steps'}"
        ]
    parts += [f"η = {schedule.eta:.3g}"] if schedule.eta != 1 else []
    parts += [f"noise {schedule.noise:.3g}"] if schedule.noise > 0 else []
    return ", ".join([*parts, "own norms"] if schedule.per_task else parts)


def _steady_title(schedule: Steady) -> str:
    drift = f", drift {schedule.drift:.3g}" if schedule.drift > 0 else ""
    return f"steady, noise {schedule.noise:.3g}{drift}"


def _preset(
    kind: type, code: str, arguments: Any, title: Callable[[Any], str], budget: bool = False
) -> Entry:
    return Entry(
        kind, code, code.replace("_", "-"), arguments, title, proportional=True, budget=budget
    )


REGISTRY = (
    Entry(Projection, "Projection", "none", title=lambda _: "no regularization"),
    Entry(Ridge, "Ridge", "ridge", {"coefficient": _number}, _ridge_title),
    Entry(GradientDescent, "GradientDescent"),
    Entry(Stages, "Stages"),
    Entry(PerTask, "filters.PerTask"),
    _preset(presets.Fixed, "fixed", {}, lambda _: "fixed, near-optimal"),
    _preset(presets.Increasing, "increasing", _SCALE, _increasing_title),
    _preset(
        presets.FixedBudget, "fixed_budget", {"n_steps": int}, lambda _: "fixed budget", budget=True
    ),
    _preset(
        presets.IncreasingBudget,
        "increasing_budget",
        {"n_steps": int, **_SCALE},
        _budget_title,
        budget=True,
    ),
    _preset(Minimax, "minimax", _MINIMAX, _minimax_title),
    _preset(
        MinimaxBudget, "minimax_budget", {"n_steps": int, **_MINIMAX}, _minimax_title, budget=True
    ),
    _preset(presets.CappedBudget, "capped_budget", {}, lambda _: "capped budget", budget=True),
    _preset(presets.Cyclic, "cyclic", {"n_tasks": int}, lambda _: "cyclic, Cai & Diakonikolas"),
    _preset(presets.EndRamp, "end_ramp", {"length": _number, **_SCALE}, _ramp_title),
    _preset(
        presets.NoiseAware, "noise_aware", _SCALE, lambda s: f"noise-aware, {s.scale:.3g} R² k/ln k"
    ),
    Entry(
        Steady,
        "steady",
        "steady",
        {"noise": _number, "drift": _number, "distance": _number},
        _steady_title,
    ),
    Entry(presets.Constant, "constant"),
    Entry(presets.Coefficients, "from_coefficients"),
    Entry(presets.UnregularizedFirst, "unregularized_first"),
)

_BY_CLASS = {entry.kind: entry for entry in REGISTRY}
_BY_NAME = {entry.name: entry for entry in REGISTRY if entry.name}


def entry_of(schedule: Any) -> Entry | None:
    """Return the entry of a schedule or filter of this package; None for any other."""
    return _BY_CLASS.get(type(schedule))


def is_proportional(schedule: Any) -> bool:
    """Return whether the strengths of a registered schedule are proportional to R²."""
    entry = entry_of(schedule)
    return entry is not None and entry.proportional


def title_of(schedule: Any) -> str:
    """Return a short description of a schedule."""
    entry = entry_of(schedule)
    return repr(schedule) if entry is None else entry.title(schedule)


def names() -> list[str]:
    """Return all names, without arguments."""
    return [str(name) for name in _BY_NAME]


def usage(*extra: str) -> str:
    """Return all names with their arguments as text, ``extra`` names first."""
    names = [*extra, *(entry.usage for entry in _BY_NAME.values())]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def named(text: str, *others: str, **implied: Any) -> Any:
    """Return the schedule named by a text such as "increasing:0.5" or "end-ramp:1/8,2".

    Parameters
    ----------
    text : str
        A name, and after a colon its arguments, separated by commas.
    *others : str
        Further names that the caller accepts, for the error message.
    **implied
        Arguments that the text may omit, such as ``n_tasks``.

    Examples
    --------
    >>> from forgetless.schedules.names import named
    >>> named("end-ramp:1/8,2")
    EndRamp(length=0.125, scale=2.0)
    >>> named("cyclic", n_tasks=10)
    Cyclic(n_tasks=10)
    """
    name, colon, rest = text.partition(":")
    entry = _BY_NAME.get(name.replace("_", "-"))
    values_text = rest.split(",") if colon else []
    if entry is None or len(values_text) > len(entry.arguments):
        raise ValueError(f"there is no schedule {text!r}; use {usage(*others)}")
    values = {argument: implied[argument] for argument in entry.arguments if argument in implied}
    values |= _parsed(entry, name, values_text)
    for field in dataclasses.fields(entry.kind):
        if field.default is dataclasses.MISSING and field.name not in values:
            raise ValueError(f"schedule {text!r} needs {field.name}: {entry.usage}")
    return entry.kind(**values)


def _parsed(entry: Entry, name: str, texts: list[str]) -> dict[str, Any]:
    """Return the arguments of a schedule by name, from their texts."""
    values = {}
    for (argument, parse), text in zip(entry.arguments.items(), texts, strict=False):
        try:
            values[argument] = parse(text.strip())
        except ValueError:
            kind = _KIND_OF_TEXT.get(parse, "a number")
            raise ValueError(
                f"{argument} of {name!r} must be {kind}, got {text!r}: {entry.usage}"
            ) from None
    return values


def code(schedule: Any) -> str | None:
    """Return a Python expression for a schedule of this package, 'fl.Ridge(coefficient=1.0)'; None
    for any other.
    """
    schedule = as_listed(schedule)
    entry = entry_of(schedule)
    if entry is None:
        return None
    home = "fl." if isinstance(schedule, Filter) else "fl.schedules."
    values = {field.name: getattr(schedule, field.name) for field in dataclasses.fields(schedule)}
    defaults = {field.name: field.default for field in dataclasses.fields(schedule)}
    if all(_same(values[name], defaults[name]) for name in values):
        return f"{home}{entry.code}()"
    texts = {name: _as_code(value) for name, value in values.items()}
    if None in texts.values():
        return None
    return f"{home}{entry.code}({', '.join(f'{name}={value}' for name, value in texts.items())})"


def _same(value: Any, default: Any) -> bool:
    numbers = isinstance(value, int | float) and isinstance(default, int | float)
    return value is default or (numbers and value == default)


def _is_schedule(value: Any) -> bool:
    return isinstance(value, Filter) or callable(value)


def _as_code(value: Any) -> str | None:
    if _is_schedule(value):
        return code(value)
    if isinstance(value, tuple) and any(map(_is_schedule, value)):
        parts = [code(each) for each in value]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"
    return repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


def as_listed(schedule: Any) -> Any:
    """Return an optimised schedule as its coefficients, any other unchanged."""
    if (
        isinstance(schedule, Preset)
        and entry_of(schedule) is None
        and hasattr(schedule, "coefficients")
    ):
        return presets.Coefficients(schedule.coefficients)
    return schedule


_KINDS = {entry.kind.__name__: entry.kind for entry in REGISTRY}


def to_plain(schedule: Schedule | Filter, k: int) -> dict[str, Any]:
    """Return a schedule or filter of this package by name and parameters; any other as its filter
    at radius 1.
    """
    try:
        return describe(schedule)
    except TypeError:
        # a user's callable, perhaps inside unregularized_first: the whole schedule is resolved
        # instead
        pass
    filter_ = resolve(schedule, k, 1.0)
    try:
        return describe(filter_)
    except TypeError:
        raise TypeError(
            f"schedule gives {type(filter_).__name__}, which cannot be written to a file; use the"
            " filters of forgetless, or keep the collection in memory"
        ) from None


def describe(thing: Any) -> dict[str, Any]:
    """Return a schedule or filter of this package by name and parameters; TypeError for anything
    else.
    """
    thing = as_listed(thing)
    if entry_of(thing) is None:
        raise TypeError(f"{type(thing).__name__} has no name in a file")
    fields = {field.name: _value(getattr(thing, field.name)) for field in dataclasses.fields(thing)}
    return {"kind": type(thing).__name__, **fields}


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    return value if isinstance(value, int | float) else describe(value)


def from_plain(plain: Any) -> Any:
    """Return the schedule or filter of a result of ``to_plain``; ValueError if it is not one."""
    kind = plain.get("kind") if isinstance(plain, dict) else plain
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"schedule must name one of {', '.join(_KINDS)}, got {kind!r}")
    values = {name: _restored(value) for name, value in plain.items() if name != "kind"}
    try:
        return _KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(f"schedule {kind} has the wrong parameters ({error})") from None


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return from_plain(value)
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return [_restored(each) for each in value]
    return value

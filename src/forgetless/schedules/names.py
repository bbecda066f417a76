"""Schedules as text, such as "increasing:0.5", and as plain data for files."""

import dataclasses
import difflib
from fractions import Fraction
from typing import Any

import numpy as np

from forgetless.filters import GradientDescent, Projection, Ridge
from forgetless.schedules import presets
from forgetless.schedules.base import Preset
from forgetless.schedules.optimal import Minimax, MinimaxBudget, Steady

PROPORTIONAL: dict[str, type] = {
    "fixed": presets.Fixed,
    "increasing": presets.Increasing,
    "fixed-budget": presets.FixedBudget,
    "increasing-budget": presets.IncreasingBudget,
    "minimax": Minimax,
    "minimax-budget": MinimaxBudget,
    "cyclic": presets.Cyclic,
    "end-ramp": presets.EndRamp,
}
"""Schedules whose strengths are proportional to R², so that a new radius only scales them."""

NAMES: dict[str, type] = {"none": Projection, "ridge": Ridge, **PROPORTIONAL, "steady": Steady}

_KINDS = {
    kind.__name__: kind
    for kind in (*NAMES.values(), GradientDescent, presets.Coefficients, presets.Constant)
}


def from_name(text: str, **implied: Any) -> Any:
    """Return the schedule named by a text such as "increasing:0.5" or "end-ramp:1/8,2".

    Parameters
    ----------
    text : str
        A name of ``fl.schedules`` ("none" and "ridge:λ" are filters), and after a colon its
        parameters in their order, separated by commas.
    **implied
        Parameters that the text may omit, such as ``n_tasks``.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.from_name("end-ramp:1/8,2")
    EndRamp(length=0.125, scale=2.0)
    >>> fl.schedules.from_name("cyclic", n_tasks=10)
    Cyclic(n_tasks=10)
    """
    if not isinstance(text, str):
        raise TypeError(f"a schedule is named by a text, got {text!r}; use {usage()}")
    name, _, rest = text.partition(":")
    kind = NAMES.get(name.replace("_", "-"))
    if kind is None:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no schedule {text!r}; {hint}use {usage()}")
    values: dict[str, Any] = {}
    try:
        names = [field.name for field in dataclasses.fields(kind)]
        values = {key: value for key, value in implied.items() if key in names}
        texts = rest.split(",") if rest else []
        if len(texts) > len(names):
            raise ValueError(f"it has {len(names)} parameters, got {len(texts)}")
        values |= dict(zip(names[: len(texts)], map(_number, texts), strict=True))
        return kind(**values)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"schedule {text!r} is not one of {usage()} ({error})") from None


def _number(text: str) -> float:
    """Return a whole number as an int, any other or a fraction such as 13/3 as a float."""
    return int(text) if text.strip().isdecimal() else float(Fraction(text))


def usage() -> str:
    """Return all names with their parameters as text: in brackets what may be left out."""
    texts = []
    for name, kind in NAMES.items():
        text = ""
        # From the last parameter to the first: steady:NOISE[,WALK[,DISTANCE]].
        for number, field in reversed(list(enumerate(dataclasses.fields(kind)))):
            mark = "," if number else ":"
            text = f"{mark}{field.name.upper()}{text}"
            if field.default is not dataclasses.MISSING:
                text = f"[{text}]"
        texts.append(f"{name}{text}")
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def describe(schedule: Any) -> dict[str, Any]:
    """Return a schedule or filter of this package by name and parameters; TypeError for others."""
    if isinstance(schedule, presets.Constant):
        return {"kind": "Constant", "filter": describe(schedule.filter)}
    if isinstance(schedule, Preset) and hasattr(schedule, "coefficients"):
        return {"kind": "Coefficients", "coefficients": list(schedule.coefficients)}
    kind = type(schedule).__name__
    if _KINDS.get(kind) is not type(schedule):
        raise TypeError(f"{kind} has no name in a file")
    values = {name: np.asarray(value).tolist() for name, value in vars(schedule).items()}
    return {"kind": kind, **values}


def from_plain(plain: Any) -> Any:
    """Return the schedule or filter of a result of ``describe``; ValueError if it is not one."""
    kind = plain.get("kind") if isinstance(plain, dict) else plain
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"schedule must name one of {', '.join(_KINDS)}, got {kind!r}")
    values = {name: value for name, value in plain.items() if name != "kind"}
    if kind == "Constant":
        values["filter"] = from_plain(values.get("filter"))
    try:
        return _KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(f"schedule {kind} has the wrong parameters ({error})") from None

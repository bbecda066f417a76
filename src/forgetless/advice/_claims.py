"""The claims of the reasoning as numbers that can be checked, and as text.

Every number has an error, from rounding or sampling. A phrase has as many digits as that error allows, else a range,
else a bound on one side; without even that there is no claim.
"""

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Claim:
    """One statement about the advised schedule.

    Attributes
    ----------
    about : str
        ``loss``: the objective of the advised schedule. ``lower``: bound on the fraction of that loss by which another
        schedule in the table may be below it. ``least``: the irreducible average loss. ``below``: the loss of
        ``schedule`` above that least loss, over that of the advised one. ``fits``: whether one model fits all tasks, 1
        or 0. ``noise``: the estimated standard deviation of the labels. ``flat``: the scales, in the units of the
        table, within which the loss is at most 1.1 times that of the best. ``horizon``: the loss of ``schedule``,
        planned for another number of steps, over that of the advised one. ``guarantee``: a proved upper bound.
        ``average``: the loss of the average of unregularized steps over that of the advised schedule.
    text : str
        The phrase in the reasoning.
    low, high : float
        The interval of the number; of ``flat`` the two ends.
    schedule : schedule or filter, optional
        The schedule that the advised one is compared with.
    name : str
        The name of that schedule.
    """

    about: str
    text: str
    low: float
    high: float
    schedule: Any = field(default=None, repr=False)
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {"about": self.about, "text": self.text, "low": self.low, "high": self.high, "name": self.name}


def down(value: float, digits: int = 2) -> float:
    """Return a nonnegative number rounded to that many digits towards zero."""
    return _rounded(value, digits, math.floor)


def up(value: float, digits: int = 2) -> float:
    """Return a nonnegative number rounded to that many digits away from zero."""
    return _rounded(value, digits, math.ceil)


def _rounded(value: float, digits: int, towards: Any) -> float:
    if not 0 < value < math.inf:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # For a number with so few digits the quotient is an integer up to rounding.
    integer = towards(float(f"{value / unit:.10g}"))
    return float(f"{integer * unit:.{digits}g}")


def value_text(low: float, high: float) -> str:
    """Return a loss as text: to four digits where these are certain, else as a range or an upper bound."""
    if high - low <= 1e-4 * high:
        return f"{(low + high) / 2:.4g}"
    if low <= 0:
        return f"at most {up(high, 1):.1g}"
    return f"between {down(low, 3):.3g} and {up(high, 3):.3g}"


def below_text(low: float, high: float) -> str | None:
    """Return the text for a loss below another that is ``low`` to ``high`` times as large; None if not certain."""
    if not low > 1:
        return None
    if high - low <= 0.01 * min(low - 1, low):
        middle = (low + high) / 2
        return f"{_percent(middle):.2g} % below" if middle < 2 else f"{_times(middle)}× below"
    if high > 10 * low:
        return f"at least {_percent_down(low)} below"
    if high < 2:
        return f"between {down(_percent(low)):.2g} % and {up(_percent(high)):.2g} % below"
    return f"between {_times(down(low))} and {_times(up(high))}× below"


def _percent(ratio: float) -> float:
    return 100 * (1 - 1 / ratio)


def _percent_down(low: float) -> str:
    return f"{down(_percent(low)):.2g} %" if low < 2 else f"{_times(down(low))}×"


def _times(ratio: float) -> str:
    """Return a ratio to three digits, without an exponent below a million."""
    return f"{float(f'{ratio:.3g}'):,.0f}" if 100 <= ratio < 1e6 else f"{ratio:.3g}"


def change_text(low: float, high: float) -> str:
    """Return the text for a loss that is ``low`` to ``high`` times another."""
    if max(abs(low - 1), abs(high - 1)) < 0.01:
        return "the same within 1 %"
    if high - low > 0.01 * low:
        return f"between {down(low, 3):.3g} and {up(high, 3):.3g} times as large"
    ratio = (low + high) / 2
    if ratio >= 1.1:
        return f"{ratio:.3g} times as large"
    return f"{100 * abs(ratio - 1):.2g} % {'larger' if ratio > 1 else 'smaller'}"

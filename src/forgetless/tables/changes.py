"""What a table has that the rows learned so far have not: columns, missing values, means, spreads,
labels, rows that come twice.

Every rule compares one column of a new task with all rows before; each pair of thresholds below
says from where on a change is shown, and from where on it is severe. A change is *severe* where a
model of the rows before cannot be right for the new ones: in 60 simulated streams without a change
none was severe, in 40 of 40 streams with another unit or a new category one was. Severe changes
are alarms (``scores.py``).

One line a column is enough: gaps are looked at first, then cells that cannot be read, then what
the values are. What is compared has been counted while learning (rows, gaps, means, squares,
labels), so that the rows before are not needed, and a comparison takes one look at the new ones.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forgetless.tables.encoder import TableEncoder
from forgetless.tables.features import Column
from forgetless.tables.kinds import Category, Number
from forgetless.tables.values import DAY, Columns, Values, columns_of, rows_of

MISSING = (0.1, 0.3)
"""Changes of the fraction of missing values that are shown, and severe."""

UNKNOWN = (0.05, 0.2)
"""Fractions of rows with labels that were never learned."""

SHIFTED = (1.0, 4.0)
"""Distances of means in standard deviations so far."""

SPREAD = (2.0, 5.0)
"""Ratios of standard deviations."""

TWICE = 0.05
"""Fraction of rows that equal another row of the same task, targets included: a file that was
appended to itself has 50 %."""

ROWS = "(rows)"
"""Stands for a column in a change of all of a task."""

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that no bit of a hash is lost."""

FEWEST = 8
"""Rows of a task below which means and spreads are not compared."""

UNITS = {
    10.0: "",
    100.0: " (percent, cents)",
    1000.0: " (thousands, grams)",
    1e6: " (millions)",
    60.0: " (minutes)",
    3600.0: " (seconds)",
    2.54: " (inches)",
    1.609: " (miles)",
    2.2046: " (pounds)",
}
"""Ratios of units that tables mix up."""


class Change(NamedTuple):
    """A change of a column, in words, and whether it is severe."""

    column: str
    text: str
    severe: bool = False


def changes(
    encoder: TableEncoder,
    X: Any,
    y: Any = None,
) -> list[Change]:
    """Return what a task has that the rows learned have not, severe changes first.

    Call it before the task is learned.

    Parameters
    ----------
    encoder : TableEncoder
        Which has learned the tasks before.
    X : data frame, or mapping of names to columns
    y : array of shape (n,), optional
        Targets: with them rows that come twice are found too.

    Examples
    --------
    >>> encoder = TableEncoder().partial_fit({"price": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]})
    >>> cents = {"price": [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0]}
    >>> changes(encoder, cents)[0].text
    'mean 450, was 4.5 ± 2.29; unit × 100 (percent, cents)'
    """
    table = columns_of(X)
    # A model predicts from the mean where a column is absent, which is an alarm.
    found: list[Any] = [
        Change(name, "is not in this table: taken for missing", True)
        for name in encoder.columns_
        if name not in table
    ]
    for name in table:
        if name in encoder.drop:
            continue
        if name in encoder.columns_:
            found.append(_change(encoder.columns_[name], table[name]))
        # A column without values begins with its first one.
        elif not table[name].missing.all():
            found.append(Change(name, "is new"))
    twice = _twice(table, y)
    if twice > TWICE:
        found.append(Change(ROWS, f"{twice:.0%} of the rows come twice in this task"))
    return sorted(filter(None, found), key=lambda change: not change.severe)


def _change(column: Column, values: Values) -> Change | None:
    """Return the largest change of a known column, or None.

    ``gone`` also has the cells that cannot be read, so that "see note" in a third of the rows is a
    change of the fraction of missing values.
    """
    gone = column.gone(values)
    share = float(gone.mean())
    before = column.missing / column.rows
    if abs(share - before) > MISSING[0]:
        return Change(
            column.name,
            f"{share:.0%} missing, was {before:.0%}",
            abs(share - before) > MISSING[1],
        )
    found = column.read(values)
    present = found[~gone]
    unread = values.unread(found)
    # A few cells that cannot be read: ``gone`` has raised an error if there are more.
    if unread:
        text = f"{len(unread)} cells are no {column.kind}s, such as {unread[0]!r:.40}"
        return Change(column.name, text)
    if isinstance(column, Category):
        return _labels(column, values)
    if isinstance(column, Number):
        return _numbers(column, present)
    return _dates(column, present)


def _labels(column: Category, values: Values) -> Change | None:
    """Return a change if labels are unknown; names always are, and of more labels than features
    nothing is known.
    """
    if column.has_buckets or column.waits or column.shown_by(values):
        return None
    codes, labels = values.coded
    is_new = column.places_of(values) < 0
    # Of rows rather than of labels: one row of a new label is no change. The last place is that
    # of rows without a label, which are counted as missing.
    share = float(np.append(is_new, False)[codes].mean())
    if share <= UNKNOWN[0]:
        return None
    shown = ", ".join(repr(label)[:40] for label in labels[is_new][:3])
    more = "" if is_new.sum() <= 3 else f" and {int(is_new.sum()) - 3} more"
    text = f"labels never seen in {share:.0%} of the rows: {shown}{more}"
    return Change(column.name, text, share > UNKNOWN[1])


def _numbers(column: Number, present: Any) -> Change | None:
    """Return a change of mean or spread, with the ratio of units that would explain it.

    With the mean m and the deviation s of all rows before, and those of the task, m' and s',

        shift = |m' − m| / s,        ratio = s' / s.

    The shift is not divided by √n: with many rows any drift would be significant, and what matters
    is whether the values are new to the model.
    """
    deviation = (column.squares / max(column.count, 1)) ** 0.5
    # What the rows so far say of a constant is a matter of rounding.
    if len(present) < FEWEST or deviation <= 1e-9 * abs(column.mean):
        return None
    mean = float(present.mean())
    shift = abs(mean - column.mean) / deviation
    ratio = max(float(present.std()), 1e-300) / deviation
    if shift <= SHIFTED[0] and ratio <= SPREAD[0]:
        return None
    text = f"mean {mean:.4g}, was {column.mean:.4g} ± {deviation:.3g}"
    # Either may be severe: a constant of a task has no spread, whatever its mean is.
    severe = shift > SHIFTED[1] or ratio > SPREAD[1]
    # No unit explains a mean that was 0.
    unit = _unit(mean / (column.mean or np.inf), ratio)
    return Change(column.name, text + unit, severe)


def _unit(change: float, ratio: float) -> str:
    """Return the change of units that explains the ratios of means and of spreads, in words.

    Another unit multiplies both by the same factor. The spread of n rows is uncertain by the
    fraction 1/√(2n), a quarter for ``FEWEST`` rows, so that a factor within 35 % of both ratios is
    named, the nearest of several.
    """
    fits = {}
    for factor, meaning in UNITS.items():
        for times, sign in (
            (factor, "×"),
            (1.0 / factor, "÷"),
        ):
            off = max(abs(np.log(ratio / times)), abs(change / times - 1.0))
            fits[off] = f"; unit {sign} {factor:g}{meaning}"
    # Inches and pounds are 15 % apart: both may fit.
    nearest = min(fits)
    return fits[nearest] if nearest < 0.35 else ""


def _dates(column: Any, present: Any) -> Change | None:
    """Return a change if dates lie before the first or far after the last one learned."""
    if not len(present):
        return None
    # After a gap as long as the dates so far, and a year at least, a trend is not known to go on.
    far = float(present.min()) - column.high > max(column.high - column.low, 366.0 * DAY)
    if present.max() >= column.low and not far:
        return None
    times = (present.min(), column.low, column.high)
    begin, first, last = (str(np.datetime64(int(time), "s"))[:10] for time in times)
    return Change(column.name, f"begins on {begin}, dates so far are {first} to {last}", far)


def _twice(table: Columns, y: Any) -> float:
    """Return the fraction of rows that equal another row, with their targets.

    Where it is at most ``TWICE`` an upper bound of it is found, from some of the columns.
    """
    n = rows_of(table)
    if y is None or n < FEWEST:
        return 0.0
    # A hash of the cells of every row: two rows share one with probability 2^-64.
    total = np.zeros(n, dtype=np.uint64)
    for values in (Values(y), *table.values()):
        cells = values.numbers if values.is_number else values.coded[0]
        total = total * MULTIPLIER + pd.util.hash_array(cells)
        twice = 1.0 - len(pd.unique(total)) / n
        # Targets and a few columns mostly tell all rows apart; hashes of all columns take half of
        # the time of all comparisons.
        if twice <= TWICE:
            break
    return twice

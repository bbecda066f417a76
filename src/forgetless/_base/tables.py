"""Tables of numbers that reports print, draw and write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Table:
    """Equally long columns with a title, and facts found in them, in words."""

    title: str
    columns: dict[str, list[Any]]
    facts: tuple[str, ...] = ()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples in the order of the columns."""
        return list(zip(*self.columns.values(), strict=True))

    def where(self, **values: Any) -> "Table":
        """Return the rows in which the named columns have the given values."""
        keep = [i for i in range(len(self)) if all(self.columns[name][i] == value for name, value in values.items())]
        return Table(self.title, {name: [column[i] for i in keep] for name, column in self.columns.items()}, self.facts)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _table(title: str, rows: list[dict[str, Any]], facts: tuple[str, ...] = ()) -> Table:
    return Table(title, {name: [row[name] for row in rows] for name in rows[0]}, facts)


def frame(columns: Mapping[str, NDArray[Any]]) -> Any:
    """Return a pandas data frame of equally long columns."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas; install it with: pip install 'forgetless[frame]'") from None
    return pandas.DataFrame({name: np.ravel(values) for name, values in columns.items()})

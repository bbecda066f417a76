"""One statement of a paper with the number that forgetless computes for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import forgetless as fl

Floats = NDArray[np.float64]

# Where a formula was read
CODE = "public code"
PAPER = "paper"
QUOTED = "quoted in another paper"
ABSTRACT = "abstract"
MEMORY = "not read"
DERIVED = "derived here"


@dataclass(frozen=True)
class Statement:
    """A published number, or a formula at one setting, and the computed number.

    Attributes
    ----------
    text : str
        The quantity and the setting.
    published, computed : float
    source : str
        Where the formula was read.
    relation : "=", "≈", "≤" or "≥"
        Of the computed to the published number; "≈" where that is a limit or an order.
    error : float
        Standard error of a sampled number; 0 for one that is computed exactly.
    tolerance : float
        Relative difference up to which numbers count as equal, beside four standard errors.
    """

    text: str
    published: float
    computed: float
    source: str
    relation: str = "="
    error: float = 0.0
    tolerance: float = 1e-9

    @property
    def holds(self) -> bool:
        """Whether the relation holds within the tolerance."""
        slack = 4.0 * self.error + self.tolerance * abs(self.published)
        difference = self.computed - self.published
        if self.relation in "=≈":
            return abs(difference) <= slack
        return difference <= slack if self.relation == "≤" else difference >= -slack


def in_order(pairs: list[tuple[Any, Any]], filter_: fl.Filter, metric: str) -> Floats:
    """Return a metric of every task after the first of two tasks and after the second.

    Parameters
    ----------
    pairs : list of (X, y)
        Two tasks that are learned, and any others that are only evaluated.
    filter_ : Filter
    metric : "task_losses" or "task_drift"

    Returns
    -------
    array of shape (2, number of pairs)
    """
    tasks = fl.TaskCollection(pairs)
    order = fl.FixedOrder([0, 1])
    trace = fl.simulate(tasks, filter_, 2, ordering=order, record="all", metrics=metric)
    return np.asarray(trace.values[metric][0])

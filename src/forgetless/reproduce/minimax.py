"""The exactly optimal schedule over k: what is proved for it and for the paper's, and bad
collections beside it.
"""

from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._core.arrays import Floats
from forgetless.guarantees.upper import upper_bound
from forgetless.reporting.table import Table
from forgetless.theory.bounds import catalogue
from forgetless.theory.constructions import rare_tasks

WITH, WITHOUT = "with replacement", "without replacement"
PAPER, MINIMAX = "paper's schedule", "minimax schedule"


def optimal(exponents: range = range(2, 11)) -> Table:
    """Return bounds and losses over R²D² of the loss on the next task, which with replacement is
    the average loss.
    """
    rows = [row for exponent in exponents for row in _rows_of(2**exponent)]
    last = [row for row in rows if row["k"] == 2 ** exponents[-1] and row["ordering"] == WITHOUT]
    facts = tuple(
        f"{row['line']}: (k+1)·loss = {(row['k'] + 1) * row['value']:.4g} at k = {row['k']}"
        for row in last
    )
    return Table.of_rows("The optimal schedule in shuffled orders", rows, facts)


def _rows_of(k: int) -> list[dict[str, Any]]:
    """Return all lines for k steps, in the order of the legend."""
    paper, minimax = schedules.increasing(), schedules.minimax()
    published = catalogue["increasing"].evaluate(k, 1.0, 1.0)
    half = catalogue["minimax, next task"].evaluate(k, 1.0, 1.0, eta=1.0)
    weights = (1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
    values = {
        WITH: {
            f"{PAPER}, published": published,
            f"{PAPER}, computed": catalogue["increasing, every k"].evaluate(k, 1.0, 1.0),
            f"{PAPER}, bad collection": rare_tasks(k).claim(paper, k),
            f"{MINIMAX}, proved": half,
            f"{MINIMAX}, computed": upper_bound(minimax, k).value,
            f"{MINIMAX}, bad collection": max(
                rare_tasks(k, 1, each).claim(minimax, k) for each in weights
            ),
            "any algorithm, at least": (
                catalogue["any algorithm, one task more"].evaluate(k, 1.0, 1.0)
            ),
        },
        WITHOUT: {
            f"{PAPER}, published": published,  # its proof holds here, too
            f"{PAPER}, computed": upper_bound(paper, k, quantity="next_loss").value,
            f"{PAPER}, bad collection": repeated_row(paper(k, 1.0).factor_at_radius(1.0)),
            f"{MINIMAX}, proved": half,
            f"{MINIMAX}, bad collection": repeated_row(minimax(k, 1.0).factor_at_radius(1.0)),
            "any algorithm, at least": catalogue["any algorithm, next task"].evaluate(k, 1.0, 1.0),
        },
    }
    return [
        {"ordering": ordering, "line": line, "k": k, "value": float(value)}
        for ordering, lines in values.items()
        for line, value in lines.items()
    ]


def repeated_row(kappa: Any, most: int = 24) -> float:
    """Return the largest loss on the next task of k + 1 unit rows, r of them the same and all
    others orthogonal.

    Without replacement, teacher along that row: it comes next with probability r/(k+1), and then
    the other r − 1 copies are at random places, which leaves ½E Π(1 − κ_t)² over these places. The
    largest is over r = 1..``most``.
    """
    remaining = (1 - np.asarray(kappa)) ** 2
    k = len(remaining)
    # of products over j of the steps so far, for j = 0, 1, …
    means: Floats = np.zeros(min(most, k + 1))
    means[0] = 1.0
    for t, each in enumerate(remaining, start=1):
        chosen = np.arange(1, len(means)) / t  # probability that step t is among j of the first t
        means[1:] = (1 - chosen) * means[1:] * (chosen <= 1) + np.minimum(chosen, 1) * each * means[
            :-1
        ]
    return float(max(0.5 * (r + 1) / (k + 1) * mean for r, mean in enumerate(means)))

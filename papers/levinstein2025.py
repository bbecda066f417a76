"""Levinstein, Attia, Schliserman, Sherman, Koren, Soudry and Evron (NeurIPS 2025), arXiv
2506.06501: optimal rates by increasing regularization.

Problem: tasks that one model fits, drawn with replacement, squared loss ½‖Xw − y‖², after k steps.
R is the largest norm of a task and D the distance to the solution. Table 1 and the theorems, in
units of R²D²: an upper bound is above the loss of bad tasks, a lower bound below that of its
construction. Read in the LaTeX source; docs/paper.md has all statements and the errata.
"""

import math

import forgetless as fl
from papers.statement import PAPER as READ
from papers.statement import Statement

PAPER = "Levinstein et al. 2025"


def statements() -> list[Statement]:
    """Return the guarantees of Table 1 and of the theorems beside losses of bad tasks, exactly."""
    made = fl.theory.constructions
    schedules = fl.schedules
    result = []
    for k in (64, 1024):
        rare = made.rare_tasks(k)
        unseen = made.unseen_task(k)
        risen = rare.claim(schedules.increasing(), k)
        fixed = made.rare_tasks(k, weight=5.0, cosine=0.5).claim(schedules.fixed(), k)
        free = made.rare_tasks(k, weight=1.75, cosine=0.6).claim(fl.Projection(), k)
        seen = fl.expect(rare, schedules.increasing(), k, metrics="seen_loss").seen_loss[0]
        result += [
            _statement("increasing, rare tasks", k, 20 / (k + 1), risen, "≤"),
            _statement("increasing, tasks seen", k, 87 / (k + 1), float(seen), "≤"),
            _statement("fixed, rare tasks", k, 5 * math.log(k) / k, fixed, "≤"),
            _statement("none, rare tasks", k, math.e / 2 * k**-0.25, free, "≤"),
            _statement(
                "increasing, unseen task", k, 1 / (16 * k), unseen.claim("increasing", k), "≥"
            ),
        ]
    return result


def _statement(text: str, k: int, published: float, computed: float, relation: str) -> Statement:
    return Statement(f"{text}, k = {k:,}", published, computed, READ, relation=relation)

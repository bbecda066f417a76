"""Upper bounds for orders other than independent draws, and for isotropic teachers: arguments,
theorem, explanation.
"""

from forgetless._core import validate
from forgetless.engines.inputs import OrderingLike, as_ordering
from forgetless.filters import Filter
from forgetless.guarantees import exchangeable
from forgetless.guarantees.isotropic import isotropic
from forgetless.orderings import WithoutReplacement, WithReplacement

ORDERINGS = {
    "with-replacement": "drawn independently with replacement",
    "without-replacement": "in random order without replacement",
    "exchangeable": "in any exchangeable order, with or without replacement",
}


def named(ordering: OrderingLike | None, quantity: str) -> str:
    """Return the name of an ordering of ``ORDERINGS``."""
    if ordering is None:
        return "exchangeable" if quantity == "next_loss" else "with-replacement"
    kind = {WithReplacement: "with-replacement", WithoutReplacement: "without-replacement"}.get(
        type(as_ordering(ordering))
    )
    if kind is None:
        raise ValueError(
            f'ordering must be "with-replacement" or "without-replacement", got {ordering!r}'
        )
    return kind


def check(k: int, quantity: str, order: str, n_tasks: int | None, teacher: str) -> None:
    """Raise ValueError for an unknown teacher, or a number of tasks that is missing, needless or
    too small.
    """
    if teacher not in ("any", "isotropic"):
        raise ValueError(f'teacher must be "any" or "isotropic", got {teacher!r}')
    if n_tasks is not None:
        n_tasks = validate.integer("n_tasks", n_tasks, 1, "give the number of tasks, M")
        if order != "without-replacement":
            raise ValueError(
                'n_tasks is for ordering="without-replacement": other bounds hold for any number of'
                " tasks"
            )
        least = k + (quantity == "next_loss")
        if n_tasks < least:
            raise ValueError(
                f"n_tasks must be at least {least} for {k} steps without replacement"
                f"{' and a next task' if least > k else ''}, got {n_tasks}; ask for fewer steps"
            )
    if n_tasks is None and order == "without-replacement" and quantity == "average_loss":
        raise ValueError(
            "n_tasks must be given for the average loss without replacement: it depends on k/M"
        )


def bound(
    filter_: Filter, k: int, quantity: str, order: str, n_tasks: int | None, teacher: str
) -> float:
    """Return the bound over R²D² of a filter for tasks of radius 1."""
    if teacher == "isotropic":
        return isotropic(filter_, k, quantity, n_tasks, independent=order == "with-replacement")
    kappa = exchangeable.factors_at_radius(filter_, k)
    if quantity == "next_loss":
        return exchangeable.next_task(kappa)
    if quantity == "seen_loss":
        return exchangeable.seen_tasks(kappa)
    assert n_tasks is not None
    return exchangeable.average_without_replacement(kappa, n_tasks)


def explanation(
    quantity: str, order: str, n_tasks: int | None, teacher: str, *, capped: bool
) -> str:
    """Return the theorem of a bound and what it assumes."""
    theorem = {"next_loss": "R", "seen_loss": "S", "average_loss": "S"}[quantity]
    theorem = "I" if teacher == "isotropic" else theorem
    how = f"Theorem {theorem} of docs/optimal-schedule.md, with rigorous rounding error bounds"
    how = "the trivial bound ½R²D²; the theorem gives none that is smaller" if capped else how
    tasks = "any number of tasks" if n_tasks is None else f"{n_tasks:,} tasks"
    mean = ", on average over isotropic teachers" if teacher == "isotropic" else ""
    return (
        f"Derived, unpublished: {how}. It holds for every collection that one model fits{mean}, of"
        f" {tasks} of norm at most R and any rank, {ORDERINGS[order]}."
    )

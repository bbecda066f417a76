"""Epochs of doubling length: the number of steps of a schedule while nobody knows how many tasks
will come.
"""

FIRST_EPOCH = 4
"""Length of the first epoch where the number of tasks is unknown; the schedules are defined from 3
steps on."""


def epoch(task: int, first: int) -> tuple[int, int]:
    """Return (k, t): task number ``task`` ≥ 1 is step t of an epoch of k steps.

    The first epoch has ``first`` steps and every later one as many as all before it, so the number
    of steps doubles.

    Examples
    --------
    >>> [epoch(task, 2) for task in range(1, 8)]
    [(2, 1), (2, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]
    """
    length, before = first, 0
    while task > before + length:
        before += length
        length = before
    return length, task - before

"""Strengths that an estimator computes itself from the tasks that it learns."""

from dataclasses import dataclass

from forgetless._core import validate

OBJECTIVES = ("seen", "next")


@dataclass(frozen=True)
class Auto:
    """The strength of largest evidence: the default of the estimators, also by the name "auto".

    For :class:`forgetless.ContinualRidge` and :class:`forgetless.ContinualRidgeClassifier`. The
    estimator stores statistics of all rows, as far as its memory allows, and solves ridge
    regression on all of them (``docs/estimators.md``). It needs neither a horizon nor scaled
    features.

    Parameters
    ----------
    objective : {"seen", "next"}, default "seen"
        Small errors on all tasks seen; or on the next task, by a mixture with weights that follow a
        drifting solution and with the solution on recent tasks, for streams that change.
    clip : float or None, default 1.0
        Features are clipped for predictions to the range seen so far, extended on either side by
        ``clip`` times its width. None clips nothing: predictions are then linear everywhere.
    """

    objective: str = "seen"
    clip: float | None = 1.0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(
                f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}"
            )
        if self.clip is not None:
            validate.number("clip", self.clip, "use None to clip nothing")


@dataclass(frozen=True)
class Steady:
    """The recursion of ``fl.schedules.steady`` on the spectrum of every task as it comes.

    Parameters
    ----------
    noise : float
        σ, the standard deviation of the labels' noise; 0 gives λ = 0.
    walk : float, default 0
        q, the root mean square distance that the solution moves from task to task.
    distance : float, default 1
        D, the root mean square distance of the start from the solution of the first task.
    """

    noise: float
    walk: float = 0.0
    distance: float = 1.0

    def __post_init__(self) -> None:
        validate.number("noise", self.noise, "0 is for labels without noise")
        validate.number("walk", self.walk, "0 is for a solution that stays")
        hint = "it is that of the start from the solution"
        validate.number("distance", self.distance, hint, positive=True)

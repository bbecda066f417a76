"""What is compared: pulls by four metrics and budgets, each with its schedules; two references see old data."""

import math
from dataclasses import dataclass

from forgetless import schedules
from forgetless.torch.schedules import budgets, strengths

METRICS = {"identity": "L2", "fisher": "EWC", "mas": "MAS", "si": "SI"}


@dataclass(frozen=True)
class Method:
    """``knob``: what the tuned number c multiplies; ``metric``: Ω; ``schedule``: over tasks; ``data``: of batches."""

    name: str
    knob: str = "none"  # none, penalty, steps, lr
    metric: str = "identity"
    schedule: str = "fixed"  # fixed, increasing, linear, reversed; of budgets: fixed, decreasing
    data: str = "stream"  # stream, replay, joint

    @property
    def base(self) -> str | None:
        """The name of the method with a fixed schedule that this one is compared with."""
        return f"{self.name.split()[0]} fixed" if self.data == "stream" and self.schedule != "fixed" else None

    def strengths(self, c: float, k: int) -> tuple[float, ...]:
        """Return λ_1..λ_k. The first task is free, whatever λ_1 is."""
        if self.knob != "penalty":
            return (0.0,) * k
        if self.schedule == "fixed":
            return strengths(c, k)
        if self.schedule == "linear":  # of mean c; beside a mean Ω it is the sum that online EWC, SI and MAS keep
            return tuple(2 * c * (t - 1) / k for t in range(1, k + 1))
        increasing = strengths(schedules.increasing(scale=c), k)
        return increasing if self.schedule == "increasing" else increasing[::-1]

    def fractions(self, c: float, k: int) -> tuple[float, ...]:
        """Return the share of steps, or of the learning rate, at every task."""
        if self.knob in ("none", "penalty"):
            return (1.0,) * k
        shape = budgets(schedules.increasing(), k) if self.schedule == "decreasing" else (1.0,) * k
        first = 1.0 if self.data == "stream" else c  # free; references tune all of their learning rate
        return (first, *(c * share for share in shape[1:]))

    def grid(self) -> list[float]:
        """Return the nine values of c that are tried first."""
        if self.knob == "none":
            return [1.0]
        if self.knob == "penalty":
            return [4.0**i for i in range(-5, 4)]
        return [2.0**i for i in range(-7, 2)] if self.knob == "steps" else [2.5**i for i in range(-6, 3)]

    def finer(self, best: float) -> list[float]:
        """Return two more: both sides of an inner optimum of the grid, or beyond one at its edge."""
        grid = self.grid()
        if len(grid) == 1:
            return []
        ratio, i = grid[1] / grid[0], grid.index(best)
        if i == 0:
            return [best / ratio, best / ratio**2]
        if i == len(grid) - 1:
            return [best * ratio, best * ratio**2]
        return [best / math.sqrt(ratio), best * math.sqrt(ratio)]


def _all() -> dict[str, Method]:
    made = [Method("finetune")]
    for metric, label in METRICS.items():
        shapes = ("fixed", "increasing", "linear", *(("reversed",) if metric == "identity" else ()))
        made += [Method(f"{label} {shape}", "penalty", metric, shape) for shape in shapes]
    for knob in ("steps", "lr"):
        made += [Method(f"{knob} {shape}", knob, schedule=shape) for shape in ("fixed", "decreasing")]
    made += [Method(data, "lr", data=data) for data in ("replay", "joint")]
    return {method.name: method for method in made}


METHODS = _all()

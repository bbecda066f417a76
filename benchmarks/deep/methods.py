"""Methods that are compared: three mechanisms and their combinations, rivals that see old data, and references."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forgetless.torch import increasing

METRICS = {"identity": "L2", "fisher": "EWC", "mas": "MAS", "si": "SI"}
GRIDS = {  # nine values of the tuned parameter, by its name
    "none": [1.0],
    "penalty": [4.0**i for i in range(-5, 4)],
    "distill": [4.0**i for i in range(-5, 4)],
    "lr": [2.5**i for i in range(-6, 3)],
    "steps": [2.0**i for i in range(-7, 2)],
    "merge": [2.0**i for i in range(-3, 6)],
    "average": [2.0**i for i in range(-3, 6)],
    "power": [2.0 ** (i / 2) for i in range(-5, 4)],
}


class Plan(NamedTuple):
    """Numbers of every task: λ, distillation, fractions of the learning rate and of steps, and merging weights."""

    strengths: tuple[float, ...]
    distillation: tuple[float, ...]
    rates: tuple[float, ...]
    steps: tuple[float, ...]
    merges: tuple[float, ...]
    horizon: float  # of the moving average, in tasks


@dataclass(frozen=True)
class Method:
    """``knob``: the tuned parameter; ``sources``: others, each with the method whose tuned value is taken."""

    name: str
    knob: str = "none"  # a key of GRIDS
    metric: str = "identity"
    schedule: str = "fixed"  # of the knob: fixed, increasing, linear, reversed; decreasing, cosine, inverse
    data: str = "stream"  # stream, replay, joint
    rate: str = "fixed"  # of the learning rate, where the knob is another parameter
    merge: str = "none"  # of merging, where the knob is another parameter
    read: str = "last"  # weights that are evaluated: last, mean (of task ends), moving (average of steps)
    sources: tuple[tuple[str, str], ...] = ()
    announced: float = 1.0  # the number of tasks that schedules are told, as a multiple of the true one

    @property
    def base(self) -> str | None:
        """The name of the method with a fixed schedule that this one is compared with."""
        plain = self.data == "stream" and self.read == "last" and not self.sources
        if not plain or self.schedule == "fixed" or self.knob not in ("penalty", "steps", "lr"):
            return None
        return f"{self.name.split()[0]} fixed"

    @property
    def group(self) -> tuple[bool, bool]:
        """Runs of one group are trained together; distillation and averages cost others time and memory."""
        return self.knob == "distill", self.read == "moving"

    def plan(self, values: Mapping[str, float], k: int, *, pretrained: bool = False) -> Plan:
        """Return the numbers of all k tasks. Before the first task a pretrained network has learned one already."""
        horizon = max(1, round(self.announced * k))
        at = [min(t, horizon) - 1 for t in range(1, k + 1)]
        first = 1.0 if self.data == "stream" and not pretrained else None  # not tuned, but for the references
        decay = self._curve(self.schedule if self.knob == "lr" else self.rate, horizon) ** values.get("power", 1.0)
        rates = values.get("lr", 1.0) * decay
        if self.knob == "lr" and self.schedule == "inverse":  # as StepSize(inverse(c))
            rates = np.minimum(1.0, values["lr"] / (np.arange(1, horizon + 1) + pretrained))
        steps = values.get("steps", 1.0) * self._curve(self.schedule if self.knob == "steps" else "fixed", horizon)
        merges = self._merges(values.get("merge", 1.0), horizon, pretrained)

        def per_task(curve: object, start: float | None = None) -> tuple[float, ...]:
            row = [float(curve[i]) for i in at]  # type: ignore[index]
            return tuple(row) if start is None else (start, *row[1:])

        return Plan(
            per_task(self._strengths(values.get("penalty", 0.0), horizon, pretrained)),
            per_task(self._strengths(values.get("distill", 0.0), horizon, pretrained)),
            per_task(rates, first),
            per_task(steps, first),
            per_task(merges),
            values.get("average", 0.0),
        )

    def _strengths(self, c: float, k: int, pretrained: bool) -> tuple[float, ...]:
        """Return λ_1..λ_k. The first task of a new network is free, whatever λ_1 is."""
        if c == 0.0:
            return (0.0,) * k
        if self.schedule == "linear":  # of mean c; beside a mean Ω it is the sum that online EWC, SI and MAS keep
            return tuple(2 * c * (t / (k + 1) if pretrained else (t - 1) / k) for t in range(1, k + 1))
        if self.schedule in ("increasing", "reversed"):
            strengths = tuple(increasing(c, k)(t) for t in range(1, k + 1))
            return strengths if self.schedule == "increasing" else strengths[::-1]
        return (c,) * k

    def _merges(self, c: float, k: int, pretrained: bool) -> tuple[float, ...]:
        """Return α_t of w ← w + α_t(new − w)."""
        shape = self.schedule if self.knob == "merge" else self.merge
        if shape == "none":
            return (1.0,) * k
        learned = 1 if pretrained else 0
        weights = [c * share for share in self._curve(shape, k + learned)[learned:]]
        return tuple(min(1.0, weight) if pretrained or i else 1.0 for i, weight in enumerate(weights))

    def _curve(self, shape: str, k: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        t = np.arange(1, k + 1)
        if shape == "decreasing":
            return (k - t + 2) / (k + 1)  # as 1/λ_t of increasing strengths
        if shape == "cosine":
            return 0.5 * (1 + np.cos(np.pi * (t - 1) / k))
        return 1.0 / t if shape == "inverse" else np.ones(k)

    def grid(self, every: int = 1) -> list[float]:
        """Return the nine values of the knob that are tried first; of ``every=2`` five of them."""
        return GRIDS[self.knob][::every]

    def finer(self, best: float, every: int = 1) -> list[float]:
        """Return two more: both sides of an inner optimum of the grid, or beyond one at its edge."""
        grid = self.grid(every)
        if len(grid) == 1:
            return []
        ratio, i = grid[1] / grid[0], grid.index(best)
        if i == 0:
            return [best / ratio, best / ratio**2]
        if i == len(grid) - 1:
            return [best * ratio, best * ratio**2]
        return [best / math.sqrt(ratio), best * math.sqrt(ratio)]


SINGLES = ("lr cosine", "EMA", "merge inverse", "cosine, power", "EMA, lr", "merge inverse, lr")
"""One mechanism each; the last three have a second parameter tuned after the first, as the combinations have."""

COMBINATIONS = (
    "EWC linear, EMA",
    "EWC linear, merge inverse",
    "EWC linear, cosine",
    "EWC linear, lr decreasing",
    "cosine, EMA",
    "EWC linear, cosine, EMA",
)


def _combined() -> list[Method]:
    ewc = {"knob": "penalty", "metric": "fisher", "schedule": "linear"}
    average, merge, cosine = ("average", "EMA"), ("merge", "merge inverse"), ("lr", "lr cosine")
    return [
        Method("cosine, power", "power", rate="cosine", sources=(cosine,)),
        Method("EMA, lr", "lr", read="moving", sources=(average,)),
        Method("merge inverse, lr", "lr", merge="inverse", sources=(merge,)),
        Method("EWC linear, EMA", **ewc, read="moving", sources=(average,)),  # type: ignore[arg-type]
        Method("EWC linear, merge inverse", **ewc, merge="inverse", sources=(merge,)),  # type: ignore[arg-type]
        Method("EWC linear, cosine", **ewc, rate="cosine", sources=(cosine,)),  # type: ignore[arg-type]
        Method("EWC linear, lr decreasing", **ewc, rate="decreasing", sources=(("lr", "lr decreasing"),)),  # type: ignore[arg-type]
        Method("cosine, EMA", "average", rate="cosine", read="moving", sources=(cosine,)),
        Method(
            "EWC linear, cosine, EMA",
            **ewc,  # type: ignore[arg-type]
            rate="cosine",
            read="moving",
            sources=(cosine, ("average", "cosine, EMA")),
        ),
    ]


def _announced() -> list[Method]:
    """Return methods that need the number of tasks, told half of it and twice as many, with the same strength."""
    wrong = []
    for factor, label in ((0.5, "half"), (2.0, "double")):
        wrong += [
            Method(f"lr cosine, {label}", rate="cosine", sources=(("lr", "lr cosine"),), announced=factor),
            Method(f"lr decreasing, {label}", rate="decreasing", sources=(("lr", "lr decreasing"),), announced=factor),
            Method(
                f"EWC increasing, {label}",
                metric="fisher",
                schedule="increasing",
                sources=(("penalty", "EWC increasing"),),
                announced=factor,
            ),
        ]
    return wrong


def _all() -> dict[str, Method]:
    methods = [Method("finetune")]
    for metric, label in METRICS.items():
        shapes = ("fixed", "increasing", "linear", *(("reversed",) if metric == "identity" else ()))
        methods += [Method(f"{label} {shape}", "penalty", metric, shape) for shape in shapes]
    methods += [Method(f"steps {shape}", "steps", schedule=shape) for shape in ("fixed", "decreasing")]
    methods += [Method(f"lr {shape}", "lr", schedule=shape) for shape in ("fixed", "decreasing", "cosine", "inverse")]
    methods += [Method("mean of task ends", "lr", read="mean"), Method("EMA", "average", read="moving")]
    methods += [Method(f"merge {shape}", "merge", schedule=shape) for shape in ("inverse", "decreasing")]
    methods += [Method(f"LwF {shape}", "distill", schedule=shape) for shape in ("fixed", "increasing")]
    methods += [*_combined(), *_announced()]
    methods += [Method(data, "lr", data=data) for data in ("replay", "joint")]
    methods.append(Method("replay, lr decreasing", "lr", schedule="decreasing", data="replay"))
    return {method.name: method for method in methods}


METHODS = _all()


def stages(methods: list[Method]) -> list[list[Method]]:
    """Return the methods in the order of tuning: those whose values are taken from methods tuned in earlier stages."""
    left, tuned, order = list(methods), set[str](), []
    while left:
        stage = [method for method in left if all(source in tuned for _, source in method.sources)]
        if not stage:
            missing = {source for method in left for _, source in method.sources} - tuned - {m.name for m in left}
            raise ValueError(f"methods take tuned values of {', '.join(sorted(missing))}; add them")
        order.append(stage)
        tuned |= {method.name for method in stage}
        left = [method for method in left if method not in stage]
    return order

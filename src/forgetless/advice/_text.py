"""The reasoning of advice: claims on losses, label noise, flatness, wrong horizons and theorems;
notes on the data.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.advice._losses import Losses, fits
from forgetless.advice._sampled import Runs
from forgetless.advice.results import Claim, Option, below_text, change_text, down, up, value_text
from forgetless.engines.problem import Problem
from forgetless.filters import Projection, Ridge
from forgetless.guarantees.comparison import BOUNDS, setting_of
from forgetless.guarantees.oracle import oracle_bound
from forgetless.guarantees.results import check_bound
from forgetless.guarantees.schedule_bounds import OracleEntry
from forgetless.metrics import QUANTITIES
from forgetless.orderings import Ordering
from forgetless.schedules import resolve
from forgetless.schedules.presets import Increasing, IncreasingBudget
from forgetless.tasks import TaskCollection
from forgetless.theory.exchangeable_hypotheses import EXCHANGEABLE
from forgetless.theory.hypotheses import Setting


def guarantee(
    tasks: TaskCollection, schedule: Any, k: int, ordering: Ordering, start: Any, objective: str
) -> Claim:
    """Return the smallest published bound on the loss of a schedule, or the reason why there is
    none.
    """
    if objective == "validation":
        return _nothing("No theorem covers held-out rows.")
    if objective == "worst_case":
        setting = _unit_setting(tasks, schedule, k, ordering)
    else:
        setting = setting_of(Problem.of(tasks, schedule, k, ordering, "last"), start)
    quantity = "seen_loss" if objective == "seen_loss" else "average_loss"
    upper = [bound for bound in BOUNDS if bound.kind == "upper" and bound.quantity == quantity]
    if objective == "worst_case":  # for all teachers, where oracle bounds are for these labels
        upper = [bound for bound in upper if not isinstance(bound, OracleEntry)]
    checks = [check_bound(bound, setting, None) for bound in upper]
    trivial = 0.5 * setting.radius**2 * setting.distance**2
    values = {check.value: check for check in reversed(checks) if check.value is not None}
    value = min(values, default=math.inf)
    noisy = not fits(setting.tasks)
    if value < (math.inf if noisy else trivial * (1 - 1e-12)):
        kind, least = "a seen-task" if quantity == "seen_loss" else "an average", values[value]
        text = (
            f"A theorem guarantees it {kind} loss of at most {up(value, 3):.3g} ({least.name};"
            f" {least.status})."
        )
        return Claim("guarantee", text + _minimax(setting), -math.inf, value)
    if noisy:
        return _nothing(
            f"No theorem covers it: they are for tasks that one model fits.{_oracle(setting)}"
        )
    text = (
        "No theorem guarantees it more than what every schedule satisfies, ½R²D² ="
        f" {up(trivial, 3):.3g}."
    )
    return Claim("guarantee", text + _minimax(setting), -math.inf, trivial)


def _minimax(setting: Setting) -> str:
    """Return the guarantee of the minimax schedule as a sentence, where it applies and the schedule
    is another one.
    """
    unit = setting.radius**2 * setting.distance**2 / (2 * (setting.k + 1))
    if setting.eta == 1 or not fits(setting.tasks) or EXCHANGEABLE.failure(setting) or unit == 0:
        return ""
    return (
        " The smallest worst case that any algorithm has, on the next task in shuffled order, is"
        f" that of fl.schedules.minimax(): {up(unit, 3):.3g} (derived)."
    )


def _oracle(setting: Setting) -> str:
    """Return what Theorem N guarantees a minimax schedule on these labels, as a sentence; empty
    where it does not.
    """
    try:
        bound = oracle_bound(
            setting.tasks, setting.k, ordering=setting.ordering, start=setting.start
        )
    except ValueError:  # an order that is not exchangeable, or that has no next task
        return ""
    if bound.eta == 1:  # it fits but for rounding
        return ""
    return (
        f" With one gradient step a task, fl.schedules.minimax_budget(eta={bound.eta:.3g}), the"
        f" expected loss on the next task is at most {up(bound.value, 3):.3g} (fl.oracle_bound;"
        " derived)."
    )


def _unit_setting(tasks: TaskCollection, schedule: Any, k: int, ordering: Ordering) -> Setting:
    """Return the setting of a unit teacher, learned from the origin, which fits all tasks."""
    w = np.zeros(tasks.n_features)
    w[0] = 1.0
    fitted = TaskCollection([(task.X, task.X @ w) for task in tasks])
    setting = setting_of(Problem.of(fitted, schedule, k, ordering, "last"), None)
    return dataclasses.replace(setting, distance=1.0)


def _nothing(text: str) -> Claim:
    return Claim("guarantee", text, -math.inf, math.inf)


# fraction of the least possible loss from which on a missing constant feature is reported
_GAINED = 0.1
_CLOSE = 0.1  # relative difference of a sampled loss to others above which it is not mentioned
_BLURRED = 0.01  # relative error of a loss above which effects of small changes are not mentioned
_VAGUE = 10.0  # largest ratio of the ends of a range that is mentioned
_NOTHING = 1e-20  # fraction of the initial loss below which the loss of a run is rounding
SURE = 5.0  # standard errors within which a claim about sampled losses holds


@dataclasses.dataclass(frozen=True)
class Facts:
    """The ranked schedules with their losses, exact or from random runs."""

    problem: Losses
    options: Sequence[Option]  # best first
    tried: Floats  # scales at which the shape of the best was evaluated
    runs: Runs | None = None  # of the options, in their order, where losses were sampled

    @property
    def vanishes(self) -> bool:
        """Whether the loss of the best is zero up to its error, so that ratios to it are
        meaningless.
        """
        best = self.options[0]
        nothing = _NOTHING * self.problem.initial() if self.runs is not None else best.error
        return self.floor == 0 and best.loss <= nothing

    @property
    def floor(self) -> float:
        """The irreducible loss, which is subtracted before losses are compared."""
        return self.problem.least if self.problem.objective == "average_loss" else 0.0

    def interval(self, option: Option) -> tuple[float, float]:
        """Return the interval of the loss of an option."""
        wide = option.error * (SURE if self.runs is not None else 1.0)
        floor = min(self.floor, option.loss + wide)
        return max(option.loss - wide, floor, 0.0), option.loss + wide

    def ratio(self, position: int) -> tuple[float, float]:
        """Return the interval of the ratio of an option to the best, both above the floor."""
        if self.runs is not None:
            if self.runs.heavy(0) or self.runs.heavy(position):
                return 0.0, math.inf
            ratio, error = self.runs.ratio(position, 0)
            return (
                (ratio - SURE * error, ratio + SURE * error)
                if math.isfinite(ratio)
                else (0.0, math.inf)
            )
        (low, high), (own_low, own_high) = (self.interval(self.options[i]) for i in (position, 0))
        floor = self.floor
        if own_high <= floor:
            return 0.0, math.inf
        return max(0.0, low - floor) / (own_high - floor), _over(high - floor, own_low - floor)

    def lower(self) -> float:
        """Return a bound on the fraction of the best's loss by which another option may be below
        it.
        """
        best, others = self.options[0], range(1, len(self.options))
        if self.runs is not None:
            gaps = [gap + SURE * error for gap, error in (self.runs.lower(i, 0) for i in others)]
        else:
            gaps = [best.loss - self.options[i].loss + self._blur(i) for i in others]
        return max([0.0, *gaps]) / best.loss if best.loss > 0 else 0.0

    def _blur(self, position: int) -> float:
        """Return the sum of the errors of an option and the best, 0 where it is far below any
        printed digit.
        """
        best = self.options[0]
        together = best.error + self.options[position].error
        return together if together > 1e-6 * best.loss else 0.0


def _over(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf


def reasoning(facts: Facts) -> list[list[Claim]]:
    """Return the claims about the first option, sentence by sentence."""
    sentences = [_losses(facts)]
    if facts.problem.objective != "worst_case":  # the labels of the worst teacher have no noise
        sentences.append(_data(facts.problem.tasks, facts.options[0]))
    sentences.append(_flatness(facts.options[0], facts.tried))
    return [claims for claims in sentences if claims]


def written(sentences: Sequence[Sequence[Claim]]) -> str:
    """Return the claims as text."""
    return " ".join("".join(claim.text for claim in claims) for claims in sentences)


def _losses(facts: Facts) -> list[Claim]:
    """Return the claims on the loss, its irreducible part, and its ratio to well-known
    schedules.
    """
    best, what, runs = facts.options[0], QUANTITIES[facts.problem.objective], facts.runs
    if runs is not None and runs.heavy(0):
        text = (
            f"Its {what} was the smallest in {runs.n_runs} random runs, about {best.loss:.1g}, but"
            " these are "
        )
        text += "so far apart that rare ones may make up the mean: no more is claimed of it."
        return [Claim("sample", text, 0.0, math.inf)]
    if facts.vanishes:
        high = max(facts.interval(best)[1], _NOTHING * facts.problem.initial())
        text = f"Its {what} is zero up to rounding (at most {up(high, 1):.1g})."
        return [Claim("loss", text, 0.0, high)]
    claims = _exact_loss(facts, what) if runs is None else _sampled_loss(facts, runs, what)
    if facts.floor > 0:
        claims.append(
            Claim(
                "least", f", of which no weights avoid {facts.floor:.4g}", facts.floor, facts.floor
            )
        )
    lead = ": the rest is " if facts.floor > 0 else ": it is " if runs is not None else ": "
    for claim in _compared(facts):
        claims.append(dataclasses.replace(claim, text=lead + claim.text))
        lead = ", "
    claims[-1] = dataclasses.replace(claims[-1], text=claims[-1].text + ".")
    return claims


def _exact_loss(facts: Facts, what: str) -> list[Claim]:
    low, high = facts.interval(facts.options[0])
    lower, rank = facts.lower(), "the smallest"
    if lower >= _CLOSE:
        rank = "as far as rounding lets tell the smallest"
    elif lower > 0:
        rank += f" (up to {up(100 * lower):.2g} %)"
    return [
        Claim("lower", f"It has {rank} {what}, ", 0.0, lower),
        Claim("loss", value_text(low, high), low, high),
    ]


def _sampled_loss(facts: Facts, runs: Runs, what: str) -> list[Claim]:
    best, lower = facts.options[0], facts.lower()
    error = f" ± {best.error:.1g}" if best.error > 5e-5 * best.loss else ""
    claims = [Claim("loss", f"Its {what} is {best.loss:.4g}{error}", *facts.interval(best))]
    claims.append(Claim("sample", f", the smallest in {runs.n_runs} random runs", 0.0, math.inf))
    if lower < _CLOSE:
        limit = f"more than {up(100 * lower):.2g} % below" if lower else "below"
        claims.append(Claim("lower", f" (no other here is {limit})", 0.0, lower))
    return claims


def _compared(facts: Facts) -> list[Claim]:
    """Return the claims on the ratios of well-known schedules to the best, above the floor."""
    options = facts.options
    positions_of = {option.shape: [i] for i, option in enumerate(options)}
    free = positions_of.get("no regularization", [])
    constants = [i for i in range(len(options)) if _is_constant(_filter(facts, i))]
    best = min(constants, key=lambda i: options[i].loss) if constants else None
    named = {
        "no regularization": free,
        "the best constant tried": [] if best in free else constants,
    }
    named["the theorem's schedule"] = positions_of.get("increasing, theorem", [])
    claims = []
    for name, positions in named.items():
        if not positions or 0 in positions:
            continue
        # The claim is about the best of several, which with errors may be any of them.
        ranges = [facts.ratio(i) for i in positions]
        low, high = min(ends[0] for ends in ranges), min(ends[1] for ends in ranges)
        text = below_text(low, high)
        if text is not None:
            leading = min(positions, key=lambda i: options[i].loss)
            claims.append(
                Claim("below", f"{text} {name}", low, high, options[leading].schedule, name)
            )
    return claims


def _filter(facts: Facts, position: int) -> Any:
    return resolve(
        facts.options[position].schedule,
        facts.problem.k,
        facts.problem.tasks.radius,
        facts.problem.tasks,
    )


def _is_constant(filter_: Any) -> bool:
    return isinstance(filter_, Projection) or (
        isinstance(filter_, Ridge) and np.ptp(filter_.coefficient) == 0
    )


def _data(tasks: TaskCollection, best: Option) -> list[Claim]:
    free = best.shape == "no regularization"
    if fits(tasks):
        text = "One model fits all tasks: there is no label noise to average out" + (
            ", and regularization gains nothing."
            if free
            else ", only conflict between tasks to damp."
        )
        return [Claim("fits", text, 1.0, 1.0)]
    noise, source = label_noise(tasks)
    claims = [Claim("fits", "The labels are noisy or the tasks disagree", 0.0, 0.0)]
    if noise is not None:
        claims.append(Claim("noise", f" (σ ≈ {noise:.3g} from residuals {source})", noise, noise))
    text = (
        "yet not enough for regularization to pay in so many steps"
        if free
        else "which regularization averages out"
    )
    claims[-1] = dataclasses.replace(claims[-1], text=f"{claims[-1].text}, {text}.")
    return claims


def label_noise(tasks: TaskCollection) -> tuple[float | None, str]:
    """Return the standard deviation of the label noise and the source of the estimate.

    From residuals within tasks that have more rows than their rank, else from those of the joint
    solution, assuming that one model generated all tasks. None where neither has a degree of
    freedom.
    """
    rows = [int(task.X.shape[0]) for task in tasks]
    inside = sum(n - r for n, r in zip(rows, tasks.ranks, strict=True)) * tasks.n_targets
    if inside > 0:
        return math.sqrt(2 * float(tasks.floors.sum()) / inside), "within tasks"
    across = (sum(rows) - tasks.span_dimension) * tasks.n_targets
    if across <= 0:
        return None, "not identified"
    w = tasks.teacher()
    if fits(tasks):
        return 0.0, "between tasks"
    square = sum(float(np.sum((task.X @ w - task.y) ** 2)) for task in tasks)
    return math.sqrt(square / across), "between tasks"


def uncentred(tasks: TaskCollection) -> list[str]:
    """Return a note where targets are so far from centred that a constant feature would reduce the
    loss by much.
    """
    if fits(tasks):
        return []
    rows = [(task.X, task.y.reshape(-1, tasks.n_targets)) for task in tasks if task.y.shape[0]]
    X, y = np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])
    # Tasks whose loss is a mean are divided by √n, and a constant feature of theirs with them.
    shrunk = np.concatenate([np.full(len(X), len(X) ** -0.5) for X, _ in rows])
    rest = y - X @ tasks.teacher().reshape(tasks.n_features, tasks.n_targets)
    gained = max(_gain_of(constant, X, rest) for constant in (np.ones(len(X)), shrunk))
    free = len(X) - tasks.span_dimension
    if free < 2 or gained < max(_GAINED, 10 / free):
        return []
    worst = int(np.argmax(np.abs(y.mean(axis=0)) / np.maximum(y.std(axis=0), np.finfo(float).tiny)))
    return [
        f"targets are not centred (mean {y.mean(axis=0)[worst]:.3g}, standard deviation"
        f" {y.std(axis=0)[worst]:.3g}): a feature that is always 1 would take away"
        f" {down(100 * gained):.2g} % of the least possible loss. Add one, or centre features and"
        " targets."
    ]


def _gain_of(feature: Floats, X: Floats, rest: Floats) -> float:
    """Return the fraction of the squared residuals that a further feature would explain."""
    new = feature - X @ np.linalg.lstsq(X, feature, rcond=None)[0]
    square = float(new @ new)
    if square <= 1e-12 * float(feature @ feature):
        return 0.0
    return float(np.sum((new @ rest) ** 2)) / square / float(np.sum(rest**2))


def _flatness(best: Option, tried: Floats) -> list[Claim]:
    if best.flat is None or best.error > _BLURRED * best.loss:
        return []
    low, high = best.flat
    if best.shape == "no regularization":
        text = f"Constants up to {down(high):.2g} times R² stay within 10 % of it."
        return [Claim("flat", text, low, high)]
    verdict = "flat" if high > 10 * low else "sharp" if high < 2 * low else "moderately flat"
    ends = " (as far as tried)" if high >= 0.999 * tried[-1] or low <= 1.001 * tried[0] else ""
    # there a pure factor
    unit = "" if isinstance(best.schedule, Increasing | IncreasingBudget) else " times R²"
    inner = (up(low), down(high))
    if inner[0] >= inner[1]:
        return []
    text = f"scales from {inner[0]:.2g} to {inner[1]:.2g}{unit}{ends} stay within 10 % of it."
    return [Claim("flat", f"The optimum is {verdict}: {text}", low, high)]


def average_claims(facts: Facts, average: Option | None) -> list[Claim]:
    """Return the claim on the average of unregularized steps, which needs no horizon."""
    if average is None or facts.vanishes or (facts.runs is not None and facts.runs.heavy(0)):
        return []
    (low, high), (own_low, own_high) = facts.interval(average), facts.interval(facts.options[0])
    ends = low / own_high if own_high > 0 else 0.0, _over(high, own_low)
    if not 0 < ends[0] <= ends[1] < _VAGUE * ends[0]:
        return []
    text = (
        "Where k is not known, the t²-average of unregularized steps needs neither k nor R: its"
        " loss is "
    )
    text += f"{change_text(*ends)} ({average.code} with average={average.average:g})."
    return [Claim("average", text, *ends)]


def horizon_claims(facts: Facts, planned: dict[str, tuple[Any, float, float]]) -> list[Claim]:
    """Return the claims on horizons wrong by a factor of 2, from their filters, losses and
    errors.
    """
    best = facts.options[0]
    low, high = facts.interval(best)
    if (
        not planned
        or max(best.error, *(error for _, _, error in planned.values())) > _BLURRED * best.loss
    ):
        return []
    ranges = {
        name: ((loss - error) / high, (loss + error) / low)
        for name, (_, loss, error) in planned.items()
    }
    if all(max(abs(a - 1), abs(b - 1)) < 0.01 for a, b in ranges.values()):
        sentence = (
            f"Planned for {' or '.join(planned)} the steps that come, its loss is the same within"
            " 1 %."
        )
        texts = [sentence, *[""] * (len(planned) - 1)]
    else:
        texts = [
            f"{change_text(*ranges[name])} planned for {name} the steps that come"
            for name in planned
        ]
        texts = [
            f"The horizon matters: its loss is {texts[0]}",
            *(f" and {text}" for text in texts[1:]),
        ]
        texts[-1] += "."
    named = zip(planned, texts, strict=True)
    return [Claim("horizon", text, *ranges[name], planned[name][0], name) for name, text in named]

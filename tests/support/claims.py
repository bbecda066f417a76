"""Advice held to its word: random problems for every path, and every claim against losses computed another way."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

import forgetless as fl
from forgetless.advice import _losses, _ranking, which_lambda
from support import literal

PATHS = ("exact", "model", "model refused", "sampled", "sampled, asked for")


@dataclass
class Case:
    """Tasks, and what is asked of them."""

    name: str
    path: str
    pairs: list
    k: int
    objective: str
    ordering: Any
    start: Any
    held_out: Any
    also: dict

    @property
    def tasks(self):
        return fl.TaskCollection(self.pairs)

    def patch(self, monkeypatch):
        """Let these small tasks take the path that large ones take."""
        if self.path.startswith("model"):
            for name in ("_QUICK", "_STEP", "_SHORT"):
                monkeypatch.setattr(_losses, name, 0.0)
            monkeypatch.setattr(_losses, "assembly", lambda _: 0.0)
        if self.path == "model refused":
            monkeypatch.setattr(_ranking, "_TRUSTED", -1.0)
            monkeypatch.setattr(_ranking, "EXACT", 0.0)
        if self.path == "sampled":
            monkeypatch.setattr(which_lambda, "EXACT", 0.0)
            monkeypatch.setattr(which_lambda, "_LONGEST", np.inf)

    def advise(self):
        asked = {"n_trials": 400} if self.path == "sampled, asked for" and self.objective != "worst_case" else {}
        return fl.advise(
            self.tasks,
            self.k,
            objective=self.objective,
            ordering=self.ordering,
            start=self.start,
            validation=self.held_out,
            also=self.also,
            **asked,
        )


def random_case(number):
    """Problem of this number: the path goes round, everything else is drawn."""
    rng = np.random.default_rng([20, number])
    path = PATHS[number % len(PATHS)]
    M, d, k = int(rng.integers(2, 9)), int(rng.integers(2, 7)), int(rng.choice([1, 2, 3, 8, 25, 60]))
    targets = 2 if rng.random() < 0.2 else None
    objective = str(rng.choice(["average_loss", "average_loss", "seen_loss", "worst_case", "validation"]))
    ordering = fl.WithReplacement()
    if path == "exact":
        kind = rng.integers(6)
        if kind == 1:
            ordering = fl.Cyclic()
        elif kind == 2 and objective != "validation":
            M, k, ordering = min(M, 5), min(M, 5), fl.WithoutReplacement()
        elif kind == 3 and objective != "validation":
            M, ordering = min(M, 4), fl.RandomReshuffling()
        elif kind == 4:
            ordering = fl.WithReplacement(rng.dirichlet(np.ones(M)))
        elif kind == 5:
            ordering = fl.FixedOrder(rng.integers(0, M, k).tolist())
    noise = float(rng.choice([0.0, 0.1, 1.0, 20.0]))
    teacher = rng.standard_normal((d, targets) if targets else d)
    scales = 10.0 ** rng.uniform(-0.5, 0.5, M)

    def pair(scale=1.0):
        X = scale * rng.standard_normal((int(rng.integers(1, 6)), d))
        y = X @ teacher
        return X, y + noise * rng.standard_normal(y.shape)

    pairs = [pair(scale) for scale in scales]
    radius = fl.TaskCollection(pairs).radius
    return Case(
        f"{number}, {path}, {objective}, {type(ordering).__name__}, k={k}, noise {noise}",
        path,
        pairs,
        k,
        objective,
        ordering,
        rng.standard_normal(teacher.shape) if rng.random() < 0.3 else None,
        [pair() for _ in range(2)] if objective == "validation" else None,
        {"mine": fl.Ridge(float(10.0 ** rng.uniform(-2, 1)) * radius**2)} if rng.random() < 0.3 else {},
    )


# --- losses, computed another way ---


def loss_of(case, schedule):
    """The objective of one schedule: moments of (w, 1) in the features themselves, or every order one by one."""
    radius = max(np.linalg.norm(X, 2) for X, _ in case.pairs)
    filter_ = fl.schedules.resolve(schedule, case.k, radius)
    law = case.ordering.law(len(case.pairs), case.k)
    if isinstance(law, fl.orderings.Draws) and case.objective != "seen_loss":
        return _by_moments(case, filter_, law.probabilities)
    if isinstance(law, fl.orderings.OneOrder) and case.objective != "worst_case":
        return _by_order(case, filter_, case.ordering)
    if case.objective == "worst_case":
        return float(fl.worst_case(case.tasks, filter_, case.k, ordering=case.ordering).loss)
    found = fl.expect(case.tasks, filter_, case.k, ordering=case.ordering, start=case.start, metrics=case.objective)
    return float(found.values[case.objective][0])


def average_loss_of(case):
    """The objective of the t²-average of unregularized steps."""
    options = {"ordering": case.ordering, "average": 2}
    law = case.ordering.law(len(case.pairs), case.k)
    if case.objective == "worst_case":
        return float(fl.worst_case(case.tasks, fl.Projection(), case.k, **options).loss)
    options["start"] = case.start
    if case.objective == "average_loss" or isinstance(law, fl.orderings.OneOrder):
        found = fl.expect(case.tasks, fl.Projection(), case.k, metrics=case.objective, **options)
        return float(found.values[case.objective][0])
    trace = fl.simulate(case.tasks, fl.Projection(), case.k, n_trials=20_000, seed=9, record="last", **options)
    if case.objective == "validation":
        return float(fl.metrics.average_loss(fl.TaskCollection(case.held_out), trace.weights[:, -1]).mean())
    return float(trace.seen_loss.mean())


def _map(X, filter_):
    """φ(XᵀX), from an eigendecomposition."""
    eigenvalues, vectors = np.linalg.eigh(X.T @ X)
    s = np.sqrt(np.where(eigenvalues > 1e-12 * eigenvalues.max(), eigenvalues, 0.0))
    phi = np.where(s > 0, np.asarray(filter_.factors_of_singular(np.where(s > 0, s, 1.0))), 0.0)
    return (vectors * phi) @ vectors.T


def _by_moments(case, filter_, probabilities):
    d = case.pairs[0][0].shape[1]
    maps = {}

    def steps(t):
        key = 0 if filter_.horizon is None else t
        if key not in maps:
            now = filter_.at(t)
            maps.clear()
            maps[key] = [(A := _map(X, now), A @ np.linalg.pinv(X, rcond=1e-6) @ y) for X, y in case.pairs]
        return maps[key]

    if case.objective == "worst_case":
        V = np.mean([X.T @ X for X, _ in case.pairs], axis=0)
        for t in reversed(range(case.k)):
            V = sum(
                p * (np.eye(d) - A) @ V @ (np.eye(d) - A) for p, (A, _) in zip(probabilities, steps(t), strict=True)
            )
        return 0.5 * float(np.linalg.eigvalsh(V)[-1])
    columns = case.pairs[0][1].reshape(len(case.pairs[0][1]), -1).shape[1]
    start = np.zeros((d, columns)) if case.start is None else case.start.reshape(d, -1)
    total = 0.0
    scored = case.pairs if case.held_out is None else case.held_out
    for c in range(columns):
        state = np.append(start[:, c], 1.0)
        S = np.outer(state, state)
        for t in range(case.k):
            fresh = np.zeros_like(S)
            for p, (A, b) in zip(probabilities, steps(t), strict=True):
                B = np.block([[np.eye(d) - A, b.reshape(d, -1)[:, c : c + 1]], [np.zeros((1, d)), np.ones((1, 1))]])
                fresh += p * B @ S @ B.T
            S = fresh
        for X, y in scored:
            Z = np.column_stack([X, -y.reshape(len(y), -1)[:, c]])
            total += 0.5 * float(np.sum((Z @ S) * Z)) / len(scored)
    return total


def _by_order(case, filter_, ordering):
    indices = np.concatenate(list(ordering.blocks(len(case.pairs), case.k, 1, np.random.default_rng(0))), axis=1)[0]
    shape = (case.pairs[0][0].shape[1], *case.pairs[0][1].shape[1:])
    start = np.zeros(shape) if case.start is None else case.start
    path = literal.run(case.pairs, indices[: case.k].tolist(), literal.step_of(filter_), start)
    if case.objective == "validation":
        return float(np.mean([literal.loss(path[-1], X, y) for X, y in case.held_out]))
    return float(literal.metrics(case.pairs, indices[: case.k].tolist(), path)[case.objective])


# --- what is claimed ---

_NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def numbers(text):
    """The numbers of a text with the unit of their last digit."""
    found = []
    for match in _NUMBER.findall(text):
        plain = match.rstrip(".,").replace(",", "")
        mantissa, _, exponent = plain.partition("e")
        digits = len(mantissa.partition(".")[2])
        unit = 10.0 ** (int(exponent or 0) - digits)
        value = float(plain)
        if not digits and not exponent and value >= 1000:  # written out, three digits count
            unit = max(unit, 10.0 ** (np.floor(np.log10(value)) - 2))
        found.append((value, unit))
    return found


def holds(text, truth, share=1.0):
    """Whether the first phrase with numbers of a text is true of a number: of one, of a range, or of a bound."""
    said = [(share * value, share * unit) for value, unit in numbers(text)]
    if re.search(r"between \d", text):
        return said[0][0] - 1e-9 * abs(truth) <= truth <= said[1][0] * (1 + 1e-9)
    if "at least" in text:
        return truth >= said[0][0] * (1 - 1e-9)
    if "at most" in text or "more than" in text:
        return truth <= said[0][0] * (1 + 1e-9)
    value, unit = said[0]
    return abs(truth - value) <= 0.51 * unit + 1e-9 * abs(truth)


def rounding(case):
    """How far a loss computed in 16 digits may be off."""
    return 1e-13 * max(1.0, _first(case))


def check(case, advice):
    """Check every claim and every number of the reasoning; return the advised loss."""
    own = loss_of(case, advice.best)
    blur = rounding(case)
    assert advice.why == " ".join(advice.why.split()), "one space between words"
    assert numbers(advice.why) == numbers("".join(claim.text for claim in advice.claims)), "only claims are said"
    least = _least(case)
    for claim in advice.claims:
        _check_claim(case, advice, claim, own, least, blur)
    if not advice.n_runs:
        for option in advice.options:
            exact = loss_of(case, option.schedule)
            assert abs(option.loss - exact) <= 1e-7 * exact + option.error + blur, option
    if case.objective == "average_loss":
        assert advice.options[0].loss >= least * (1 - 1e-9) - 5 * advice.options[0].error - blur
    return own


def _check_claim(case, advice, claim, own, least, around):  # noqa: C901, PLR0912
    floor = least if case.objective == "average_loss" else 0.0
    slack = 1e-7 * abs(own) + around
    if claim.about == "loss":
        assert claim.low - slack <= own <= claim.high + slack, claim
        if "±" in claim.text:
            (value, unit), (error, last) = numbers(claim.text)
            assert abs(value - own) <= 5 * (error + last) + unit, claim
        else:
            assert own < 1e-9 * _first(case) or holds(claim.text, own), (claim, own)
    elif claim.about == "lower":
        assert not numbers(claim.text) or numbers(claim.text)[0][0] >= 100 * claim.high * (1 - 1e-9)
        others = [loss_of(case, option.schedule) for option in advice.options[1:]]
        gap = (own - min([own, *others])) / own if own > 0 else 0.0
        assert gap <= claim.high + 1e-7 + around / max(own, 1e-300), (claim, gap)
    elif claim.about == "least":
        assert abs(claim.low - least) <= 1e-8 * least
        assert holds(claim.text, least), claim
    elif claim.about == "below":
        ratio = (loss_of(case, claim.schedule) - floor) / (own - floor)
        blur = 1e-6 + 10 * around / (own - floor)
        assert claim.low * (1 - blur) <= ratio <= claim.high * (1 + blur), (claim, ratio)
        percent = "%" in claim.text
        truth = 100 * (1 - 1 / ratio) if percent else ratio
        assert blur > 1e-3 or holds(claim.text, truth), (claim, truth)
    elif claim.about == "fits":
        assert (least <= 1e-12 * _first(case, zero=True)) == bool(claim.low), claim
    elif claim.about == "noise":
        assert holds(claim.text, _noise(case)), claim
    elif claim.about == "flat":
        _check_flat(case, advice, claim, own)
    elif claim.about == "horizon":
        ratio = loss_of(case, claim.schedule) / own
        blur = 1e-6 + 10 * around / own
        assert claim.low * (1 - blur) <= ratio <= claim.high * (1 + blur), (claim, ratio)
        if "same within" in claim.text and "and" not in claim.text:
            assert abs(ratio - 1) < 0.01 + blur
    elif claim.about == "average":
        ratio = average_loss_of(case) / own
        blur = 1e-6 + 10 * around / own
        assert claim.low * (1 - blur) <= ratio <= claim.high * (1 + blur), (claim, ratio)
        if "same within" not in claim.text:
            truth = 100 * abs(ratio - 1) if "%" in claim.text else ratio
            assert blur > 1e-3 or holds(claim.text, truth), (claim, ratio)
    elif claim.about == "guarantee":
        assert own <= claim.high * (1 + 1e-9) + around, claim
    else:
        assert claim.about == "sample", claim


def _check_flat(case, advice, claim, own):
    best = advice.options[0]
    square = advice.radius**2
    said = [value for value, _ in numbers(claim.text)][: 1 if best.shape == "no regularization" else 2]
    assert claim.low * (1 - 1e-9) <= min(said[0], claim.high)
    assert said[-1] <= claim.high * (1 + 1e-9)
    for scale in np.geomspace(max(claim.low, 1e-3 * claim.high), claim.high, 9):
        if best.shape in ("no regularization", "constant"):
            schedule = fl.Ridge(float(scale) * square)
        else:
            name = "noise" if best.shape == "minimax, noise" else "scale"
            values = {**vars(best.schedule), name: float(scale)}
            schedule = type(best.schedule)(**values)
        assert loss_of(case, schedule) <= 1.1 * own * 1.01, (claim, scale)


def _stacked(case):
    X = np.concatenate([X for X, _ in case.pairs])
    return X, np.concatenate([y.reshape(len(y), -1) for _, y in case.pairs])


def _least(case):
    X, y = _stacked(case)
    rest = y - X @ np.linalg.lstsq(X, y, rcond=1e-9)[0]
    return 0.5 * float(np.sum(rest**2)) / len(case.pairs)


def _noise(case):
    inside, free = 0.0, 0
    for X, y in case.pairs:
        targets = y.reshape(len(y), -1)
        rank = np.linalg.matrix_rank(X)
        rest = targets - X @ np.linalg.lstsq(X, targets, rcond=1e-9)[0]
        inside, free = inside + float(np.sum(rest**2)), free + (len(X) - rank) * targets.shape[1]
    if free:
        return np.sqrt(inside / free)
    X, y = _stacked(case)
    return np.sqrt(2 * len(case.pairs) * _least(case) / ((len(X) - np.linalg.matrix_rank(X)) * y.shape[1]))


def _first(case, zero=False):
    """The loss before the first step."""
    w = 0.0 if case.start is None or zero else case.start
    pairs = case.pairs if case.held_out is None or zero else case.held_out
    if case.objective == "worst_case" and not zero:
        return float(np.mean([np.linalg.norm(X, 2) ** 2 for X, _ in case.pairs]))
    shape = (case.pairs[0][0].shape[1], *case.pairs[0][1].shape[1:])
    return float(np.mean([literal.loss(np.zeros(shape) + w, X, y) for X, y in pairs]))


def best_of_constants(case, n_constants):
    """The smallest loss of constants from no regularization to none at all."""
    tasks = case.tasks
    scale = tasks.radius**2
    grid = np.concatenate([[0.0], np.geomspace(1e-8 * scale, 1e5 * case.k * scale, n_constants - 1)])
    held_out = None if case.held_out is None else fl.TaskCollection(case.held_out)
    problem = _losses.Losses(tasks, case.k, case.ordering, case.start, held_out)
    return float(problem([fl.Ridge(c) for c in grid], [case.objective])[case.objective].min())

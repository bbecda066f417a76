"""The paper's figure and table from exact computations, as tables of numbers; ``plots`` draws
them.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._progress import track
from forgetless._table import Table
from forgetless._validate import Floats
from forgetless.filters import Projection, Ridge
from forgetless.lab.exact import expect
from forgetless.lab.simulate import simulate
from forgetless.lab.worst import worst_case
from forgetless.metrics import METRICS
from forgetless.orderings import FixedOrder, RandomReshuffling, WithoutReplacement, WithReplacement
from forgetless.tasks import TaskCollection
from forgetless.theory import constructions
from forgetless.theory.bounds import catalogue
from forgetless.theory.constructions import rare_tasks
from forgetless.theory.last_iterate import descend, linear_decay
from forgetless.theory.surrogates import surrogate
from forgetless.theory.two_tasks import two_task_optimum
from forgetless.theory.upper import upper_bound

__all__ = ["curves", "optimal", "optimum", "rates", "reduction", "slopes", "unregularized"]

_ANGLES = {
    "π/64": np.pi / 64,
    "π/32": np.pi / 32,
    "π/16": np.pi / 16,
    "π/8": np.pi / 8,
    "π/4": np.pi / 4,
}


def optimum(k_max: int = 1024) -> Table:
    """Return λ⋆(k; θ), the best fixed coefficient of the two-task problem by exact global
    search.
    """
    k = np.arange(1, k_max + 1)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("angle", "theta", "k", "coefficient", "loss", "linear")
    }
    drops = []
    for name, theta in _ANGLES.items():
        best, loss = two_task_optimum(theta, k)
        linear = k / np.log(1 / np.tan(theta / 2))
        rows = (np.repeat(name, k_max), np.repeat(theta, k_max), k, best, loss, linear)
        for column, values in zip(columns.values(), rows, strict=True):
            column += values.tolist()
        if best[-1] == 0:
            drop = int(np.argmax(best)) + 1
            zero = k_max - int(np.argmax(best[::-1] > 0))
            drops.append(
                f"θ = {name}: drops at kθ² = {k[drop] * theta**2:.2f}, exactly 0 from kθ² ="
                f" {k[zero] * theta**2:.2f} on"
            )
    return Table("Best fixed coefficient of two tasks", columns, tuple(drops))


SCHEDULES: dict[str, Any] = {
    "none": Projection(),
    "fixed": schedules.fixed(),
    "increasing": schedules.increasing(),
    "fixed budget": schedules.fixed_budget(4),
    "increasing budget": schedules.increasing_budget(4),
}

_PUBLISHED = {
    "none": "unregularized, dimension-free",
    "fixed": "fixed, near-optimal, tight",
    "increasing": "increasing, finite k",
    "fixed budget": "fixed, near-optimal, tight",
    "increasing budget": "increasing, finite k",
}


def _random(d: int, M: int, r: int, spread: float = 1.0) -> TaskCollection:
    rng = np.random.default_rng([d, M, r])
    rows = [rng.standard_normal((r, d)) * np.geomspace(1.0, spread, d) for _ in range(M)]
    return TaskCollection([(X / np.linalg.norm(X, 2), np.zeros(r)) for X in rows])


FAMILIES: dict[str, Callable[[int], TaskCollection]] = {
    "unseen task": constructions.unseen_task,
    "rare tasks": constructions.rare_tasks,
    "two tasks, π/64": lambda _: constructions.two_tasks(np.pi / 64),
    "two tasks, π/16": lambda _: constructions.two_tasks(np.pi / 16),
    "random, rank 1": lambda _: _random(10, 20, 1),
    "random, rank 3": lambda _: _random(20, 10, 3),
    "ill-conditioned": lambda _: _random(8, 12, 2, 1e-2),
}


def rates(exponents: range = range(2, 11)) -> Table:
    """Return the exact worst-case loss over R² against k, for every family and schedule, beside the
    published bound.
    """
    rows: list[dict[str, Any]] = []
    for family in track(FAMILIES, "families of tasks"):
        for k in (2**exponent for exponent in exponents):
            tasks = FAMILIES[family](k)
            losses = worst_case(tasks, SCHEDULES, k).worst_case[:, 0] / tasks.radius**2
            for name, loss in zip(SCHEDULES, losses.tolist(), strict=True):
                bound = min(0.5, catalogue[_PUBLISHED[name]].at(k))
                row = {"family": family, "schedule": name, "k": k, "loss": loss, "bound": bound}
                rows.append(row)
    return Table.of_rows("Worst case over unit teachers against the number of steps", rows)


def slopes(measured: Table, last: int = 4) -> Table:
    """Return fitted slopes of log loss against log k, over the last points, beside the published
    bounds and those computed here.
    """
    end = int(max(measured.columns["k"]))
    proved = {name: upper_bound(schedule, end).constant for name, schedule in SCHEDULES.items()}
    rows = []
    for family in FAMILIES:
        for name in SCHEDULES:
            part = measured.where(family=family, schedule=name)
            k, loss = np.array(part.columns["k"][-last:]), np.array(part.columns["loss"][-last:])
            bound = catalogue[_PUBLISHED[name]]
            rows.append(
                {
                    "family": family,
                    "schedule": name,
                    "slope": float(np.polyfit(np.log(k), np.log(np.maximum(loss, 1e-300)), 1)[0]),
                    "fitted on k": f"{k[0]}..{k[-1]}",
                    "k·loss at the end": float(k[-1] * loss[-1]),
                    "published": bound.rate,
                    "k·bound at the end": float(k[-1] * part.columns["bound"][-1]),
                    "k·upper bound at the end": proved[name],
                }
            )
    facts = tuple(
        f"{family}: smallest loss with {_winners(measured.where(family=family))}"
        for family in FAMILIES
    )
    return Table.of_rows("Table 1, measured", rows, facts)


def _winners(part: Table) -> str:
    """Return the schedules of smallest loss and their ranges of k, as text."""
    best: list[tuple[str, int, int]] = []
    for k in dict.fromkeys(part.columns["k"]):
        at = part.where(k=k).columns
        name = at["schedule"][int(np.argmin(at["loss"]))]
        if best and best[-1][0] == name:
            best[-1] = (name, best[-1][1], k)
        else:
            best.append((name, k, k))
    return ", ".join(
        f"{name} (k = {low}..{high})" if high > low else f"{name} (k = {low})"
        for name, low, high in best
    )


def curves(n_trials: int = 2000) -> Table:
    """Return exact seen-task loss and forgetting beside simulated bands, with and without
    replacement.
    """
    rng = np.random.default_rng(3)
    teacher = rng.standard_normal(8)
    tasks = TaskCollection([(X := rng.standard_normal((2, 8)), X @ teacher) for _ in range(12)])
    k, rows, worst = 36, [], 0.0
    orderings = {"with replacement": WithReplacement(), "without replacement": RandomReshuffling()}
    for (order, ordering), name in product(orderings.items(), ("none", "increasing")):
        options: dict[str, Any] = {"ordering": ordering, "record": "all"}
        exact = expect(tasks, SCHEDULES[name], k, metrics=METRICS, **options)
        trace = simulate(tasks, SCHEDULES[name], k, n_trials=n_trials, seed=0, **options)
        for metric in ("seen_loss", "forgetting"):
            values = getattr(trace, metric)
            means = getattr(exact, metric)
            error = values.std(axis=0) / np.sqrt(n_trials)
            gap = np.abs(values.mean(axis=0) - means)
            gap /= np.maximum(error, 1e-12 * np.abs(means).max())
            worst = max(worst, float(gap[1:].max()))
            low, high = np.quantile(values, [0.1, 0.9], axis=0)
            for i in range(k):
                row: dict[str, Any] = {"ordering": order, "schedule": name, "metric": metric}
                row |= {"k": i + 1, "exact": float(means[i]), "mean": float(values[:, i].mean())}
                rows.append({**row, "low": float(low[i]), "high": float(high[i])})
    fact = (
        f"largest distance of {n_trials} simulated runs' mean from the exact value: {worst:.1f}"
        " standard errors"
    )
    one = expect(tasks, SCHEDULES["none"], 12, ordering=WithoutReplacement()).average_loss[0]
    return Table.of_rows(
        "Seen-task loss and forgetting",
        rows,
        (fact, f"average loss after one epoch, unregularized: {one:.4g}"),
    )


def reduction(k: int = 12) -> Table:
    """Return iterates of both schemes, literally computed, and of gradient descent on their
    surrogates, in 2-D.
    """
    rng = np.random.default_rng(5)
    teacher = np.array([1.0, -0.6])
    rows_of = [np.array([[np.cos(a), np.sin(a)]]) for a in (0.2, 1.1, 2.3)]
    pairs = [(X, X @ teacher) for X in rows_of]
    tasks = TaskCollection(pairs)
    order = rng.integers(3, size=k).tolist()
    etas = linear_decay(k, 1.5 / tasks.radius**2)
    out, deviations = [], []
    for scheme, n_steps in (("explicit L2", 0), ("step budget", 5)):
        schedule: Any = (
            schedules.increasing(1 / 1.5)
            if not n_steps
            else schedules.increasing_budget(n_steps, scale=1 / 1.5)
        )
        filter_ = schedule(k, tasks.radius)

        def gradient(w: Any, m: int, t: int, filter_: Any = filter_) -> Any:
            return surrogate(tasks[m], filter_[t - 1], etas[t - 1], tasks.radius).gradient(w)

        descent = descend(gradient, order, etas, np.zeros(2))
        literal = _literal(pairs, filter_, order, n_steps)
        ordering = FixedOrder(order)
        trace = simulate(tasks, schedule, k, ordering=ordering, record="all", metrics="weights")
        gap = max(float(np.abs(path - descent).max()) for path in (literal, trace.weights[0]))
        deviations.append(f"{scheme}: largest deviation of the three computations {gap:.1e}")
        for t in range(k):
            row = {
                "scheme": scheme,
                "t": t + 1,
                "w1": float(literal[t, 0]),
                "w2": float(literal[t, 1]),
            }
            out.append({**row, "descent1": float(descent[t, 0]), "descent2": float(descent[t, 1])})
    return Table.of_rows(
        "The reduction: learning a task is one gradient step", out, tuple(deviations)
    )


def _literal(pairs: Any, filter_: Any, order: list[int], n_steps: int) -> Any:
    """Run the paper's algorithms as printed: normal equations, or inner gradient steps."""
    w, path = np.zeros(2), []
    for t, m in enumerate(order):
        X, y = pairs[m]
        now = filter_[t]
        if n_steps:
            for _ in range(n_steps):
                w = w - now.step_size * X.T @ (X @ w - y)
        else:
            w = np.linalg.solve(
                X.T @ X + now.coefficient * np.eye(2), X.T @ y + now.coefficient * w
            )
        path.append(w)
    return np.array(path)


def unregularized(exponents: range = range(2, 11)) -> Table:
    """Return k·loss/(R²D²) for tasks drawn with replacement: what is proved for every collection,
    and what some collections have.
    """
    free = Projection()
    lines: dict[str, Callable[[int], float]] = {
        "increasing, published": catalogue["increasing"].at,
        "increasing, scale 1": lambda k: upper_bound(schedules.increasing(1.0), k).value,
        "no regularization": lambda k: upper_bound(free, k).value,
        "fixed, λ = 3R²/7": lambda k: upper_bound(Ridge(3 / 7), k).value,
        "no regularization, some tasks": lambda k: max(
            constructions.jump_chain(levels, k).claim(free, k) for levels in range(1, 6)
        ),
        "any algorithm, some tasks": catalogue["any algorithm, one task more"].at,
    }
    columns: dict[str, list[Any]] = {"k": [2**n for n in exponents]}
    for name, loss in lines.items():
        columns[name] = [k * loss(k) for k in columns["k"]]
    fact = "without regularization at most 0.315 R²D²/k for every k: derived here, not published"
    return Table("Is regularization needed? k·loss/(R²D²), with replacement", columns, (fact,))


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
    published = catalogue["increasing"].at(k)
    half = catalogue["minimax, next task"].at(k, eta=1.0)
    weights = (1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
    values = {
        WITH: {
            f"{PAPER}, published": published,
            f"{PAPER}, computed": catalogue["increasing, every k"].at(k),
            f"{PAPER}, bad collection": rare_tasks(k).claim(paper, k),
            f"{MINIMAX}, proved": half,
            f"{MINIMAX}, computed": upper_bound(minimax, k).value,
            f"{MINIMAX}, bad collection": max(
                rare_tasks(k, 1, each).claim(minimax, k) for each in weights
            ),
            "any algorithm, at least": (catalogue["any algorithm, one task more"].at(k)),
        },
        WITHOUT: {
            f"{PAPER}, published": published,  # its proof holds here, too
            f"{PAPER}, computed": upper_bound(paper, k, quantity="next_loss").value,
            f"{PAPER}, bad collection": repeated_row(paper(k, 1.0).table(1.0)),
            f"{MINIMAX}, proved": half,
            f"{MINIMAX}, bad collection": repeated_row(minimax(k, 1.0).table(1.0)),
            "any algorithm, at least": catalogue["any algorithm, next task"].at(k),
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

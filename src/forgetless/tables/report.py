"""The report of a fitted stream: one HTML page with forgetting curves, and the same facts in
words.
"""

import io
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from forgetless import plots
from forgetless._page import render
from forgetless._table import Table
from forgetless._text import printable, readable_number
from forgetless.estimators.evaluation import StreamResult
from forgetless.estimators.held_out import Outcomes
from forgetless.io import replace_file

_SHOWN_TASKS = 6
"""How many single tasks are drawn, spread over the stream."""

_SHOWN_FEATURES = 30
"""How many coefficients are listed, those that move predictions most first."""

_EXPLAINED = {
    "feature": "A coefficient is what one unit of the feature adds to a prediction.",
    "±": (
        "± is one standard deviation, from the errors of rows not yet learned and what is"
        " remembered of all rows; it takes the model for right and rows for independent. For"
        " categories and days of the week, of which only differences are known, it is that of the"
        " difference to the mean of the column."
    ),
    "effect": "The effect is that of one standard deviation of the feature.",
}
"""What the columns of the table of coefficients are."""

_FEW = 5
"""Rows below which the error of one task says little."""

_NAMED = 5
"""How many tasks a sentence names."""


class _Measure(NamedTuple):
    """How errors are stated: by ``key`` in figures, in tables, in sentences; and the prediction
    without features.
    """

    key: str
    column: str
    text: str
    mean: str
    short_mean: str
    root: bool

    def of(self, error: float) -> float:
        """Return the value that is stated for a mean squared error, or for a fraction of wrong
        rows.
        """
        return math.sqrt(error) if self.root else float(error)

    def stated(self, value: float) -> str:
        """Return such a value as text."""
        return readable_number(value) if self.root else f"{value:.2%}"


_NUMBERS = _Measure("rmse", "RMSE", "a root mean squared error", "mean", "mean", root=True)
_CLASSES = _Measure(
    "error", "error rate", "an error rate", "most frequent class", "majority", root=False
)


def _measure_of(run: StreamResult) -> _Measure:
    """Return the measure of the errors of a regressor or of a classifier."""
    return _CLASSES if is_classifier(run.estimator) else _NUMBERS


def summary(run: StreamResult) -> dict[str, Any]:
    """Return the figures of a stream: root mean squared errors, or fractions of wrong predictions
    (``error``).

    Those before learning count every row the same, those on held-out rows every task.
    """
    estimator = run.estimator
    measure = _measure_of(run)
    key = measure.key
    figures: dict[str, Any] = {
        "tasks": len(run.tasks),
        "rows": int(run.rows.sum()),
        "features": int(estimator.n_features_in_),
        # Before the first task there is nothing to predict with.
        f"prequential_{key}": _prequential(run, run.before),
        f"prequential_{key}_of_the_mean": _prequential(run, run.mean_before),
        f"prequential_{key}_of_the_last_mean": _prequential(run, run.last_before),
        "tasks_worse_than_the_mean": len(
            worse_than_baseline(run.before, run.mean_before, run.rows)
        ),
        "tasks_worse_than_the_last_mean": len(
            worse_than_baseline(run.before, run.last_before, run.rows)
        ),
        "drift_alarms": [run.tasks[t] for t in drifted(run.before, run.rows, run.earlier)],
    }
    if not run.watched:
        return figures
    figures |= {
        f"{key}_when_learned": measure.of(np.diag(run.errors).mean()),
        f"{key}_at_the_end": measure.of(run.errors[-1].mean()),
        f"{key}_of_the_mean": measure.of(run.constant.mean()),
        "forgotten_tasks": int(np.sum(run.forgetting > 0)),
        "forgetting_together": forgotten_together(run),
        "forgetting_alarms": [run.tasks[t] for t in forgotten(run)],
    }
    if run.joint is not None:
        figures[f"{key}_of_joint_ridge"] = measure.of(run.joint.mean())
    if run.outcomes is not None:
        figures["log_loss"] = run.outcomes.log_loss
    return figures


def _prequential(run: StreamResult, before: Any) -> float:
    """Return the error over all rows of the tasks that could be predicted; NaN where none could."""
    finite = np.isfinite(before)
    return (
        _measure_of(run).of(np.average(before[finite], weights=run.rows[finite]))
        if finite.any()
        else math.nan
    )


def sentences(run: StreamResult) -> list[str]:
    """Return sentences about the errors of a stream, with warnings at the end."""
    s = summary(run)
    measure = _measure_of(run)
    texts = {
        name.replace(measure.key, "error"): measure.stated(s[name])
        for name in s
        if measure.key in name.split("_")
    }
    lines = []
    if math.isfinite(s[f"prequential_{measure.key}"]):
        since = "" if run.begin.rows else ", from the second task on,"
        lines.append(
            f"Rows of a task not yet learned{since} are predicted with {measure.text} of"
            f" {texts['prequential_error']} (prequential: predict, then learn; every row counts the"
            f" same); by the {measure.mean} of all targets so far with"
            f" {texts['prequential_error_of_the_mean']}, by that of the task before with"
            f" {texts['prequential_error_of_the_last_mean']}."
        )
    if run.watched:
        single = f" {run.single} of them have a single row, on which they are learned and watched."
        lines += [
            (
                "Held-out rows, every task counting the same:"
                f" {texts['error_when_learned']} just after their task was learned,"
                f" {texts['error_at_the_end']} at the end;"
                f" {s['forgotten_tasks']:.0f} of {len(run.tasks)} tasks got"
                f" worse.{single if run.single else ''}"
            ),
            (
                f"Predicting the {measure.mean} of all rows learned, without any feature, on the"
                f" same rows: {texts['error_of_the_mean']}."
            ),
        ]
    if run.joint is not None:
        which = "these tasks" if run.begin.rows else "all tasks"
        lines.append(
            f"Ridge regression on {which} together, every task counting the same, which must keep a"
            f" d × d matrix: {texts['error_of_joint_ridge']}."
        )
    if "log_loss" in s:
        lines.append(
            "Log-loss of the probabilities of held-out rows at the end, every row alike:"
            f" {s['log_loss']:.3g}."
        )
    return lines + warnings_of(run)


def warnings_of(run: StreamResult) -> list[str]:
    """Return warnings: predictions no better than a mean, drift, forgetting."""
    lines = []
    measure = _measure_of(run)
    mean = measure.mean
    names = {
        "mean_before": f"the {mean} of all targets so far",
        "last_before": f"the {mean} of the last task",
    }
    for name, text in names.items():
        worse = worse_than_baseline(run.before, getattr(run, name), run.rows)
        if worse:
            lines.append(
                f"Warning: on {len(worse)} of {_judged(run)} the model was worse than "
                f"{text} before it learned them: {_named(run, worse)}. {_why(run, worse, name)}"
            )
        elif _prequential(run, run.before) > _prequential(run, getattr(run, name)):
            lines.append(
                f"Warning: over {_judged(run)} together the model was no better than {text}."
            )
    if run.watched and run.errors[-1].mean() > run.constant.mean():
        verdict = "worse" if run.errors[-1].mean() > 1.05 * run.constant.mean() else "no better"
        lines.append(
            f"Warning: at the end the model is {verdict} than the {mean} on the tasks seen: try"
            f" {_hints(run)}."
        )
    out_of_line = drifted(run.before, run.rows, run.earlier)
    if out_of_line:
        lines.append(
            "Drift: these tasks were out of line with those before them:"
            f" {_named(run, out_of_line)}."
        )
    worse_now = forgotten(run)
    if worse_now:
        lines.append(
            f"Forgetting: {len(worse_now)} task{'s are' if len(worse_now) > 1 else ' is'} predicted"
            f" clearly worse than when {'they were' if len(worse_now) > 1 else 'it was'} learned:"
            f" {_named(run, worse_now)}. " + _grown(run, len(worse_now)) + _forgetting_hint(run)
        )
    elif forgotten_together(run):
        learned, now = (
            measure.stated(measure.of(each[:-1].mean()))
            for each in (np.diag(run.errors), run.errors[-1])
        )
        lines.append(
            f"Forgetting: tasks before the last had {measure.text} of {learned} when they were"
            f" learned and have one of {now} now; held-out rows are too few to name single ones."
            f" {_forgetting_hint(run)}"
        )
    return lines


def _hints(run: StreamResult) -> str:
    """Return hints for a model that is no better than a mean: options not used yet."""
    estimator = run.estimator
    parameters = estimator.get_params()
    features = int(estimator.n_features_in_)
    tried = {
        "--schedule auto": "schedule" not in parameters,
        f"--rank {min(features, 1000)}": getattr(estimator, "retained_fraction_", 1.0) > 0.99,
        "--intercept": parameters.get("fit_intercept", True),
        "--standardize": parameters.get("standardize", True),
    }
    return " or ".join(
        [
            *(option for option, done in tried.items() if not done),
            "features that say more of the target",
        ]
    )


def _judged(run: StreamResult) -> str:
    """Return which tasks were predicted before they were learned."""
    count = int(np.sum(np.isfinite(run.before)))
    return f"the {count} task{'s' if count > 1 else ''}" + (
        "" if run.begin.rows else " after the first"
    )


def _grown(run: StreamResult, clear: int) -> str:
    """Return how many more errors grew, where held-out rows are too few to say so of each."""
    more = int(np.sum(run.forgetting > 0)) - clear
    return (
        f"Of {more} more the error has grown, by what may be chance for each alone. "
        if more > clear
        else ""
    )


def _forgetting_hint(run: StreamResult) -> str:
    """Return a hint against forgetting."""
    retained = getattr(run.estimator, "retained_fraction_", 0.0)
    if retained > 0.99:
        return (
            f"The memory retains {retained:.1%} of the squared size of all rows: the tasks"
            " contradict each other."
        )
    return (
        f"The memory retains {retained:.0%} of the squared size of all rows; a larger --rank"
        " retains more."
    )


def _named(run: StreamResult, which: Sequence[int]) -> str:
    """Return tasks by name, runs of them as ranges."""
    ranges: list[list[int]] = []
    for t in which:
        if ranges and t == ranges[-1][-1] + 1:
            ranges[-1].append(t)
        else:
            ranges.append([t])
    text = []
    for part in ranges[:_NAMED]:
        first, last = (printable(run.tasks[t], 40) for t in (part[0], part[-1]))
        text.append(first if len(part) == 1 else f"{first} to {last}")
    return ", ".join(text) + (f" and {len(ranges) - _NAMED} more" if len(ranges) > _NAMED else "")


def _why(run: StreamResult, worse: Sequence[int], name: str) -> str:
    """Return the likely reason."""
    rows = run.begin.rows + int(run.rows[: worse[-1]].sum())
    features = int(run.estimator.n_features_in_)
    if rows < 5 * features:
        return f"It had then seen {rows} rows of {features} features: too few to tell them apart."
    if run.rows[worse].max() < _FEW:
        return f"Of so few rows (at most {run.rows[worse].max()} a task) chance decides."
    if name == "last_before" and np.median((run.mean_before / run.last_before)[worse]) > 1.5:
        return (
            "Levels move from task to task more than features explain; the mean of the last task is"
            " a feature to add."
        )
    if worse[-1] < len(run.tasks) // 2:
        return (
            "That was in the first half; later tasks have shown how features go together across"
            " tasks."
        )
    return (
        "What the features mean differs from task to task, or new values of them came; see the"
        " table of tasks."
    )


def per_task(run: StreamResult) -> Table:
    """Return one row per task: errors before it was learned, when learned and at the end."""
    measure = _measure_of(run)

    def stated(errors: Any) -> list[float | None]:
        return [
            measure.of(value) if math.isfinite(value) else None
            for value in np.asarray(errors).tolist()
        ]

    columns: dict[str, list[Any]] = {
        "task": run.tasks,
        "rows": run.rows.tolist(),
        f"{measure.column} before": stated(run.before),
        f"of the {measure.mean} so far": stated(run.mean_before),
        f"of the last {measure.mean}": stated(run.last_before),
    }
    if run.watched:
        columns |= {
            f"{measure.column} when learned": stated(np.diag(run.errors)),
            f"{measure.column} at the end": stated(run.errors[-1]),
            f"of the {measure.mean}": stated(run.constant),
        }
    return Table("Every task", columns, number=".3g")


def confusion(outcomes: Outcomes, most: int = 12) -> Table:
    """Return how many held-out rows of each class (rows) were predicted as each; of the most
    frequent classes.
    """
    labels, counts = np.unique(outcomes.labels, return_counts=True)
    shown = sorted(labels[np.argsort(-counts, kind="stable")][:most].tolist())
    predicted = outcomes.classes[np.argmax(outcomes.probabilities, axis=1)]
    columns: dict[str, list[Any]] = {"class": [printable(str(label), 40) for label in shown]}
    for other in shown:
        columns[printable(str(other), 20)] = [
            int(np.sum((outcomes.labels == label) & (predicted == other))) for label in shown
        ]
    if len(labels) > most:
        columns["others"] = [
            int(np.sum((outcomes.labels == label) & ~np.isin(predicted, shown))) for label in shown
        ]
    return Table("Classes of held-out rows, and what they were predicted as", columns)


def coefficients(model: Any, most: int = _SHOWN_FEATURES) -> Table:
    """Return the coefficients of a model by name, those first that move predictions most.

    The effect is that of one standard deviation of the feature, where the model knows it.
    """
    estimator = model[-1] if hasattr(model, "steps") else model
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    d = coef.shape[1]
    names = _feature_names(model, d)
    rows = getattr(estimator, "rows_", None)
    deviation = None if rows is None else rows.scale
    order = _largest(
        (np.abs(coef) if deviation is None else np.abs(coef) * deviation).max(axis=0), most
    )
    columns: dict[str, list[Any]] = {"feature": [printable(names[i], 60) for i in order]}
    if len(coef) == 1:
        columns["coefficient"] = coef[0, order].tolist()
    else:
        targets = (getattr(model, "table_", None) or {}).get("targets", range(1, len(coef) + 1))
        labels = [printable(str(label), 20) for label in getattr(estimator, "classes_", targets)]
        columns |= {label: coef[i, order].tolist() for i, label in enumerate(labels[:8])}
    groups = model[0].groups() if hasattr(model, "steps") and hasattr(model[0], "groups") else ()
    if rows is not None and len(coef) == 1 and hasattr(estimator, "standard_errors"):
        errors = estimator.standard_errors(_differences(rows.mean, groups))
        columns["±"] = errors[order].tolist()
    if deviation is not None and len(coef) == 1:
        columns["effect"] = (coef[0] * deviation)[order].tolist()
    return Table(f"Coefficients, the largest {len(order)} of {d}", columns, number=".4g")


def _differences(mean: Any, groups: Sequence[Sequence[int]]) -> Any:
    """Return the combinations (d, d) of coefficients whose standard errors are listed.

    Features of a group add up to 1, like those of the categories of a column: beside an intercept
    only differences of their coefficients are known. Listed is that of β_i − Σ p_j β_j, the
    difference to the mean over all rows, where p_j is the share of rows that have feature j.
    """
    combinations = np.eye(len(mean))
    for group in map(list, groups):
        share = np.maximum(mean[group], 0.0)
        share = share / max(float(share.sum()), np.finfo(np.float64).tiny)
        combinations[np.ix_(group, group)] -= share
    return combinations


def _largest(size: Any, most: int) -> list[int]:
    """Return the places of the largest values; of very many features not those of zero, such as
    empty buckets.
    """
    order: list[int] = np.argsort(-size, kind="stable")[:most].tolist()
    return [i for i in order if size[i] > 0] or order if len(size) > most else order


def _feature_names(model: Any, d: int) -> list[str]:
    names = (
        model[:-1].get_feature_names_out()
        if hasattr(model, "steps")
        else getattr(model, "feature_names_in_", None)
    )
    return [str(name) for name in (range(1, d + 1) if names is None else names)]


def write(run: StreamResult, path: Path, settings: str, notes: Sequence[str] = ()) -> None:
    """Write the page to ``path``, which is replaced atomically."""
    warned = [*(note for note in notes if note.startswith("Warning: ")), *warnings_of(run)]
    table = coefficients(run.model)
    page = render(
        "stream.html",
        title=f"A stream of {len(run.tasks)} task{'s' if len(run.tasks) > 1 else ''}",
        settings=settings,
        facts=[line for line in [*sentences(run), *notes] if line not in warned],
        warnings=warned,
        pictures=_pictures(run),
        coefficients=table,
        explanation=" ".join(text for name, text in _EXPLAINED.items() if name in table.columns),
        columns=run.model[0].summary() if hasattr(run.model, "steps") else None,
        confusion=None if run.outcomes is None else confusion(run.outcomes),
        tasks=per_task(run),
        mean=_measure_of(run).mean,
        watched=run.watched,
    )
    replace_file(path, page.encode())


def _pictures(run: StreamResult) -> list[tuple[bytes, str]]:
    """Return the figures of errors for which there are data, each with its alternative text."""
    measure = _measure_of(run)
    pictures = []
    with plots.publication() as mpl:
        mpl.use("Agg")
        if run.watched:
            text = (
                f"The {measure.column} on held-out rows of single tasks from when they were learned"
                " on, and of all tasks seen so far, each counting the same (thick); a curve that"
                " rises is forgetting."
            )
            errors = np.vectorize(measure.of)(run.errors)
            seen = np.vectorize(measure.of)(run.seen)
            pictures.append(
                (
                    _drawn(
                        plots.plot_forgetting, run.tasks, errors, seen, measure.column, _SHOWN_TASKS
                    ),
                    text,
                )
            )
        if np.isfinite(run.before).any():
            text = (
                f"Error of each task before it was learned, beside those of the {measure.mean} of"
                f" all targets so far and of the {measure.mean} of the task before."
            )
            mean = measure.short_mean
            lines = {
                "model": run.before,
                f"{mean} so far": run.mean_before,
                f"last {mean}": run.last_before,
            }
            lines = {name: np.vectorize(measure.of)(values) for name, values in lines.items()}
            pictures.append(
                (
                    _drawn(
                        plots.plot_befores, np.arange(1, len(run.tasks) + 1), lines, measure.column
                    ),
                    text,
                )
            )
        if run.outcomes is not None:
            text = (
                "Fraction of held-out rows, at the end, that are of the class predicted for them,"
                " by the probability predicted for it: on the diagonal probabilities are right."
                " Bars are two standard errors."
            )
            pictures.append((_drawn(plots.plot_reliability, *_reliability(run.outcomes)), text))
    return pictures


def _drawn(plot: Any, *data: Any) -> bytes:
    """Return a figure as PNG."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(1.15 * plots.COLUMN, 2.6))
    plot(*data, ax=axes)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # characters that the font lacks are drawn as boxes
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(buffer, format="png")
    plt.close(figure)
    return buffer.getvalue()


def _reliability(outcomes: Outcomes) -> tuple[list[float], list[float], list[float]]:
    """Return the mean probability of the predicted class, the fraction of right rows and its error,
    in ten bins.
    """
    top = outcomes.probabilities.max(axis=1)
    right = outcomes.classes[np.argmax(outcomes.probabilities, axis=1)] == outcomes.labels
    order = np.argsort(top, kind="stable")
    bins = [part for part in np.array_split(order, 10) if len(part)]
    fractions = [float(right[part].mean()) for part in bins]
    errors = [math.sqrt(p * (1 - p) / len(part)) for p, part in zip(fractions, bins, strict=True)]
    return [float(top[part].mean()) for part in bins], fractions, errors


# Alarms; ``benchmarks/alarms.py`` measures how often they are wrong where nothing has changed.

_DRIFT = 5.0
_WINDOW = 20
FEWEST = 5
"""Drift: the error of a task before it is learned, as a logarithm, lies more than ``_DRIFT``
deviations above the median of up to ``_WINDOW`` tasks before it, of which there must be ``FEWEST``.
The deviation is 1.4826 times the median absolute deviation of these, and at least √(2/n), which
chance alone would do with n rows."""

_FORGETTING = 4.0
_SHARE = 0.1
"""Forgetting: the error on the held-out rows of a task has grown since it was learned by more than
``_FORGETTING`` standard errors of that difference, taken on the same rows, and by more than
``_SHARE`` of it. The same of all tasks but the last together, where held-out rows of each are too
few."""


def drifted(
    before: NDArray[np.float64], rows: NDArray[np.int64], earlier: NDArray[np.float64] | None = None
) -> list[int]:
    """Return the numbers (from 0) of the tasks whose error before they were learned was out of
    line.

    ``earlier`` are the errors of tasks before the first of them.

    Examples
    --------
    >>> import numpy as np
    >>> before = np.array([np.nan, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 5.0, 1.0])
    >>> drifted(before, np.full(9, 100))
    [7]
    """
    tasks = []
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(before if earlier is None else np.concatenate([earlier, before]))
    n_earlier = len(logs) - len(before)
    for t in range(len(before)):
        now = logs[n_earlier + t]
        window = logs[max(n_earlier + t - _WINDOW, 0) : n_earlier + t]
        window = window[np.isfinite(window)]
        if len(window) < FEWEST or not np.isfinite(now):
            continue
        middle = float(np.median(window))
        deviation = max(1.4826 * float(np.median(np.abs(window - middle))), math.sqrt(2 / rows[t]))
        if now > middle + _DRIFT * deviation:
            tasks.append(t)
    return tasks


def forgotten(run: StreamResult) -> list[int]:
    """Return the numbers (from 0) of the tasks that are predicted clearly worse than when they were
    learned.
    """
    if not run.watched:
        return []
    grown, error = run.change.T
    learned = np.diag(run.errors)
    with np.errstate(invalid="ignore"):
        clear = (grown > _FORGETTING * error) & (grown > _SHARE * learned)
    return [int(t) for t in np.flatnonzero(clear)]


def forgotten_together(run: StreamResult) -> bool:
    """Return whether all tasks before the last together are predicted clearly worse than when they
    were learned.
    """
    grown, error = run.change[:-1].T
    finite = np.isfinite(error)
    if not run.watched or not finite.any():
        return False
    total = float(grown[finite].sum())
    learned = float(np.diag(run.errors)[:-1][finite].sum())
    return (
        total > _FORGETTING * math.sqrt(float(np.sum(error[finite] ** 2)))
        and total > _SHARE * learned
    )


def worse_than_baseline(
    before: NDArray[np.float64], other: NDArray[np.float64], rows: NDArray[np.int64]
) -> list[int]:
    """Return the numbers (from 0) of the tasks on which the model was worse than a baseline before
    it learned them.

    Worse is by more than a fraction of 2√(2/n) of the error, which chance may do with n rows.
    """
    with np.errstate(invalid="ignore"):
        return [int(t) for t in np.flatnonzero(before > other * (1.0 + 2.0 * np.sqrt(2.0 / rows)))]

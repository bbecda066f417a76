"""Pipelines with ``partial_fit``: steps before a streaming model that learn task by task with
it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy, deepcopy
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from forgetless._core.frames import read_once
from forgetless._table import Table
from forgetless._text import printable, readable_number
from forgetless.estimators import files
from forgetless.estimators.base import Streaming
from forgetless.estimators.evaluation import WIDEST, ClassCounts, TargetMeans
from forgetless.estimators.held_out import Outcomes
from forgetless.estimators.ridge import StreamingRidge
from forgetless.io import Document, write
from forgetless.tables.encoder import TableEncoder
from forgetless.tables.task_files import Part

FORM_OF_FIT: dict[str, Any] = {"loss": "sum", "intercept": True}
"""Loss and intercept of ``forgetless fit``, and of the tasks of tables on the command line."""


class TaskPipeline(Pipeline):  # type: ignore[misc]
    """scikit-learn's ``Pipeline`` with ``partial_fit``: every step learns a task and transforms it
    for the next.

    A step learns if it has ``partial_fit``; one that has not is used as it was fitted. Features
    that a :class:`forgetless.tables.TableEncoder` adds are added to the model. If a step raises
    an error, no step has changed.

    Parameters
    ----------
    steps : list of (name, estimator)
    transform_input, memory, verbose
        As in scikit-learn.

    Examples
    --------
    >>> import forgetless as fl
    >>> model = fl.tables.make_pipeline(fl.tables.TableEncoder(min_count=1), fl.StreamingRidge())
    >>> model = model.partial_fit({"town": ["Ulm", "Bonn", "Ulm", "Bonn"]}, [1.0, 3.0, 1.0, 3.0])
    >>> model = model.partial_fit({"town": ["Ulm", "Köln", "Köln", "Ulm"]}, [1.0, 8.0, 8.0, 1.0])
    >>> model.predict({"town": ["Ulm", "Köln"]}).round().tolist()
    [1.0, 8.0]
    """

    table_: Mapping[str, Any] | None = None
    """Facts about the tables, where known: the columns ``task`` and ``targets``, ``tasks`` learned
    so far (labels of the last thousand), the number of ``rows``, the ``mean`` of their targets and
    that of the ``last`` task (a number, or one for each target), for classes the number of rows of
    each, ``classes``, and the most frequent one of the ``last`` task, and the options of held-out
    rows, ``split``. Stored with the model."""

    @property
    def target_means(self) -> TargetMeans | ClassCounts:
        """Means of the targets learned so far, or counts of their classes, as far as ``table_`` has
        them.
        """
        table = self.table_ or {}
        if is_classifier(self.steps[-1][1]):
            return ClassCounts(table.get("classes", {}), table.get("last"))
        if "mean" not in table:
            return TargetMeans()
        return TargetMeans(table["rows"], np.asarray(table["mean"]), np.asarray(table["last"]))

    def partial_fit(self, X: Any, y: Any = None, **parameters: Any) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : table or array of n rows
        y : array of shape (n,) or (n, c)
        **parameters
            For ``partial_fit`` of the last step, e.g. ``sample_weight`` or ``classes``.
        """
        learned: list[tuple[Any, Any]] = []
        for name, step in self.steps[:-1]:
            if step is not None and step != "passthrough":
                X, used = _learned_step(name, step, X)
                learned.append((step, used))
        encodes = any(isinstance(step, TableEncoder) for step, _ in learned)
        if encodes and X.shape[1] == 0:
            raise ValueError(
                "no column has a value yet: nothing to learn from; begin with a task that has some"
            )
        last = self.steps[-1][1]
        if isinstance(last, Streaming):
            _learn_last(last, X, y, parameters, widen=encodes)
        else:
            last.partial_fit(X, y, **parameters)
        for step, used in learned:
            step.__dict__.update(used.__dict__)
        return self

    @property
    def _reads_columns(self) -> bool:
        """Whether the first step takes columns that have been converted."""
        return isinstance(self.steps[0][1], TableEncoder)

    def save(self, path: Any) -> None:
        """Write an encoder and its model to one file; :func:`forgetless.load` reads it."""
        steps = [step for _, step in self.steps]
        if (
            len(steps) != 2
            or not isinstance(steps[0], TableEncoder)
            or not isinstance(steps[1], Streaming)
        ):
            raise TypeError(
                "a file holds a TableEncoder and a streaming model, got"
                f" {', '.join(type(step).__name__ for step in steps)}; save the model alone, and"
                " the rest your own way"
            )
        encoder, model = steps
        document = files.to_document(model)
        header = {**document.header, "encoder": encoder.to_plain(), "table": self.table_}
        write(path, "pipeline", header, document.arrays)


def make_pipeline(*steps: Any) -> TaskPipeline:
    """Return a :class:`TaskPipeline` of some steps, named like those of scikit-learn's
    ``make_pipeline``.

    Examples
    --------
    >>> import forgetless as fl
    >>> list(fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge()).named_steps)
    ['tableencoder', 'streamingridge']
    """
    from sklearn import pipeline

    return TaskPipeline(pipeline.make_pipeline(*steps).steps)


def from_document(document: Document) -> TaskPipeline:
    """Return the encoder and model in a document; ValueError where a value is not valid."""
    model = files.from_document(document)
    encoder = TableEncoder.from_plain(document.header["encoder"])
    if len(encoder.order_) != model.n_features_in_:
        raise ValueError("its encoder gives another number of features than the model has")
    if hasattr(model, "feature_names_in_"):  # it learned from tables that the encoder returned
        encoder.set_output(transform="pandas")
    pipeline = TaskPipeline([("tableencoder", encoder), (type(model).__name__.lower(), model)])
    pipeline.table_ = _checked_table(document.header.get("table"))
    return pipeline


def _checked_table(table: Any) -> dict[str, Any] | None:
    """Return the facts about tables in a file; ValueError where they are not valid."""
    if table is None:
        return None
    means = {"mean", "last"}  # absent before the first task
    if not isinstance(table, dict) or set(table) - means - {"split", "classes"} != {
        "task",
        "targets",
        "tasks",
        "rows",
    }:
        raise ValueError("the facts about its tables are incomplete")
    if "classes" in table:
        _check_counts(table["classes"])
        means = set()
    _check_split(table.get("split", {}))
    if "mean" in table and "last" not in table:
        raise ValueError("the mean of the last task is missing")
    names = [table["task"], *table["targets"], *table["tasks"]]
    if not all(isinstance(name, str) for name in names) or type(table["rows"]) is not int:
        raise ValueError("the names of its tables are not strings")
    shape = (len(table["targets"]),) if len(table["targets"]) > 1 else ()
    for name in means & set(table):
        values = np.asarray(table[name])
        if (
            values.dtype.kind not in "if"
            or values.shape != shape
            or not np.all(np.isfinite(values))
        ):
            raise ValueError("the means of its targets are not numbers")
    return table


def _check_counts(counts: Any) -> None:
    """Raise ValueError unless the numbers of rows of classes are valid."""
    valid = isinstance(counts, dict) and all(
        type(count) is int and count > 0 for count in counts.values()
    )
    if not valid or not all(isinstance(label, str) for label in counts):
        raise ValueError("the numbers of rows of its classes are not valid")


def _check_split(split: Any) -> None:
    """Raise ValueError unless options of held-out rows are valid; version 1.0 did not store
    them.
    """
    types: dict[str, Any] = {"holdout": int | float, "seed": int, "refit": bool}
    if not isinstance(split, dict) or not all(
        name in types and isinstance(split[name], types[name]) for name in split
    ):
        raise ValueError("the options of its held-out rows are not known ones")
    if not 0 <= split.get("holdout", 0) < 1 or split.get("seed", 0) < 0:
        raise ValueError("the options of its held-out rows are out of range")


def _learned_step(name: str, step: Any, X: Any) -> tuple[Any, Any]:
    """Return a task as a step transforms it, and the step after learning the task; ``step`` itself
    does not change.
    """
    if isinstance(step, TableEncoder):
        X = read_once(X)
        step = copy(step).partial_fit(X)  # a shallow copy is enough: learning replaces its values
    elif hasattr(step, "partial_fit"):
        step = deepcopy(step).partial_fit(X)
    else:
        _check_ready(name, step)
    return step.transform(X), step


def _learn_last(model: Any, X: Any, y: Any, parameters: dict[str, Any], *, widen: bool) -> None:
    """Learn a task with the last step, widened to the features that an encoder has added; all or
    nothing.
    """
    before = model.__dict__  # which learning replaces, and never changes
    try:
        more = int(X.shape[1]) - model.n_features_in_ if widen and model._state is not None else 0
        if more > 0:
            model.widen(more, X.columns[-more:] if hasattr(X, "columns") else None)
        model.partial_fit(X, y, **parameters)
    except BaseException:
        model.__dict__ = before
        raise


def _check_ready(name: str, step: Any) -> None:
    """Raise TypeError for a step that neither has partial_fit nor is fitted."""
    try:
        tags = step.__sklearn_tags__() if hasattr(step, "__sklearn_tags__") else None
        if tags is None or tags.requires_fit:
            check_is_fitted(step)
    except NotFittedError:
        raise TypeError(
            f"step {name!r}, {type(step).__name__}, has no partial_fit and is not fitted; fit it on"
            " some rows first, or use a step that learns task by task, such as"
            " fl.tables.TableEncoder or StandardScaler"
        ) from None


class Evaluation(NamedTuple):
    """Errors task by task, overall (each task counting the same), and as sentences."""

    table: Table
    overall: dict[str, Any]
    sentences: list[str]


def evaluate(model: Any, tasks: Iterable[Part]) -> Evaluation:
    """Return the errors of a pipeline on tasks, beside those of two means and of ridge regression
    on all of them.

    The means are that of the targets of these tasks, and that of the targets learned, where the
    pipeline knows it; of classes, whose errors are fractions of wrong rows, the most frequent class
    stands for the mean. Every task counts the same, also in what the mean of these targets and
    ridge regression are fitted by.

    Examples
    --------
    >>> import numpy as np, forgetless as fl
    >>> from forgetless.tables.task_files import Part
    >>> model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge(alpha=1e-6))
    >>> model = model.partial_fit({"x": [0.0, 1.0, 2.0]}, [1.0, 3.0, 5.0])
    >>> evaluate(model, [Part("new", {"x": [3.0, 4.0]}, np.array([7.0,
    ...     10.0]))]).overall["rmse"].__round__(3)
    0.707
    """
    parts = [(label, model[:-1].transform(X), y) for label, X, y in tasks]
    return (
        _evaluate_classes(model, parts)
        if is_classifier(model[-1])
        else _evaluate_numbers(model, parts)
    )


def _evaluate_numbers(model: Any, parts: list[tuple[str, Any, Any]]) -> Evaluation:
    gaps = [np.asarray(model[-1].predict(rows)) - y for _, rows, y in parts]
    errors = np.array([np.mean(gap**2) for gap in gaps])
    mean = np.mean([np.mean(y, axis=0) for _, _, y in parts], axis=0)
    constant = _errors(parts, lambda _: mean)
    columns: dict[str, list[Any]] = {
        "task": [label for label, _, _ in parts],
        "rows": [len(y) for _, _, y in parts],
        "RMSE": np.sqrt(errors).tolist(),
        "mean error": [float(np.mean(gap)) for gap in gaps],
        "of the mean": np.sqrt(constant).tolist(),
    }
    overall: dict[str, Any] = {
        "rmse": math.sqrt(errors.mean()),
        "rmse_of_the_mean": math.sqrt(constant.mean()),
        "r2": 1.0 - errors.mean() / constant.mean() if constant.mean() > 0 else math.nan,
    }
    lines = [
        f"All tasks, each counting the same: RMSE {readable_number(overall['rmse'])}; the mean of"
        " these targets, which a model cannot know,"
        f" {readable_number(overall['rmse_of_the_mean'])}; R² {overall['r2']:.3f}."
    ]
    learned = (getattr(model, "table_", None) or {}).get("mean")
    if learned is not None:
        plain = overall["rmse_of_the_mean_learned"] = math.sqrt(
            _errors(parts, lambda _: np.asarray(learned)).mean()
        )
        worse = "Warning: the model is worse than that." if overall["rmse"] > plain else ""
        text = readable_number(plain)
        lines.append(
            f"The mean of the targets that it has learned, without any feature: {text}."
            f" {worse}".rstrip()
        )
    if parts[0][1].shape[1] <= WIDEST:
        joint = _errors(parts, _fitted_here(parts))
        columns["of ridge fitted here"] = np.sqrt(joint).tolist()
        best = overall["rmse_of_ridge_fitted_here"] = math.sqrt(joint.mean())
        lines.append(
            "Ridge regression fitted to these very rows, each task counting the same:"
            f" {readable_number(best)}, what a linear model of these"
            " features could reach."
        )
    return Evaluation(Table("Tasks", columns, number=".4g"), overall, lines)


def _evaluate_classes(model: Any, parts: list[tuple[str, Any, Any]]) -> Evaluation:
    estimator = model[-1]
    outcomes = [
        Outcomes(y, np.asarray(estimator.predict_proba(rows)), estimator.classes_)
        for _, rows, y in parts
    ]
    predicted = [estimator.classes_[np.argmax(each.probabilities, axis=1)] for each in outcomes]
    errors = np.array(
        [np.mean(labels != y) for labels, (_, _, y) in zip(predicted, parts, strict=True)]
    )
    every = np.concatenate([y for _, _, y in parts])
    frequent = ClassCounts().after(every).mean
    constant = np.array([np.mean(y != frequent) for _, _, y in parts])
    losses = [each.log_loss for each in outcomes]
    columns: dict[str, list[Any]] = {
        "task": [label for label, _, _ in parts],
        "rows": [len(y) for _, _, y in parts],
        "errors": errors.tolist(),
        "log-loss": losses,
        "of the most frequent class": constant.tolist(),
    }
    overall = {
        "error": float(errors.mean()),
        "log_loss": float(np.nanmean(losses)) if np.isfinite(losses).any() else math.nan,
        "error_of_the_mean": float(constant.mean()),
    }
    lines = [
        f"All tasks, each counting the same: {overall['error']:.2%} wrong, log-loss"
        f" {overall['log_loss']:.3g}; the most frequent class of these rows,"
        f" {printable(str(frequent), 40)!r}, is wrong for {overall['error_of_the_mean']:.2%}."
    ]
    new = sorted({*every.tolist()} - {*estimator.classes_.tolist()})
    if new:
        names = ", ".join(printable(label, 40) for label in new[:5])
        count = int(np.isin(every, new).sum())
        lines.append(
            f"Warning: {count} rows are of classes that the model has not learned: {names}."
        )
    if parts[0][1].shape[1] <= WIDEST:
        labels = np.unique(every)
        joint = _fitted_here(
            [(label, rows, (y[:, None] == labels).astype(float)) for label, rows, y in parts]
        )
        fitted = [np.mean(labels[np.argmax(joint(rows), axis=1)] != y) for _, rows, y in parts]
        columns["of ridge fitted here"] = fitted
        best = overall["error_of_ridge_fitted_here"] = float(np.mean(fitted))
        lines.append(
            f"Ridge regression fitted to these very rows, each task counting the same: {best:.2%}"
            " wrong."
        )
    return Evaluation(Table("Tasks", columns, number=".4g"), overall, lines)


def _errors(parts: list[tuple[str, Any, Any]], predict: Callable[[Any], Any]) -> Any:
    """Return the mean squared error of every task."""
    return np.array([np.mean((predict(rows) - y) ** 2) for _, rows, y in parts])


def _fitted_here(parts: list[tuple[str, Any, Any]]) -> Callable[[Any], Any]:
    """Return the predictions of ridge regression on the rows of all tasks, each task counting the
    same.
    """
    joint = StreamingRidge(alpha=1e-6, guard=None)
    mean = np.mean([len(y) for _, _, y in parts])
    for _, rows, y in parts:
        joint.partial_fit(rows, y, sample_weight=np.full(len(y), mean / len(y)))
    return joint.predict

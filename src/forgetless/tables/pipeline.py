"""Steps before a streaming model that learn task by task with it: scikit-learn's pipeline with ``partial_fit``."""

from collections.abc import Mapping
from copy import copy, deepcopy
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from forgetless._core.frames import read_once
from forgetless._core.products import for_task
from forgetless.errors import ConvergenceError
from forgetless.estimators import files
from forgetless.estimators.baselines import RecursiveLeastSquares
from forgetless.estimators.counted import Encoded
from forgetless.estimators.model import StreamingModel
from forgetless.estimators.standard_blocks import from_encoded
from forgetless.io.archive import refusing
from forgetless.tables.encoder import TableEncoder

TALL = 50
"""Rows for each feature from which on a task is learned from its XᵀX."""

BLOCK = 2**20
"""Bytes of the rows that are written down at a time then: what a processor's cache holds."""


class TaskPipeline(Pipeline):  # type: ignore[misc]
    """scikit-learn's ``Pipeline`` with ``partial_fit``: every step learns a task, and hands on what it makes of it.

    A step learns if it has ``partial_fit``; one that has not is used as it was fitted. Features that a
    :class:`forgetless.TableEncoder` adds are added to the model. If the task is refused, no step has changed.

    Parameters
    ----------
    steps : list of (name, estimator)
    transform_input, memory, verbose
        As in scikit-learn.

    Examples
    --------
    >>> import forgetless as fl
    >>> ridge = fl.ContinualRidge(fit_intercept=True, standardize=True)
    >>> model = fl.tables.make_pipeline(fl.tables.TableEncoder(min_count=1), ridge)
    >>> model = model.partial_fit({"town": ["Ulm", "Bonn", "Ulm", "Bonn"]}, [1.0, 3.0, 1.0, 3.0])
    >>> model = model.partial_fit({"town": ["Ulm", "Köln", "Köln", "Ulm"]}, [1.0, 8.0, 8.0, 1.0])
    >>> model.predict({"town": ["Ulm", "Köln"]}).round().tolist()
    [1.0, 7.0]
    """

    table_: Mapping[str, Any] | None = None
    """What the tables are about, where somebody said so: the columns ``task`` and ``targets``, ``tasks`` learned so far
    (labels of the last thousand), the number of ``rows``, and the ``mean`` of their targets and that of the ``last``
    task (a number, or one for each target). It is stored with the model."""

    def partial_fit(self, X: Any, y: Any = None, **parameters: Any) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : table or array of n rows
        y : array of shape (n,) or (n, c)
        **parameters
            For ``partial_fit`` of the last step, e.g. ``sample_weight`` or ``classes``.

        Returns
        -------
        self
        """
        self._learn(X, y, **parameters)
        return self

    @property
    def _reads_columns(self) -> bool:
        """Whether the first step takes columns that were read already."""
        return isinstance(self.steps[0][1], TableEncoder)

    def _learn(self, X: Any, y: Any, **parameters: Any) -> Any:
        """Learn one task, and return it as the last step met it, perhaps not yet written down."""
        learned: list[tuple[Any, Any]] = []
        for name, step in self.steps[:-1]:
            if step is None or step == "passthrough":
                continue
            X, used = written(X), step
            if isinstance(step, TableEncoder):
                X = read_once(X)
                used = copy(step).partial_fit(X)  # learning makes other values, and changes none
                learned.append((step, used))
                # Tables between the steps, where scikit-learn's set_output asks for them, are written down at once.
                X = used.transform(X) if used.gives_tables else used.encoded(X)
                continue
            if hasattr(step, "partial_fit"):
                used = deepcopy(step).partial_fit(X)
                learned.append((step, used))
            else:
                _check_ready(name, step)
            X = used.transform(X)
        if X.shape[1] == 0 and any(isinstance(step, TableEncoder) for step, _ in learned):
            raise ValueError("no column has a value yet: nothing to learn from; begin with a task that has some")
        last = self.steps[-1][1]
        state = getattr(last, "_state", None)
        try:
            if isinstance(last, StreamingModel) and state is not None:
                more = int(X.shape[1]) - last.n_features_in_
                if more > 0 and any(isinstance(step, TableEncoder) for step, _ in learned):
                    last.widen(more, X.columns[-more:] if hasattr(X, "columns") else None)
            if parameters or not learned_at_once(last, X, y):
                last.partial_fit(written(X), y, **parameters)
        except BaseException:
            if isinstance(last, StreamingModel):
                last._state = state
            raise
        for step, used in learned:
            step.__dict__.update(used.__dict__)
        return X

    def save(self, path: Any, *, state: str = "learn") -> None:
        """Write an encoder and its model to one file; :func:`forgetless.load_model` reads it.

        Parameters
        ----------
        path : str or Path
        state : {"learn", "predict"}
            As for ``save`` of the model.
        """
        steps = [step for _, step in self.steps]
        if len(steps) != 2 or not isinstance(steps[0], TableEncoder) or not isinstance(steps[1], StreamingModel):
            raise TypeError(
                "a file holds a TableEncoder and a streaming model, got "
                f"{', '.join(type(step).__name__ for step in steps)}; save the model alone, and the rest your own way"
            )
        encoder, model = steps
        parameters = model.get_params(deep=False)
        about = {"encoder": encoder.to_plain(), "table": self.table_}
        files.save(model._fitted(), type(model).__name__, parameters, path, state, **about)


def make_pipeline(*steps: Any) -> TaskPipeline:
    """Return a :class:`TaskPipeline` of some steps, named like those of scikit-learn's ``make_pipeline``.

    Examples
    --------
    >>> import forgetless as fl
    >>> list(fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge()).named_steps)
    ['tableencoder', 'continualridge']
    """
    from sklearn.pipeline import make_pipeline as made

    return TaskPipeline(made(*steps).steps)


def load_model(path: Any) -> Any:
    """Return the model in a file, with its encoder where there is one.

    A schedule that could not be stored is left out: the model predicts, and learns by its other parameters.

    Examples
    --------
    >>> import tempfile, pathlib, forgetless as fl
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge())
    >>> model = model.partial_fit({"size": [1.0, 2.0]}, [1.0, 2.0])
    >>> model.save(path)
    >>> fl.load_model(path).predict({"size": [6.0]}).round(6).tolist()
    [5.0]
    """
    header, model = files.load_parts(path)
    if "encoder" not in header:
        return model
    with refusing(Path(path), "model"):
        encoder = TableEncoder.from_plain(header["encoder"])
        if len(encoder.order_) != model.n_features_in_:
            raise ValueError("its encoder makes another number of features than the model has")
        table = _checked_table(header.get("table"))
    if hasattr(model, "feature_names_in_"):  # it learned from tables that the encoder made
        encoder.set_output(transform="pandas")
    found = TaskPipeline([("tableencoder", encoder), (type(model).__name__.lower(), model)])
    found.table_ = table
    return found


def _checked_table(table: Any) -> dict[str, Any] | None:
    """Return what a file says its tables are about; ValueError where that cannot be."""
    if table is None:
        return None
    means = {"mean", "last"}  # files of earlier versions have none
    if not isinstance(table, dict) or set(table) - means != {"task", "targets", "tasks", "rows"}:
        raise ValueError("what its tables are about is not known")
    names = [table["task"], *table["targets"], *table["tasks"]]
    if not all(isinstance(name, str) for name in names) or type(table["rows"]) is not int:
        raise ValueError("the names of its tables are no names")
    shape = (len(table["targets"]),) if len(table["targets"]) > 1 else ()
    for name in means & set(table):
        found = np.asarray(table[name])
        if found.dtype.kind not in "if" or found.shape != shape or not np.all(np.isfinite(found)):
            raise ValueError("the means of its targets are no numbers")
    return table


def written(X: Any) -> Any:
    """Return rows as arrays."""
    return X.whole() if isinstance(X, Encoded) else X


def learned_at_once(model: Any, X: Any, y: Any) -> bool:
    """Learn a task of very many rows from its XᵀX, added up in one pass, and return whether that was done."""
    if not isinstance(model, StreamingModel) or isinstance(model, RecursiveLeastSquares) or model._has_classes:
        return False
    n, d = X.shape
    dense = not X.sparse if isinstance(X, Encoded) else isinstance(X, np.ndarray)
    tall = dense and n >= max(TALL * d, 10_000) and 24 * d * d <= model.memory
    if not tall or model.holdout or not model.standardize:  # without common units XᵀX may lose too many digits
        return False
    y = np.asarray(y)
    step = max(BLOCK // (8 * d), 4 * d)  # many rows for each of the d² numbers that a block adds to
    try:
        with for_task((step, d)):
            if isinstance(X, Encoded):
                return _learned_encoded(model, X, y)
            model.partial_fit_blocks((X[low : low + step], y[low : low + step]) for low in range(0, n, step))
    except ConvergenceError:
        return False
    return True


def _learned_encoded(model: Any, X: Encoded, y: Any) -> bool:
    if y.dtype != np.float64 or y.ndim not in (1, 2) or len(y) != X.shape[0] or not np.all(np.isfinite(y)):
        return False
    found = from_encoded(model._current(), X, y, model._validated_block, model._units, model._restated)
    if found is None:
        return False
    task, state = found
    model._state = state.after(task, model._step(state, task))
    return True


def _check_ready(name: str, step: Any) -> None:
    """Refuse a step that neither learns task by task nor is ready to be used."""
    try:
        tags = step.__sklearn_tags__() if hasattr(step, "__sklearn_tags__") else None
        if tags is None or tags.requires_fit:
            check_is_fitted(step)
    except NotFittedError:
        raise TypeError(
            f"step {name!r}, {type(step).__name__}, has no partial_fit and is not fitted; fit it on some rows first, "
            "or use a step that learns task by task, such as fl.tables.TableEncoder or StandardScaler"
        ) from None

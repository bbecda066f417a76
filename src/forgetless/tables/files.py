"""A model of tables as a file: numbers of the estimator as arrays, all else as JSON values.

The header has what ``estimators.files`` writes of the estimator, and beside it ``table``:

===============  ================================================================================
``objective``    "next" or "all"
``encoder``      parameters, kind and state of every column, the order of the features, notes
``history``      the records of the last 1,000 tasks
``confusion``    of classes: lists of a true class, a predicted class and a number of rows
``calibration``  of classes: three lists of ten numbers
``tasks``        how many tasks were learned
``about``        the columns of task and target, and the name of the last file
===============  ================================================================================

Rows are not stored. Whoever writes such a file can write any numbers: what is read is checked, so
that a report of a forged file fails with a sentence.
"""

from collections import Counter
from typing import Any

import numpy as np

from forgetless import io
from forgetless.estimators import files
from forgetless.estimators.classifier import StreamingRidgeClassifier
from forgetless.estimators.ridge import StreamingRidge
from forgetless.tables.encoder import CHOICES, TableEncoder
from forgetless.tables.scores import BINS
from forgetless.tables.stream import OBJECTIVES, TableModel


def save(model: TableModel, path: Any) -> None:
    """Write a model to a file."""
    document = files.to_document(model.estimator_)
    table = {
        "objective": model.objective,
        "encoder": model.encoder_.to_plain(),
        "history": model.history_,
        "confusion": [[*pair, count] for pair, count in model.confusion_.items()],
        "calibration": model.calibration_.tolist(),
        "tasks": model.n_tasks_,
        "about": model.about_,
    }
    io.write(path, "table-model", {**document.header, "table": table}, document.arrays)


def from_document(document: io.Document) -> TableModel:
    """Return the model of a document; ValueError where a value is not valid."""
    table = document.header["table"]
    estimator = files.from_document(document)
    encoder = TableEncoder.from_plain(table["encoder"])
    is_known = isinstance(estimator, StreamingRidge | StreamingRidgeClassifier)
    if not is_known or len(encoder.order_) != estimator.n_features_in_:
        raise ValueError("its encoder and its estimator do not fit together")
    if table["objective"] not in OBJECTIVES:
        raise ValueError(f"its objective is {table['objective']!r}")
    model = TableModel(table["objective"], **{name: getattr(encoder, name) for name in CHOICES})
    model.encoder_ = encoder
    model.estimator_ = estimator
    model.history_ = [_record(each) for each in table["history"]]
    model.confusion_ = Counter({(str(t), str(p)): int(n) for t, p, n in table["confusion"]})
    model.calibration_ = np.array(table["calibration"], dtype=np.float64).reshape(3, BINS)
    model.n_tasks_ = int(table["tasks"])
    model.about_ = {str(name): value for name, value in table["about"].items()}
    # The rows of its first task are not in the file.
    model._first = None
    return model


def _record(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a task; ValueError unless its items are what reports expect."""
    for name in plain.keys() - {"task", "changes"}:
        value = plain[name]
        if value is not None and not (type(value) in (int, float) and np.isfinite(value)):
            raise ValueError(f"{name} of a task is not a number")
    if not isinstance(plain["task"], str) or plain["rows"] < 1:
        raise ValueError("a task has no name or no rows")
    changes = [[str(column), str(text), bool(severe)] for column, text, severe in plain["changes"]]
    return {**plain, "changes": changes}

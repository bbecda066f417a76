"""Validation of a task of classes: labels become one-hot targets."""

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._validate import Floats, check_unmasked
from forgetless.estimators import tasks


def class_task(
    draft: Any, X: Any, y: Any, classes: Any, weight: Any, known: Any
) -> tuple[Any, Floats, Any, Any]:
    """Return X (n, d), one-hot targets (n, c), weights (n,) or None, and the c classes.

    ``known`` are the classes so far, None for the first task. Rows of weight zero count as absent,
    with their classes.
    """
    check_unmasked("y", y)
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    own, codes = np.unique(labels, return_inverse=True)
    draft._y_shape = ()
    codes = codes.astype(np.float64)
    X, numbers, weight = tasks.task(draft, X, codes, weight, first=known is None)
    labels = own[numbers[:, 0].astype(np.int64)]
    every = np.unique(labels)
    # Classes may be declared before they come, and stay once they have come.
    for others in (classes, known):
        if others is not None:
            every = np.union1d(np.asarray(others), every)
    draft._y_shape = (len(every),)
    return X, (labels[:, None] == every).astype(np.float64), weight, every

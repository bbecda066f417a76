"""Errors of a fitted model on tasks that it does not learn, for ``forgetless evaluate``."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from forgetless.estimators.baselines import JointRidge
from forgetless.estimators.evaluation import WIDEST
from forgetless.reporting.table import Table
from forgetless.solvers.rows import is_sparse
from forgetless.tables.grouped import Part


class Evaluation(NamedTuple):
    """Errors task by task, overall (each task counting the same), and as sentences."""

    table: Table
    overall: dict[str, Any]
    sentences: list[str]


def evaluate(model: Any, tasks: Iterable[Part]) -> Evaluation:
    """Return the errors of a pipeline on tasks, beside those of two means and of ridge regression on all of them.

    The means are that of the targets of these tasks, and that of the targets learned, where the pipeline knows it.

    Parameters
    ----------
    model : TaskPipeline
    tasks : iterable of Part

    Examples
    --------
    >>> import numpy as np, forgetless as fl
    >>> from forgetless.tables.grouped import Part
    >>> model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge(alpha=1e-6, fit_intercept=True))
    >>> model = model.partial_fit({"x": [0.0, 1.0, 2.0]}, [1.0, 3.0, 5.0])
    >>> evaluate(model, [Part("new", {"x": [3.0, 4.0]}, np.array([7.0, 10.0]))]).overall["rmse"].__round__(3)
    0.707
    """
    labels, counts, gaps, blocks = [], [], [], []
    for label, X, y in tasks:
        rows = model[:-1].transform(X)
        gaps.append(np.asarray(model[-1].predict(rows)) - y)
        labels.append(label)
        counts.append(len(y))
        blocks.append((rows, y))
    mean = np.concatenate([y for _, y in blocks]).mean(axis=0)
    errors = np.array([np.mean(gap**2) for gap in gaps])
    constant = np.array([np.mean((y - mean) ** 2) for _, y in blocks])
    columns: dict[str, list[Any]] = {
        "task": labels,
        "rows": counts,
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
        f"All tasks, each counting the same: RMSE {overall['rmse']:.4g}; the mean of these targets, which a model "
        f"cannot know, {overall['rmse_of_the_mean']:.4g}; R² {overall['r2']:.3f}."
    ]
    learned = (getattr(model, "table_", None) or {}).get("mean")
    if learned is not None:
        plain = math.sqrt(np.mean([np.mean((y - np.asarray(learned)) ** 2) for _, y in blocks]))
        overall["rmse_of_the_mean_learned"] = plain
        worse = "Warning: the model is worse than that." if overall["rmse"] > plain else ""
        lines.append(f"The mean of the targets that it has learned, without any feature: {plain:.4g}. {worse}".rstrip())
    if blocks[0][0].shape[1] <= WIDEST:
        joint = JointRidge(alpha=1e-6, fit_intercept=True, standardize=True)
        blocks = [(rows.toarray() if is_sparse(rows) else rows, y) for rows, y in blocks]
        joint.fit(np.concatenate([rows for rows, _ in blocks]), np.concatenate([y for _, y in blocks]))
        fitted = np.array([np.mean((joint.predict(rows) - y) ** 2) for rows, y in blocks])
        columns["of ridge fitted here"] = np.sqrt(fitted).tolist()
        overall["rmse_of_ridge_fitted_here"] = math.sqrt(fitted.mean())
        lines.append(
            f"Ridge regression fitted to these very rows: {overall['rmse_of_ridge_fitted_here']:.4g}, what a linear "
            "model of these features could reach."
        )
    return Evaluation(Table("Tasks", columns, number=".4g"), overall, lines)

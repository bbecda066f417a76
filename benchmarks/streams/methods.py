"""The methods that are compared, and the settings that each may be tuned over: the same number of strengths for all."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import issparse

from forgetless import ContinualGD, ContinualRidge, StreamingRidge, StreamingRidgeClassifier
from forgetless.schedules import increasing
from streams.data import Stream, Task
from streams.protocol import Maker
from streams.rivals import AllRows, ClassMeans, Counted, Fewer, FrequentDirections, OneHot, Reservoir, RunningMean

RANKS = (10, 30, 100)
STRENGTHS = tuple(10.0 ** np.arange(-3, 3))
"""In units of the mean squared norm of a row of the first task."""

SCALES = tuple(10.0 ** np.arange(-5, 1))
"""Of increasing schedules, in units of R²."""

RATES = tuple(10.0 ** np.arange(-4, 2) / 3)
STEPS = (1, 3, 10, 30, 100, 300)
SQUARE, NARROW = 6000, 100
"""Features up to which a d × d matrix is kept, and up to which a loop over single numbers is waited for."""


def methods(stream: Stream, tasks: Sequence[Task]) -> dict[str, list[Maker]]:  # noqa: C901
    """Return all methods for a stream by name, each with the learners that its settings make."""
    first = tasks[0].X
    unit = float((first.multiply(first) if issparse(first) else first**2).sum() / first.shape[0]) or 1.0
    alphas, d = [a * unit for a in STRENGTHS], stream.n_features
    found = _ours(stream)
    if stream.kind == "classes":
        classes = np.unique(np.concatenate([task.y for task in tasks]))
        found["class means"] = [partial(ClassMeans, classes)]
    else:
        classes = None
        found["running mean"] = [RunningMean]

    def learner(make: Callable[[], Any]) -> Any:
        return make() if classes is None else OneHot(make(), classes)

    def regressors(make: Callable[..., Any], settings: Sequence[Any]) -> list[Maker]:
        return [partial(learner, partial(make, setting)) for setting in settings]

    def gradient_steps(n_steps: int) -> Any:
        return ContinualGD(n_steps=n_steps, fit_intercept=True)

    def joint(alpha: float) -> Any:
        return StreamingRidge(alpha, rank=SQUARE, standardize=False)

    def fewer(n_columns: int, alpha: float) -> Any:
        return Fewer(joint(alpha), n_columns)

    def scheme(alpha: float) -> Any:
        return ContinualRidge(alpha, fit_intercept=True)

    found["r = 0"] = regressors(scheme, alphas)
    found["gradient steps"] = regressors(gradient_steps, STEPS)
    if d <= SQUARE:
        few = alphas if d <= 1000 else alphas[1:4]
        found["joint ridge"] = regressors(joint, few)
    else:
        found["joint ridge"] = regressors(AllRows, alphas[1:4])
    for r in (rank for rank in RANKS if 10 * rank <= d):
        found[f"reservoir, {r} rows"] = regressors(partial(Reservoir, r), alphas)
        found[f"frequent directions, {r}"] = regressors(partial(FrequentDirections, r), alphas)
        width = int(np.sqrt(r * d))  # its triangle has the bytes of a memory of rank r
        if not issparse(first) and 10 * width <= 8 * d:
            found[f"joint ridge, {width} features"] = regressors(partial(fewer, width), alphas)
    found |= _from_scikit_learn(stream, classes)
    if d <= NARROW and classes is None:
        found |= _from_river()
    return found


def _ours(stream: Stream) -> dict[str, list[Maker]]:
    found: dict[str, list[Maker]] = {}
    rows: Any = StreamingRidge if stream.kind == "regression" else StreamingRidgeClassifier
    for r in (rank for rank in RANKS if rank < stream.n_features):
        found[f"r = {r}"] = [partial(rows, rank=r)]
    found["all rows"] = [rows]
    if stream.kind == "regression":
        found["adaptive"] = [partial(rows, adaptive=True)]
        options = {"n_tasks": stream.n_tasks, "fit_intercept": True}
        found["increasing"] = [partial(ContinualRidge, schedule=increasing(scale=c), **options) for c in SCALES]
    return found


def _from_scikit_learn(stream: Stream, classes: Any) -> dict[str, list[Maker]]:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    if stream.kind == "classes":
        sgd, loss, hinge = SGDClassifier, "log_loss", "hinge"
    else:
        sgd, loss, hinge = SGDRegressor, "squared_error", "epsilon_insensitive"

    def made(loss: str, learning_rate: str, rate: float) -> Counted:
        model = sgd(loss=loss, penalty=None, learning_rate=learning_rate, eta0=rate, random_state=0)
        return Counted(model, classes)

    found: dict[str, list[Maker]] = {"SGD": [partial(made, loss, "invscaling", rate) for rate in RATES]}
    try:
        made(hinge, "pa1", 1.0).model._validate_params()
    except ValueError:  # scikit-learn before 1.8 has other classes for it
        return found
    found["passive-aggressive"] = [partial(made, hinge, "pa1", rate) for rate in RATES]
    return found


class _River:
    """River's linear regression, a row at a time."""

    def __init__(self, rate: float) -> None:
        linear_model, optim = import_module("river.linear_model"), import_module("river.optim")
        self.model = linear_model.LinearRegression(optimizer=optim.SGD(rate), intercept_lr=rate)

    def partial_fit(self, X: Any, y: Any) -> "_River":
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)
        return self

    def predict(self, X: Any) -> Any:
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in X.tolist()])

    @property
    def nbytes_(self) -> int:
        return 8 * (len(self.model.weights) + 1)


def _from_river() -> dict[str, list[Maker]]:
    if find_spec("river") is None:
        return {}
    return {"river": [partial(_River, rate) for rate in RATES]}

"""Golden numbers of the estimators on a fixed stream of tasks."""

import numpy as np
from sklearn.base import clone

import forgetless as fl
from golden.inputs import stream

SCHEMES = {
    "alpha": fl.ContinualRidge(0.5),
    "increasing": fl.ContinualRidge(schedule="increasing", n_tasks=8),
    "fixed-radius": fl.ContinualRidge(schedule="fixed", n_tasks=8, radius=9.0),
    "average": fl.ContinualRidge(0.0, average=2.0),
}

RIDGES = {
    "default": {},
    "adaptive": {"adaptive": True},
    "alpha": {"alpha": 0.5},
    "joint": {"alpha": 0.5, "standardize": False, "fit_intercept": False},
    "rank-3": {"rank": 3},
    "adaptive-rank-3": {"rank": 3, "adaptive": True},
}


def numbers():
    """Yield all of them."""
    yield from regressors()
    yield from classifiers()


def weights(model):
    """Return coefficients and intercepts."""
    return [*np.ravel(model.coef_), *np.ravel(model.intercept_)]


def learned(model, n_rows=7):
    """Return the model after the stream."""
    for X, y in stream(n_rows):
        model.partial_fit(X, y)
    return model


def regressors():
    """Yield what every regressor learns from tasks of seven rows, and schemes of one row."""
    for name, model in SCHEMES.items():
        for kind, n_rows in (("", 7), ("/rows", 1)):
            yield f"ridge/{name}{kind}", weights(learned(clone(model), n_rows))
    yield "gd/steps", weights(learned(fl.ContinualGD(n_steps=5)))
    for name, options in RIDGES.items():
        model = learned(fl.StreamingRidge(**options))
        yield f"rows/{name}", [*weights(model), model.alpha_, model.prequential_mse_]
    for n_rows in (1, 2, 3):
        yield f"rows/adaptive/{n_rows}", weights(learned(fl.StreamingRidge(adaptive=True), n_rows))
    result = fl.evaluate_stream(fl.StreamingRidge(), stream(), holdout=0.3)
    yield "rows/default/watched", [*result.change.ravel(), *result.constant, result.before[-1]]
    X, _ = next(iter(stream()))
    for name in ("default", "rank-3", "adaptive"):
        model = learned(fl.StreamingRidge(**RIDGES[name]))
        yield f"rows/{name}/std", np.ravel(model.predict(X, return_std=True))
        yield f"rows/{name}/errors", model.standard_errors()


def classifiers():
    """Yield weights and probabilities of classifiers of three classes."""
    for name, options in {"default": {}, "alpha": {"alpha": 0.5}, "rank": {"rank": 3}}.items():
        yield from classified(f"classifier/{name}", fl.StreamingRidgeClassifier(**options))
    yield from classified("classifier/long", fl.StreamingRidgeClassifier(), 1010)
    yield from classified("logistic/default", fl.StreamingLogistic())


def classified(name, model, n_rows=7):
    """Yield the weights and the errors of one classifier, and probabilities for rows of the last task."""
    for X, y in stream(n_rows):
        model.partial_fit(X, np.digitize(y, [0.0, 2.0]), classes=[0, 1, 2])
    yield name, weights(model)
    yield f"{name}/error", model.prequential_error_
    yield f"{name}/proba", model.predict_proba(X[:7])

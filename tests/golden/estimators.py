"""Golden numbers of the estimators on a fixed stream of tasks.

Those of the schemes are those of commit 64d79a6. Those of the statistics of rows are checked where
they are made: ``test_golden_ridge`` in tests/estimators compares the default on this very stream
with scikit-learn's Ridge at the λ of the largest density of the targets.
"""

import numpy as np
from scipy import sparse
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
    yield from inputs_of_tasks()
    yield from streams()


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
    X, _ = next(iter(stream()))
    for name in ("default", "rank-3"):
        model = learned(fl.StreamingRidge(**RIDGES[name]))
        yield f"rows/{name}/std", np.ravel(model.predict(X, return_std=True))
        yield f"rows/{name}/errors", model.standard_errors()


def classifiers():
    """Yield weights and probabilities of classifiers of three classes."""
    for name, options in {"default": {}, "alpha": {"alpha": 0.5}, "rank": {"rank": 3}}.items():
        yield from classified(f"classifier/{name}", fl.StreamingRidgeClassifier(**options))
    yield from classified("logistic/default", fl.StreamingLogistic())


def classified(name, model):
    """Yield the weights of one classifier, and its probabilities for the last task."""
    for X, y in stream():
        model.partial_fit(X, np.digitize(y, [0.0, 2.0]), classes=[0, 1, 2])
    yield name, weights(model)
    yield f"{name}/proba", model.predict_proba(X)


def inputs_of_tasks():
    """Yield weights for tasks in other forms: weighted, sparse, in groups, widened."""
    models = {"ridge/alpha": SCHEMES["alpha"], "rows/default": fl.StreamingRidge()}
    for name, like in models.items():
        for kind, learn in LEARN.items():
            model = clone(like)
            for X, y in stream():
                learn(model, X, y)
            yield f"{name}/{kind}", weights(model)
        pairs = list(stream())
        groups = np.repeat(np.arange(len(pairs)), len(pairs[0][1]))
        X = np.vstack([each for each, _ in pairs])
        y = np.concatenate([each for _, each in pairs])
        model = clone(like).fit(X, y, groups=groups)
        yield f"{name}/groups", weights(model)
        yield f"{name}/predict", model.predict(X[:3])


def _weighted(model, X, y):
    model.partial_fit(X, y, sample_weight=np.linspace(0.5, 2.0, len(y)))


def _sparse(model, X, y):
    model.partial_fit(sparse.csr_array(np.where(X > 0, X, 0.0)), y)


def _two_targets(model, X, y):
    model.partial_fit(X, np.stack([y, y**2], axis=1))


def _widened(model, X, y):
    # The sixth feature comes with the second task.
    if not hasattr(model, "coef_"):
        model.partial_fit(X[:, :5], y)
        model.widen(1)
        return
    model.partial_fit(X, y)


LEARN = {"weights": _weighted, "sparse": _sparse, "two-targets": _two_targets, "widened": _widened}


def streams():
    """Yield the errors of ``evaluate_stream``, on held-out rows and before learning."""
    models = {"default": fl.StreamingRidge(), "alpha": fl.ContinualRidge(alpha=0.5, fit_intercept=True)}
    for name, model in models.items():
        result = fl.evaluate_stream(model, stream(n_rows=12), holdout=0.25, seed=3)
        yield f"evaluate_stream/{name}/errors", result.errors
        yield f"evaluate_stream/{name}/change", result.change
        yield f"evaluate_stream/{name}/before", result.before
        yield f"evaluate_stream/{name}/constant", [*result.mean_before, *result.constant]

"""Golden numbers of the estimators on a fixed stream of tasks.

Left out because they are wrong today: streams whose first task has two rows, ``return_std`` with
weights or after one task with n ≤ d, ``fit(groups=)`` of classifiers.
"""

import numpy as np
from scipy import sparse

import forgetless as fl
from forgetless.estimators.strength import Auto, Steady
from golden.inputs import stream

RIDGES = {
    "alpha": {"alpha": 0.5},
    "increasing": {"schedule": "increasing", "n_tasks": 8},
    "fixed-radius": {"schedule": "fixed", "n_tasks": 8, "radius": 9.0},
    "doubling": {"schedule": "increasing"},
    "average": {"alpha": 0.0, "average": 2.0},
    "standardize": {"alpha": 0.5, "standardize": True, "fit_intercept": True},
    "auto": {},
    "auto-next": {"schedule": Auto(objective="next")},
    "steady": {"schedule": Steady(0.5, 0.1)},
    "auto-rank-3": {"memory": fl.LowRankMemory(3, dtype="float64")},
}

MEMORIES = {
    "rank-2": {"rank": 2},
    "rank-6": {"rank": 6},
    "diagonal": {"rank": 2, "diagonal": True},
    "decay": {"rank": 3, "decay": 0.2},
}

LOW_RANK = fl.LowRankMemory(rank=3, dtype="float64")


def numbers():
    """Yield all of them."""
    yield from regressors()
    yield from classifiers()
    yield from inputs_of_tasks()
    yield from streams()


def learned(model, n_rows=7):
    """Return weights, error and strengths after the stream."""
    for X, y in stream(n_rows):
        model.partial_fit(X, y)
    history = model.history_
    return [
        *np.ravel(model.coef_),
        *np.ravel(model.intercept_),
        model.prequential_mse_,
        *history["strength"],
        *history["mse_after"],
    ]


def with_memory(memory, dtype="float64", **options):
    """Return a regressor with a low-rank memory."""
    return fl.ContinualRidge(alpha=0.5, memory=fl.LowRankMemory(dtype=dtype, **memory), **options)


def regressors():
    """Yield what every regressor learns from tasks of seven rows and of one row."""
    for name, options in RIDGES.items():
        yield f"ridge/{name}", learned(fl.ContinualRidge(**options))
        yield f"ridge/{name}/rows", learned(fl.ContinualRidge(**options), n_rows=1)
    for name, options in MEMORIES.items():
        for rows in (1, 7):
            yield f"memory/{name}/{rows}", learned(with_memory(options), n_rows=rows)
        model = with_memory(options, standardize=True, fit_intercept=True)
        yield f"memory/{name}/standardize", [*learned(model), model.retained_fraction_]
        yield f"memory/{name}/float32", learned(with_memory(options, dtype="float32"))
    yield "gd/steps", learned(fl.ContinualGD(n_steps=5))
    yield "gd/increasing", learned(fl.ContinualGD(n_steps=5, schedule="increasing", n_tasks=8))
    yield "rls", learned(fl.RecursiveLeastSquares(alpha=0.5, fit_intercept=True))
    yield "joint", learned(fl.JointRidge(alpha=0.5, fit_intercept=True, standardize=True))
    model = fl.ContinualRidge(alpha=0.5, memory=LOW_RANK, fit_intercept=True)
    for X, y in stream():
        model.partial_fit(X, y)
    yield "ridge/std", np.ravel(model.predict(X, return_std=True))


def classifiers():
    """Yield weights and probabilities of classifiers of three classes."""
    ridges = {"default": {}, "alpha": {"alpha": 0.5}, "rank": {"memory": LOW_RANK}}
    for name, options in ridges.items():
        yield from classified(f"classifier/{name}", fl.ContinualRidgeClassifier(**options))
    for name, options in {
        "default": {},
        "rank": {"memory": LOW_RANK, "curvature": "bound"},
    }.items():
        yield from classified(f"logistic/{name}", fl.ContinualLogistic(**options))


def classified(name, model):
    """Yield the weights of one classifier, and its probabilities for the last task."""
    for X, y in stream():
        model.partial_fit(X, np.digitize(y, [0.0, 2.0]), classes=[0, 1, 2])
    yield name, [*np.ravel(model.coef_), *np.ravel(model.intercept_)]
    yield f"{name}/proba", model.predict_proba(X)


def inputs_of_tasks():
    """Yield weights for tasks in other forms: weighted, sparse, in blocks, in groups, widened."""
    for name in ("alpha", "auto", "standardize"):
        for kind, learn in LEARN.items():
            model = fl.ContinualRidge(**RIDGES[name])
            for X, y in stream():
                learn(model, X, y)
            yield f"ridge/{name}/{kind}", [*np.ravel(model.coef_), *np.ravel(model.intercept_)]
        pairs = list(stream())
        groups = np.repeat(np.arange(len(pairs)), len(pairs[0][1]))
        X = np.vstack([each for each, _ in pairs])
        y = np.concatenate([each for _, each in pairs])
        model = fl.ContinualRidge(**RIDGES[name]).fit(X, y, groups=groups)
        yield f"ridge/{name}/groups", [*np.ravel(model.coef_), *np.ravel(model.intercept_)]
        yield f"ridge/{name}/predict", model.predict(X[:3])


def _weighted(model, X, y):
    model.partial_fit(X, y, sample_weight=np.linspace(0.5, 2.0, len(y)))


def _sparse(model, X, y):
    model.partial_fit(sparse.csr_array(np.where(X > 0, X, 0.0)), y)


def _blocks(model, X, y):
    model.partial_fit_blocks([(X[:4], y[:4]), (X[4:], y[4:])])


def _two_targets(model, X, y):
    model.partial_fit(X, np.stack([y, y**2], axis=1))


def _widened(model, X, y):
    # The sixth feature comes with the second task.
    if not hasattr(model, "coef_"):
        model.partial_fit(X[:, :5], y)
        model.widen(1)
        return
    model.partial_fit(X, y)


LEARN = {
    "weights": _weighted,
    "sparse": _sparse,
    "blocks": _blocks,
    "two-targets": _two_targets,
    "widened": _widened,
}


def streams():
    """Yield the errors of ``evaluate_stream``, on held-out rows and before learning."""
    models = {
        "ridge": fl.ContinualRidge(),
        "alpha": fl.ContinualRidge(alpha=0.5, fit_intercept=True),
        "joint": fl.JointRidge(alpha=0.5),
    }
    for name, model in models.items():
        result = fl.evaluate_stream(model, stream(n_rows=12), holdout=0.25, seed=3)
        yield f"evaluate_stream/{name}/errors", result.errors
        yield f"evaluate_stream/{name}/change", result.change
        yield f"evaluate_stream/{name}/before", result.before
        yield f"evaluate_stream/{name}/constant", [*result.mean_before, *result.constant]

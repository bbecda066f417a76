"""Models of every kind to be attacked, forged arrays, and the outcome of loading and using a forged model."""

import warnings

import numpy as np
from sklearn.base import is_classifier

import forgetless as fl

MODELS = {
    "ridge": fl.ContinualRidge(0.3, fit_intercept=True),
    "schedule": fl.ContinualRidge(schedule="increasing", n_tasks=99),
    "average": fl.ContinualRidge(alpha=1.0, average=2, standardize=True, fit_intercept=True),
    "auto": fl.ContinualRidge(schedule="auto"),
    "next": fl.ContinualRidge(schedule=fl.schedules.auto(objective="next")),
    "steady": fl.ContinualRidge(schedule=fl.schedules.steady(0.5, 0.1)),
    "memory": fl.ContinualRidge(alpha=1.0, memory=fl.LowRankMemory(2, diagonal=True)),
    "budget": fl.ContinualGD(3, schedule="increasing", n_tasks=99),
    "joint": fl.JointRidge(0.2, fit_intercept=True),
    "rls": fl.RecursiveLeastSquares(0.2),
    "classes": fl.ContinualRidgeClassifier(),
    "untuned": fl.ContinualRidgeClassifier(memory=2),
    "logistic": fl.ContinualLogistic(memory=2, standardize=True),
}


def tasks(seed):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((4, 3)), rng.standard_normal(4)) for _ in range(4)]


def labelled(model, y):
    return (np.where(y > 0, "u", "v"), ["u", "v"]) if is_classifier(model) else (y,)


def outcome_of(path):
    """Load a model and use it; return the outcome. Any other exception is a defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = fl.load(path)
    except fl.errors.FileError:
        return "rejected"
    X, y = tasks(1)[0]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = model.coef_.copy()
            assert len(model.predict(X)) == 4
            assert len(repr(model.history_)) + model.nbytes_ > 0
            model.partial_fit(X, *labelled(model, y)[:1])
            assert np.isfinite(model.coef_).all()
            model.save(path)
            fl.load(path)
    # Weights of 1e300, say, or 2³¹ tasks, for which a schedule does not fit into memory; nothing has changed.
    except (ValueError, OverflowError, MemoryError, fl.errors.ConvergenceError):
        with np.errstate(all="ignore"):  # scales of 1e-310, say
            np.testing.assert_array_equal(model.coef_, before)
        return "loaded, then learning rejected"
    return "loaded and learned"


def distortions(array):
    """Yield arrays that a document can hold, similar to one but wrong in dtype, shape or values."""
    yield array.astype(np.float64 if array.dtype == np.float32 else np.float32)
    yield array[None]
    yield array.reshape(-1)[:0]
    yield array.reshape(-1)[:-1]
    yield np.concatenate([array.reshape(-1)] * 2)
    yield np.asfortranarray(array)
    if array.dtype.kind in "iuf":
        for value in (-1, 0, 1, 2**31 - 1, 2**62):
            yield np.full_like(array, value, dtype=np.int64 if array.dtype.kind == "i" else np.float64)
        yield np.full(array.shape, np.nan)
        yield np.full(array.shape, -np.inf)
        yield np.full(array.shape, 1e300)
        yield -array.astype(np.float64)
    yield np.zeros(array.shape, dtype=bool)
    yield np.zeros(array.shape, dtype=np.uint8)


def written(path, content):
    path.write_bytes(content)
    return path

"""Models of every kind to be attacked, and what becomes of one that is loaded and used."""

import warnings

import numpy as np
from scipy import sparse

import forgetless as fl

HELD = {"holdout": 0.5, "random_state": 0}


MODELS = {
    "ridge": (fl.ContinualRidge(0.3, fit_intercept=True), np.asarray),
    "held": (fl.ContinualRidge(schedule="increasing", n_tasks=99, **HELD), np.asarray),
    "sparse": (fl.ContinualRidge(**HELD), sparse.csr_array),
    "auto": (fl.ContinualRidge(schedule="auto"), np.asarray),
    "memory": (fl.ContinualRidge(rank=2, metric="diagonal"), np.asarray),
    "budget": (fl.ContinualGD(3, schedule="increasing", n_tasks=99), np.asarray),
    "joint": (fl.JointRidge(0.2, fit_intercept=True), np.asarray),
    "rls": (fl.RecursiveLeastSquares(0.2), np.asarray),
    "classes": (fl.ContinualRidgeClassifier(), np.asarray),
    "untuned": (fl.ContinualRidgeClassifier(rank=2), np.asarray),
}


def tasks(seed, kind=np.asarray):
    rng = np.random.default_rng(seed)
    return [(kind(rng.standard_normal((4, 3))), rng.standard_normal(4)) for _ in range(4)]


def labelled(model, y):
    return (np.where(y > 0, "u", "v"), ["u", "v"]) if isinstance(model, fl.ContinualRidgeClassifier) else (y,)


def meet(path, kind):
    """Load a model and use it; return what became of it. Whatever else happens is a defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = kind.load(path)
    except fl.errors.FileError:
        return "refused"
    X, y = tasks(1)[0]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert len(model.predict(X)) == 4
            assert len(repr(model.history_)) + model.nbytes_ > 0
            before = model.coef_.copy()
            model.partial_fit(X, *labelled(model, y)[:1])
            assert np.isfinite(model.coef_).all()
            model.save(path)
            kind.load(path)
    except (
        ValueError,
        OverflowError,
        fl.errors.ConvergenceError,
    ):  # weights of 1e300, say: refused, and nothing changed
        np.testing.assert_array_equal(model.coef_, before)
        return "loaded, then refused to learn"
    return "loaded and learned"


def written(path, content):
    path.write_bytes(content)
    return path

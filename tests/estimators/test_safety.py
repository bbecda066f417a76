"""Bad input, interruptions and failing allocations change nothing; one thread may learn while others read."""

import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import threadpoolctl
from scipy import sparse
from scipy.linalg import lapack
from sklearn.base import clone, is_classifier

import forgetless as fl
from support.streams import linear

MODELS = [
    fl.StreamingRidge(),
    fl.StreamingRidge(adaptive=True),
    fl.StreamingRidge(rank=2),
    fl.StreamingRidge(0.5, fit_intercept=False, standardize=False),
    fl.StreamingRidgeClassifier(),
    fl.StreamingLogistic(),
    fl.ContinualRidge(0.5),
    fl.ContinualRidge(schedule="increasing", n_tasks=50, fit_intercept=True, average=2),
    fl.ContinualGD(4),
]

X, Y = np.arange(12.0).reshape(4, 3) + np.eye(4, 3), np.array([0.0, 1.0, 0.0, 1.0])


def changed(array, at, value):
    result = np.array(array, dtype=float)
    result[at] = value
    return result


BAD = {
    "nan": (changed(X, (1, 1), np.nan), Y),
    "infinity": (changed(X, (0, 2), np.inf), Y),
    "two infinities": (changed(changed(X, (0, 2), np.inf), (1, 2), -np.inf), Y),
    "nan target": (X, changed(Y, 2, np.nan)),
    "no number as a target": (X, np.array([1.0, None, 0.0, 1.0], dtype=object)),
    "sparse target": (X, sparse.csr_matrix(Y[:, None])),
    "wrong width": (np.ones((4, 2)), Y),
    "other labels": (X, np.array(["a", "b"] * 2)),
    "other objects": (X, np.array(["a", "b"] * 2, dtype=object)),
    "wrong length": (X, Y[:3]),
    "complex": (X.astype(complex), Y),
    "words": (np.array([["a", "b", "c"]] * 4), Y),
    "no rows": (np.ones((0, 3)), np.ones(0)),
    "one dimension": (np.ones(3), np.ones(1)),
    "no target": (X, None),
    "negative weight": (X, Y, [1.0, 1.0, -1.0, 1.0]),
    "nan weight": (X, Y, [1.0, 1.0, np.nan, 1.0]),
    "zero weights": (X, Y, np.zeros(4)),
    "wrong weights": (X, Y, np.ones(3)),
    "masked": (np.ma.masked_array(X, np.zeros_like(X)), Y),
    "masked target": (X, np.ma.masked_array(Y, np.zeros_like(Y))),
    "masked weights": (X, Y, np.ma.masked_array(np.ones(4), np.zeros(4))),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_bad_input_raises_and_leaves_the_model_as_it_was(model, bad):
    A, b, *weight = BAD[bad]
    options = dict(zip(["sample_weight"], weight, strict=False))
    fresh, learned = clone(model), clone(model).partial_fit(X, Y).partial_fit(X, Y[::-1])
    calls = [learned.partial_fit, learned.fit, fresh.partial_fit]
    for call in calls[:1] if bad.startswith(("wrong width", "other")) else calls:  # these are no mistake at first
        before, state = pickle.dumps(call.__self__.__dict__), call.__self__.__dict__
        with pytest.raises((ValueError, TypeError)):
            call(A, b, **options)
        assert call.__self__.__dict__ is state
        assert pickle.dumps(state) == before


class Interrupted(KeyboardInterrupt):
    """Raised in the midst of learning."""


def interrupt_after(events):
    left = events

    def trace(frame, event, argument):
        nonlocal left
        left -= 1
        if left <= 0:
            sys.settrace(None)
            raise Interrupted
        return trace

    return trace


# While a generator of another library is closed, Python can only print an interruption.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_an_interruption_at_any_line_leaves_the_model_as_it_was(model, first):
    tracing = sys.gettrace()
    interrupted = 0
    for events in [*range(1, 200, 7), 400, 800, 1600]:
        model = clone(model)
        if not first:
            model.partial_fit(X, Y)
        state = model.__dict__
        learned = pickle.dumps(state)
        sys.settrace(interrupt_after(events))
        try:
            model.partial_fit(X + 1.0, Y[::-1])
        except Interrupted:
            interrupted += 1
            if model.__dict__ is state:
                assert pickle.dumps(state) == learned
            else:  # it had been learned, which is one assignment
                assert model.n_tasks_seen_ == 2 - first
        finally:
            sys.settrace(tracing)
    assert interrupted >= 10


def test_one_thread_learns_while_others_read():
    A, y = linear(1100, 5, noise=0.0)
    model = fl.StreamingRidge().partial_fit(A[:200], y[:200])
    learned = threading.Event()

    def read():
        while not learned.is_set():
            mean, std = model.predict(A, return_std=True)
            assert np.isfinite(std).all()
            assert np.abs(mean - y).max() < 0.1
            twin = copy.copy(model)  # of one moment
            assert twin.rows_.n >= 200
            assert twin.prequential_mse_ < 1 or twin.n_tasks_seen_ == 1

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for first in range(200, 1100, 3):
            model.partial_fit(A[first : first + 3], y[first : first + 3])
        learned.set()
        for reader in readers:
            reader.result()
    assert model.rows_.n == 1100


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_small_tasks_keep_to_one_thread(model, monkeypatch):
    """Waking threads for a small task costs twice its processor time."""
    seen = []

    def watching(original):
        def call(*args, **options):
            info = threadpoolctl.threadpool_info()
            seen.extend(each["num_threads"] for each in info if each["user_api"] == "blas")
            return original(*args, **options)

        return call

    for holder, name in ((np.linalg, "eigh"), (np, "einsum"), (lapack, "dposv")):
        monkeypatch.setattr(holder, name, watching(getattr(holder, name)))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        model = clone(model).partial_fit(X, Y).partial_fit(X, Y[::-1])
        model.predict(X)
    assert seen
    assert set(seen) == {1}


def wild(format, index=2**30):
    """Return a sparse 4 × 3 matrix whose indices point far outside, as SciPy lets one make it."""
    A = sparse.csr_array(np.eye(4, 3)).asformat(format.removesuffix(" pointers"))
    if format.endswith("pointers"):  # which SciPy's own check passes, as there seem to be no entries
        A.indptr = np.array([0, *[2**30] * (len(A.indptr) - 2), 0], dtype=A.indptr.dtype)
    elif format == "coo":
        A.coords = (A.coords[0], np.full_like(A.coords[1], index))
    else:
        A.indices = np.full_like(A.indices, 2**30)
    return A


@pytest.mark.parametrize("format", ["csr", "csc", "bsr", "coo", "csr pointers", "csc pointers", "bsr pointers"])
@pytest.mark.parametrize("model", [fl.ContinualRidge(1.0), fl.StreamingRidge(), fl.StreamingRidgeClassifier()], ids=str)
def test_sparse_rows_with_indices_outside_are_refused(model, format):
    y = np.array([1.0, -1.0, 1.0, -1.0])
    labels = np.where(y > 0, "u", "v") if is_classifier(model) else y
    model = clone(model).fit(np.eye(4, 3) + 1, labels)
    before = model.coef_.copy()
    for call in (
        lambda: model.partial_fit(wild(format), labels),
        lambda: model.fit(wild(format), labels),
        lambda: model.predict(wild(format)),
        lambda: fl.rows_of(wild(format), y),
        *(lambda index=index: fl.step(np.zeros(3), (wild(format, index), y), fl.Ridge(1.0)) for index in (-1, 3)),
    ):
        with pytest.raises(ValueError, match="ind"):
            call()
    np.testing.assert_array_equal(model.coef_, before)


def test_parameters_cannot_change_within_a_stream():
    for model, parameters in [
        (fl.StreamingRidge(), {"adaptive": True}),
        (fl.StreamingRidge(), {"rank": 3}),
        (fl.StreamingRidge(), {"standardize": False}),
        (fl.StreamingRidgeClassifier(), {"rank": 3}),
        (fl.StreamingLogistic(), {"alpha": 3.0}),
        (fl.ContinualRidge(1.0), {"fit_intercept": True}),
        (fl.ContinualGD(), {"average": 1}),
    ]:
        name = next(iter(parameters))
        model = model.partial_fit(X, Y).set_params(**parameters)
        state = model.__dict__
        with pytest.raises(ValueError, match=f"{name} was .* for the first task and cannot become"):
            model.partial_fit(X, Y)
        assert model.__dict__ is state
        assert model.fit(X, Y).n_tasks_seen_ == 1


BAD_PARAMETERS = [
    (lambda: fl.StreamingRidge(0.0), ValueError, "alpha must be positive"),
    (lambda: fl.StreamingRidge(-1.0), ValueError, "alpha must be nonnegative"),
    (lambda: fl.StreamingRidge("much"), TypeError, "alpha must be a real number"),
    (lambda: fl.StreamingRidge(rank=0), ValueError, "rank must be at least 1"),
    (lambda: fl.StreamingRidge(guard=-1.0), ValueError, "guard must be nonnegative"),
    (lambda: fl.StreamingRidge(adaptive="yes"), TypeError, "adaptive must be True or False"),
    (lambda: fl.StreamingRidge(fit_intercept=1), TypeError, "fit_intercept must be True or False"),
    (lambda: fl.ContinualRidge(1.0, schedule="fixed"), ValueError, "alpha and schedule both give"),
    (lambda: fl.ContinualGD(5, schedule="fixed_budget"), ValueError, "n_steps and schedule both give"),
    (lambda: fl.ContinualRidge(schedule="rising"), ValueError, "did you mean 'increasing'"),
    (lambda: fl.ContinualRidge(schedule=[1.0]), TypeError, "schedule must be a schedule, a filter"),
    (lambda: fl.ContinualRidge(schedule="fixed_budget", n_tasks=5), TypeError, "must give a filter such as fl.Ridge"),
    (lambda: fl.ContinualGD(schedule="increasing", n_tasks=5), TypeError, "must give a filter of gradient descent"),
    (lambda: fl.ContinualRidge(average=33), ValueError, "average must be .*use 2 for weights"),
    (lambda: fl.ContinualRidge(n_tasks=0), ValueError, "n_tasks must be at least 1"),
    (lambda: fl.ContinualRidge(radius=-1.0), ValueError, "radius must be nonnegative"),
    (lambda: fl.ContinualGD(2.5), TypeError, "n_steps"),
    (lambda: fl.ContinualGD(2, 0.0), ValueError, "step_size"),
]


@pytest.mark.parametrize(("make", "error", "words"), BAD_PARAMETERS, ids=[words for _, _, words in BAD_PARAMETERS])
def test_bad_parameters_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make().partial_fit([[1.0, 2.0]], [1.0])

"""Streams: bad input, odd types and interruptions change nothing, and precision is kept."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import is_classifier

import forgetless as fl

MODELS = [
    fl.ContinualRidge(0.5),
    fl.ContinualRidge(schedule="increasing", n_tasks=50, fit_intercept=True),
    fl.ContinualRidge(schedule="auto"),
    fl.ContinualRidge(alpha=1.0, memory=2),
    fl.ContinualGD(4),
    fl.JointRidge(),
    fl.RecursiveLeastSquares(),
]


X, y = np.arange(12.0).reshape(4, 3) + np.eye(4, 3), np.arange(4.0)


ROW = np.ones((1, 3))


def changed(array, at, value):
    result = np.array(array, dtype=float)
    result[at] = value
    return result


BAD = {
    "nan": (changed(X, (1, 1), np.nan), y),
    "infinity": (changed(X, (0, 2), np.inf), y),
    "two infinities": (changed(changed(X, (0, 2), np.inf), (1, 2), -np.inf), y),
    "nan target": (X, changed(y, 2, np.nan)),
    "nan row": (changed(ROW, (0, 1), np.nan), np.ones(1)),
    "nan row target": (ROW, np.array([np.nan])),
    "infinite row": (changed(ROW, (0, 1), np.inf), np.ones(1)),
    "wrong width": (np.ones((4, 2)), y),
    "wrong width row": (np.ones((1, 2)), np.ones(1)),
    "wrong length": (X, y[:3]),
    "complex": (X.astype(complex), y),
    "words": (np.array([["a", "b", "c"]] * 4), y),
    "word targets": (X, np.array(["a"] * 4)),
    "zeros": (np.zeros((4, 3)), y),
    "zero row": (np.zeros((1, 3)), np.ones(1)),
    "sparse zeros": (sparse.csr_array((4, 3)), y),
    "no rows": (np.ones((0, 3)), np.ones(0)),
    "one dimension": (np.ones(3), np.ones(1)),
    "another number of targets": (X, np.ones((4, 2))),
    "no target": (X, None),
    "negative weight": (X, y, [1.0, 1.0, -1.0, 1.0]),
    "nan weight": (X, y, [1.0, 1.0, np.nan, 1.0]),
    "zero weights": (X, y, np.zeros(4)),
    "wrong weights": (X, y, np.ones(3)),
}


ZEROS = ("zeros", "zero row", "sparse zeros")
"""What is bad only without an intercept, of which it tells otherwise."""


@pytest.mark.parametrize(
    ("model", "bad"),
    [(model, bad) for model in MODELS for bad in BAD if bad not in ZEROS or not model._value("fit_intercept")],
    ids=str,
)
def test_bad_input_raises_and_leaves_the_model_bit_identical(model, bad):
    fresh = type(model)(**model.get_params())
    empty = pickle.dumps(fresh.__dict__)
    with pytest.raises((ValueError, TypeError)):
        # Shapes that are wrong for a later task only are made wrong for the first one too.
        fresh.partial_fit(*(BAD[bad] if "width" not in bad and "another" not in bad else (X, y[:2])))
    assert pickle.dumps(fresh.__dict__) == empty
    model = type(model)(**model.get_params()).partial_fit(X, y).partial_fit(ROW, np.ones(1))
    before = pickle.dumps(model.__dict__)
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(*BAD[bad])
    assert pickle.dumps(model.__dict__) == before
    if "zero" not in bad:  # a block of zeros is part of a task
        with pytest.raises((ValueError, TypeError)):
            model.partial_fit_blocks([(X, y), BAD[bad]])
    assert pickle.dumps(model.__dict__) == before
    if "width" not in bad and "another" not in bad:
        with pytest.raises((ValueError, TypeError)):
            model.fit(*BAD[bad][:2], sample_weight=BAD[bad][2] if len(BAD[bad]) > 2 else None)
        assert pickle.dumps(model.__dict__) == before


def test_empty_and_malformed_blocks_and_groups():
    model = fl.ContinualRidge(alpha=1.0).partial_fit(X, y)
    with pytest.raises(ValueError, match="at least one row that is not zero"):
        model.partial_fit_blocks([])
    with pytest.raises(TypeError, match="blocks must yield"):
        model.partial_fit_blocks([X])
    with pytest.raises(ValueError, match=r"groups must have one label per row, shape \(4,\), got \(3,\)"):
        model.fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="but 1 rows have none"):
        model.fit(X, y, groups=[1.0, np.nan, 2.0, 2.0])


@pytest.mark.parametrize("memory", [None, 3, 9])
@pytest.mark.parametrize("schedule", [None, "auto"])
@pytest.mark.parametrize("standardize", [True, False])
def test_tasks_of_zeros_tell_the_intercept(memory, schedule, standardize):
    options = {"memory": memory, "schedule": schedule, "alpha": 1.0}
    # In tables of few columns a task may have no sale, no gap and no known category.
    tasks = [(np.zeros((2, 3)), np.full(2, 5.0)), (X, y), (np.zeros((1, 3)), [4.0])]
    model = fl.ContinualRidge(fit_intercept=True, standardize=standardize, **options)
    ones = fl.ContinualRidge(fit_intercept=False, standardize=False, **options)
    blocks = fl.ContinualRidge(fit_intercept=True, standardize=standardize, **options)
    for A, b in tasks:
        model.partial_fit(A, b)
        blocks.partial_fit_blocks([(A, b)])
        ones.partial_fit(np.column_stack([A, np.ones(len(A))]), b)
    np.testing.assert_allclose(blocks.predict(X), model.predict(X), rtol=2e-3)
    if not standardize and schedule is None:  # whose intercept is regularized like any other weight
        np.testing.assert_allclose(model.predict(X), ones.predict(np.column_stack([X, np.ones(4)])), rtol=1e-6)


def test_tasks_of_zeros_are_refused_wherever_they_hide():
    zeros = np.vstack([X, np.zeros((4, 3))])
    targets, groups = np.concatenate([y, y]), np.repeat([0, 1], 4)
    for model in (fl.ContinualRidge(alpha=1.0), fl.ContinualGD()):
        with pytest.raises(ValueError, match=r"X of task 2, of shape \(4, 3\), holds only zeros"):
            model.fit(zeros, targets, groups)
        with pytest.raises(ValueError, match="holds only zeros"):
            model.fit(zeros, targets, sample_weight=1.0 * groups)
        cancelling = sparse.csr_array((np.array([1.0, -1.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
        with pytest.raises(ValueError, match="holds only zeros"):
            model.fit(cancelling, [1.0])
        # Zeros in one block of a task, or a block of weight zero, are no reason to refuse it.
        whole = type(model)().partial_fit(zeros, targets)
        parts = type(model)().partial_fit_blocks([(X, y), (np.zeros((4, 3)), y)])
        np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-10)
        part = type(model)().partial_fit_blocks([(X, y, np.ones(4)), (X, y, np.zeros(4))])
        np.testing.assert_allclose(part.coef_, type(model)().partial_fit(X, y).coef_, rtol=1e-10)


def test_blocks_that_can_be_read_once_only_are_recognised():
    class Loader:
        def __init__(self):
            self.blocks = iter([(X[:2], y[:2]), (X[2:], y[2:])])

        def __iter__(self):
            return self.blocks

    once = fl.ContinualRidge(0.5).partial_fit_blocks(Loader())
    np.testing.assert_allclose(once.coef_, fl.ContinualRidge(0.5).partial_fit(X, y).coef_, rtol=1e-8)
    reads = iter([[(X[:2], y[:2]), (X[2:], y[2:])], [(X[:2], y[:2])], []])
    model = fl.ContinualRidge(0.5)
    with pytest.raises(ValueError, match="2 rows when read again and 4 the first time"):
        model.partial_fit_blocks(lambda: next(reads))
    assert not hasattr(model, "coef_")


def test_parameters_changed_within_a_stream_are_checked():
    model = fl.ContinualRidge(alpha=1.0).partial_fit(X, y)
    for parameters, words in [
        ({"radius": -5.0}, "radius must be positive"),
        ({"tol": -1.0}, "tol must be positive"),
        ({"memory": -3}, "memory must be at least 0"),
        ({"memory": 3}, "memory was None for the first task"),
        ({"fit_intercept": True}, "fit_intercept was False for the first task"),
    ]:
        changed_model = pickle.loads(pickle.dumps(model)).set_params(**parameters)
        before = changed_model._state
        for rows in (4, 1):
            with pytest.raises(ValueError, match=words):
                changed_model.partial_fit(X[:rows], y[:rows])
        assert changed_model._state is before


def test_float32_models_survive_extreme_rows():
    model = fl.ContinualRidge(alpha=0.0).partial_fit(np.ones((1, 2), np.float32), np.ones(1, np.float32))
    model.partial_fit(np.array([[1e-14, 0]], np.float32), np.array([1e20], np.float32))
    np.testing.assert_allclose(model.coef_, [1e34, 0.5], rtol=1e-5)
    joint = fl.JointRidge(1e-2)
    A = (np.random.default_rng(0).standard_normal((10, 30)) + 50).astype(np.float32)
    joint.fit(A, np.arange(10.0))
    exact = np.linalg.solve(A.astype(float).T @ A + 1e-2 * np.eye(30), A.astype(float).T @ np.arange(10.0))
    np.testing.assert_allclose(joint.coef_, exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize("kind", ["dense", "csr", "list of blocks", "generator"])
@pytest.mark.parametrize("condition", [10.0, 3e4])
def test_float32_steps_know_their_error(rng, kind, condition):
    U, _, V = np.linalg.svd(rng.standard_normal((600, 12)), full_matrices=False)
    A = ((U * np.geomspace(1, condition**-0.5, 12) * 30) @ V).astype(np.float32)
    b = (A @ rng.standard_normal(12) + rng.standard_normal(600)).astype(np.float32)
    wide = A.astype(np.float64)
    alpha = float(np.linalg.norm(wide, 2) ** 2 / (10 * condition))
    exact = np.linalg.solve(wide.T @ wide + alpha * np.eye(12), wide.T @ b.astype(np.float64))
    model = fl.ContinualRidge(alpha)
    blocks = [(A[:200], b[:200]), (A[200:], b[200:])]
    if kind == "dense":
        model.partial_fit(A, b)
    elif kind == "csr":
        model.partial_fit(sparse.csr_array(A), b)
    else:
        model.partial_fit_blocks(blocks if kind == "list of blocks" else iter(blocks))
    error = np.linalg.norm(model.coef_ - exact) / np.linalg.norm(exact)
    assert model.coef_.dtype == np.float32
    assert error <= model.history_["error"][0] + 1e-7
    assert error < 2e-6
    residual = np.mean((wide @ exact - b) ** 2)
    assert model.history_["mse_after"][0] == pytest.approx(residual, rel=1e-3)


def test_rows_of_weight_zero_are_not_counted(rng):
    A = rng.standard_normal((20, 3))
    b, weight = A @ np.ones(3), np.ones(20)
    b[::2], weight[::2] = 1e6, 0.0
    model = fl.ContinualRidge(1e-3).partial_fit(A, b, weight)
    np.testing.assert_allclose(model.coef_, 1.0, rtol=1e-3)
    blocks = [(A, b, weight)]
    counted = fl.ContinualRidge(alpha=1.0).partial_fit_blocks(blocks).history_["n_rows"]
    assert (
        counted.tolist() == fl.ContinualRidge(alpha=1.0).partial_fit(A, b, weight).history_["n_rows"].tolist() == [10]
    )


@pytest.mark.parametrize("name", ["X", "y", "sample_weight", "groups"])
@pytest.mark.parametrize("kind", [fl.ContinualRidge, fl.ContinualRidgeClassifier])
def test_masked_arrays_are_rejected_by_name(name, kind):
    data = {"X": X, "y": np.arange(len(X)) % 2, "sample_weight": np.ones(len(X)), "groups": np.zeros(len(X))}
    data[name] = np.ma.masked_array(data[name], np.zeros_like(data[name], dtype=bool))
    for model in (kind(), kind().partial_fit(X, data["y"].data if name == "y" else data["y"])):
        with pytest.raises(TypeError, match=f"{name} is a masked array"):
            model.fit(**data)
        if name == "X":
            with pytest.raises(TypeError, match="X is a masked array"):
                kind().partial_fit(X, data["y"]).predict(data["X"])
        elif name != "groups":
            with pytest.raises(TypeError, match=f"{name} is a masked array"):
                model.partial_fit(X, data["y"], sample_weight=data["sample_weight"])


def test_masked_weights_of_blocks_are_rejected():
    weight = np.ma.masked_less(np.arange(len(X), dtype=float), 1.0)
    with pytest.raises(TypeError, match="sample_weight is a masked array"):
        fl.ContinualRidge().partial_fit_blocks([(X, y, weight)])


def test_recursive_least_squares_cannot_change_its_prior():
    model = fl.RecursiveLeastSquares(1.0).partial_fit(X, y).set_params(alpha=100.0)
    with pytest.raises(ValueError, match=r"alpha was 1\.0 for the first task"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("model", [fl.JointRidge(), fl.RecursiveLeastSquares()], ids=str)
def test_baselines_refuse_what_they_cannot_square(model):
    with np.errstate(all="ignore"), pytest.raises((fl.errors.ConvergenceError, OverflowError)):
        model.fit(X * 1e160, y)


def test_a_model_keeps_the_precision_of_its_first_task():
    wide = fl.ContinualRidge(1e-3).partial_fit(X, y)
    targets = 1e6 + np.arange(4.0) / 3
    narrow = pickle.loads(pickle.dumps(wide)).partial_fit(X.astype(np.float32), targets)
    np.testing.assert_allclose(narrow.coef_, wide.partial_fit(X, targets).coef_, rtol=1e-12)
    assert narrow.predict(X.astype(np.float32)).dtype == np.float64


def test_weights_that_overflow_are_refused():
    model = fl.ContinualRidge(alpha=0.0).partial_fit([[1.0]], [1.0])
    with pytest.raises((OverflowError, ValueError)):
        model.partial_fit([[1e-300]], [1e300])
    assert model.coef_.tolist() == [1.0]


def wild(format):
    """Return a sparse 4 × 3 matrix whose indices point far outside, as SciPy lets one make it."""
    X = sparse.csr_array(np.eye(4, 3)).asformat(format.removesuffix(" pointers"))
    if format.endswith("pointers"):  # which SciPy's own check passes, as there seem to be no entries
        X.indptr = np.array([0, *[2**30] * (len(X.indptr) - 2), 0], dtype=X.indptr.dtype)
    elif format == "coo":
        X.coords = (X.coords[0], np.full_like(X.coords[1], 2**30))
    elif format == "lil":
        X.rows[0] = [2**30]
    elif format == "dok":
        X._dict[0, 2**30] = 1.0
    else:
        X.indices = np.full_like(X.indices, 2**30)
    return X


@pytest.mark.parametrize(
    "format", ["csr", "csc", "bsr", "coo", "lil", "dok", "csr pointers", "csc pointers", "bsr pointers"]
)
@pytest.mark.parametrize(
    "model", [fl.ContinualRidge(alpha=1.0), fl.JointRidge(), fl.ContinualRidgeClassifier()], ids=str
)
def test_sparse_rows_with_indices_outside_are_refused(model, format):
    y = np.array([1.0, -1.0, 1.0, -1.0])
    labels = np.where(y > 0, "u", "v") if is_classifier(model) else y
    model = type(model)().fit(np.eye(4, 3) + 1, labels)
    before = model.coef_.copy()
    for call in (
        lambda: model.partial_fit(wild(format), labels),
        lambda: model.partial_fit_blocks([(wild(format), labels)]),
        lambda: model.fit(wild(format), labels),
        lambda: model.predict(wild(format)),
        lambda: fl.step(np.zeros(3), (wild(format), y), fl.Ridge(1.0)),
    ):
        with pytest.raises(ValueError, match="ind"):
            call()
    np.testing.assert_array_equal(model.coef_, before)

"""A model stores no rows that it was trained on; numbers that would spoil it for good; the size of its state."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier

import forgetless as fl
from forgetless.io import read

MODELS = [
    fl.ContinualRidge(0.3, fit_intercept=True),
    fl.ContinualRidge(schedule="auto"),
    fl.ContinualRidge(schedule="auto", fit_intercept=True),
    fl.ContinualRidge(schedule="increasing", n_tasks=99),
    fl.ContinualGD(3),
    fl.JointRidge(0.2),
    fl.RecursiveLeastSquares(0.2),
    fl.ContinualRidgeClassifier(schedule="auto"),
    fl.ContinualLogistic(),
]


def stream(rng, count=16, n=4, d=4):
    return [(rng.standard_normal((n, d)), rng.standard_normal(n)) for _ in range(count)]


def learned(model, tasks, kind=np.asarray):
    for X, y in tasks:
        if is_classifier(model):
            model.partial_fit(kind(X), y > 0, classes=[False, True])
        else:
            model.partial_fit(kind(X), y)
    return model


def found_rows(content, tasks):
    """Return how many rows of the tasks can be read in some bytes, up to a factor as a sample may have one."""
    found = set()
    for at in range(8):
        numbers = np.frombuffer(content[at:], dtype=np.float64, count=(len(content) - at) // 8)
        numbers = np.where(np.abs(numbers) > 1e-300, numbers, np.nan)  # integers, whose ratios would be rounded
        windows = np.lib.stride_tricks.sliding_window_view(numbers, tasks[0][0].shape[1])
        for row in np.concatenate([X for X, _ in tasks]):
            with np.errstate(all="ignore"):
                ratios = windows / row
                if (np.abs(ratios / ratios[:, :1] - 1).max(axis=1) < 1e-10).any():
                    found.add(tuple(row))
    return len(found)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_no_training_row_is_in_a_file_or_a_pickle(tmp_path, rng, model, kind):
    tasks = stream(rng)
    model = learned(clone(model), tasks, kind)
    for state in ("learn", "predict"):
        model.save(tmp_path / "m.npz", state=state)
        assert found_rows((tmp_path / "m.npz").read_bytes(), tasks) == 0
    assert found_rows(pickle.dumps(model), tasks) == 0
    assert (tmp_path / "m.npz").stat().st_size < 10_000


def test_the_search_for_rows_finds_them(rng):
    tasks = stream(rng)
    assert found_rows(b"".join((2.5 * A).tobytes() for A, _ in tasks), tasks) == 64


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_alone_predict_and_do_not_learn(tmp_path, rng, model):
    tasks = stream(rng)
    model, path = learned(clone(model), tasks), tmp_path / "m.npz"
    model.save(path, state="predict")
    names = {"coef", "intercept", "n_tasks", "classes", "ranges", "calibration.losses", "calibration.rows"}
    assert set(read(path).arrays) <= names
    back = fl.load(path)
    X, y = tasks[0]
    if model._has_classes:
        np.testing.assert_array_equal(back.predict(X), model.predict(X))
    else:  # the weights are stored in the user's units
        np.testing.assert_allclose(back.predict(X), model.predict(X), rtol=1e-12, atol=1e-15)
    assert back.n_tasks_seen_ == 16
    assert back.history_["task"].tolist() == []
    assert np.isnan(back.prequential_mse_)
    before = pickle.dumps(back)
    target = y > 0 if is_classifier(model) else y
    for call in (
        lambda: back.partial_fit(X, target),
        lambda: back.partial_fit(X[:1], target[:1]),
        lambda: back.partial_fit_blocks([(X, target)]),
    ):
        with pytest.raises(ValueError, match="weights only, as it was saved with state='predict'"):
            call()
    assert pickle.dumps(back) == before
    assert not hasattr(back, "gram_")
    back.save(path)  # what is not there cannot be saved
    with pytest.raises(ValueError, match="weights only"):
        fl.load(path).partial_fit(X, target)
    assert back.fit(X, target).n_tasks_seen_ == 1


def test_a_function_is_not_needed_for_prediction(tmp_path, rng):
    model = learned(fl.ContinualRidge(schedule=lambda k, radius: fl.Ridge(1.0), n_tasks=20), stream(rng))
    model.save(tmp_path / "m.npz", state="predict")
    assert fl.load(tmp_path / "m.npz").coef_.tolist() == model.coef_.tolist()


# --- numbers that would spoil a model for good ---


@pytest.mark.parametrize("at", [0, 1, 2, 9])
@pytest.mark.parametrize("scale", [1e150, 1e155, 1e200, 1e300])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}], ids=str)
def test_a_huge_task_under_auto_does_no_lasting_harm(rng, at, scale, options):
    tasks, refused = stream(rng, 14), []
    model = fl.ContinualRidge(schedule="auto", **options)
    for t, (X, y) in enumerate(tasks):
        if t == at:
            X = scale * X  # met without error, as far as rounding allows: accepted unless its square overflows
            y = X @ model.coef_ if at else 0 * y
        try:
            model.partial_fit(X, y)
        except OverflowError:
            refused.append(t)
    assert refused in ([], [at])
    assert np.isfinite(model.prequential_mse_)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.history_["strength"]).all()


def test_an_error_that_cannot_be_squared_is_refused(rng):
    model = learned(fl.ContinualRidge(alpha=1.0), stream(rng, 3))
    before = pickle.dumps(model)
    for target in (1e155, 1e160, 1e200, -1e300):
        with pytest.raises(OverflowError, match="the squared error of this task is too large"):
            model.partial_fit(np.ones((2, 4)), np.full(2, target))
    assert pickle.dumps(model) == before
    # Sums of squares that are numbers each may be none together; their mean is one.
    for _ in range(30):
        model.partial_fit(np.ones((1, 4)), np.array([5e153]))
        model.partial_fit(np.ones((1, 4)), np.array([-5e153]))
    assert np.isfinite(model.prequential_mse_)


@pytest.mark.parametrize(
    ("memory", "scale", "message"),
    [
        (3, 1e20, "too large to be remembered as float32"),
        (3, 1e155, "too large to be squared"),
        (fl.LowRankMemory(3, dtype="float64"), 1e155, "too large to be squared"),
        (None, 1e155, "too large to be squared"),
    ],
    ids=str,
)
@pytest.mark.parametrize("seen", [0, 2])
def test_a_task_that_the_statistics_cannot_hold_changes_nothing(rng, memory, scale, message, seen):
    model = learned(fl.ContinualRidge(memory=memory, standardize=False), stream(rng, seen))
    before = pickle.dumps(model)
    X = rng.standard_normal((5, 4))
    with pytest.raises(OverflowError, match=message):
        model.partial_fit(scale * X, X[:, 0])
    assert pickle.dumps(model) == before
    model.partial_fit(X, X[:, 0])
    assert np.isfinite(model.coef_).all()


def test_weights_whose_sum_overflows_are_refused(rng):
    model = learned(fl.ContinualRidge(alpha=1.0), stream(rng, 2))
    row, target = 1e-150 * np.ones((1, 4)), np.ones(1)
    model.partial_fit(row, target, sample_weight=[1e308])
    with pytest.raises(OverflowError):
        model.partial_fit(row, target, sample_weight=[1e308])
    assert np.isfinite(model.prequential_mse_)

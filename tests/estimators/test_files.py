"""Models in files: a loaded model equals the saved one. Damage and forgery are tested in ``attacks``."""

import pickle

import numpy as np
import pytest

import forgetless as fl
from forgetless.io.document import Document, write

MODELS = [
    fl.ContinualRidge(0.3),
    fl.ContinualRidge(schedule="increasing", n_tasks=20, fit_intercept=True),
    fl.ContinualRidge(schedule=fl.schedules.increasing(scale=0.5), n_tasks=20),
    fl.ContinualRidge(schedule="auto", fit_intercept=True),
    fl.ContinualRidge(0.3, memory=3),
    fl.ContinualRidge(0.3, memory=fl.LowRankMemory(3, diagonal=True, decay=0.1), fit_intercept=True),
    fl.ContinualRidge(schedule=fl.Ridge(np.arange(1.0, 21.0))),
    fl.ContinualRidge(schedule=fl.schedules.from_coefficients(range(20))),
    fl.ContinualGD(5, schedule="increasing", n_tasks=20),
    fl.ContinualGD(3, schedule=fl.schedules.constant(fl.GradientDescent(2, 0.01))),
    fl.JointRidge(0.2, fit_intercept=True),
    fl.RecursiveLeastSquares(0.2),
]


def tasks(seed, count=4, targets=()):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((4, 5)), rng.standard_normal((4, *targets))) for _ in range(count)]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("targets", [(), (2,)])
def test_a_loaded_model_goes_on_as_if_it_had_never_stopped(tmp_path, model, targets):
    model = type(model)(**model.get_params())
    for X, y in tasks(0, targets=targets):
        model.partial_fit(X, y)
    model.save(tmp_path / "m.npz")
    other = fl.load(tmp_path / "m.npz")
    assert repr(other) == repr(model)
    model = pickle.loads(pickle.dumps(model))  # rows that wait to be cut are mixed there too
    for X, y in tasks(1, targets=targets):
        np.testing.assert_array_equal(model.partial_fit(X, y).coef_, other.partial_fit(X, y).coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
    assert model.prequential_mse_ == other.prequential_mse_
    for name, values in model.history_.items():
        np.testing.assert_array_equal(values, other.history_[name])
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


def test_weights_lie_in_memory_as_they_did(tmp_path, rng):
    # Products round by how rows lie in memory: several targets went on with other last digits.
    model = fl.ContinualRidge(alpha=1.0, fit_intercept=True).partial_fit(
        rng.standard_normal((9, 4)), rng.standard_normal((9, 3))
    )
    model.save(tmp_path / "m.npz")
    assert fl.load(tmp_path / "m.npz")._state.coef.strides == model._state.coef.strides == (8, 24)


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        fl.ContinualRidge(alpha=1.0).save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def test_classes_names_and_float32_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "m.fl"
    frame = pandas.DataFrame(tasks(0)[0][0], columns=list("abcde"))
    labels = fl.ContinualRidgeClassifier().fit(frame, ["u", "v", "u", "v"])
    labels.save(path)
    loaded = fl.load(path)
    assert loaded.predict(frame).tolist() == labels.predict(frame).tolist()
    assert loaded.feature_names_in_.tolist() == list("abcde")
    loaded.partial_fit(frame, ["w", "v", "u", "v"])
    fl.ContinualRidge(alpha=1.0).partial_fit(frame.to_numpy(np.float32), np.ones(4)).save(path)
    assert fl.load(path).coef_.dtype == np.float32


def test_fixed_parameters_cannot_change_before_saving_or_after_loading(tmp_path):
    X, y = tasks(0)[0]
    model = fl.ContinualRidge(alpha=1.0, fit_intercept=True, memory=3).partial_fit(X, y)
    model.save(tmp_path / "m.fl")
    for change in ({"fit_intercept": False}, {"memory": 4}, {"average": 2}, {"standardize": True}):
        other = fl.load(tmp_path / "m.fl").set_params(**change)
        with pytest.raises(ValueError, match=f"{next(iter(change))} was .* for the first task"):
            other.partial_fit(X, y)
        with pytest.raises(ValueError, match="for the first task"):
            other.save(tmp_path / "n.fl")
    assert not (tmp_path / "n.fl").exists()


def test_a_function_as_schedule_must_be_set_again(tmp_path):
    def rising(k, radius):
        return fl.Ridge(np.arange(1.0, k + 1))

    model = fl.ContinualRidge(schedule=rising, n_tasks=9).partial_fit(*tasks(0)[0])
    model.save(tmp_path / "m.fl")
    with pytest.warns(UserWarning, match=r"schedule=.*rising.* could not be stored; set it again"):
        other = fl.load(tmp_path / "m.fl")
    X, y = tasks(1)[0]
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    other.set_params(schedule=rising)
    np.testing.assert_array_equal(other.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)


def test_a_document_of_another_kind_is_not_a_model(tmp_path):
    write(tmp_path / "m.fl", Document("model", {"class": "os"}))
    with pytest.raises(fl.errors.FileError, match=r"m\.fl is damaged .* holds a os, which is none of ContinualGD"):
        fl.load(tmp_path / "m.fl")

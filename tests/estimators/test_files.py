"""Models in files: what comes back is what was saved, and what is damaged is refused."""

import json
import os
import pickle

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.estimators import files
from forgetless.estimators.files import held_rows, read

MODELS = [
    fl.ContinualRidge(0.3),
    fl.ContinualRidge(schedule="increasing", n_tasks=20, fit_intercept=True, loss="mean"),
    fl.ContinualRidge(schedule=fl.schedules.increasing(scale=0.5), n_tasks=20, holdout=0.3, random_state=3),
    fl.ContinualRidge(schedule="auto", fit_intercept=True),
    fl.ContinualRidge(0.3, rank=3),
    fl.ContinualRidge(0.3, rank=3, metric="diagonal", precision="float32", fit_intercept=True, forget=0.1),
    fl.ContinualRidge(schedule=fl.Ridge(np.arange(1.0, 21.0))),
    fl.ContinualRidge(schedule=fl.schedules.unregularized_first(fl.schedules.fixed()), n_tasks=20),
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
    other = type(model).load(tmp_path / "m.npz")
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
    model = fl.ContinualRidge(fit_intercept=True).partial_fit(rng.standard_normal((9, 4)), rng.standard_normal((9, 3)))
    model.save(tmp_path / "m.npz")
    assert fl.ContinualRidge.load(tmp_path / "m.npz")._state.coef.strides == model._state.coef.strides == (8, 24)


def test_classes_names_float32_and_sparse_held_out_rows_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "m.npz"
    frame = pandas.DataFrame(tasks(0)[0][0], columns=list("abcde"))
    labels = fl.ContinualRidgeClassifier().fit(frame, ["u", "v", "u", "v"])
    labels.save(path)
    loaded = fl.ContinualRidgeClassifier.load(path)
    assert loaded.predict(frame).tolist() == labels.predict(frame).tolist()
    assert loaded.feature_names_in_.tolist() == list("abcde")
    small = fl.ContinualRidge(holdout=0.4, random_state=0)
    for X, y in tasks(3):
        small.partial_fit(sparse.csr_array(X.astype(np.float32)), y)
    small.save(path)
    back = fl.ContinualRidge.load(path)
    assert back.coef_.dtype == np.float32
    assert back.seen_mse_ == small.seen_mse_


def test_a_loaded_model_cannot_change_what_is_fixed(tmp_path):
    X, y = tasks(0)[0]
    model = fl.ContinualRidge(fit_intercept=True, random_state=np.random.RandomState(0))
    model.partial_fit(X, y).save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="fit_intercept was True for the first task"):
        fl.ContinualRidge.load(tmp_path / "m.npz", fit_intercept=False)
    with pytest.raises(ValueError, match=r"holdout was 0\.0"):
        fl.ContinualRidge.load(tmp_path / "m.npz").set_params(holdout=0.9).partial_fit(X, y)


def test_a_function_as_schedule_must_be_given_again(tmp_path):
    def rising(k, radius):
        return fl.Ridge(np.arange(1.0, k + 1))

    model = fl.ContinualRidge(schedule=rising, n_tasks=9).partial_fit(*tasks(0)[0])
    model.save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=r"saved with schedule=.*give it again"):
        fl.ContinualRidge.load(tmp_path / "m.npz")
    other = fl.ContinualRidge.load(tmp_path / "m.npz", schedule=rising)
    X, y = tasks(1)[0]
    np.testing.assert_array_equal(other.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)
    with pytest.raises(TypeError, match="no parameter strength"):
        fl.ContinualRidge.load(tmp_path / "m.npz", strength=1)


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "m.npz"
    model = fl.ContinualRidge().partial_fit(*tasks(0)[0])
    model.save(path)
    first = path.read_bytes()
    model.partial_fit(*tasks(1)[0]).save(path)
    second = path.read_bytes()
    assert second != first
    replace = os.replace

    def failing(source, target):
        if str(target) == str(path):
            raise OSError("disk on fire")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="on fire"):
        model.partial_fit(*tasks(2)[0]).save(path)
    assert path.read_bytes() == second
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.npz"]


def test_links_and_modes(tmp_path):
    target, link = tmp_path / "real.npz", tmp_path / "link.npz"
    model = fl.ContinualRidge().partial_fit(*tasks(0)[0])
    model.save(target)
    target.chmod(0o600)
    link.symlink_to(target)
    model.partial_fit(*tasks(1)[0]).save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(fl.ContinualRidge.load(link).coef_, model.coef_)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.save(tmp_path / "nowhere" / "m.npz")


def test_damaged_truncated_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    fl.ContinualRidge().partial_fit(*tasks(0)[0]).save(path)
    content = path.read_bytes()
    with pytest.raises(FileNotFoundError, match="no model file"):
        fl.ContinualRidge.load(tmp_path / "other.npz")
    for cut in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(ValueError, match="damaged or not a model file"):
            fl.ContinualRidge.load(path)
    rng = np.random.default_rng(0)
    for _ in range(200):
        at, bit = int(rng.integers(len(content))), int(rng.integers(8))
        broken = bytearray(content)
        broken[at] ^= 1 << bit
        path.write_bytes(bytes(broken))
        try:
            loaded = fl.ContinualRidge.load(path)
        except ValueError:
            continue
        # A flipped bit may lie in a part of the archive that says nothing; then the model must be the same.
        path.write_bytes(content)
        np.testing.assert_array_equal(loaded.coef_, fl.ContinualRidge.load(path).coef_)
    np.savez(path, X=np.zeros(3))
    with pytest.raises(ValueError, match="not a forgetless model"):
        fl.ContinualRidge.load(path)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"holds a ContinualRidge, not a ContinualGD; use ContinualRidge\.load"):
        fl.ContinualGD.load(path)


def stored(folder):
    """Return the path of a saved model and its arrays, to be tampered with."""
    fl.ContinualRidge().partial_fit(*tasks(0)[0]).save(folder / "m.npz")
    with np.load(folder / "m.npz") as archive:
        return folder / "m.npz", {name: archive[name] for name in archive.files}


def test_changed_contents_and_newer_versions_are_refused(tmp_path):
    path, arrays = stored(tmp_path)
    np.savez(path, **{**arrays, "state.coef": arrays["state.coef"] + 1})
    with pytest.raises(ValueError, match="do not match their hash"):
        fl.ContinualRidge.load(path)
    header = json.loads(arrays["header"].tobytes())
    header["version"] = files.VERSION + 1
    np.savez(path, **{**arrays, "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)})
    with pytest.raises(ValueError, match="upgrade forgetless"):
        fl.ContinualRidge.load(path)


def test_files_without_a_hash_or_version_are_refused(tmp_path):
    path, arrays = stored(tmp_path)
    np.savez(path, **{name: value for name, value in arrays.items() if name != "sha256"})
    with pytest.raises(ValueError, match="do not match their hash"):
        fl.ContinualRidge.load(path)
    np.savez(path, header=np.frombuffer(b'{"format": "forgetless-model"}', dtype=np.uint8))
    with pytest.raises(ValueError, match="format version None"):
        fl.ContinualRidge.load(path)


def test_pickled_objects_are_never_loaded(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, header=np.array([{"format": "forgetless-model"}], dtype=object))
    with pytest.raises(ValueError, match="damaged or not a model file"):
        fl.ContinualRidge.load(path)


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        fl.ContinualRidge().save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_says_how_many_rows_of_data_it_holds(tmp_path, rng):
    X, y = rng.standard_normal((2, 10, 3)), rng.standard_normal((2, 10))
    for share, expected in ((0.0, 0), (0.3, 6)):
        model = fl.ContinualRidge(alpha=1.0, holdout=share, random_state=0)
        for A, b in zip(X, y, strict=True):
            model.partial_fit(A, b)
        model.save(tmp_path / "m.npz")
        assert held_rows(read(tmp_path / "m.npz")[1]) == expected

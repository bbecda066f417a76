"""Models in files: they go on as if they had never stopped; damaged and forged files raise FileError or do no harm."""

import copy
import operator
import warnings
from collections import Counter
from functools import reduce

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import forgetless as fl
from forgetless.errors import FileError
from forgetless.io import read, write
from support.campaigns import SEED, seed_for

MODELS = {
    "default": fl.StreamingRidge(),
    "adaptive": fl.StreamingRidge(adaptive=True),
    "rank": fl.StreamingRidge(rank=2),
    "joint": fl.StreamingRidge(0.2, standardize=False, fit_intercept=False),
    "classes": fl.StreamingRidgeClassifier(),
    "class rank": fl.StreamingRidgeClassifier(rank=2),
    "logistic": fl.StreamingLogistic(),
    "ridge": fl.ContinualRidge(0.3, fit_intercept=True),
    "schedule": fl.ContinualRidge(schedule=fl.schedules.increasing(scale=0.5), n_tasks=99),
    "listed": fl.ContinualRidge(schedule=fl.schedules.from_coefficients(np.arange(1.0, 21.0))),
    "filter": fl.ContinualRidge(schedule=fl.Ridge(np.arange(1.0, 21.0))),
    "name": fl.ContinualRidge(schedule="increasing", n_tasks=99),
    "average": fl.ContinualRidge(alpha=1.0, average=2, fit_intercept=True),
    "budget": fl.ContinualGD(schedule=fl.schedules.increasing_budget(3), n_tasks=99),
    "steps": fl.ContinualGD(3),
}


def tasks(seed, targets=()):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((4, 3)), rng.standard_normal((4, *targets))) for _ in range(4)]


def labelled(model, y):
    return (np.where(y > 0, "u", "v"), ["u", "v"]) if is_classifier(model) else (y,)


def learned(name, targets=()):
    model = clone(MODELS[name])
    for X, y in tasks(0, targets):
        model.partial_fit(X, *labelled(model, y))
    return model


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The bytes of one file of every kind, by name."""
    path = tmp_path_factory.mktemp("models") / "m"
    contents = {}
    for name in MODELS:
        learned(name).save(path)
        contents[name] = path.read_bytes()
    return contents


@pytest.mark.parametrize("targets", [(), (2,)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_goes_on_as_if_it_had_never_stopped(tmp_path, name, targets):
    if targets and is_classifier(MODELS[name]):
        targets = ()
    model = learned(name, targets)
    model.save(tmp_path / "m")
    other = fl.load(tmp_path / "m")
    assert repr(other) == repr(model)
    model = copy.deepcopy(model)  # which learns rows that wait, as a file does
    for X, y in tasks(1, targets):
        np.testing.assert_array_equal(model.predict(X), other.predict(X))
        for each in (model, other):
            each.partial_fit(X, *labelled(model, y)[:1])
        np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
    assert getattr(other, "prequential_mse_", 0) == getattr(model, "prequential_mse_", 0)


DATES = np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]").tolist()


@pytest.mark.parametrize("labels", [[1.0, 2.0], [False, True], ["v", "ü"], [3, 7], DATES], ids=str)
def test_labels_of_all_kinds_come_back(tmp_path, labels):
    model = fl.StreamingRidgeClassifier().fit(np.eye(2), np.array(labels, dtype="M8[D]" if labels is DATES else None))
    model.save(tmp_path / "m")
    back = fl.load(tmp_path / "m")
    assert back.predict(np.eye(2)).tolist() == labels
    assert back.classes_.dtype == model.classes_.dtype


def test_names_of_features_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(tasks(0)[0][0], columns=["a", "ä", "\x1b"])
    fl.StreamingRidge().partial_fit(frame, np.ones(4)).save(tmp_path / "m")
    assert fl.load(tmp_path / "m").feature_names_in_.tolist() == ["a", "ä", "\x1b"]


def test_what_is_not_saved(tmp_path):
    def rising(k, radius):
        return fl.Ridge(np.arange(1.0, k + 1))

    with pytest.raises(ValueError, match="not fitted"):
        fl.ContinualRidge(alpha=1.0).save(tmp_path / "m")
    model = fl.ContinualRidge(schedule=rising, n_tasks=9).partial_fit(*tasks(0)[0])
    with pytest.raises(TypeError, match=r"rising.* cannot be stored in a file"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_rows_that_wait_are_stored_as_learned(tmp_path):
    rng = np.random.default_rng(0)
    model = fl.StreamingRidge().partial_fit(rng.standard_normal((500, 3)), rng.standard_normal(500))
    model.partial_fit(rng.standard_normal((2, 3)), rng.standard_normal(2))
    model.save(tmp_path / "m")
    assert fl.load(tmp_path / "m").rows_.n == 502
    np.testing.assert_array_equal(fl.load(tmp_path / "m").coef_, model.coef_)


@np.errstate(all="ignore")
def outcome_of(path):
    """Load a model and use it; return the outcome."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = fl.load(path)
        except FileError:
            return "rejected"
        X, y = tasks(1)[0]
        before = model.coef_.copy()
        try:
            assert len(model.predict(X)) == 4
            model.partial_fit(X, *labelled(model, y)[:1])
        # Weights of 1e300, say, 2⁴⁰ tasks, or a word for a number; nothing has changed.
        except Exception:
            np.testing.assert_array_equal(model.coef_, before)
            return "loaded, then learning rejected"
    return "loaded and learned"


def distortions(array):
    """Yield arrays that a file can hold, similar to one but wrong in dtype, shape or values."""
    yield array.astype(np.float64 if array.dtype == np.float32 else np.float32)
    yield array[None]
    yield array.reshape(-1)[:0]
    yield array.reshape(-1)[:-1]
    yield np.concatenate([array.reshape(-1)] * 2)
    if array.dtype.kind in "iuf":
        for value in (-1, 0, 1, 2**31 - 1, 2**62):  # 2³¹ steps of a schedule must be refused
            yield np.full_like(array, value, dtype=np.int64 if array.dtype.kind == "i" else np.float64)
        for value in (np.nan, -np.inf, 1e300):
            yield np.full(array.shape, value)
    yield np.zeros(array.shape, dtype=bool)
    yield np.zeros(array.shape, dtype=np.uint8)


@pytest.mark.parametrize("tries", [150, pytest.param(10_000, marks=pytest.mark.long)])
def test_forged_arrays_with_a_valid_checksum_do_no_harm(stored, tmp_path, tries, campaign):
    rng = np.random.default_rng(seed_for(tries))
    counts = Counter()
    path = tmp_path / "m"
    names = list(stored)
    for number in range(tries):
        path.write_bytes(stored[names[number % len(names)]])
        kind, header, arrays, _ = read(path)
        for _ in range(int(rng.integers(1, 3))):
            name = str(rng.choice(sorted(arrays)))  # safetensors gives them in any order
            with np.errstate(all="ignore"):
                choice = list(distortions(arrays[name]))
            at = int(rng.integers(-2, len(choice)))
            if at < 0:
                arrays[("more.", "")[at] + name] = arrays.pop(name)  # missing, or unchanged
            else:
                arrays[name] = choice[at]
        write(path, kind, header, arrays)
        counts[outcome_of(path)] += 1
    assert counts["rejected"] > tries / 3
    campaign(f"seed {SEED}: {tries} forged model files: {dict(counts)}, 0 crashes")


@pytest.mark.parametrize("name", ["ridge", "class rank"])
def test_numbers_that_are_not_finite_are_refused(stored, tmp_path, name):
    path = tmp_path / "m"
    path.write_bytes(stored[name])
    kind, header, arrays, _ = read(path)
    for place, array in arrays.items():
        write(path, kind, header, {**arrays, place: np.full_like(array, np.nan)})
        with pytest.raises(FileError, match=r"m is damaged .* is not finite"):
            fl.load(path)


def places(value, place=()):
    """Yield where every part of a header stands."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*place, key)
        yield from places(part, (*place, key))


@pytest.mark.parametrize("name", ["class rank", "schedule"])
def test_forged_headers_with_a_valid_checksum_do_no_harm(stored, tmp_path, name):
    """Every part is replaced by something else; names of classes are always refused."""
    path = tmp_path / "m"
    path.write_bytes(stored[name])
    kind, header, arrays, _ = read(path)
    counts = Counter()
    for *above, last in list(places(header)):
        for value in (None, "os", [], -1):
            forged = copy.deepcopy(header)
            part = reduce(operator.getitem, above, forged)
            part[last] = value
            write(path, kind, forged, arrays)
            outcome = outcome_of(path)
            assert outcome == "rejected" or not isinstance(value, str) or last not in ("model", "type", "schedule")
            counts[outcome] += 1
    assert counts["rejected"] > 0.6 * counts.total()

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
    yield array[None]
    yield array.reshape(-1)[:0]
    yield array.reshape(-1)[:-1]
    yield np.concatenate([array.reshape(-1)] * 2)
    for value in (-1, 0, 1, 2**62, 1e300, np.nan, -np.inf):
        yield np.full(array.shape, value, dtype=np.float64)
    for dtype in (np.float32, np.int64, np.uint8, bool):
        yield np.ones(array.shape, dtype)


def places(value, place=()):
    """Yield where every part of a header stands."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*place, key)
        yield from places(part, (*place, key))


def forgeries(header, arrays):
    """Yield a header and arrays of which one part is something else, and whether that must be noticed.

    Names of classes must be, numbers that are not finite, and arrays that are missing or too many.
    """
    for *above, last in list(places(header)):
        for value in (None, "os"):
            forged = copy.deepcopy(header)
            reduce(operator.getitem, above, forged)[last] = value
            yield forged, arrays, value == "os" and last in ("model", "type", "schedule")
    for place, array in arrays.items():
        rest = {name: other for name, other in arrays.items() if name != place}
        yield header, rest, True
        yield header, {**arrays, f"more.{place}": array}, True
        for value in distortions(array):
            yield header, {**rest, place: value}, not np.isfinite(value).all()


OFTEN = ("class rank", "schedule")
NAMES = [pytest.param(name, marks=[pytest.mark.long] * (name not in OFTEN)) for name in MODELS]


@pytest.mark.parametrize("name", NAMES)
def test_forged_files_with_a_valid_checksum_do_no_harm(stored, tmp_path, name):
    path = tmp_path / "m"
    path.write_bytes(stored[name])
    kind, header, arrays, _ = read(path)
    counts = Counter()
    for *content, is_noticed in forgeries(header, arrays):
        write(path, kind, *content)
        outcome = outcome_of(path)
        assert outcome == "rejected" or not is_noticed, content
        counts[outcome] += 1
    assert counts["rejected"] > 0.6 * counts.total()

"""``fl.tables.TableEncoder``: what each kind of column becomes, task by task, in every table library, and in files."""

import datetime
import hashlib
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils.estimator_checks import check_estimator

import forgetless as fl
from support.tables import LIBRARIES

TABLE = {
    "price": [1.5, None, 3.0, math.inf],
    "sold": [True, False, True, True],
    "town": ["Ulm", "Bonn", None, "Ulm"],
    "day": [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 6, 6), None, datetime.datetime(2024, 12, 31)],
    "nothing": [None, None, None, None],
}


def by_name(encoder, table):
    made = encoder.transform(table)
    made = made.toarray() if hasattr(made, "toarray") else made
    return dict(zip(encoder.get_feature_names_out().tolist(), made.T.tolist(), strict=True))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_kind_of_column_becomes_what_the_page_says(library):
    table = LIBRARIES[library](TABLE)
    encoder = fl.tables.TableEncoder(min_count=1).partial_fit(table)
    found = by_name(encoder, table)
    mean = (1.5 + 3.0) / 2
    assert found["price"] == [1.5, mean, 3.0, mean]
    assert found["price is missing"] == [0, 1, 0, 1]  # an infinite number counts as missing
    assert found["sold"] == [1, 0, 1, 1]
    assert (found["town=Ulm"], found["town=Bonn"], found["town is missing"]) == (
        [1, 0, 0, 1],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
    )
    assert found["day Mon"] == [1, 0, 0, 0]
    assert found["day Tue"] == [0, 0, 0, 1]
    assert found["day Sat"] == [0, 1, 0, 0]
    np.testing.assert_allclose(np.array(found["day trend"])[[0, 1, 3]] * 365.25, [0, 5.25, 365], rtol=1e-12)
    np.testing.assert_allclose(found["day hour sin"], [0, 1, 0, 0], atol=1e-12)
    assert "day year sin" in found
    assert not any(name.startswith("nothing") for name in found)
    assert encoder.n_features_in_ == 5


def test_the_summary_says_what_became_of_each_column():
    told = fl.tables.TableEncoder(min_count=2, drop=["sold"]).fit(TABLE).summary()
    assert told.columns["taken for"] == ["number", "category", "date", "empty", "left out"]
    assert told.columns["note"][0] == "2 missing, filled with the mean 2.25, 1 of them infinite"
    assert told.columns["note"][1] == "1 categories, 1 rows of rare ones together, 1 missing"
    assert told.columns["note"][3] == "no value so far"


def test_features_keep_their_places_and_new_ones_come_behind():
    encoder = fl.tables.TableEncoder(min_count=2)
    encoder.partial_fit({"town": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
    first = encoder.get_feature_names_out().tolist()
    assert first == ["town=a", "town=(other)", "x"]
    encoder.partial_fit({"town": ["b", "c", None], "x": [1.0, None, 3.0]})
    names = encoder.get_feature_names_out().tolist()
    assert names == [*first, "town=b", "town is missing", "x is missing"]  # b has now come twice
    found = by_name(encoder, {"town": ["a", "b", "new", None], "x": [None, 1.0, 1.0, 1.0]})
    assert found["town=(other)"] == [0, 0, 1, 0]
    assert found["x"][0] == 2.0  # the mean of 1, 2, 3, 1, 3


def test_categories_beyond_the_limit_are_hashed():
    encoder = fl.tables.TableEncoder(max_categories=3, min_count=1, n_buckets=4)
    encoder.partial_fit({"id": [f"customer {i}" for i in range(50)]})
    names = encoder.get_feature_names_out().tolist()
    assert names == ["id=customer 0", "id=customer 1", "id=customer 2", "id#0", "id#1", "id#2", "id#3"]
    X = encoder.transform({"id": ["customer 1", "customer 40", "customer 9999"]})
    assert X.sum(axis=1).tolist() == [1, 1, 1]
    assert X[1:, 3:].sum() == 2
    assert encoder.partial_fit({"id": ["customer 77"] * 9}).get_feature_names_out().tolist() == names


def test_a_hash_bucket_is_the_same_on_every_machine():
    """A model in a file must find the buckets again: a 64-bit BLAKE2b digest, modulo their number."""
    encoder = fl.tables.TableEncoder(max_categories=1, min_count=1, n_buckets=32)
    encoder.partial_fit({"town": ["Ulm", "Bonn"]})
    labels = ["Bonn", "Jena", "Köln", "名前"]
    buckets = [int(hashlib.blake2b(label.encode(), digest_size=8).hexdigest(), 16) % 32 for label in labels]
    features = encoder.transform({"town": labels})
    assert features.argmax(axis=1).tolist() == [1 + bucket for bucket in buckets]
    np.testing.assert_array_equal(features.sum(axis=1), 1.0)


def test_texts_are_those_of_scikit_learns_hashing_of_words_and_pairs():
    texts = ["one two three four", "four three two one", "one"]
    encoder = fl.tables.TableEncoder(text=["note"], text_features=64).partial_fit({"note": texts})
    expected = HashingVectorizer(n_features=64, ngram_range=(1, 2)).transform(texts).toarray()
    np.testing.assert_allclose(encoder.transform({"note": texts}).toarray(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "format"),
    [
        (["2024-02-01", "2024-02-03T12:00:00+02:00"], "ISO 8601"),
        (["1.2.2024", "13.2.2024"], "%d.%m.%Y"),
        (["2/1/2024 10:00", "2/13/2024 11:30"], "%m/%d/%Y %H:%M"),
        (["2024-02", "2024-03"], "%Y-%m"),
    ],
)
def test_words_that_are_dates_are_read_as_such(words, format):
    encoder = fl.tables.TableEncoder().fit({"day": words})
    assert encoder.columns_["day"].format == format
    with pytest.raises(ValueError, match=r"column 'day' was dates so far .* and now holds 'soon'"):
        encoder.partial_fit({"day": ["soon"]})


def test_declared_columns_are_taken_for_what_they_are_declared():
    encoder = fl.tables.TableEncoder(categorical=["code"], date=["day"], min_count=1).fit(
        {"code": [3, 7], "day": [20240101, 20240102]}
    )
    assert encoder.get_feature_names_out().tolist()[:3] == ["code=3", "code=7", "day trend"]
    assert by_name(encoder, {"code": [7], "day": [20240103]})["day Wed"] == [1]


def test_a_column_without_values_becomes_one_when_they_come():
    encoder = fl.tables.TableEncoder().partial_fit({"x": [None, None], "y": [1, 2]})
    assert encoder.get_feature_names_out().tolist() == ["y"]
    assert encoder.partial_fit({"x": [5.0, None], "y": [1, 2]}).get_feature_names_out().tolist() == [
        "y",
        "x",
        "x is missing",
    ]


def test_mixed_values_are_words_and_lists_are_refused():
    assert fl.tables.TableEncoder(min_count=1).fit({"m": [1, "a", None]}).get_feature_names_out().tolist() == [
        "m=1",
        "m=a",
        "m is missing",
    ]
    with pytest.raises(TypeError, match="column 'l' holds a list"):
        fl.tables.TableEncoder().fit({"l": [[1], [2]]})


def test_what_does_not_fit_is_refused_and_nothing_is_learned():
    encoder = fl.tables.TableEncoder().fit({"x": [1.0], "town": ["a"]})
    before = encoder.to_plain()
    with pytest.raises(ValueError, match=r"X lacks 1 of the 2 columns known so far, e.g. 'town'"):
        encoder.partial_fit({"x": [1.0]})
    with pytest.raises(ValueError, match="column 'x' was numbers so far and now holds 'many'"):
        encoder.partial_fit({"x": ["many"], "town": ["b"]})
    with pytest.raises(ValueError, match="X has no rows"):
        encoder.partial_fit({"x": [], "town": []})
    with pytest.raises(ValueError, match="column 'x' has missing or infinite values"):
        fl.tables.TableEncoder(impute="error").fit({"x": [math.nan, 1.0]})
    with pytest.raises(ValueError, match="column 'x' is named in categorical and in drop"):
        fl.tables.TableEncoder(categorical=["x"], drop=["x"]).fit({"x": [1.0]})
    with pytest.raises(TypeError, match="drop must be a list of names"):
        fl.tables.TableEncoder(drop="x").fit({"x": [1.0]})
    with pytest.raises(ValueError, match="no column 'z'; it has x"):
        fl.tables.TableEncoder(text=["z"]).fit({"x": [1.0]})
    assert encoder.to_plain() == before
    assert encoder.transform({"x": ["2.5"], "town": ["a"], "more": [1]}).tolist() == [[2.5, 1.0]]


def test_parameters_are_scikit_learns():
    encoder = fl.tables.TableEncoder(min_count=3, drop=["x"])
    assert clone(encoder).get_params() == encoder.get_params()
    array = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert fl.tables.TableEncoder().fit_transform(array).tolist() == [[1, 2, 0], [3, 2, 1]]


def test_all_checks_of_scikit_learn_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke warnings of their own
        results = check_estimator(fl.tables.TableEncoder(), on_skip=None, on_fail=None)
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
    assert sum(result["status"] == "passed" for result in results) >= 30


VALUES = st.one_of(st.none(), st.floats(), st.text(max_size=4), st.booleans(), st.integers(-9, 9))


@settings(max_examples=60)
@given(tasks=st.lists(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_table_gives_finite_features_that_a_file_keeps(tasks):
    encoder = fl.tables.TableEncoder(min_count=2, max_categories=3, categorical=["a"])
    for task in tasks:
        a, b = zip(*task, strict=True)
        try:
            encoder.partial_fit({"a": list(a), "b": list(b)})
        except ValueError:  # b was of another kind in an earlier task
            return
        X = encoder.transform({"a": list(a), "b": list(b)})
        assert np.all(np.isfinite(X))
        back = fl.tables.TableEncoder.from_plain(json.loads(json.dumps(encoder.to_plain())))
        assert back.transform({"a": list(a), "b": list(b)}).tolist() == X.tolist()
        assert back.to_plain() == encoder.to_plain()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda plain: plain.pop("order"),
        lambda plain: plain["order"].append(["town", 0]),
        lambda plain: plain["order"].reverse(),
        lambda plain: plain["columns"][2][1].update(buckets=0),
        lambda plain: plain["columns"][2][1].update(kind="code"),
        lambda plain: plain["columns"][2][1].update(parts=["=a", "=a"]),
        lambda plain: plain["columns"][0][1].update(mean="much"),
        lambda plain: plain["columns"][0][1].update(count=-1),
        lambda plain: plain["columns"][1][1].update(late=True),  # it has no indicator of missing values
        lambda plain: plain["columns"][2][1].update(pending={"a": -1}),
        lambda plain: plain["columns"][2][1].update(pending={"a": 1.5}),
        lambda plain: plain["columns"][2][1].update(pending={"a": "1"}),
        lambda plain: plain["parameters"].update(impute="magic"),
        lambda plain: plain["parameters"].update(more=1),
    ],
)
def test_a_spoiled_encoder_is_refused(spoil):
    plain = json.loads(json.dumps(fl.tables.TableEncoder(min_count=1).fit(TABLE).to_plain()))
    spoil(plain)
    with pytest.raises((ValueError, TypeError)):
        fl.tables.TableEncoder.from_plain(plain)

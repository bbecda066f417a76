"""Columns that are rarely tried: names the encoder uses itself, decimals, durations, far dates, tables as outputs."""

import datetime
import json
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn

import forgetless as fl
from forgetless._core.frames import columns_of, values_of


def again(encoder):
    return fl.tables.TableEncoder.from_plain(json.loads(json.dumps(encoder.to_plain())))


@pytest.mark.parametrize("first", ["often", "rare"])
def test_a_category_may_have_the_name_of_all_others(first):
    words = {"often": ["(other)"] * 6 + ["a"] * 6 + ["b"], "rare": ["b"] + ["a"] * 6 + ["(other)"] * 6}[first]
    encoder = fl.tables.TableEncoder().partial_fit({"c": words})
    assert sorted(encoder.get_feature_names_out()) == ["c=(other)", "c=a"]
    assert again(encoder).transform({"c": ["(other)", "a", "b"]}).sum(axis=1).tolist() == [1.0, 1.0, 1.0]


def test_decimals_and_durations_are_numbers():
    table = {
        "price": [Decimal("1.5"), None, Decimal("2.5")],
        "took": [datetime.timedelta(minutes=1), None, pd.Timedelta("1 hour")],
    }
    for given in (table, pd.DataFrame(table), pa.table(table)):
        encoder = fl.tables.TableEncoder().partial_fit(given)
        assert [column.kind for column in encoder.columns_.values()] == ["number", "number"]
        np.testing.assert_allclose(encoder.transform(given)[:, [0, 2]], [[1.5, 60.0], [2.0, 1830.0], [2.5, 3600.0]])


def test_integers_that_floats_do_not_tell_apart():
    codes = 2**53 + np.arange(3)
    for given in ({"id": codes}, {"id": codes.tolist()}, pd.DataFrame({"id": codes}), pa.table({"id": codes})):
        encoder = fl.tables.TableEncoder(categorical=["id"], min_count=1).partial_fit(given)
        assert encoder.get_feature_names_out().tolist() == [f"id={code}" for code in codes]
        np.testing.assert_array_equal(encoder.transform(given), np.eye(3))
        assert fl.tables.TableEncoder().partial_fit(given).transform(given).shape == (3, 1)
    sixteen = fl.tables.TableEncoder(categorical=["id"], min_count=1).partial_fit({"id": [1234567890123456.0, None]})
    assert sixteen.get_feature_names_out()[0] == "id=1234567890123456"


def test_dates_beyond_pythons_are_told():
    encoder = fl.tables.TableEncoder().partial_fit(
        {"d": np.array(["20000-01-01", "2000-01-01"], dtype="datetime64[s]")}
    )
    assert encoder.summary().columns["note"] == ["2000-01-01 to year 20000"]


@pytest.mark.parametrize("everywhere", [True, False])
def test_tables_between_the_steps_grow_with_their_names(tmp_path, everywhere):
    first = pd.DataFrame({"town": ["Ulm", "Bonn"] * 10, "size": np.arange(20.0)})
    later = first.assign(town="Jena")
    with sklearn.config_context(transform_output="pandas" if everywhere else "default"):
        encoder = fl.tables.TableEncoder() if everywhere else fl.tables.TableEncoder().set_output(transform="pandas")
        model = fl.tables.make_pipeline(encoder, fl.StreamingRidge(alpha=1.0, rank=5))
        model.partial_fit(first, first["size"]).partial_fit(later, later["size"])
        assert model[-1].feature_names_in_.tolist() == ["town=Ulm", "town=Bonn", "size", "town=Jena"]
        found = model.predict(later)
    plain = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge(alpha=1.0, rank=5))
    plain.partial_fit(first, first["size"]).partial_fit(later, later["size"])
    np.testing.assert_array_equal(found, plain.predict(later))
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(fl.load(tmp_path / "m.npz").predict(later), found)  # without a warning


def test_numbers_far_from_zero_are_learned_beside_texts():
    def error(text):
        rng = np.random.default_rng(0)
        kept = ["price"] + ["note"] * text
        model = fl.tables.make_pipeline(
            fl.tables.TableEncoder(text=["note"] * text),
            fl.StreamingRidge(),
        )
        for _ in range(6):
            price = 1e6 + rng.standard_normal(100)
            table = pd.DataFrame({"price": price, "note": rng.choice(["good thing", "bad thing"], 100)})
            model.partial_fit(table[kept], 5 * (price - 1e6))
        return float(np.mean((model.predict(table[kept]) - 5 * (price - 1e6)) ** 2))

    assert error(text=True) < 0.01
    assert error(text=False) < 0.01


def test_many_numbers_are_dense_and_many_categories_are_not():
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.standard_normal((3, 2100)), columns=[f"x{i}" for i in range(2100)])
    assert isinstance(fl.tables.TableEncoder().fit_transform(numbers), np.ndarray)
    words = {"c": [f"k{i}" for i in range(2100)]}
    assert not isinstance(fl.tables.TableEncoder(min_count=1, max_categories=3000).fit_transform(words), np.ndarray)


@pytest.mark.parametrize("names", [[0, 1], [("a", "b"), ("a", "c")], [pd.Timestamp("2024-01-01"), 1.5]])
def test_names_of_columns_need_not_be_words(names):
    table = pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]})
    table.columns = pd.Index(names, tupleize_cols=True)
    encoder = fl.tables.TableEncoder(min_count=1).partial_fit(table)
    assert encoder.feature_names_in_.tolist() == [str(name) for name in names]
    assert again(encoder).transform(table).tolist() == [[1.0, 1.0, 0.0], [2.0, 0.0, 1.0]]


def test_a_task_is_no_target():
    with pytest.raises(ValueError, match="task and target must be different columns, got 't' for both"):
        fl.TaskCollection.from_table({"t": [1, 2], "x": [1.0, 2.0]}, "t", "t")


def test_seasons_that_come_late_leave_earlier_rows_as_they_were_learned():
    """Once most of a year was seen dates tell the season; those before are encoded as they were, and mean the same."""
    days = [np.datetime64("2024-01-01") + np.arange(low, low + 40) for low in range(0, 360, 40)]
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge(alpha=1e-3, fit_intercept=True))
    for each in days[:7]:
        model.partial_fit({"day": each}, np.cos(np.arange(40)))
    first = model[0].transform({"day": days[0]})
    model.partial_fit({"day": days[7]}, np.cos(np.arange(40)))
    later = model[0].transform({"day": days[0]})
    assert later.shape[1] == first.shape[1] + 2
    np.testing.assert_array_equal(later[:, : first.shape[1]], first)
    np.testing.assert_array_equal(later[:, first.shape[1] :], 0.0)
    assert np.all(model[0].transform({"day": days[7]})[:, first.shape[1] :] != 0.0)
    whole = fl.tables.TableEncoder().fit(
        {"day": np.concatenate(days)}
    )  # where the first task shows a year, all of it has seasons
    assert np.all(np.abs(whole.transform({"day": days[0]})[:, -2:]).sum(axis=1) > 0)


@pytest.mark.parametrize("arrow", [True, False])
def test_missing_strings_of_object_columns_are_missing(arrow, monkeypatch):
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = pd.DataFrame({"town": pd.Series(["Ulm", None, float("nan"), "Bonn"], dtype=object)})
    values = values_of(columns_of(table)["town"], "town")
    assert (list(values.labels), values.codes.tolist()) == (["Ulm", "Bonn"], [0, -1, -1, 1])

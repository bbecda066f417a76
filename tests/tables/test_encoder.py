"""Features of tables: kinds, gaps, columns and labels that come later, identifiers, files."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from forgetless.estimators.inputs import Linear
from forgetless.estimators.rows import Rows
from forgetless.tables import TableEncoder, TableModel
from forgetless.tables.values import columns_of

MONTHS = [
    {"size": [1.0, None, 3.0], "town": ["Ulm", "Bonn", "Ulm"], "day": ["2024-01-01", "2024-01-02", "2024-01-07"]},
    {"size": [4.0, 8.0, 6.0], "town": ["Köln", "Bonn", None], "day": ["2024-02-01", "2024-02-02", None]},
    {"size": [5.0], "town": ["Trier"], "day": ["2025-01-01"], "rain": [7.0]},
]


def learned(*tables, **options):
    encoder = TableEncoder(**options)
    for table in tables:
        encoder.partial_fit(table)
    return encoder


def features(encoder, table):
    return dict(zip(encoder.get_feature_names_out(), encoder.transform(table).T, strict=True))


def test_numbers_categories_dates_and_gaps():
    encoder = learned(MONTHS[0])
    found = features(encoder, MONTHS[0])
    assert found["size"].tolist() == [1.0, 2.0, 3.0]  # the mean of what is there
    assert found["size is missing"].tolist() == [0, 1, 0]
    assert found["town=Ulm"].tolist() == [1, 0, 1]
    assert found["town=Bonn"].tolist() == [0, 1, 0]
    np.testing.assert_allclose(found["day trend"], np.array([0, 1, 6]) / 365.25)
    assert found["day Mon"].tolist() == [1, 0, 0]  # 2024-01-01 was a Monday
    assert found["day Tue"].tolist() == [0, 1, 0]
    assert found["day Sun"].tolist() == [0, 0, 1]
    assert len(found) == 2 + 2 + 8


@pytest.mark.parametrize("upto", [1, 2])
def test_later_features_are_appended_and_were_zero_before(upto):
    """What a model may rely on when it widens."""
    names = learned(*MONTHS[:upto]).get_feature_names_out().tolist()
    after = learned(*MONTHS)
    assert after.get_feature_names_out().tolist()[: len(names)] == names
    for table in MONTHS[:upto]:
        new = list(features(after, table).items())[len(names) :]
        assert not any(values.any() for name, values in new if "is missing" not in name)


def test_a_column_that_comes_later_is_zero_where_it_has_no_value():
    found = features(learned(*MONTHS), MONTHS[0])
    assert not found["rain"].any()
    assert not found["rain is present"].any()
    late = {"rain": [7.0, 9.0, None], "size": [1.0, 1.0, 1.0]}
    found = features(learned(*MONTHS), late)
    assert found["rain"].tolist() == [0.0, 2.0, 0.0]  # centred on the first rows
    assert found["rain is present"].tolist() == [1, 1, 0]
    empty = learned({"a": [1.0, 2.0], "b": [None, None]}, {"a": [1.0], "b": ["x"]})  # begins with its first value
    assert empty.get_feature_names_out().tolist() == ["a", "b is present", "b=x"]


def test_missing_columns_are_missing_values_and_unknown_ones_are_ignored():
    encoder = learned(*MONTHS)
    found = features(encoder, {"town": ["Ulm"], "other": [1]})
    assert found["town=Ulm"].tolist() == [1]
    assert found["size is missing"].tolist() == [1]
    # Five values, of which one is missing.
    assert found["size"] == pytest.approx(np.mean([1, 3, 4, 8, 6, 5]))
    size = encoder.columns_["size"]
    assert (size.count, size.mean, size.squares) == pytest.approx((6, 4.5, 6 * np.var([1, 3, 4, 8, 6, 5])))
    assert found["day trend"] * 365.25 == pytest.approx(np.mean([0, 1, 6, 31, 32, 366]))
    assert not any(found[f"day {day}"] for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))


def test_unknown_labels_have_no_feature_until_there_are_too_many():
    encoder = learned({"c": ["a", "b", "c"]}, max_categories=2)
    names = encoder.get_feature_names_out().tolist()
    assert names[:2] == ["c=a", "c=b"]
    assert names[2:] == [f"c#{i}" for i in range(32)]
    rows = encoder.transform({"c": ["a", "c", "new"]})
    assert (rows.sum(axis=1) == 1).all()
    assert rows[0, 0] == rows[1, 2:].sum() == rows[2, 2:].sum() == 1
    assert len(learned({"c": [f"c{i}" for i in range(30)]}, max_categories=2).columns_["c"].counts) == 20
    assert not learned({"c": ["a"]}).transform({"c": ["new"]}).any()


def test_numbers_are_codes_where_they_begin_with_zero_or_are_declared():
    encoder = learned({"zip": ["01234", "99999"], "shop": [7, 8]}, categorical=["shop"])
    names = encoder.get_feature_names_out().tolist()
    assert names == ["zip=01234", "zip=99999", "shop=7", "shop=8"]
    assert encoder.text_columns == ["zip", "shop"]
    assert encoder.transform({"zip": ["99999"], "shop": ["7"]}).tolist() == [[0, 1, 1, 0]]


def test_waves_of_the_day_and_of_the_year_grow():
    encoder = learned({"t": ["2024-01-01 06:00", "2024-01-02 18:00"]}, {"t": ["2024-12-31 00:00"]})
    found = features(encoder, {"t": ["2025-04-01 06:00", "2024-01-01 06:00", "2024-01-02 18:00"]})
    assert found["t hour sin"] == pytest.approx([1.0, 1.0, -1.0])
    assert found["t year sin"][0] == pytest.approx(1.0, abs=0.01)
    assert not found["t year sin"][1:].any()  # of rows before the wave was learned
    for day in ("2024-10-27", "2024-10-28"):  # after 300 days there is none, after 301 there is one
        assert ("t year sin" in features(learned({"t": ["2024-01-01", day]}), {"t": [day]})) == (day[-1] == "8")


@pytest.mark.parametrize("ids", [[3, 1, 2, 5, 4], [30_000, 10_000, 20_000, 50_000, 40_000]])
def test_integers_that_come_once_in_every_task_identify_units(ids):
    first = {"firm": ids, "x": [1.0, 2.0, 3.0, 4.0, 5.0]}
    second = {"firm": ids[::-1], "x": [2.0, 2.5, 3.0, 3.5, 4.0]}
    encoder = learned(first, second)
    assert encoder.get_feature_names_out().tolist() == ["firm", "x", *(f"firm={each}" for each in ids[::-1])]
    assert len({*encoder.transform(first)[:, 0]}) == 1  # no number any more
    (note,) = encoder.notes_
    assert "firm: integers that occur once a task" in note
    assert "--number firm" in note
    late = learned({"x": [1.0]}, first, second)
    assert not features(late, second)["firm"].any()  # the number of a late column is its distance from the mean
    kept = learned(first, second, number=["firm"])
    assert kept.get_feature_names_out().tolist() == ["firm", "x"]


OTHERS = {
    "others": [6, 7, 8, 9, 10],
    "repeated": [1, 1, 2, 3, 4, 5],
    "decimals": [1.5, 2.0, 3.0, 4.0, 5.0],
    "half": [1, 2, 3, 9, 8],
    "a sixth": [1, 2, 3, 4, 5, 6],
    "few": [1, 2, 3, 4],
    "one": [None, None, 1],
    "text": ["1", "2", "3", "4", "5"],
}


@pytest.mark.parametrize("second", OTHERS.values(), ids=OTHERS.keys())
def test_other_numbers_stay_numbers(second):
    encoder = learned({"n": [1, 2, 3, 4, 5]}, {"n": second})
    assert not any("=" in name for name in encoder.get_feature_names_out())
    assert not encoder.notes_


def test_how_many_rows_show_identifiers_and_names():
    for n, new, is_shown in ((10, 1, True), (10, 2, False), (5, 0, True), (4, 0, False), (10_001, 0, False)):
        assert bool(learned({"n": range(n)}, {"n": range(new, n + new)}).notes_) == is_shown, (n, new)
    for n, n_distinct, is_shown in ((16, 16, True), (15, 15, False), (20, 17, True), (20, 16, False)):
        names = [f"name {min(i, n_distinct - 1)}" for i in range(n)]
        tables = [{"name": [*part, None]} for part in (names[:7], names[7:])]
        assert bool(learned(*tables).notes_) == is_shown, (n, n_distinct)


def test_rare_labels_stand_in_a_file_as_hashes():
    encoder = learned({"name": ["Ada"] * 4 + ["Bob"] * 5})
    plain = json.dumps(encoder.to_plain())
    assert "Ada" not in plain
    assert "Bob" in plain
    again = TableEncoder.from_plain(json.loads(plain))
    other = learned({"name": ["Ada"] * 4 + ["Bob"] * 5}).to_plain()
    assert other["columns"][0]["state"]["parts"] != again.to_plain()["columns"][0]["state"]["parts"]
    table = {"name": ["Ada", "Bob", "Eve"]}
    np.testing.assert_array_equal(again.transform(table), encoder.transform(table))
    assert "Ada" not in " ".join(again.get_feature_names_out())
    # Learned once more the label is known again, and its feature is where it was.
    again.partial_fit({"name": ["Ada"] * 4 + ["Eve"]})
    assert again.get_feature_names_out().tolist() == ["name=Ada", "name=Bob", "name=Eve"]
    assert "Ada" in json.dumps(again.to_plain())


def test_names_count_from_their_second_row_on():
    """A feature for each would explain its row alone, and nothing else."""
    tables = [{"x": np.arange(9) + 0.5, "name": [f"{task} {i}" for i in range(9)]} for task in "abc"]
    encoder = learned(*tables)
    assert sum(name.startswith("name=") for name in encoder.get_feature_names_out()) == 9  # of the first task
    (note,) = encoder.notes_
    assert note.startswith("name: nearly every row has its own text")
    again = encoder.partial_fit({"x": [1.0, 2.0], "name": ["c 3", "c 3"]})
    assert again.get_feature_names_out()[-1] == "name=c 3"
    assert not learned(*tables, categorical=["name"]).notes_


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_a_stream_through_files_is_the_stream(data):
    """Written and read after every task, and learned on: the same features."""
    cells = st.sampled_from(["a", "b", "2024-01-01", "7", None])
    numbers = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(0, 5))
    one, other = TableEncoder(max_categories=3).start(), TableEncoder(max_categories=3).start()
    other.key_ = one.key_
    for _ in range(3):
        n = data.draw(st.integers(1, 5))
        column = st.lists(cells, min_size=n, max_size=n)
        table = {"c": data.draw(column), "x": data.draw(st.lists(numbers, min_size=n, max_size=n))}
        try:
            one.partial_fit(table)
        except ValueError:
            with pytest.raises(ValueError, match="column"):
                other.partial_fit(table)
            continue
        other.partial_fit(table)
        found = one.transform(table)
        np.testing.assert_array_equal(found, one.transform({**table, "unknown": [1.0] * n}))
        assert np.isfinite(found).all()
        other = TableEncoder.from_plain(json.loads(json.dumps(other.to_plain())))
        np.testing.assert_array_equal(found, other.transform(table))


def test_an_error_changes_nothing_and_names_the_column():
    encoder = learned({"x": [1.0, 2.0], "day": ["2024-01-01", "2024-01-02"]})
    before = json.dumps(encoder.to_plain())
    for wrong, said in (
        ({"x": ["a", "b"], "new": [1, 2]}, "column 'x' held numbers so far and now holds 'a'"),
        ({"day": ["soon", "later"]}, "column 'day' held dates so far and now holds 'soon'"),
    ):
        with pytest.raises(ValueError, match=said):
            encoder.partial_fit(wrong)
    assert json.dumps(encoder.to_plain()) == before
    # A few words among numbers are missing values.
    assert encoder.transform({"x": ["1", "2", "see note"]})[:, 0].tolist() == [1.0, 2.0, 1.5]


def test_it_is_an_estimator_of_scikit_learn():
    encoder = TableEncoder(drop=["size"], max_categories=5)
    assert clone(encoder).get_params() == encoder.get_params()
    table = pd.DataFrame(MONTHS[0])
    np.testing.assert_array_equal(encoder.fit_transform(table), encoder.fit(table).transform(table))
    assert encoder.columns_.keys() == {"town", "day"}
    with pytest.raises(ValueError, match="'a' is named for two of number, categorical"):
        TableEncoder(number=["a"], drop=["a"]).fit({"a": [1]})
    with pytest.raises(ValueError, match="not fitted"):
        TableEncoder().transform({"a": [1]})


# --- features without their zeros: the same statistics and predictions as those of the matrix ---


def table(n, seed=0, towns=4):
    rng = np.random.default_rng(seed)
    found = {
        "size": rng.standard_normal(n),
        "town": rng.choice([f"town {i}" for i in range(towns)], n).astype(object),
        "day": (np.datetime64("2024-03-01") + rng.integers(0, 400, n)).astype(str),
        "kind": rng.choice(["a", "b"], n),
    }
    for name, share in (("size", 0.1), ("town", 0.2)):
        found[name][rng.random(n) < share] = None
    return pd.DataFrame(found)


@pytest.mark.parametrize("drop", [(), ("late",), ("town", "kind", "day")], ids=["all", "early", "numbers"])
def test_statistics_and_predictions_are_those_of_the_matrix_also_where_features_are_held(drop, rng):
    encoder = TableEncoder(drop=drop).partial_fit(table(60))
    encoder.partial_fit(table(60, seed=1, towns=6).assign(late=range(60)))
    features = encoder.features(columns_of(table(60, seed=2, towns=7)))
    y = rng.standard_normal(60) + 5.0
    found, expected = features.rows(y), Rows.of(features.toarray(), y[:, None])
    for name in ("n", "mean", "target", "cross", "squares", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(found.gram.matrix, expected.gram.matrix, rtol=1e-12, atol=1e-11)
    d = features.shape[1]
    low = np.minimum(rng.standard_normal(d), 0.5)
    model = Linear(rng.standard_normal((d, 1)), rng.standard_normal(1), low, low + rng.random(d))
    np.testing.assert_allclose(features.predict(model), model.predict(features.toarray())[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("objective", ["next", "all"])
def test_large_tasks_are_learned_as_small_ones_are(monkeypatch, objective):
    """Also where the third task has a town, and numbers outside of the range, that no task had before."""
    tasks = [table(300, seed, towns) for seed, towns in enumerate((3, 3, 4, 4))]
    tasks[2]["size"] *= 100.0

    def fitted(least):
        monkeypatch.setattr("forgetless.tables.features.MANY", least)
        model = TableModel(objective)
        for X in tasks:
            model.partial_fit(X, X["size"].fillna(0.0) + (X["kind"] == "a") + 0.1 * X.index)
        return model

    one, other = fitted(10), fitted(10**9)
    np.testing.assert_allclose(one.predict(tasks[3]), other.predict(tasks[3]), rtol=1e-8)
    for record, same in zip(one.history_[1:], other.history_[1:], strict=True):
        assert record["error"] == pytest.approx(same["error"], rel=1e-8)
        assert record["interval"] == pytest.approx(same["interval"], rel=1e-8)

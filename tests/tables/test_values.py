"""What is written in cells: numbers, times, labels, and the kind of a column."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetless.tables.parsing import numbers_in, times_in
from forgetless.tables.values import TableError, columns_of, joined, values_of
from support.tables import LIBRARIES

NAN = float("nan")


def texts(*cells):
    return np.array(cells, dtype=object)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1", " 2.5 ", "-3", "+4", ".5"], [1, 2.5, -3, 4, 0.5]),
        (["1e3", "2E-1"], [1000, 0.2]),
        (["1,234.5", "1,234,567"], [1234.5, 1234567]),
        (["1.234,5", "2,25"], [1234.5, 2.25]),
        (["$5", "€ 6", "7 %", "(8)", "−9", "1 000"], [5, 6, 7, -8, -9, 1000]),
        (["E5", "5E", "high", "", "1.2.3", "--", "1e999"], [NAN] * 7),
    ],
)
def test_numbers_in_text(cells, numbers):
    np.testing.assert_allclose(numbers_in(texts(*cells)), numbers)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_what_python_prints_is_read_again(numbers):
    assert numbers_in(texts(*map(repr, numbers))).tolist() == numbers


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-02", "2024-12-31"],
        ["2024-01-02T00:00:00", "2024-12-31T00:00:00"],
        ["02.01.2024", "31.12.2024"],
        ["01/02/2024", "12/31/2024"],
        ["2 Jan 2024", "31 Dec 2024"],
    ],
)
def test_dates_in_many_formats_are_the_same(cells):
    expected = pd.to_datetime(["2024-01-02", "2024-12-31"]).astype("int64")
    expected = (pd.to_datetime(["2024-01-02", "2024-12-31"]) - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    assert times_in(texts(*cells)).tolist() == expected.tolist()


def test_a_time_of_the_day_is_one_of_the_first_day():
    assert times_in(texts("01:30", "23:59:59")).tolist() == [5400.0, 86399.0]


KINDS = [
    ([1.5, 2.0, None], "number"),
    ([True, False], "number"),
    (["1", "2", "n/a", "4"], "number"),
    (["1", "2", "3"] * 10 + ["see note"], "number"),
    (["1", "high", "low"], "category"),
    (["07", "11"], "category"),
    (["01234", "98765-4321"], "category"),
    (["E5", "E7", "12"], "category"),
    (["1E5", "E7"], "category"),
    (["a", None], "category"),
    (["?", "-"], "category"),
    (["2024-01-02", "2024-01-03"], "date"),
    (["2024-01-02", "soon"], "category"),
    ([pd.Timestamp("2024-01-02"), pd.NaT], "date"),
    ([None, None], "empty"),
    ([], "empty"),
]


@pytest.mark.parametrize(("cells", "kind"), KINDS, ids=[str(cells)[:30] for cells, _ in KINDS])
def test_the_kind_of_a_column(cells, kind):
    assert values_of(cells).kind == kind


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_every_library_have_the_same_columns(library):
    table = {"size": [1.0, None, 3.0], "town": ["Ulm", None, "Bonn"], "n": [1, 2, 3], "ok": [True, False, True]}
    found = columns_of(LIBRARIES[library](table))
    assert {name: values.kind for name, values in found.items()} == {
        "size": "number",
        "town": "category",
        "n": "number",
        "ok": "number",
    }
    np.testing.assert_equal(found["size"].numbers, [1.0, NAN, 3.0])
    assert found["town"].coded[0].tolist() == [0, -1, 1]
    assert found["town"].coded[1].texts.tolist() == ["Ulm", "Bonn"]
    assert found["n"].coded[1].texts.tolist() == ["1", "2", "3"]


def test_whole_numbers_and_their_text_are_one_label():
    for cells in ([1.0, 2.0], [1, 2], ["1", "2"], [" 1", "2 "], pd.Categorical([1, 2])):
        assert values_of(cells).coded[1].texts.tolist() == ["1", "2"]


@given(st.data())
def test_rows_taken_and_joined_again_are_the_column(data):
    cells = data.draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=2))
    cut = data.draw(st.integers(1, len(cells) - 1))
    values = values_of(pd.Series(cells, dtype=object))
    parts = [values.take(slice(0, cut)), values.take(slice(cut, None))]
    codes, labels = joined(parts).coded
    assert [None if code < 0 else labels.texts[code] for code in codes] == cells
    for part, some in zip(parts, (cells[:cut], cells[cut:]), strict=True):
        assert set(part.coded[1].texts) == {cell for cell in some if cell is not None}


def test_numbers_and_text_are_joined_as_text():
    whole = joined([values_of([1, 2]), values_of(["x", "2"])])
    assert [whole.coded[1].texts[code] for code in whole.coded[0]] == ["1", "2", "x", "2"]


def test_columns_of_one_name_are_refused():
    with pytest.raises(TableError, match="several columns are named 'a'"):
        columns_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TableError, match="complex"):
        values_of([1j, 2.0])

"""What is written in cells: numbers, times, labels, and the kind of a column."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetless.tables.parsing import numbers_in, times_in
from forgetless.tables.values import Values, columns_of
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
    # pandas 2.2 errs in the last two digits.
    found = numbers_in(texts(*map(repr, numbers)))
    np.testing.assert_allclose(found, numbers, rtol=1e-14, atol=0)


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
    (["1,5", "2,25", "n/a"], "number"),
    (["1", "high", "low"], "category"),
    (["1, 5", "0001-01-05", "x"], "category"),
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
    assert Values(cells).kind == kind


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
    codes, labels = found["town"].coded
    assert (codes.tolist(), labels.tolist()) == ([0, -1, 1], ["Ulm", "Bonn"])
    assert found["n"].coded[1].tolist() == ["1", "2", "3"]


def test_whole_numbers_and_their_text_are_one_label():
    for cells in ([1.0, 2.0], [1, 2], ["1", "2"], [" 1", "2 "], pd.Categorical([1, 2], categories=[3, 2, 1])):
        assert Values(cells).coded[1].tolist() == ["1", "2"]


@given(st.lists(st.sampled_from(["a", "b", " b", "c", None]), min_size=1))
def test_codes_and_labels_are_the_cells(cells):
    codes, labels = Values(pd.Series(cells, dtype=object)).coded
    assert [None if code < 0 else labels[code] for code in codes] == [cell and cell.strip() for cell in cells]


def test_booleans_with_gaps_are_numbers():
    np.testing.assert_equal(Values([True, None, False]).numbers, [1.0, NAN, 0.0])
    assert Values([True, None]).coded[1].tolist() == ["True"]


def test_columns_of_one_name_are_refused():
    with pytest.raises(ValueError, match="several columns are named 'a'"):
        columns_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))

"""What is written in cells: numbers, times, labels, and the kind of a column."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetless.tables import TableEncoder, read_table
from support.tables import LIBRARIES


def kind_of(cells):
    """The kind of a column, None where it holds nothing."""
    columns = TableEncoder().fit({"c": cells, "x": [1.0] * len(cells)}).columns_
    return columns["c"].kind if "c" in columns else None


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1", " 2.5 ", "-3", "+4", ".5"], [1, 2.5, -3, 4, 0.5]),
        (["1e3", "2E-1"], [1000, 0.2]),
        (["1,234.5", "1,234,567"], [1234.5, 1234567]),
        (["1.234,5", "2,25"], [1234.5, 2.25]),
        (["$5", "€ 6", "7 %", "(8)", "−9", "1 000"], [5, 6, 7, -8, -9, 1000]),
        ([True, False, True], [1, 0, 1]),
    ],
)
def test_numbers_in_text(cells, numbers):
    np.testing.assert_allclose(TableEncoder().fit_transform({"c": cells})[:, 0], numbers)


@pytest.mark.parametrize("cell", ["E5", "5E", "high", "1.2.3", "--", "1e999", "", None])
def test_cells_that_are_no_numbers_are_missing_in_a_column_of_numbers(cell):
    found = TableEncoder().fit({"c": ["1", "3"] * 20}).transform({"c": ["1"] * 9 + [cell]})
    assert found[-1, 0] == 2.0  # the mean


@settings(max_examples=50)
@given(st.lists(st.floats(-1e100, 1e100), min_size=1))
def test_what_python_prints_is_read_again(numbers):
    # pandas 2.2 errs in the last two digits.
    found = TableEncoder(number=["c"]).fit({"c": [1.0]}).transform({"c": list(map(repr, numbers))})
    np.testing.assert_allclose(found[:, 0], numbers, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-02T00:00:00", "2024-12-31T00:00:00"],
        ["02.01.2024", "31.12.2024"],
        ["01/02/2024", "12/31/2024"],
        ["2 Jan 2024", "31 Dec 2024"],
        pd.to_datetime(["2024-01-02", "2024-12-31"]),
    ],
    ids=str,
)
def test_dates_in_many_formats_are_the_same(cells):
    encoder = TableEncoder().fit({"day": ["2024-01-01", "2024-12-30"]})
    expected = encoder.transform({"day": ["2024-01-02", "2024-12-31"]})
    np.testing.assert_array_equal(encoder.transform({"day": cells}), expected)
    np.testing.assert_array_equal(encoder.transform({"day": cells[1:]}), expected[1:])


KINDS = [
    ([1.5, 2.0, None], "number"),
    ([True, None, False], "number"),
    (["1", "2", "n/a", "4"], "number"),
    (["1", "2", "3"] * 10 + ["see note"], "number"),
    (["1"] * 95 + [f"note {i}" for i in range(5)], "number"),
    (["1"] * 950 + [f"note {i}" for i in range(6)], "category"),
    (["1"] * 94 + ["note"] * 6, "category"),
    (["1", "2", "?", "-"], "category"),
    (["1", "2", "3", "?", "-"], "number"),
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
    (["01:30", "23:59:59"], "date"),
    (["2024-01-02", "soon"], "category"),
    ([pd.Timestamp("2024-01-02"), pd.NaT], "date"),
    ([None, None], None),
]


@pytest.mark.parametrize(("cells", "kind"), KINDS, ids=[str(cells)[:30] for cells, _ in KINDS])
def test_the_kind_of_a_column(cells, kind):
    assert kind_of(cells) == kind


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_every_library_have_the_same_columns(library):
    table = {"size": [1.0, None, 3.0], "town": ["Ulm", None, "Bonn"], "n": [1, 2, 3], "ok": [True, False, True]}
    encoder = TableEncoder().fit(table)
    again = TableEncoder().fit(LIBRARIES[library](table))
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    np.testing.assert_array_equal(again.transform(LIBRARIES[library](table)), encoder.transform(table))


@pytest.mark.parametrize(
    "cells", [[1.0, 2.0], [1, 2], ["1", "2"], [" 1", "2 "], pd.Categorical([1, 2], categories=[3, 2, 1])], ids=str
)
def test_whole_numbers_and_their_text_are_one_label(cells):
    found = TableEncoder(categorical=["c"]).fit({"c": cells})
    assert found.get_feature_names_out().tolist() == ["c=1", "c=2"]
    large = TableEncoder(categorical=["c"]).fit({"c": [2.0**53 - 1, 2.0**53]})
    assert large.get_feature_names_out().tolist() == ["c=9007199254740991", "c=9007199254740992.0"]


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["a", "b", " b", "c", None]), min_size=1).filter(any))
def test_codes_and_labels_are_the_cells(cells):
    encoder = TableEncoder().fit({"c": cells})
    labels = [name.removeprefix("c=") for name in encoder.get_feature_names_out()]
    for cell, row in zip(cells, encoder.transform({"c": cells}), strict=True):
        assert [labels[at] for at in np.flatnonzero(row)] == [cell.strip() if cell else "c is missing"]


def test_columns_of_one_name_are_refused():
    with pytest.raises(ValueError, match="several columns are named 'a'"):
        TableEncoder().fit(pd.DataFrame([[1, 2]], columns=["a", "a"]))


FORMS = {
    "a, cm;b\n1;2\n3;4\n": {"a, cm": [1, 3], "b": [2, 4]},
    "a;b\n1,5;2,5\n": {"a": [1.5], "b": [2.5]},
    "a;b\n1,5;2.5\n": {"a": ["1,5"], "b": [2.5]},
    'a,b\n"1,5",2\n': {"a": ["1,5"], "b": [2]},
}


@pytest.mark.parametrize("text", FORMS)
def test_delimiters_and_decimal_commas_are_found(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert read_table(tmp_path / "t.csv").to_dict("list") == FORMS[text]


@pytest.mark.parametrize("header", ["zip,size", "zip;size"])
def test_digits_of_codes_stay_as_they_are_written(tmp_path, header):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n01234,1.5\n56789,2.5\n".replace(",", header[3]))
    table = read_table(path)
    assert table["zip"].tolist() == ["01234", "56789"]
    assert kind_of(table["zip"]) == "category"

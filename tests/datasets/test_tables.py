"""Tables that can be read in more than one way are refused, with the line where it shows."""

import numpy as np
import pytest

from forgetless.datasets import load_table
from forgetless.datasets.tables import BadTableError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y,t\n1,2,3,u,9\n1,2,3,v,9\n", "line 2: 5 values, but the header has 4 names"),
        ("a,b,y,t\n1,2,3,u,\n1,2,3,v,\n", "line 2: 5 values"),
        ("\n\na,b,y,t\n\n1,2,3,u,9\n", "line 5: 5 values"),
        ("a,b,y,t\n1,2,3,u,9,8\n", "line 2: 6 values"),
        ("a,b,y,t\n1,2,3,u\n1,2,3,v,9\n", "Expected 4 fields in line 3, saw 5"),
        ("a,y,y,t\n1,2,3,u\n", "line 1: several columns are named 'y'"),
        ("\na,y,a,t\n1,2,3,u\n", "line 2: several columns are named 'a'"),
        ("t,a,y\nu,1,2\n,1,2\n", "1 rows have no value of 't', first in line 3"),
        ('t,a,y\n"u\nv",1,2\nw,inf,2\n', "1 values are missing or infinite, e.g. a in line 4"),
        ("t,a,y\nu,1,2\nv,1\n", "e.g. y in line 3"),
        ("", "cannot be read as csv"),
    ],
)
def test_ambiguous_tables_are_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_table(path, "t", "y")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_tables_of_any_system_are_read(tmp_path, ending, mark):
    path = tmp_path / "table.csv"
    path.write_text(mark + ending.join(["a,y,t", "1,2,u", "", "3,4,v", ""]), newline="", encoding="utf-8")
    table = load_table(path, "t", "y")
    np.testing.assert_array_equal(table.X, [[1.0], [3.0]])
    assert table.groups.tolist() == ["u", "v"]


def test_a_name_given_twice_in_a_parquet_file(tmp_path):
    import pyarrow
    import pyarrow.parquet

    columns = [pyarrow.array([1.0, 2.0])] * 3 + [pyarrow.array(["u", "v"])]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names=["a", "y", "a", "t"]), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet"):
        load_table(tmp_path / "t.parquet", "t", "y")


def test_bad_tables_are_value_errors():
    assert issubclass(BadTableError, ValueError)

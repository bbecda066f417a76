"""Tables that can be read in more than one way are refused, with the line where it shows; columns are read once."""

import datetime
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetless._core.frames import columns_of, read_once, values_of
from forgetless.tables import read_table, read_tasks
from forgetless.tables.readers import read_ahead
from forgetless.tables.task_files import TableTasks, in_form
from forgetless.tasks import TaskCollection
from support.tables import LIBRARIES


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
        read_tasks(path, task="t", target="y")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_tables_of_any_system_are_read(tmp_path, ending, mark):
    path = tmp_path / "table.csv"
    path.write_text(mark + ending.join(["a,y,t", "1,2,u", "", "3,4,v", ""]), newline="", encoding="utf-8")
    tasks = read_tasks(path, task="t", target="y")
    assert [(X.tolist(), y.tolist()) for X, y in tasks] == [([[1.0]], [2.0]), ([[3.0]], [4.0])]


@pytest.mark.parametrize("loss", ["sum", "mean"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_tasks_in_the_form_of_an_estimator(rng, loss, intercept, standardize):
    pairs = [(3.0 + 2.0 * rng.standard_normal((n, 2)), rng.standard_normal(n)) for n in (4, 9)]
    rows = np.concatenate([X for X, _ in pairs])
    mean = rows.mean(0) if standardize and intercept else 0.0
    size = np.sqrt(np.mean((rows - mean) ** 2, axis=0)) if standardize else 1.0
    for (X, y), (A, b) in zip(pairs, in_form(TaskCollection(pairs), loss, intercept, standardize), strict=True):
        Z = np.column_stack([(X - mean) / size, *([np.ones(len(X))] if intercept else [])])
        root = np.sqrt(len(X)) if loss == "mean" else 1.0
        np.testing.assert_allclose(A, Z / root, rtol=1e-12)
        np.testing.assert_allclose(b, y / root, rtol=1e-12)


def test_spaces_around_the_names_of_columns_are_removed(tmp_path):
    import pandas

    pandas.DataFrame({" a ": [1.0], "b": [2.0]}).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns.tolist() == ["a", "b"]


def test_a_name_given_twice_in_a_parquet_file(tmp_path):
    import pyarrow
    import pyarrow.parquet

    columns = [pyarrow.array([1.0, 2.0])] * 3 + [pyarrow.array(["u", "v"])]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names=["a", "y", "a", "t"]), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet"):
        read_tasks(tmp_path / "t.parquet", task="t", target="y")


VALUES = {
    "numbers": st.lists(st.floats(allow_nan=True), min_size=1, max_size=8),
    "words": st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8),
    "truth": st.lists(st.booleans(), min_size=1, max_size=8),
    "times": st.lists(
        st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2090, 1, 1)), min_size=1, max_size=8
    ),
    "mixed": st.lists(st.sampled_from([1, 2.5, "x", None, "2"]), min_size=1, max_size=8),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=30)
@given(data=st.data())
def test_rows_of_columns_read_once_are_as_if_only_they_had_been_read(kind, library, data):
    values = data.draw(VALUES[kind])
    if kind == "mixed" and library in ("pyarrow", "polars"):  # which have no columns of several types
        values = [None if value is None else str(value) for value in values]
    rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=6)))
    part = read_once(LIBRARIES[library]({"x": values})).rows(rows)
    found = values_of(columns_of(part)["x"], "x")
    expected = values_of(columns_of(LIBRARIES[library]({"x": [values[i] for i in rows]}))["x"], "x")
    assert len(part) == len(rows)
    assert (found.kind, list(found.labels)) == (expected.kind, list(expected.labels))
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(found.numbers, expected.numbers)


@pytest.mark.parametrize("rows", [7, 20, 64])
def test_pieces_of_a_task_are_what_the_whole_table_says(tmp_path, rows):
    """A column of numbers in one piece and of words, or of nothing, in the next; words that come in any order."""
    path = tmp_path / "table.csv"
    lines = [
        f"{'u' if i < 40 else 'v'},{i % 9},{i if i < 25 else f'w{i}'},{'' if i < 30 else i},c{i % 11},{i}"
        for i in range(60)
    ]
    path.write_text("\n".join(["t,number,mixed,late,word,y", *lines]))
    whole = list(TableTasks(path, "t", ("y",), rows=0))
    pieces = list(TableTasks(path, "t", ("y",), rows=rows))
    assert [part.label for part in pieces] == [part.label for part in whole] == ["u", "v"]
    for ours, theirs in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(ours.y, theirs.y)
        for name, column in columns_of(theirs.X).items():
            found, expected = values_of(columns_of(ours.X)[name], name), values_of(column, name)
            assert (found.kind, list(found.labels)) == (expected.kind, list(expected.labels)), name
            np.testing.assert_array_equal(found.codes, expected.codes)
            np.testing.assert_array_equal(found.numbers, expected.numbers)


@pytest.mark.parametrize("error", [ValueError("bad row"), KeyboardInterrupt("stop"), MemoryError("too large")])
def test_an_error_of_the_reading_thread_is_raised_in_place_of_its_item(error):
    def items():
        yield 1
        raise error

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(type(error), match=str(error)):
        next(ahead)


def test_a_reader_that_is_closed_early_is_one_item_ahead_and_leaves_no_thread():
    events = []

    def items():
        try:
            for i in range(20):
                events.append(i)
                yield i
        finally:
            events.append(threading.current_thread().name)

    ahead = read_ahead(items())
    assert next(ahead) == 0
    ahead.close()
    assert events == [0, 1, "forgetless-reader_0"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("forgetless-reader")]

"""The tasks of a file: their rows and order, parts of large files, and what a target holds."""

import numpy as np
import pandas as pd
import pytest

from forgetless.tables.batches import Batches
from forgetless.tables.read import TableFile
from support.tables import sales


def file_of(folder, table):
    table.to_csv(folder / "t.csv.gz", index=False)
    return TableFile(folder / "t.csv.gz")


@pytest.mark.parametrize(("largest", "parts"), [(30, [*range(1, 8), *range(7, 13)]), (31, [*range(1, 13)])])
def test_a_large_file_is_read_in_parts_with_whole_tasks(tmp_path, monkeypatch, largest, parts):
    """From 128 MB on; 40 rows a task, in chunks of 90, of which the fourth begins in the seventh task."""
    table = sales(range(1, 13))
    monkeypatch.setattr("forgetless.tables.read.ROWS", 90)
    monkeypatch.setattr("forgetless.tables.batches.LARGEST", largest)
    file = file_of(tmp_path, table)
    assert file.n_bytes == len(table.to_csv(index=False).encode())
    file.n_bytes = 2**27 + 1
    found = [(label, y) for label, _, y in Batches(file, "month", "sales")]
    assert [label for label, _ in found] == list(map(str, parts))
    np.testing.assert_allclose(np.concatenate([y for _, y in found]), table["sales"], rtol=1e-14)
    again = pd.concat([table, table[:1]])
    file = file_of(tmp_path, again)
    file.n_bytes = 2**27
    assert [len(y) for _, _, y in Batches(file, "month", "sales")] == [41] + [40] * 11
    file.n_bytes += 1
    with pytest.raises(ValueError, match="line 482: the task '1' comes again after others; a file of more than 128 MB"):
        list(Batches(file, "month", "sales"))


def test_rows_without_a_target_are_left_out_with_a_note(tmp_path):
    table = sales([3, 2, 2])
    found = Batches(file_of(tmp_path, table.assign(sales=table["sales"].where(table.index % 10 > 0))), "month", "sales")
    assert [(label, len(X["price"]), len(y)) for label, X, y in found] == [("3", 36, 36), ("2", 72, 72)]
    assert found.notes == ["12 rows without a value of 'sales' were left out"]


def test_rows_of_a_parquet_file_are_counted_from_one(tmp_path):
    pd.DataFrame({"t": ["a", "a", None], "x": 1.0, "y": 1.0}).to_parquet(tmp_path / "t.parquet")
    file = TableFile(tmp_path / "t.parquet")
    assert file.n_bytes == 8 * 3 * 3
    with pytest.raises(ValueError, match=r"t\.parquet, row 3: 1 rows have no value of the task 't'"):
        list(Batches(file, "t", "y"))


def test_a_header_may_be_longer_than_the_sample(tmp_path):
    wide = pd.DataFrame(1.0, index=range(2), columns=["t", *(f"column number {i}" for i in range(4000)), "y"])
    ((_, X, y),) = Batches(file_of(tmp_path, wide), "t", "y")
    assert (len(X), y.tolist()) == (4000, [1.0, 1.0])


def test_a_cell_may_be_longer_than_the_sample(tmp_path):
    table = pd.DataFrame({"t": "a", "text": "b", "x": 1.0, "y": np.arange(40.0)})
    for row in (5, 39):
        table.loc[row, "text"] = 150_000 * "c"
    ((_, X, y),) = Batches(file_of(tmp_path, table), "t", "y")
    assert (len(X["text"]), y.tolist()) == (40, table["y"].tolist())


def names(distinct, rows):
    return [f"class {i % distinct}" for i in range(rows)]


TARGETS = [  # the cells, and the kind of the targets or what is said of them
    (names(50, 100), "U"),
    (names(51, 200), "holds 51 different texts, such as 'class 0'"),
    (names(10, 10), "U"),
    (names(11, 11), "holds 11 different texts"),
    (names(6, 12), "U"),
    (names(7, 12), "holds 7 different texts"),
    (["a", "b", "1"], "U"),
    (["a", "1"], "must hold numbers, but holds 'a'"),
    (["07", "12", "13"], "U"),
    (["1", "2"], "f"),
]


@pytest.mark.parametrize(("cells", "found"), TARGETS)
def test_a_target_holds_numbers_or_few_classes(tmp_path, cells, found):
    batches = Batches(file_of(tmp_path, pd.DataFrame({"t": 1, "x": 1.0, "y": cells})), "t", "y")
    if len(found) == 1:
        assert next(iter(batches))[2].dtype.kind == found
    else:
        with pytest.raises(ValueError, match=found):
            next(iter(batches))

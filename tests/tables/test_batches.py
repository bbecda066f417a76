"""The tasks of a file: their rows and order, parts of large files, and what a target holds."""

import numpy as np
import pandas as pd
import pytest

from forgetless.tables.batches import Batches
from forgetless.tables.read import TableFile
from support.tables import sales


def file_of(folder, table):
    table.to_csv(folder / "t.csv", index=False)
    return TableFile(folder / "t.csv")


@pytest.mark.parametrize(("largest", "parts"), [(30, [*range(1, 8), *range(7, 13)]), (31, [*range(1, 13)])])
def test_a_large_file_is_read_in_parts_with_whole_tasks(tmp_path, monkeypatch, largest, parts):
    """From 128 MB on; 40 rows a task, in chunks of 90, of which the fourth begins in the seventh task."""
    table = sales(range(1, 13))
    monkeypatch.setattr("forgetless.tables.read.ROWS", 90)
    monkeypatch.setattr("forgetless.tables.batches.LARGEST", largest)
    file = file_of(tmp_path, table)
    file.n_bytes = 2**27 + 1
    found = [(label, y) for label, _, y in Batches(file, "month", "sales")]
    assert [label for label, _ in found] == list(map(str, parts))
    assert np.concatenate([y for _, y in found]).tolist() == table["sales"].tolist()
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


TARGETS = [  # a number of different texts, rows, and whether they are classes
    (50, 100, True),
    (51, 200, False),
    (10, 10, True),
    (11, 11, False),
    (6, 12, True),
    (7, 12, False),
]


@pytest.mark.parametrize(("distinct", "rows", "has_classes"), TARGETS)
def test_a_target_has_few_classes(tmp_path, distinct, rows, has_classes):
    table = pd.DataFrame({"t": 1, "x": range(rows), "y": [f"class {i % distinct}" for i in range(rows)]})
    batches = Batches(file_of(tmp_path, table), "t", "y")
    if has_classes:
        assert next(iter(batches))[2].tolist() == table["y"].tolist()
    else:
        with pytest.raises(ValueError, match=f"holds {distinct} different texts, such as 'class 0'"):
            next(iter(batches))


@pytest.mark.parametrize(
    ("cells", "classes"), [("ab1", True), ("a1", False), (["07", "12", "13"], True), ("12", False)]
)
def test_words_and_codes_are_classes(tmp_path, cells, classes):
    batches = Batches(file_of(tmp_path, pd.DataFrame({"t": 1, "x": 1.0, "y": list(cells)})), "t", "y")
    if cells == "a1":  # half of them are numbers
        with pytest.raises(ValueError, match="must hold numbers, but holds 'a'"):
            list(batches)
    else:
        assert (next(iter(batches))[2].dtype.kind == "U") == classes

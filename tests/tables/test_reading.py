"""Files as people have them: encodings, numbers and dates in text, compressed, damaged and Excel files."""

import gzip
import io
import random
import sys
import types

import numpy as np
import pandas
import pyarrow
import pytest

from forgetless import _validate as validate
from forgetless.tables import TableEncoder, read_table, readers
from forgetless.tables._numbers import ISO, format_of, number_of, parsed
from forgetless.tables.readers import BadTableError
from forgetless.tables.task_files import TableTasks

TEXT = "t,town,x,y\nu,Köln,1.5,2\nv,Łódź,2.5,4\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_byte_order_marks_name_the_encoding(tmp_path, encoding, name):
    mark = "\ufeff" if encoding[-3:] in ("-le", "-be") else ""
    content = (mark + TEXT).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    table = read_table(tmp_path / name)
    assert table.columns.tolist() == ["t", "town", "x", "y"]
    assert table["town"].tolist() == ["Köln", "Łódź"]
    assert table["x"].tolist() == [1.5, 2.5]
    parts = list(TableTasks(tmp_path / name, "t", ("y",), rows=1))
    assert [part.label for part in parts] == ["u", "v"]


@pytest.mark.parametrize(
    ("label", "decimal", "number"),
    [
        ("1,234", ".", 1234), ("$1,234", ".", 1234), ("$ -5", ".", -5), ("-$1,234.5", ".", -1234.5), ("(12)", ".", -12),
        ("12 %", ".", 12), ("1 234 567", ".", 1234567), ("1'234.5", ".", 1234.5), ("−3", ".", -3), ("1e3", ".", 1000),
        ("€1.234,5", ",", 1234.5), ("1.234", ",", 1234), ("0,5", ",", 0.5), (".5", ".", 0.5), ("5 €", ",", 5),
        ("1,23", ".", None), ("12,34,567", ".", None), ("1.234,5", ".", None), ("1.5", ",", None), ("", ".", None),
        ("12O5", ".", None), ("A1", ".", None), ("$", ".", None), ("-", ".", None), ("1-2", ".", None),
    ],
)  # fmt: skip
def test_numbers_in_text(label, decimal, number):
    assert number_of(label, decimal) == number


@pytest.mark.parametrize(
    ("labels", "kind", "first"),
    [
        (["$1,234", "$56", "$7.5"], "number", 1234.0),
        (["1.234,5", "56", "7,5"], "number", 1234.5),
        (["12", "-", "13", "14"], "number", 12.0),
        (["7", *["12"] * 60, "12O5"], "number", 7.0),
        (["00123", "01234", "A"], "category", None),
        (["12", "-", "-", "-"], "category", None),
        (["1", "2", "3A", "4B"], "category", None),
        (["1/22/24", "12/1/23"], "date", "%m/%d/%y"),
        (["22/1/24 10:30", "1/12/23 08:00"], "date", "%d/%m/%y %H:%M"),
        (["31 Jan 2024", "1 Feb 2024"], "date", "%d %b %Y"),
        (["31.1.24", "1.12.23"], "date", "%d.%m.%y"),
        (["New York 5", "Ulm 7"], "category", None),
    ],
)
def test_kinds_of_columns_of_text(labels, kind, first):
    encoder = TableEncoder().partial_fit({"c": labels})
    column = encoder.columns_["c"]
    assert column.kind == kind
    if kind == "number":
        assert encoder.transform({"c": labels})[0, 0] == first
    if kind == "date":
        assert column.format == first


def test_decimal_commas_with_thousands(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t;a;b;c;d\nu;1,5;1.234;1.234,5;1.1.2024\nv;12,5;12.000;7,5;31.12.2024\n")
    table = read_table(path)
    assert table["a"].tolist() == [1.5, 12.5]
    assert table["b"].tolist() == [1234.0, 12000.0]
    encoder = TableEncoder().partial_fit(table.drop(columns="t"))
    assert [column.kind for column in encoder.columns_.values()] == ["number", "number", "number", "date"]
    assert encoder.transform(table)[:, 2].tolist() == [1234.5, 7.5]
    assert "with decimal commas" in encoder.summary().columns["note"][2]
    path.write_text("t;a;b\nu;1,5;0.5\n")
    assert read_table(path)["b"].tolist() == [0.5], "another column has decimal points"


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """Compressed tables, a limit of 1 MiB, and the number of bytes that were decompressed."""
    monkeypatch.setattr(readers, "LARGE", 2**20)
    monkeypatch.setattr(readers, "MEMORY_LIMIT", 2**22)
    read = []
    opened = gzip.open

    def counting(*arguments, **options):
        file = opened(*arguments, **options)
        plain = file.read
        file.read = lambda size=-1: read.append(plain(size)) or read[-1]
        return file

    monkeypatch.setattr(readers.gzip, "open", counting)

    def write(text):
        (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(text.encode(), 1))
        return tmp_path / "bomb.csv.gz"

    return types.SimpleNamespace(write=write, total=lambda: sum(map(len, read)))


def test_compressed_files_are_read_in_chunks_by_their_text(bomb):
    path = bomb.write("t,x,y\n" + "".join(f"{i // 20_000},0,0\n" for i in range(400_000)))
    assert path.stat().st_size < 2**20 < 400_000 * 6
    tasks = TableTasks(path, "t", ("y",))
    assert [(part.label, len(part.y)) for part in tasks] == [(str(i), 20_000) for i in range(20)]
    assert 0 < tasks.rows < 2**20 // 6


@pytest.mark.parametrize("rows", [None, 0, 1000])
def test_a_compressed_line_without_end_is_not_read_to_its_end(bomb, rows):
    path = bomb.write("t,x,y\n1,2,3\n1,2," + "0" * 2**26)
    with pytest.raises(BadTableError, match=r"bomb\.csv\.gz.* more than 1 MiB of text"):
        list(TableTasks(path, "t", ("y",), rows=rows))
    assert bomb.total() < 8 * 2**20
    with pytest.raises(BadTableError, match=r"bomb\.csv\.gz has more than 1 MiB of text when it is decompressed; read"):
        read_table(path)


def test_compressed_standard_input_is_bounded(bomb, monkeypatch):
    content = gzip.compress(b"t,x,y\n" + b"1,2,3\n" * 2**18, 1)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
    with pytest.raises(BadTableError, match="- has more than 1 MiB of text when it is decompressed"):
        read_table("-")


def test_a_task_that_does_not_end_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("t,x,y\n" + "1,2,3\n" * 1000)
    message = r"task '1' of t\.csv needs .* make smaller tasks"
    monkeypatch.setattr(validate, "MEMORY_LIMIT", 10_000)
    with pytest.raises(MemoryError, match=message):
        list(TableTasks(path, "t", ("y",), rows=100))


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv.gz"])
def test_damaged_files_are_one_sentence(tmp_path, kind):
    rng, generator = random.Random(0), np.random.default_rng(0)
    table = pandas.DataFrame({"t": np.repeat(["u", "v"], 50), "x": generator.random(100), "w": ["a", "b"] * 50})
    path = tmp_path / f"t.{kind}"
    {"parquet": table.to_parquet, "feather": table.to_feather, "csv.gz": table.to_csv}[kind](path)
    content = path.read_bytes()
    messages = []
    for i in range(120):
        damaged = bytearray(content[: rng.randrange(len(content))] if i % 3 == 0 else content)
        for _ in range(rng.choice([1, 8])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            TableEncoder().partial_fit(read_table(path))
        except (ValueError, MemoryError) as error:
            messages.append(str(error))
    assert len(messages) > 60
    named = [message for message in messages if message.startswith(f"t.{kind} ")]
    assert len(named) > 60
    # The others are those of columns that were read, e.g. of the same name or without rows.
    assert all(message.startswith(("column ", "X ")) for message in messages if message not in named)


def test_arrays_with_places_outside_of_them_are_rejected():
    """Using them would crash the process."""
    offsets = pyarrow.py_buffer(np.array([0, 10**6, 5], dtype=np.int32))
    column = pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets, pyarrow.py_buffer(b"abcde")])
    with pytest.raises(ValueError, match=r"offset"):
        readers._frame(pyarrow.table({"t": column}))


def workbook(sheets):
    """Return a class like pandas' reader of a workbook with these sheets."""

    class Workbook:
        def __init__(self, path, engine):
            assert engine == "openpyxl"
            self.sheet_names = list(sheets)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def parse(self, sheet):
            return sheets[self.sheet_names[sheet]].copy()

    return Workbook


def test_excel_files(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"(?s)reading Excel files needs openpyxl .*forgetless\[excel\]"):
        read_table(tmp_path / "t.xlsx")
    first = pandas.DataFrame({"t": [1, 1, 2], "x": [0.5, 1.5, 2.5], "y": [1.0, 2.0, 3.0]})
    monkeypatch.setattr(pandas, "ExcelFile", workbook({"data": first, "notes": first.head(1)}))
    pandas.testing.assert_frame_equal(read_table(tmp_path / "t.xlsx"), first)
    for rows in (0, 2):
        tasks = TableTasks(tmp_path / "t.xlsx", "t", ("y",), rows=rows)
        assert [len(part.y) for part in tasks] == [2, 1]
        assert tasks.notes == ["only the first of 2 sheets was read, data"]


def test_dates_count_from_1970():
    day = 86_400e6
    assert parsed(["1970-01-01", "1970-01-02", "1969-12-31 12:00", "1970-01-01T02:00+02:00"], ISO).tolist() == [
        *(0.0, day, -day / 2, 0.0)
    ]
    assert parsed(["2.1.1970"], "%d.%m.%Y").tolist() == [day]


def test_dates_that_look_like_numbers_must_be_declared():
    for labels, format in ((["20240131", "20240201"], "%Y%m%d"), (["2024", "2023"], "%Y")):
        assert format_of(labels, declared=True) == format
        assert format_of(labels) is None


@pytest.mark.parametrize(("rows", "kind"), [(100, "number"), (99, "category")])
def test_one_in_twenty_strings_of_a_column_of_numbers_may_be_another(rows, kind):
    labels = [*("7" for _ in range(rows - 5)), *["twelve"] * 5]
    encoder = TableEncoder().fit({"x": labels, "z": [str(i) for i in range(rows)]})
    assert encoder.to_plain()["columns"][0][1]["kind"] == kind


def test_counts_and_means_of_a_column_are_those_of_its_values():
    encoder = TableEncoder()
    for x in ([1.0, None, 4.0], [None, 7.0, 8.0]):
        encoder.partial_fit({"x": x, "day": [None, "2024-01-01", "2024-01-03"]})
    number, date = (plain for _, plain in encoder.to_plain()["columns"])
    assert (number["count"], number["mean"], number["missing"]) == (4, 5.0, 2)
    assert (date["count"], date["mean"], date["missing"]) == (4, 86_400e6, 2)


def test_the_line_of_a_value_in_lines_of_any_length(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1\n2,x\n\n3,y\n")
    assert [readers.line_with(tmp_path / "t.csv", "b", value) for value in ("x", "y", "z")] == ["line 3", "line 5", ""]
    assert readers.line_with(tmp_path / "t.csv", "none", "x") == ""


@pytest.mark.parametrize("name", ["t.tsv", "t.TSV", "t.tsv.gz"])
def test_the_name_of_a_file_tells_tabs_from_commas(tmp_path, name):
    """Where commas are more frequent than tabs."""
    content = b"a,b,c\td\n1,5,6\t2\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_table(tmp_path / name).columns.tolist() == ["a,b,c", "d"]


@pytest.mark.parametrize("rows", [0, 2, 5])
@pytest.mark.parametrize("targets", [(), (1,), (3,)])
def test_an_archive_is_a_table(tmp_path, rows, targets):
    rng = np.random.default_rng(0)
    X, y, groups = rng.standard_normal((5, 2)), rng.standard_normal((5, *targets)), np.array([0, 0, 1, 1, 1])
    np.savez(tmp_path / "a.npz", X=X, y=y, groups=groups)
    table = pandas.concat(readers._archive(tmp_path / "a.npz", rows))
    names = [f"y{i}" for i in range(targets[0])] if targets else ["y"]
    assert table.columns.tolist() == ["groups", *names, "x0", "x1"]
    np.testing.assert_array_equal(table[names].to_numpy(), y.reshape(5, -1))
    np.testing.assert_array_equal(table[["x0", "x1"]].to_numpy(), X)


@pytest.mark.parametrize("labels", [(1, 2, 3), (0, 1, 2), (4, 9, 1)])
def test_rows_longer_than_the_header_are_refused(labels, tmp_path):
    """Also where labels look like the numbers of rows."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{label},2,3\n" for label in labels))
    with pytest.raises(BadTableError, match="3 values, but the header has 2 names; name every column"):
        read_table(path)

"""Tables from files, at once or in chunks: CSV with any delimiter, Parquet, Feather, Excel,
archives, standard input.

Memory is bounded by the file as it is on the disk, for compressed text by limits: a chunk has at
most ``LARGE`` bytes of text, and a table that is read at once a quarter of the free memory.
"""

import codecs
import csv
import gzip
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from forgetless._text import needs
from forgetless._validate import MEMORY_LIMIT, check_memory
from forgetless._validate import readable as readable_bytes
from forgetless.errors import FileError
from forgetless.io import check_source

T = TypeVar("T")

_TEXT = (".csv", ".tsv", ".txt")
_EXCEL = (".xlsx", ".xlsm")
_KINDS = (*_TEXT, *_EXCEL, ".parquet", ".feather", ".arrow", ".npz", ".safetensors")
_READABLE = ".csv, .tsv (also with .gz), .parquet, .feather, .xlsx, .npz or .safetensors"

_SAMPLE = 2**16
"""Bytes from which the delimiter of a file is detected."""

_DELIMITERS = ",;\t|"

_RARE = ":^~ "
"""Delimiters that are tried if there is none of these."""

LARGE = 2**28
"""Bytes above which a file is read in chunks: of text when it is not compressed, and a quarter of
that for Parquet. Also the most bytes of text in a chunk of a compressed file."""

CHUNK = 100_000
"""Most rows of a chunk."""

_RATIO = 1032
"""No text is compressed by more than this factor in a .gz file."""

_BLOCK = 2**20
"""Bytes of a compressed file that are counted at a time."""


class BadTableError(ValueError):
    """An ambiguous table."""


class _Dialect(NamedTuple):
    """Delimiter, decimal sign, compression, line of the header and encoding of a text file."""

    delimiter: str
    decimal: str
    compressed: bool
    line: int
    encoding: str


class _Bounded(io.RawIOBase):
    """A file of which at most ``most`` bytes are read; BadTableError for more, until ``left`` is
    set again.
    """

    def __init__(self, file: Any, most: int, message: str) -> None:
        self.file = file
        self.left = most
        self.message = message

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.file.read(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise BadTableError(self.message)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def kind_of(path: Path) -> str:
    """Return the suffix of a file without .gz; .csv for standard input."""
    if str(path) == "-":
        return ".csv"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]
    if kind not in _KINDS or (suffixes[-1] == ".gz" and kind not in _TEXT):
        raise ValueError(
            f"{path.name}: tables are read from {_READABLE} files, not {kind or 'others'}"
        )
    return kind


def is_large(path: Path) -> bool:
    """Return whether a file should be read in chunks."""
    if str(path) == "-":
        return False
    size = path.stat().st_size
    suffix = path.suffix.lower()
    if suffix != ".gz":
        return size > (LARGE // 4 if suffix == ".parquet" else LARGE)
    if size <= LARGE // _RATIO:
        return False
    total = 0
    with reading(path), gzip.open(path) as file:
        while total <= LARGE and (block := file.read(_BLOCK)):
            total += len(block)
    return total > LARGE


def chunk_rows(path: Path) -> int:
    """Return the rows of a chunk of a large file: fewer than ``CHUNK`` where the first lines are
    long.
    """
    if kind_of(path) not in _TEXT:
        return CHUNK
    with reading(path):
        start = _start(path)
    return max(1, min(CHUNK, LARGE // 4 // (len(start) // max(start.count(b"\n"), 1) + 1)))


def read_table(path: str | Path, text_columns: Collection[str] = ()) -> Any:
    """Return the table in a file as a pandas data frame.

    Parameters
    ----------
    path : str or Path
        CSV with any delimiter, TSV (both also .gz), Parquet, Feather, Excel (its first sheet),
        .npz, or ``-`` for CSV on standard input.
    text_columns : collection of str
        Columns that are not converted to numbers, for example to keep leading zeros.

    Returns
    -------
    pandas.DataFrame
    """
    path = Path(path)
    check_table(path)
    frames = list(_guarded(path, 0, text_columns))
    table = frames[0] if len(frames) == 1 else _pandas().concat(frames, ignore_index=True)
    return _checked_names(table, path)


def read_chunks(
    path: Path, rows: int, text_columns: Collection[str] = ()
) -> Generator[Any, None, None]:
    """Yield a file as data frames of at most ``rows`` rows; columns of text in the first are text
    in all.
    """
    check_table(path)
    for frame in read_ahead(_guarded(path, rows, text_columns)):
        yield _checked_names(frame, path)


def read_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a thread of its own, one item ahead.

    Examples
    --------
    >>> list(read_ahead(i**2 for i in range(3)))
    [0, 1, 4]
    """
    end: Any = object()
    with ThreadPoolExecutor(1, "forgetless-reader") as thread:
        following = thread.submit(next, items, end)
        try:
            while (item := following.result()) is not end:
                following = thread.submit(next, items, end)
                yield item
        finally:
            thread.submit(items.close)  # after the item in progress, which cannot be interrupted


def _checked_names(table: Any, path: Path) -> Any:
    """Return a table without spaces around the names of columns; BadTableError if names are
    repeated.
    """
    names = [str(name).strip() for name in table.columns]
    if names != list(table.columns):
        table = table.set_axis(names, axis=1)
    twice = [str(name) for name in table.columns[table.columns.duplicated()]]
    if twice:
        raise BadTableError(
            f"{path.name} has several columns named {twice[0]!r}; give each its own name"
        )
    return table


def check_table(path: Path) -> None:
    """Raise an error if a file does not exist or is not of a readable kind."""
    if str(path) != "-":
        check_source(path)
    kind_of(path)
    _pandas()


def _pandas() -> Any:
    with needs("reading tables", "pandas", "tables"):
        import pandas
    return pandas


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of pandas, pyarrow, openpyxl and zlib into one sentence that names the file."""
    try:
        yield
    except (BadTableError, FileError, ImportError):
        raise
    except MemoryError as error:  # damaged files may also ask for any size
        raise MemoryError(
            f"{path.name} cannot be read: {error}" if str(error) else f"{path.name} is too large"
        ) from None
    except UnicodeError:
        raise ValueError(
            f"{path.name} is not written in UTF-8; convert it, e.g. with iconv -f latin1 -t utf-8,"
            " or in Excel save it as CSV UTF-8"
        ) from None
    # damaged files raise nearly anything: KeyError, NotImplementedError, zlib.error …
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path.name} cannot be read as {kind_of(path)[1:]} ({why[:500]}); is it damaged?"
        ) from error


def _guarded(path: Path, rows: int, text_columns: Collection[str]) -> Generator[Any, None, None]:
    """Yield the frames of a file; errors are one sentence."""
    kind = kind_of(path)
    binary = {
        ".parquet": _parquet,
        ".feather": _feather,
        ".arrow": _feather,
        ".npz": _archive,
        ".safetensors": _archive,
    }
    read = {**binary, **dict.fromkeys(_EXCEL, _excel)}.get(kind)
    frames = _text(path, rows, text_columns) if read is None else read(path, rows)
    while True:
        with reading(path):  # around the reader alone, not around those who use its frames
            frame = next(frames, None)
        if frame is None:
            return
        yield frame


def _text(path: Path, rows: int, text_columns: Collection[str]) -> Iterator[Any]:
    """Yield a text file; BadTableError for repeated names and for rows with more values than the
    header.

    pandas would take the first value of a longer row for its label, which shifts all columns.
    """
    pandas = _pandas()
    raw = _standard_input() if str(path) == "-" else None
    start = _start(path) if raw is None else raw[:_SAMPLE]
    how, header = _dialect(start, path)
    _check_header(path, how.line, header)
    _check_first_row(start.decode(how.encoding, errors="replace"), how, len(header), path)
    options: dict[str, Any] = {"sep": how.delimiter, "decimal": how.decimal, "low_memory": False}
    options |= {
        "encoding": how.encoding,
        "dtype": {name: str for name in header if name.strip() in text_columns},
    }

    def finished(frame: Any) -> Any:
        frame = _without_decimals(frame, text_columns)
        return _numbered(
            _with_thousands(frame, text_columns) if how.decimal == "," else frame, path, header
        )

    def opened() -> Any:
        return io.BytesIO(raw) if raw is not None else _opened(path, chunked=rows > 0)

    if not rows:
        with opened() as source:
            yield finished(pandas.read_csv(source, **options))
        return
    with opened() as source:
        start = pandas.read_csv(source, nrows=rows, **options)
    strings = [
        name
        for name in start.columns
        if pandas.api.types.infer_dtype(start[name], skipna=True) == "string"
    ]
    for frame in _pieces(opened, rows, options, strings):
        yield finished(frame)


def _standard_input() -> bytes:
    raw = sys.stdin.buffer.read()
    if raw[:2] != b"\x1f\x8b":
        return raw
    most = MEMORY_LIMIT // 4
    with io.BufferedReader(
        _Bounded(gzip.GzipFile(fileobj=io.BytesIO(raw)), most, _too_large("-", most))
    ) as file:
        return file.read()


def _opened(path: Path, *, chunked: bool) -> Any:
    """Return a text file as bytes, decompressed; BadTableError where its text exceeds the memory
    for it.
    """
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    most = LARGE if chunked else MEMORY_LIMIT // 4
    return io.BufferedReader(
        _Bounded(gzip.open(path), most, _too_large(path.name, most, chunked=chunked))
    )


def _too_large(name: str, most: int, *, chunked: bool = False) -> str:
    if chunked:
        return (
            f"{name}: a chunk of its rows has more than {readable_bytes(most)} of text; use fewer"
            " --chunk-rows"
        )
    hint = "read it in chunks, with fit and --chunk-rows, or split it"
    return f"{name} has more than {readable_bytes(most)} of text when it is decompressed; {hint}"


def _check_header(path: Path, line: int, header: list[str]) -> None:
    twice = [
        name
        for name, count in Counter(name.strip() for name in header).items()
        if count > 1 and name
    ]
    if twice:
        raise BadTableError(
            f"{path.name}, line {line}: several columns are named {twice[0]!r}; give each its own"
            " name"
        )


def _pieces(
    opened: Callable[[], Any], rows: int, options: dict[str, Any], strings: Collection[str]
) -> Iterator[Any]:
    """Yield a text file in chunks. A chunk of a column of strings may look like numbers: 007 is not
    7.

    pandas reads inferred strings faster than declared ones, so they are declared only from such a
    chunk on.
    """
    done = 0
    declared = {**options, "dtype": options["dtype"] | dict.fromkeys(strings, str)}
    for current in (options, declared):
        with opened() as source, _pandas().read_csv(source, chunksize=rows, **current) as frames:
            for i, frame in enumerate(frames):
                if isinstance(getattr(source, "raw", None), _Bounded):
                    source.raw.left = LARGE
                if i < done:
                    continue
                if current is options and any(_is_numbers(frame[name]) for name in strings):
                    break
                yield frame
                done += 1
            else:
                return


def _is_numbers(column: Any) -> bool:
    return column.dtype.kind in "biuf" and not column.isna().all()


def _without_decimals(frame: Any, text_columns: Collection[str]) -> Any:
    """Return a frame whose text columns of integers have no decimals: pandas writes 3.0 where
    values are missing.
    """
    for name in frame.columns:
        if (
            str(name).strip() in text_columns
            and (text := frame[name].dropna()).size
            and text.str.fullmatch(r"-?\d+\.0").all()
        ):
            frame[name] = frame[name].str.removesuffix(".0")
    return frame


def _with_thousands(frame: Any, text_columns: Collection[str]) -> Any:
    """Return a frame of a file with decimal commas in which 1.234 is a thousand."""
    for name in frame.columns:
        if str(name).strip() not in text_columns and frame[name].dtype.kind not in "biufM":
            text = frame[name].astype("str").where(frame[name].notna())
            if text.dropna().size and text.dropna().str.fullmatch(r"-?\d{1,3}(\.\d{3})*").all():
                frame[name] = text.str.replace(".", "", regex=False).astype(float)
    return frame


def _check_first_row(text: str, how: _Dialect, n_names: int, path: Path) -> None:
    """Raise BadTableError if the first row has more values than the header has names.

    pandas would take its first value for a label. Labels such as 1, 2, 3 become the same kind of
    index that numbered rows have, so that the frame does not show it.
    """
    with suppress(csv.Error):  # a value longer than the module's limit
        reader = csv.reader(io.StringIO(text), delimiter=how.delimiter)
        rows = (row for row in reader if row)
        first = next(itertools.islice(rows, 1, None), [])
        if len(first) > n_names:
            raise BadTableError(
                f"{path.name}, line {reader.line_num}: {len(first)} values, but the header has"
                f" {n_names} names; name every column"
            )


def _numbered(frame: Any, path: Path, header: list[str]) -> Any:
    """Return a frame with numbered rows; BadTableError if pandas has taken values for labels of
    rows.
    """
    if isinstance(frame.index, _pandas().RangeIndex):
        return frame.reset_index(drop=True)
    for line, values in records(path) if str(path) != "-" else ():
        if len(values) != len(header):
            raise BadTableError(
                f"{path.name}, line {line}: {len(values)} values, but the header has {len(header)}"
                " names; name every column"
            )
    raise BadTableError(f"{path.name} has rows with more values than names; name every column")


def _dialect(start: bytes, path: Path) -> tuple[_Dialect, list[str]]:
    """Return the dialect and the header of a text file from its first bytes."""
    wide = (
        start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and start[:4] != codecs.BOM_UTF32_LE
    )
    encoding = "utf-16" if wide else "utf-8-sig"
    lines = start.decode(encoding, errors="replace").splitlines()
    at, first = next(((i, line) for i, line in enumerate(lines, 1) if line.strip()), (1, ""))
    bare = re.sub(r'"[^"]*"', "", first)  # delimiters inside quotes delimit nothing
    tabs = path.suffixes[-2:-1] == [".tsv"] or path.suffix.lower() == ".tsv"
    usual = "\t" if tabs else max(_DELIMITERS, key=bare.count)
    delimiter = usual if usual in bare else max(usual + _RARE, key=bare.count)
    point = re.compile(r"(^|[;\t|])-?(?!\d{1,3}(\.\d{3})+($|[;\t|]))\d+\.\d+($|[;\t|])")
    comma = re.compile(r"(^|[;\t|])-?(\d+|\d{1,3}(\.\d{3})+),\d+($|[;\t|])")
    # Decimal commas where columns are not delimited by commas, and nothing is written with a
    # decimal point. A sample may end within a line.
    body = lines[at : -1 if len(start) >= _SAMPLE else None]
    decimal = "."
    if delimiter != "," and any(map(comma.search, body)) and not any(map(point.search, body)):
        decimal = ","
    header = next(csv.reader([first], delimiter=delimiter), []) if first else []
    return _Dialect(delimiter, decimal, path.suffix.lower() == ".gz", at, encoding), header


def notes_on(path: Path) -> list[str]:
    """Return notes on the interpretation of a file."""
    with reading(path):
        if kind_of(path) in _EXCEL:
            first, *others = _workbook(path).sheet_names
            return (
                [f"only the first of {1 + len(others)} sheets was read, {first}"] if others else []
            )
        if (
            kind_of(path) not in _TEXT
            or str(path) == "-"
            or _dialect(_start(path), path)[0].decimal != ","
        ):
            return []
    return [f"{path.name} has decimal commas: 1,234 is a little more than one"]


def _start(path: Path) -> bytes:
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
        return file.read(_SAMPLE)


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text file that are not blank, each with the number of its last
    line.
    """
    how, _ = _dialect(_start(path), path)
    with _opened(path, chunked=False) as raw:
        file = io.TextIOWrapper(raw, newline="", encoding=how.encoding, errors="replace")
        reader = csv.reader(file, delimiter=how.delimiter)
        try:
            for values in reader:
                if values:
                    yield reader.line_num, values
        # a value longer than the module's limit, which pandas reads; too much text
        except (csv.Error, BadTableError):
            return


def line_of(path: Path, row: int) -> str:
    """Return the line of row ``row`` ≥ 0 of a table in its file, for error messages."""
    if kind_of(path) not in _TEXT or str(path) == "-":
        return f"row {row + 1}"
    line, _ = next(itertools.islice(records(path), row + 1, None), (row + 2, []))
    return f"line {line}"


def line_with(path: Path, column: str, value: str) -> str:
    """Return the line of a text file in which a column first has a value, e.g. "line 7"; "" if it
    is not known.
    """
    if kind_of(path) not in _TEXT or str(path) == "-":
        return ""
    lines = records(path)
    header = [name.strip() for name in next(lines, (0, []))[1]]
    at = header.index(column) if column in header else len(header)
    return next(
        (f"line {line}" for line, cells in lines if at < len(cells) and cells[at] == value), ""
    )


def check_labelled(path: Path, column: Any, first_row: int) -> None:
    """Raise ValueError where the column of tasks has missing values; its first value is in row
    ``first_row``.
    """
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"{path.name}: {int(missing.sum())} rows have no value of {column.name!r}, first in "
            f"{line_of(path, first_row + int(np.argmax(missing)))}; drop or name them"
        )


def _parquet(path: Path, rows: int) -> Iterator[Any]:
    with needs("reading Parquet files", "pyarrow", "tables"):
        from pyarrow.parquet import ParquetFile

    with ParquetFile(path, page_checksum_verification=True) as file:
        for part in file.iter_batches(batch_size=rows) if rows else [file.read()]:
            yield _frame(part)


def _frame(table: Any) -> Any:
    """Return a table of pyarrow as a data frame; ValueError for places outside of it, at which
    pandas would crash.
    """
    table.validate(full=True)
    return table.to_pandas()


def _feather(path: Path, rows: int) -> Iterator[Any]:
    with needs("reading Feather files", "pyarrow", "tables"):
        from pyarrow import feather

    table = _frame(feather.read_table(path, memory_map=False))
    for low in range(0, max(len(table), 1), rows or max(len(table), 1)):
        yield table.iloc[low : low + rows] if rows else table


def _workbook(path: Path) -> Any:
    with needs("reading Excel files", "openpyxl", "excel"):
        return _pandas().ExcelFile(path, engine="openpyxl")


def _excel(path: Path, rows: int) -> Iterator[Any]:
    """Yield the first sheet of a workbook, whose cells have types of their own."""
    with _workbook(path) as book:
        table = book.parse(0)
    for low in range(0, max(len(table), 1), rows or max(len(table), 1)):
        yield table.iloc[low : low + rows] if rows else table


def _archive(path: Path, rows: int) -> Iterator[Any]:
    """Yield an archive of X, y and groups, or a saved task collection, as a table with these
    names.
    """
    from forgetless.tables.task_files import read_archive

    X, y, groups = read_archive(path)
    check_memory(X.size, f"reading {path.name}", "use fewer rows")
    targets = {"y": y} if y.ndim == 1 else {f"y{i}": y[:, i] for i in range(y.shape[1])}
    columns = {"groups": groups, **targets, **{f"x{i}": X[:, i] for i in range(X.shape[1])}}
    table = _pandas().DataFrame({name: np.asarray(column) for name, column in columns.items()})
    for low in range(0, len(table), rows or len(table)):
        yield table.iloc[low : low + rows] if rows else table

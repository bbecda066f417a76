"""Tables from files, at once or in chunks: CSV with any delimiter, Parquet, Feather, archives, standard input."""

import csv
import gzip
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from forgetless._core.environment import needs
from forgetless._core.validate import check_memory

T = TypeVar("T")

TEXT = (".csv", ".tsv", ".txt")
KINDS = (*TEXT, ".parquet", ".feather", ".arrow", ".npz", ".fl")
READABLE = ".csv, .tsv (also with .gz), .parquet, .feather, .npz or .fl"

SAMPLE = 2**16
"""Bytes from which the delimiter of a file is detected."""

DELIMITERS = ",;\t|"

RARE = ":^~ "
"""Delimiters that are tried if there is none of these."""

LARGE = 2**28
"""Bytes above which a file is read in chunks; a quarter of that for compressed files."""

CHUNK = 100_000
"""Rows of a chunk."""


class BadTableError(ValueError):
    """An ambiguous table."""


class Dialect(NamedTuple):
    """Delimiter, decimal sign, compression and line of the header of a text file."""

    delimiter: str
    decimal: str
    compressed: bool
    line: int


def kind_of(path: Path) -> str:
    """Return the suffix of a file without .gz; .csv for standard input."""
    if str(path) == "-":
        return ".csv"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]
    if kind not in KINDS or (suffixes[-1] == ".gz" and kind not in TEXT):
        raise ValueError(f"{path.name}: tables are read from {READABLE} files, not {kind or 'others'}")
    return kind


def is_large(path: Path) -> bool:
    """Return whether a file should be read in chunks."""
    if str(path) == "-":
        return False
    return path.stat().st_size > (LARGE // 4 if path.suffix.lower() in (".gz", ".parquet") else LARGE)


def read_table(path: str | Path, text_columns: Collection[str] = ()) -> Any:
    """Return the table in a file as a pandas data frame.

    Parameters
    ----------
    path : str or Path
        CSV with any delimiter, TSV (both also .gz), Parquet, Feather, .npz, or ``-`` for CSV on standard input.
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
    return checked_names(table, path)


def read_chunks(path: Path, rows: int = CHUNK, text_columns: Collection[str] = ()) -> Generator[Any, None, None]:
    """Yield a file as data frames of at most ``rows`` rows; columns of text in the first are text in all."""
    check_table(path)
    for frame in read_ahead(_guarded(path, rows, text_columns)):
        yield checked_names(frame, path)


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


def checked_names(table: Any, path: Path) -> Any:
    """Return a table without spaces around the names of columns; BadTableError if names are repeated."""
    names = [str(name).strip() for name in table.columns]
    if names != list(table.columns):
        table = table.set_axis(names, axis=1)
    twice = [str(name) for name in table.columns[table.columns.duplicated()]]
    if twice:
        raise BadTableError(f"{path.name} has several columns named {twice[0]!r}; give each its own name")
    return table


def check_table(path: Path) -> None:
    """Raise an error if a file does not exist or is not of a readable kind."""
    if str(path) != "-" and not path.is_file():
        raise FileNotFoundError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    kind_of(path)
    _pandas()


def _pandas() -> Any:
    with needs("reading tables", "pandas", "cli"):
        import pandas
    return pandas


def _guarded(path: Path, rows: int, text_columns: Collection[str]) -> Generator[Any, None, None]:
    """Yield the frames of a file; errors of pandas and pyarrow become one sentence."""
    kind = kind_of(path)
    read = {".parquet": _parquet, ".feather": _feather, ".arrow": _feather, ".npz": _archive, ".fl": _archive}.get(kind)
    try:
        yield from _text(path, rows, text_columns) if read is None else read(path, rows)
    except BadTableError:
        raise
    except UnicodeError:
        raise ValueError(
            f"{path.name} is not written in UTF-8; convert it, e.g. with iconv -f latin1 -t utf-8, or in Excel save it "
            "as CSV UTF-8"
        ) from None
    except (ValueError, OSError, EOFError) as error:  # pandas' and pyarrow's own errors are among these
        raise ValueError(f"{path.name} cannot be read as {kind[1:]} ({error})") from error


def _text(path: Path, rows: int, text_columns: Collection[str]) -> Iterator[Any]:
    """Yield a text file; BadTableError for repeated names and for rows with more values than the header.

    pandas would take the first value of a longer row for its label, which shifts all columns.
    """
    pandas = _pandas()
    source: Any
    if str(path) == "-":
        raw = sys.stdin.buffer.read()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        source, start = io.BytesIO(raw), raw[:SAMPLE]
    else:
        source, start = path, _start(path)
    how, header = dialect(start, path)
    _check_header(path, how.line, header)
    options: dict[str, Any] = {"sep": how.delimiter, "decimal": how.decimal, "low_memory": False}
    if str(path) != "-":
        options["compression"] = "gzip" if how.compressed else None
    options["dtype"] = {name: str for name in header if name.strip() in text_columns}
    if not rows:
        yield _numbered(_without_decimals(pandas.read_csv(source, **options), text_columns), path, header)
        return
    start = pandas.read_csv(source, nrows=rows, **options)
    strings = [name for name in start.columns if pandas.api.types.infer_dtype(start[name], skipna=True) == "string"]
    for frame in _pieces(source, rows, options, strings):
        yield _numbered(_without_decimals(frame, text_columns), path, header)


def _check_header(path: Path, line: int, header: list[str]) -> None:
    twice = [name for name, count in Counter(name.strip() for name in header).items() if count > 1 and name]
    if twice:
        raise BadTableError(f"{path.name}, line {line}: several columns are named {twice[0]!r}; give each its own name")


def _pieces(source: Any, rows: int, options: dict[str, Any], strings: Collection[str]) -> Iterator[Any]:
    """Yield a text file in chunks. A chunk of a column of strings may look like numbers: 007 is not 7.

    pandas reads inferred strings faster than declared ones, so they are declared only from such a chunk on.
    """
    done = 0
    declared = {**options, "dtype": options["dtype"] | dict.fromkeys(strings, str)}
    for current in (options, declared):
        if hasattr(source, "seek"):
            source.seek(0)
        with _pandas().read_csv(source, chunksize=rows, **current) as frames:
            for frame in itertools.islice(frames, done, None):
                if current is options and any(_is_numbers(frame[name]) for name in strings):
                    break
                yield frame
                done += 1
            else:
                return


def _is_numbers(column: Any) -> bool:
    return column.dtype.kind in "biuf" and not column.isna().all()


def _without_decimals(frame: Any, text_columns: Collection[str]) -> Any:
    """Return a frame whose text columns of integers have no decimals: pandas writes 3.0 where values are missing."""
    for name in frame.columns:
        if (
            str(name).strip() in text_columns
            and (text := frame[name].dropna()).size
            and text.str.fullmatch(r"-?\d+\.0").all()
        ):
            frame[name] = frame[name].str.removesuffix(".0")
    return frame


def _numbered(frame: Any, path: Path, header: list[str]) -> Any:
    """Return a frame with numbered rows; BadTableError if pandas has taken values for labels of rows."""
    if isinstance(frame.index, _pandas().RangeIndex):
        return frame.reset_index(drop=True)
    for line, values in records(path) if str(path) != "-" else ():
        if len(values) != len(header):
            raise BadTableError(
                f"{path.name}, line {line}: {len(values)} values, but the header has {len(header)} names; "
                "name every column"
            )
    raise BadTableError(f"{path.name} has rows with more values than names; name every column")


def dialect(start: bytes, path: Path) -> tuple[Dialect, list[str]]:
    """Return the dialect and the header of a text file from its first bytes."""
    lines = start.decode("utf-8-sig", errors="replace").splitlines()
    at, first = next(((i, line) for i, line in enumerate(lines, 1) if line.strip()), (1, ""))
    bare = re.sub(r'"[^"]*"', "", first)  # delimiters inside quotes delimit nothing
    tabs = path.suffixes[-2:-1] == [".tsv"] or path.suffix.lower() == ".tsv"
    usual = "\t" if tabs else max(DELIMITERS, key=bare.count)
    delimiter = usual if usual in bare else max(usual + RARE, key=bare.count)
    comma = re.compile(r"(^|[;\t|])-?\d+,\d+($|[;\t|])")
    point = re.compile(r"(^|[;\t|])-?\d+\.\d+($|[;\t|])")
    # Decimal commas where columns are not delimited by commas, and nothing is written with a point. A sample may end
    # within a line.
    body = lines[at : -1 if len(start) >= SAMPLE else None]
    decimal = "."
    if delimiter != "," and any(map(comma.search, body)) and not any(map(point.search, body)):
        decimal = ","
    header = next(csv.reader([first], delimiter=delimiter), []) if first else []
    return Dialect(delimiter, decimal, path.suffix.lower() == ".gz", at), header


def notes_on(path: Path) -> list[str]:
    """Return notes on the interpretation of a file."""
    if kind_of(path) not in TEXT or str(path) == "-" or dialect(_start(path), path)[0].decimal != ",":
        return []
    return [f"{path.name} has decimal commas: 1,234 is a little more than one"]


def _start(path: Path) -> bytes:
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
        return file.read(SAMPLE)


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text file that are not blank, each with the number of its last line."""
    how, _ = dialect(_start(path), path)
    opened = gzip.open if how.compressed else open
    with opened(path, "rt", newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.reader(file, delimiter=how.delimiter)
        try:
            for values in reader:
                if values:
                    yield reader.line_num, values
        except csv.Error:  # a value longer than the module's limit; pandas reads it
            return


def line_of(path: Path, row: int) -> str:
    """Return the line of row ``row`` ≥ 0 of a table in its file, for error messages."""
    if kind_of(path) not in TEXT or str(path) == "-":
        return f"row {row + 1}"
    line, _ = next(itertools.islice(records(path), row + 1, None), (row + 2, []))
    return f"line {line}"


def check_labelled(path: Path, column: Any, first_row: int) -> None:
    """Raise ValueError where the column of tasks has missing values; its first value is in row ``first_row``."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"{path.name}: {int(missing.sum())} rows have no value of {column.name!r}, first in "
            f"{line_of(path, first_row + int(np.argmax(missing)))}; drop or name them"
        )


def _parquet(path: Path, rows: int) -> Iterator[Any]:
    if not rows:
        yield _pandas().read_parquet(path)
        return
    from pyarrow.parquet import ParquetFile

    for batch in ParquetFile(path).iter_batches(batch_size=rows):
        yield batch.to_pandas()


def _feather(path: Path, rows: int) -> Iterator[Any]:
    table = _pandas().read_feather(path)
    for low in range(0, max(len(table), 1), rows or max(len(table), 1)):
        yield table.iloc[low : low + rows] if rows else table


def _archive(path: Path, rows: int) -> Iterator[Any]:
    """Yield an archive of X, y and groups, or a saved task collection, as a table with these names."""
    from forgetless.tables.task_files import read_archive

    X, y, groups = read_archive(path)
    check_memory(X.size, f"reading {path.name}", "use fewer rows")
    targets = {"y": y} if y.ndim == 1 else {f"y{i}": y[:, i] for i in range(y.shape[1])}
    columns = {"groups": groups, **targets, **{f"x{i}": X[:, i] for i in range(X.shape[1])}}
    table = _pandas().DataFrame({name: np.asarray(column) for name, column in columns.items()})
    for low in range(0, len(table), rows or len(table)):
        yield table.iloc[low : low + rows] if rows else table

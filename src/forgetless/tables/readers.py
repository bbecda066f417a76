"""Tables from files, whole or some rows at a time: CSV with any delimiter, Parquet, Feather, archives; also stdin."""

import csv
import gzip
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Collection, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.environment import needs
from forgetless._core.validate import check_memory

TEXT = (".csv", ".tsv", ".txt")
KINDS = (*TEXT, ".parquet", ".feather", ".arrow", ".npz", ".fl")
READABLE = ".csv, .tsv (also with .gz), .parquet, .feather, .npz or .fl"

SAMPLE = 2**16
"""Bytes of a file that are looked at for its delimiter."""

DELIMITERS = ",;\t|"

RARE = ":^~ "
"""Delimiters that are thought of where there is none of these."""

LARGE = 2**28
"""Bytes from which on a file is read some rows at a time; of one that is packed a quarter of that."""

CHUNK = 100_000
"""Rows that are read at a time."""


class BadTableError(ValueError):
    """A table that can be read, but in more than one way."""


class Dialect(NamedTuple):
    """How a text file is written."""

    delimiter: str
    decimal: str
    packed: bool
    line: int


def kind_of(path: Path) -> str:
    """Return the ending of a file that tells what it is, without .gz; .csv for standard input."""
    if str(path) == "-":
        return ".csv"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]
    if kind not in KINDS or (suffixes[-1] == ".gz" and kind not in TEXT):
        raise ValueError(f"{path.name}: tables are read from {READABLE} files, not {kind or 'others'}")
    return kind


def is_large(path: Path) -> bool:
    """Return whether a file should be read some rows at a time."""
    if str(path) == "-":
        return False
    return path.stat().st_size > (LARGE // 4 if path.suffix.lower() in (".gz", ".parquet") else LARGE)


def read_table(path: Path, words: Collection[str] = ()) -> Any:
    """Return a file as a pandas data frame; ``-`` is standard input.

    Columns named in ``words`` keep what a text file says, such as the zeros before a number.
    """
    check_table(path)
    frames = list(_guarded(path, 0, words))
    table = frames[0] if len(frames) == 1 else _pandas().concat(frames, ignore_index=True)
    return checked_names(table, path)


def read_chunks(path: Path, rows: int = CHUNK, words: Collection[str] = ()) -> Generator[Any, None, None]:
    """Yield a file as data frames of at most ``rows`` rows; what is words in the first is words in all."""
    check_table(path)
    for frame in _guarded(path, rows, words):
        yield checked_names(frame, path)


def checked_names(table: Any, path: Path) -> Any:
    """Return a table without the spaces around names of columns, refusing columns of one name."""
    names = [str(name).strip() for name in table.columns]
    if names != list(table.columns):
        table = table.set_axis(names, axis=1)
    twice = [str(name) for name in table.columns[table.columns.duplicated()]]
    if twice:
        raise BadTableError(f"{path.name} has several columns named {twice[0]!r}; give each its own name")
    return table


def check_table(path: Path) -> None:
    """Refuse what is no table that can be read, before anything is."""
    if str(path) != "-" and not path.is_file():
        raise FileNotFoundError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    kind_of(path)
    _pandas()


def _pandas() -> Any:
    with needs("reading tables", "pandas", "cli"):
        import pandas
    return pandas


def _guarded(path: Path, rows: int, words: Collection[str] = ()) -> Iterator[Any]:
    """Yield the frames of a file; what pandas and pyarrow have to say becomes one sentence."""
    kind = kind_of(path)
    read = {".parquet": _parquet, ".feather": _feather, ".arrow": _feather, ".npz": _archive, ".fl": _archive}.get(kind)
    try:
        yield from _text(path, rows, words) if read is None else read(path, rows)
    except BadTableError:
        raise
    except UnicodeError:
        raise ValueError(
            f"{path.name} is not written in UTF-8; convert it, e.g. with iconv -f latin1 -t utf-8, or in Excel save it "
            "as CSV UTF-8"
        ) from None
    except (ValueError, OSError, EOFError) as error:  # pandas' and pyarrow's own errors are among these
        raise ValueError(f"{path.name} cannot be read as {kind[1:]} ({error})") from error


def _text(path: Path, rows: int, words: Collection[str]) -> Iterator[Any]:
    """Yield a text file; refuse what pandas would guess at: names given twice, rows with more values.

    pandas takes the first value of a row that has one more than the header for a row's label, which shifts all columns.
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
    twice = [name for name, count in Counter(name.strip() for name in header).items() if count > 1 and name]
    if twice:
        raise BadTableError(
            f"{path.name}, line {how.line}: several columns are named {twice[0]!r}; give each its own name"
        )
    options: dict[str, Any] = {"sep": how.delimiter, "decimal": how.decimal, "low_memory": False}
    if str(path) != "-":
        options["compression"] = "gzip" if how.packed else None
    options["dtype"] = {name: str for name in header if name.strip() in words}
    if not rows:
        yield _numbered(_plain(pandas.read_csv(source, **options), words), path, header)
        return
    start = pandas.read_csv(source, nrows=rows, **options)
    said = [name for name in start.columns if pandas.api.types.infer_dtype(start[name], skipna=True) == "string"]
    for frame in _pieces(source, rows, options, said):
        yield _numbered(_plain(frame, words), path, header)


def _pieces(source: Any, rows: int, options: dict[str, Any], said: Collection[str]) -> Iterator[Any]:
    """Yield a text file some rows at a time. A column of words may hold a piece that looks like numbers: 007 is no 7.

    Words that pandas finds by itself are read faster than those it is told of, so it is told where it went wrong.
    """
    done = 0
    told = {**options, "dtype": options["dtype"] | dict.fromkeys(said, str)}
    for given in (options, told):
        if hasattr(source, "seek"):
            source.seek(0)
        with _pandas().read_csv(source, chunksize=rows, **given) as frames:
            for frame in itertools.islice(frames, done, None):
                if given is options and any(_is_numbers(frame[name]) for name in said):
                    break
                yield frame
                done += 1
            else:
                return


def _is_numbers(column: Any) -> bool:
    return column.dtype.kind in "biuf" and not column.isna().all()


def _plain(frame: Any, words: Collection[str]) -> Any:
    """Return a frame whose words are numbers as they were meant: 3 where all are written like 3.0, since some miss."""
    for name in frame.columns:
        if str(name).strip() in words and (said := frame[name].dropna()).size and said.str.fullmatch(r"-?\d+\.0").all():
            frame[name] = frame[name].str.removesuffix(".0")
    return frame


def _numbered(frame: Any, path: Path, header: list[str]) -> Any:
    """Return a frame whose rows are numbered; refuse one that pandas found labels of rows in."""
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
    """Return how a text file is written, and its header, from its first bytes."""
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


def said_of(path: Path) -> list[str]:
    """Return what a reader of a file should know of how it was read."""
    if kind_of(path) not in TEXT or str(path) == "-" or dialect(_start(path), path)[0].decimal != ",":
        return []
    return [f"{path.name} has decimal commas: 1,234 is a little more than one"]


def _start(path: Path) -> bytes:
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
        return file.read(SAMPLE)


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text file that are not blank, each with the number of its last line."""
    how, _ = dialect(_start(path), path)
    opened = gzip.open if how.packed else open
    with opened(path, "rt", newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.reader(file, delimiter=how.delimiter)
        try:
            for values in reader:
                if values:
                    yield reader.line_num, values
        except csv.Error:  # a value longer than the module's limit; pandas reads it
            return


def line_of(path: Path, row: int) -> str:
    """Return where row number ``row`` ≥ 0 of a table is in its file, as part of a sentence."""
    if kind_of(path) not in TEXT or str(path) == "-":
        return f"row {row + 1}"
    line, _ = next(itertools.islice(records(path), row + 1, None), (row + 2, []))
    return f"line {line}"


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

"""Tables from files, in chunks: CSV with one of four delimiters, Parquet and Excel, all by pandas.

What pandas leaves open is decided here by the first lines: the delimiter, a decimal comma, the
columns whose digits are codes (07). ``csv.Sniffer`` and ``pandas.read_csv(sep=None)`` take letters
for delimiters, and know neither decimal commas nor codes. Files are UTF-8, UTF-16 by its mark, or
else cp1252.
"""

import codecs
import contextlib
import csv
import gzip
import io
import re
import warnings
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from forgetless._running import track
from forgetless._text import printable
from forgetless.io import check_source
from forgetless.tables.values import CODE

CHUNK = 2**24
"""Bytes of a file that are looked at at a time; twice as many are text of a chunk of rows."""

ROWS = 500_000
"""Rows of a chunk at most: short rows take more memory as numbers than as text."""

SAMPLE = 2**16
"""Characters of the first lines that decide on the form."""

DELIMITERS = ",;\t|"
"""What may stand between values; of several that fit equally well the first."""

KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".xlsx": "excel",
}
"""Kinds of files by their last suffix."""

# A comma in a number is decimal if a column has more of these than of those with a point.
_DECIMAL_COMMA = r"[-+]?\d+,\d+"
_DECIMAL_POINT = r"[-+]?\d+\.\d+"


class TableFile:
    """A table in a file, of which a part is in memory at a time.

    Parameters
    ----------
    path : str or Path
    text : collection of str
        Columns whose cells are left as they are written, such as codes with leading zeros; those
        that the first lines show to be codes are among them.

    Attributes
    ----------
    notes : list of str
        What a user should know of how the file was read.
    n_bytes : int
        About how many bytes of text the file has.
    form : dict
        What ``pandas.read_csv`` is told of a text file.
    """

    def __init__(self, path: str | Path, text: Collection[str] = ()) -> None:
        self.path = check_source(path)
        self.text = frozenset(text)
        self.notes: list[str] = []
        self.is_gz = self.path.suffix.lower() == ".gz"
        suffix = self.path.with_suffix("").suffix if self.is_gz else self.path.suffix
        self.kind = KINDS.get(suffix.lower(), "")
        if not self.kind or (self.is_gz and self.kind != "csv"):
            raise ValueError(
                f"{self.path.name} is no table: its name must end in .csv, .tsv, .csv.gz, .parquet"
                " or .xlsx"
            )
        self.form: Any = {}
        self.names: list[str] = []
        self.n_bytes = self.path.stat().st_size
        if self.kind == "csv":
            self._sniff()
        if self.kind == "parquet":
            import pyarrow.parquet

            about = pyarrow.parquet.read_metadata(self.path)
            self.n_bytes = 8 * about.num_rows * about.num_columns

    def chunks(self) -> Iterator[pd.DataFrame]:
        """Yield the rows in pieces of bounded size, as data frames.

        Rows are numbered from 0 in the index, also over pieces, from which ``line_of`` finds their
        lines. What nobody has typed, such as a blank line, is no row, but has its number.
        """
        n_rows = 0
        with self._errors():
            chunks = getattr(self, f"_{self.kind}")()
            for chunk in track(chunks, "parts of the file", self.n_bytes // CHUNK):
                # Most tables have no gaps in their first column.
                rows = chunk.dropna(how="all") if chunk.iloc[:, 0].hasnans else chunk
                rows.columns = [str(name).strip() for name in rows.columns]
                n_rows += len(rows)
                yield rows
        if not n_rows:
            raise ValueError(f"{self.path.name} has no rows")

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return self.names or list(next(self.chunks()).columns)

    def line_of(self, row: int) -> str:
        """Return where a row stands, as "line 12", for a message.

        The file is read again up to there: a cell in quotes may hold line breaks, so that the line
        does not follow from the number of the row.
        """
        if not self.form:
            return f"row {row + 1}"
        with self._open(self.form["encoding"]) as file:
            lines = csv.reader(file, delimiter=self.form["sep"])
            next(islice(lines, row + 1, None), None)
            return f"line {lines.line_num}"

    # --- readers ---

    def _csv(self) -> Iterator[pd.DataFrame]:
        """Yield chunks of text, in which pandas has found the columns of numbers."""
        with warnings.catch_warnings():
            # Rows that are longer than the header would be cut with a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            chunks = pd.read_csv(
                self.path,
                **self.form,
                compression="gzip" if self.is_gz else None,
                index_col=False,
                low_memory=False,
                # Blank lines count in the numbers of rows, from which those of lines are found.
                skip_blank_lines=False,
            )
            with chunks:
                yield from chunks

    def _parquet(self) -> Iterator[pd.DataFrame]:
        """Yield batches of rows with the types that the file says."""
        import pyarrow.parquet

        file = pyarrow.parquet.ParquetFile(self.path)
        names = file.schema_arrow.names
        first = 0
        for batch in file.iter_batches(batch_size=max(CHUNK // (16 * len(names)), 1000)):
            # Columns that pandas has written as its index are columns too.
            frame = batch.to_pandas().reset_index()[names]
            yield frame.set_axis(range(first, first + len(frame)))
            first += len(frame)

    def _excel(self) -> Iterator[pd.DataFrame]:
        """Yield the first sheet, which no library reads in parts."""
        yield pd.read_excel(self.path, dtype=dict.fromkeys(self.text, "str"))

    # --- form ---

    def _sniff(self) -> None:
        """Decide by the first lines how the file is written.

        In this order: the encoding, by all bytes; the delimiter, which makes rows as long as the
        header; the names; then, with cells known, the columns of codes and the decimal comma, for
        which every cell of the sample counts.
        """
        name = self.path.name
        with self._errors():
            encoding = self._encoding()
            with self._open(encoding) as file:
                # The header is whole. A file without lines is no table, and not read to its end.
                sample = file.readline(CHUNK) + file.read(SAMPLE)
                lines = sample.splitlines()
                # The last line of the sample may be cut off.
                if lines[1:] and file.read(1):
                    lines.pop()
        # Every second byte of Western text in UTF-16 is zero. Every byte is a character of cp1252,
        # so that EBCDIC ends there, of which digits and letters are above 127.
        zeros = sample.count("\0")
        is_western = encoding != "cp1252" or sum(map(str.isascii, sample)) > 0.5 * len(sample)
        if zeros or not is_western:
            is_wide = zeros > 0.4 * len(sample)
            what = "UTF-16 without its mark" if is_wide else "in no known encoding"
            raise ValueError(f"{name} is {what}; export it as CSV in UTF-8")
        if not sample.strip():
            raise ValueError(f"{name} is empty; it needs a line with names and rows")
        delimiter = _delimiter(lines)
        head, *rows = csv.reader(lines, delimiter=delimiter)
        names = self.names = [each.strip() for each in head]
        twice = sorted({each for each in names if each and names.count(each) > 1})
        if twice:
            raise ValueError(
                f"{name}, line 1: several columns are named {twice[0]!r}; give each a name of its"
                " own"
            )
        # All cells below each other, with the number of their column.
        cells = pd.Series(rows, dtype=object).explode().astype(str).str.strip()
        places = cells.groupby(level=0).cumcount()
        found = places[cells.str.fullmatch(CODE)].unique()
        # A row may be longer than the header, of which pandas says the line.
        codes = [names[i] for i in found if i < len(names)]
        commas = cells.str.fullmatch(_DECIMAL_COMMA).sum()
        points = cells.str.fullmatch(_DECIMAL_POINT).sum()
        self.form = {
            "encoding": encoding,
            "sep": delimiter,
            "decimal": "," if commas > points and delimiter != "," else ".",
            # "category" would take digits for numbers, and 07 for 7, from pandas 3.1 on.
            "dtype": dict.fromkeys({*self.text, *codes} & {*names}, "str"),
            # As many rows as have the text of two blocks, if all are as long as the first ones.
            "chunksize": min(2 * CHUNK * len(lines) // len(sample) + 1000, ROWS),
        }

    def _encoding(self) -> str:
        """Return the encoding of all of the file, and count its bytes.

        UTF-8 has a form that text in another encoding hardly ever has by chance: what decodes
        without an error is UTF-8. The rest is cp1252, in which any byte stands for something.
        """
        with self._bytes() as file:
            is_marked = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding = "utf-16" if is_marked else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        self.n_bytes = 0
        with self._bytes() as file:
            while block := file.read(CHUNK):
                self.n_bytes += len(block)
                # pandas would have to hold such a line at once.
                if len(block) == CHUNK and b"\n" not in block and b"\r" not in block:
                    raise ValueError(f"{self.path.name} has a line of more than {CHUNK:,} bytes")
                try:
                    # Decoding is slow, and what is unfinished before ASCII is found later.
                    if encoding != "cp1252" and not block.isascii():
                        decoder.decode(block, final=len(block) < CHUNK)
                except UnicodeDecodeError:
                    encoding = "cp1252"
        if encoding == "cp1252":
            self.notes.append(
                f"{self.path.name} is not written in UTF-8; read as Windows text (cp1252): look at"
                " names with accents"
            )
        return encoding

    def _bytes(self) -> Any:
        if self.is_gz:
            return gzip.open(self.path, "rb")
        return open(self.path, "rb")

    def _open(self, encoding: str) -> Any:
        return io.TextIOWrapper(self._bytes(), encoding, errors="replace", newline="")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in which file and line what a parser has found is wrong, and what to do.

        A sentence of pandas names neither the file nor a remedy:
        pandas says "Error tokenizing data. C error: Expected 3 fields in line 3, saw 4".
        """
        name = self.path.name
        try:
            yield
        except pd.errors.ParserWarning:
            raise ValueError(
                f"{name}: its rows have more values than the header has names; a delimiter or a"
                " decimal comma inside a value needs quotes"
            ) from None
        except pd.errors.ParserError as error:
            found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
            if found is None:
                raise ValueError(f"{name} cannot be read: {printable(str(error), 200)}") from None
            expected, line, seen = found.groups()
            raise ValueError(
                f"{name}, line {line} has {seen} values, but the header has {expected} names; a"
                " delimiter inside a value needs quotes"
            ) from None
        except (EOFError, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{name} is cut off or no gzip file ({error}); copy it again"
            ) from None


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that gives most lines as many fields as the header, and of several such
    the one that gives most fields.

    A comma inside of numbers gives as many fields in some lines only. A delimiter that the header
    lacks has no lines, so that a file of one column is read with a comma.
    """

    def score(delimiter: str) -> tuple[int, int]:
        widths = [len(row) for row in csv.reader(lines[:50], delimiter=delimiter) if row]
        return (widths.count(widths[0]) if widths[0] > 1 else 0), widths[0]

    return max(DELIMITERS, key=score)


def read_table(path: str | Path, text: Collection[str] = ()) -> pd.DataFrame:
    r"""Return the table in a file: CSV with one of four delimiters (also .gz), Parquet or Excel.

    Parameters
    ----------
    path : str or Path
    text : collection of str
        Columns whose cells are left as they are written: 07 is not 7.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from forgetless.tables import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shops.csv"
    >>> _ = path.write_text("zip;sales\n01234;2,5\n56789;3,5\n")
    >>> read_table(path).values.tolist()
    [['01234', 2.5], ['56789', 3.5]]
    """
    return pd.concat(list(TableFile(path, text).chunks()))

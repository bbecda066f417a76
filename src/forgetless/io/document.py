"""The file format of the package: a kind, a JSON header, named arrays, and a SHA-256 checksum of
all of it.

The layout is that of safetensors (eight bytes of length, a JSON table, raw bytes), so that other
tools read the arrays; kind, version, header, note, provenance and checksum are in its
``__metadata__``. The usual suffix is ``.fl``. Compared were the ``safetensors`` package, which
aborts on arrays that do not fit into memory and needs twice the memory, and ``.npz``, which cannot
be memory mapped.

Reading executes nothing, and compares sizes before it allocates memory. The checksum detects
damage, not forgery: code that builds an object from a document has to validate every value, see
:class:`Fields`.
"""

import contextlib
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.text import printable
from forgetless._core.validate import check_memory
from forgetless.errors import FileError
from forgetless.io.atomic import replace_file
from forgetless.io.provenance import environment

VERSION = 1

DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

MAX_HEADER = 2**24
"""Bytes of JSON that are parsed; Python needs up to thirty times as many."""

MAX_ARRAYS, MAX_DIMENSIONS, MAX_LENGTH = 2**16, 32, 2**48

_NO_DIGEST = "0" * 64
"""Stands for the checksum while the checksum is computed."""


@dataclass(frozen=True, eq=False)
class Document:
    """The content of a file.

    Attributes
    ----------
    kind : str
        "model", "tasks", "expectation", …
    header : dict
        Values that JSON has, without NaN and infinities.
    arrays : dict
        Booleans, integers, and floats of 4 or 8 bytes, by name. Text belongs in the header.
    provenance : dict
        Values that JSON has: versions, system and time, unless given.
    note : str
        Of the user.
    version : int
        Of the format.
    """

    kind: str
    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=environment)
    note: str = ""
    version: int = VERSION


def write(path: str | Path, document: Document) -> None:
    """Write a document to a file, which is replaced atomically."""
    table, data = _layout(document.arrays)
    table["__metadata__"] = {
        "kind": document.kind,
        "version": str(document.version),
        "note": str(document.note),
        "provenance": json.dumps(document.provenance, allow_nan=False),
        "header": json.dumps(document.header, allow_nan=False),
        "sha256": _NO_DIGEST,
    }
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)  # the data begin at a multiple of 8, as memory mapping needs it
    if len(head) > MAX_HEADER:
        raise ValueError(
            f"the header has {len(head):,} bytes, more than {MAX_HEADER:,}; store long lists as"
            " arrays"
        )
    # From the right: a user's note or header may hold 64 zeros as well, and stands before the
    # checksum.
    head = _digest(head, data).encode().join(head.rsplit(_NO_DIGEST.encode(), 1))
    replace_file(Path(path), len(head).to_bytes(8, "little"), head, *data)


def _layout(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the table of arrays, and their bytes."""
    table: dict[str, Any] = {}
    data, end = [], 0
    stored = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # Widest numbers first: every array then begins at a multiple of its item size.
    for name in sorted(stored, key=lambda name: (-stored[name].dtype.itemsize, name)):
        array = stored[name].astype(stored[name].dtype.newbyteorder("<"), copy=False)
        if array.dtype.str not in NAMES or not _is_name(name):
            raise TypeError(
                f"array {name!r} of {array.dtype} cannot be stored; store numbers, and text in the"
                " header"
            )
        offsets = [end, end + array.nbytes]
        table[name] = {
            "dtype": NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": offsets,
        }
        data.append(array.reshape(-1).view(np.uint8).data if array.size else b"")
        end = offsets[1]
    return table, data


def read(path: str | Path, kind: str | None = None, *, mmap: bool = False) -> Document:
    """Return the document in a file.

    Parameters
    ----------
    path : str or Path
        Of a regular file; FileError for anything that ``write`` did not write.
    kind : str, optional
        FileError for a document of another kind.
    mmap : bool, default False
        Whether arrays are read-only views of the file instead of copies in memory.
    """
    path = Path(path)
    with file_errors(path):
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("not a regular file")
            document = _read(file, status.st_size, mmap)
    if kind not in (None, document.kind):
        raise FileError(f"{path} holds {printable(document.kind, 60)!r}, not {kind!r}")
    return document


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raise every exception as a FileError that names the file and the reason."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise FileError(
            f"{path} cannot be read: {printable(str(error), 300) or 'out of memory'}"
        ) from error
    # untrusted content can make a parser or constructor raise almost anything
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise FileError(
            f"{path} is damaged or not a forgetless file: {printable(reason, 300)}"
        ) from error


def _read(file: Any, size: int, mmap: bool) -> Document:
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MAX_HEADER, size - 8):
        raise ValueError("its header is too long or cut")
    head = file.read(length)
    if len(head) < length:
        raise ValueError("its header is cut")
    table = parse_json(head)
    metadata = table.pop("__metadata__")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not text")
    version = metadata["version"]
    if version != str(VERSION):
        raise ValueError(
            f"it has format version {version[:20]!r}, this forgetless reads {VERSION}; upgrade"
            " forgetless"
        )
    _check_table(table, size - 8 - length)
    header, provenance = parse_json(metadata["header"]), parse_json(metadata["provenance"])
    if not isinstance(header, dict) or not isinstance(provenance, dict):
        raise ValueError("its header or provenance is not a JSON object")
    raw = _content(file, 8 + length, size - 8 - length, mmap)
    stored = metadata["sha256"]
    if stored != _digest(_NO_DIGEST.encode().join(head.rsplit(stored.encode(), 1)), [raw]):
        raise ValueError("its content does not match its checksum")
    arrays = {name: _array(raw, name, entry) for name, entry in table.items()}
    return Document(metadata["kind"], header, arrays, provenance, metadata["note"], VERSION)


def _check_table(table: dict[str, Any], size: int) -> None:
    """Raise ValueError unless arrays of allowed types fill the rest of the file without gap or
    overlap.
    """
    if len(table) > MAX_ARRAYS:
        raise ValueError(f"it lists {len(table)} arrays, more than {MAX_ARRAYS}")
    end = 0
    for name, entry in table.items():  # in the order of their bytes, as they are written
        shape, offsets = entry["shape"], entry["data_offsets"]
        if len(entry) != 3 or len(shape) > MAX_DIMENSIONS or not _is_name(name):
            raise ValueError(f"{name[:80]!r} is not described as an array")
        if not all(type(n) is int and 0 <= n < MAX_LENGTH for n in [*shape, *offsets]):
            raise ValueError(f"{name[:80]!r} has an impossible shape or place")
        n_bytes = math.prod(shape) * np.dtype(DTYPES[entry["dtype"]]).itemsize
        if offsets != [end, end + n_bytes]:
            raise ValueError(f"the shape of {name[:80]!r} contradicts its place in the file")
        end += n_bytes
    if end != size:
        raise ValueError("its arrays do not fill the file")


def _is_name(name: str) -> bool:
    return name.isascii() and name.isprintable() and name != "__metadata__"


def _content(file: Any, offset: int, size: int, mmap: bool) -> NDArray[np.uint8]:
    """Return the bytes of all arrays."""
    if mmap and size:
        return np.asarray(np.memmap(file, np.uint8, "r", offset, (size,)))
    # a sparse file can be larger than the disk
    check_memory(size / 8, "reading it", "read it with mmap=True")
    raw = np.empty(size, np.uint8)
    done = 0
    while done < size:
        count = file.readinto(raw[done : done + 2**24].data)
        if not count:
            raise ValueError("its arrays are cut")
        done += count
    return raw


def _array(raw: NDArray[np.uint8], name: str, entry: dict[str, Any]) -> NDArray[Any]:
    begin, end = entry["data_offsets"]
    flat = raw[begin:end]
    # NumPy's behaviour on such bytes is undefined
    if entry["dtype"] == "BOOL" and flat.size and flat.max() > 1:
        raise ValueError(f"{name!r} holds booleans that are neither true nor false")
    return flat.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _digest(head: bytes, data: list[Any]) -> str:
    total = hashlib.sha256(head)
    for part in data:
        total.update(part)
    return total.hexdigest()


def parse_json(text: bytes | str) -> Any:
    """Return the values that JSON describes; ValueError for NaN, infinities and names that occur
    twice.

    Examples
    --------
    >>> from forgetless.io.document import parse_json
    >>> parse_json('{"k": [1, 2.5]}')
    {'k': [1, 2.5]}
    """

    def finite(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{text[:20]} is not a finite number")
        return value

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ValueError("a name occurs twice")
        return values

    return json.loads(text, parse_constant=finite, parse_float=finite, object_pairs_hook=unique)


Shape = tuple[int | None, ...]


class Fields:
    """Arrays of a file that are taken out one by one; ValueError where dtype, shape or range is not
    as required.

    Parameters
    ----------
    arrays : mapping of names to arrays
    prefix : str
        Stands before the names in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from forgetless.io.document import Fields
    >>> fields = Fields({"rows": np.array([3, -1])})
    >>> fields.array("rows", "i", (None,), low=0)
    Traceback (most recent call last):
        ...
    ValueError: rows is below 0
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
        self._arrays, self._prefix = dict(arrays), prefix

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def array(
        self,
        name: str,
        kinds: str,
        shape: Shape | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        finite: bool = True,
    ) -> NDArray[Any]:
        """Return an array whose dtype is of one of the ``kinds``; None allows any length, or any
        shape.
        """
        label = f"{self._prefix}{name}"
        if name not in self._arrays:
            raise ValueError(f"{label} is missing")
        array = self._arrays.pop(name)
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
        if array.dtype.kind not in kinds:
            raise ValueError(f"{label} has the dtype {array.dtype}")
        if shape is not None and not _fits(array.shape, shape):
            raise ValueError(f"{label} has the shape {array.shape}, not {shape}")
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{label} is not finite")
        # NaN passes both comparisons; it was rejected above unless it is allowed.
        if low is not None and (array < low).any():
            raise ValueError(f"{label} is below {low}")
        if high is not None and (array > high).any():
            raise ValueError(f"{label} is above {high}")
        return array

    def integer(self, name: str, low: int = 0, high: int = 10**15) -> int:
        """Return an integer."""
        return int(self.array(name, "iu", (), low=low, high=high))

    def number(self, name: str, low: float = 0.0) -> float:
        """Return a finite number."""
        return float(self.array(name, "f", (), low=low))

    def part(self, prefix: str) -> "Fields":
        """Return the arrays whose names begin with ``prefix``, without it; they are removed from
        these.
        """
        names = [name for name in self._arrays if name.startswith(prefix)]
        return Fields(
            {name.removeprefix(prefix): self._arrays.pop(name) for name in names},
            self._prefix + prefix,
        )

    def end(self) -> None:
        """Raise ValueError if an array was not taken out."""
        if self._arrays:
            raise ValueError(f"{self._prefix}{next(iter(self._arrays))} does not belong there")


def _fits(shape: tuple[int, ...], required: Shape) -> bool:
    return len(shape) == len(required) and all(
        want in (None, n) for want, n in zip(required, shape, strict=True)
    )

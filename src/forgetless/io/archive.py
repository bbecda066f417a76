"""The one reader of NumPy archives: nothing is believed that a file says about itself, and nothing in it is run.

Sizes are compared before anything is read, so that a small file cannot ask for much memory; arrays of objects, which
only pickle could restore, are refused; and a sealed archive carries a hash of all its arrays. The hash tells damage,
not origin: whoever changes a file on purpose can compute it anew. So what was read is then taken out by ``Fields``,
which checks every array against what the reader is going to do with it.
"""

import contextlib
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from forgetless._core.validate import check_memory
from forgetless.errors import FileError
from forgetless.io.atomic import check_source
from forgetless.reporting.text import printable

MOST_ARRAYS = 2**16


MOST_JSON = 2**26
"""Bytes of JSON that are parsed; Python needs some thirty times as many."""


MOST_HEADER = 1000
"""Characters of the header of an array; those that describe no records are shorter."""


RATIO = 100
"""How many times its own size a compressed archive may take; what packs better must be stored plainly."""


CHUNK = 2**20


Arrays = dict[str, NDArray[Any]]


@contextlib.contextmanager
def refusing(path: Path, what: str) -> Iterator[None]:
    """Turn whatever goes wrong with the contents of a file into one error that names it."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except Exception as error:  # damaged files can make zipfile, NumPy and JSON raise almost anything
        previous = path.with_name(path.name + ".previous")
        hint = f"; the one before it is in {previous.name}" if previous.exists() else ""
        reason = printable(str(error), 200) or type(error).__name__
        raise FileError(f"{path.name} is damaged or not a {what} file ({reason}){hint}") from error


def read_arrays(path: str | Path, what: str, *, kinds: str = "biufUmM", compressed: bool = False) -> Arrays:
    """Return the arrays of an ``.npz`` archive by name.

    Parameters
    ----------
    path : str or Path
    what : str
        What the file should be, for the error: "model", "checkpoint", …
    kinds : str
        Kinds of dtypes that are allowed.
    compressed : bool
        Whether compressed arrays are read, up to ``RATIO`` times the size of the file.
    """
    path = check_source(path, f"{what} file")
    with open(path, "rb") as file, refusing(path, what):
        size = file.seek(0, io.SEEK_END)
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            total = _check_members(members, size, compressed)
            check_memory(total / 8, f"reading {path.name}", "read it where there is more memory")
            found = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as stream:
                    found[name] = _array(stream, member.file_size, name, kinds)
            return found


def _check_members(members: list[zipfile.ZipInfo], size: int, compressed: bool) -> int:
    """Return the bytes of all arrays; ValueError where the archive declares more than it can hold."""
    if len(members) > MOST_ARRAYS:
        raise ValueError(f"it lists {len(members)} arrays, more than {MOST_ARRAYS}")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two of its arrays have the same name")
    allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if compressed else (zipfile.ZIP_STORED,)
    for member in members:
        if not member.filename.endswith(".npy"):
            raise ValueError(f"{member.filename[:80]!r} is not an array")
        if member.flag_bits & 0x1:
            raise ValueError("it is encrypted")
        if member.compress_type not in allowed:
            raise ValueError("its arrays are compressed" if not compressed else "its arrays are compressed unusually")
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise ValueError(f"the sizes of {member.filename[:80]!r} contradict each other")
    # Arrays that share bytes of the file, as in archives made to explode, add up to more than it has.
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its arrays are larger than the file")
    total = sum(member.file_size for member in members)
    if total > max(size, 2**20) and total > RATIO * size:
        raise ValueError(
            f"its {size:,} bytes would become {total:,}, more than {RATIO} times as many; save it with numpy.savez"
        )
    return total


def _array(stream: Any, size: int, name: str, kinds: str) -> NDArray[Any]:
    """Return the array in a member of ``size`` bytes, whose header is compared with that before memory is taken."""
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{name!r} has the format version {version}")
    shape, fortran, dtype = read(stream, max_header_size=MOST_HEADER)
    if dtype.kind not in kinds or dtype.hasobject:
        raise ValueError(f"{name!r} holds {dtype}, which is not read from files")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or max(shape, default=0) > 2**48:
        raise ValueError(f"{name!r} has the impossible shape {shape} of {dtype}")
    if count * dtype.itemsize != size - stream.tell():
        raise ValueError(f"the shape of {name!r}, {shape} of {dtype}, contradicts its {size} bytes")
    flat = np.empty(count, dtype=dtype)
    raw = flat.view(np.uint8).data if count else memoryview(b"")
    done = 0
    while done < len(raw):
        got = stream.readinto(raw[done : done + CHUNK])
        if not got:
            raise ValueError(f"{name!r} is cut short")
        done += got
    stream.read(1)  # the end of a member is where its checksum is compared
    _check_values(flat, name)
    return flat.reshape(shape, order="F" if fortran else "C")


def _check_values(flat: NDArray[Any], name: str) -> None:
    """Refuse bytes that are no truth values or no characters: using them would be undefined."""
    if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ValueError(f"{name!r} holds truth values that are neither true nor false")
    if flat.dtype.kind == "U" and flat.size:
        codes = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
        if codes.max() > 0x10FFFF or bool(np.any((codes >= 0xD800) & (codes < 0xE000))):
            raise ValueError(f"{name!r} holds what are no characters")


# --- sealed archives ---


def pack(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """Return a sealed archive: arrays, a header with at least ``format`` and ``version``, and the hash of all."""
    found = {name: np.asarray(array) for name, array in arrays.items()}
    assert not any(array.dtype.hasobject for array in found.values())  # savez(allow_pickle=False) came after NumPy 2.0
    found["header"] = np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
    found["sha256"] = np.frombuffer(digest(found), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **found)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(path: str | Path, format: str, what: str, versions: tuple[int, ...]) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a sealed archive of one format; FileError for anything else."""
    arrays, path = read_arrays(path, what), Path(path)
    try:
        header = from_json(arrays["header"].tobytes())
    except (KeyError, ValueError):
        header = None
    _check_header(path, header, format, what, versions)
    assert isinstance(header, dict)
    stored = arrays.pop("sha256", None)
    with refusing(path, what):
        if stored is None or stored.tobytes() != digest(arrays):
            raise ValueError("its contents do not match their hash")
    del arrays["header"]
    return header, arrays


def _check_header(path: Path, header: Any, format: str, what: str, versions: tuple[int, ...]) -> None:
    """Refuse what is of another format, or of a version that is not read."""
    if not isinstance(header, dict) or header.get("format") != format:
        raise FileError(f"{path.name} is not a forgetless {what}, or damaged: it does not say that it is one")
    version = header.get("version")
    if version not in versions or isinstance(version, bool):
        cure = "upgrade forgetless" if isinstance(version, int) and version > max(versions) else "make it anew"
        said, readable = printable(repr(version), 20), " and ".join(map(str, versions))
        raise FileError(f"{path.name} has format version {said}, this forgetless reads {readable}; {cure}")


def digest(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the SHA-256 of names, dtypes, shapes and values of all arrays, whatever their order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}|{array.dtype.str}|{arrays[name].shape}|".encode())
        total.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return total.digest()


# --- JSON ---


def read_json(path: Path) -> Any:
    """Return what a JSON file describes; ValueError as in ``from_json``, before a long one is read."""
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        if size > MOST_JSON:
            raise ValueError(f"{size:,} bytes of JSON are more than {MOST_JSON:,}")
        file.seek(0)
        return from_json(file.read())


def from_json(content: bytes) -> Any:
    """Return what JSON describes; ValueError for what is too long or too deep, and for NaN and infinities."""
    if len(content) > MOST_JSON:
        raise ValueError(f"{len(content):,} bytes of JSON are more than {MOST_JSON:,}")

    def refused(word: str) -> Any:
        raise ValueError(f"{word} is not a number")

    try:
        return json.loads(content, parse_constant=refused)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def pack_json(header: Mapping[str, Any], plain: Mapping[str, Any]) -> bytes:
    """Return a sealed JSON file: a header with at least ``format`` and ``version``, named values, the hash of all."""
    whole = {**header, **plain}
    whole["sha256"] = json_digest(whole)
    lines = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in whole.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def unpack_json(path: str | Path, format: str, what: str, versions: tuple[int, ...]) -> dict[str, Any]:
    """Return the values of a sealed JSON file of one format, without format and hash; FileError for anything else."""
    path = check_source(path, f"{what} file")
    with refusing(path, what):
        plain = read_json(path)
    _check_header(path, plain, format, what, versions)
    stored = plain.pop("sha256", None)
    with refusing(path, what):
        if stored != json_digest(plain):
            raise ValueError("its contents do not match their hash")
    del plain["format"]
    return dict(plain)


def json_digest(plain: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain values as hexadecimal digits, whatever the order of the keys."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


# --- what is in them ---


class Fields:
    """Arrays of a file, taken out one by one: each has the dtype, shape and range that its use asks for, or ValueError.

    Parameters
    ----------
    arrays : mapping of names to arrays
    at : str
        What the names are called in errors begins with this.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], at: str = "") -> None:
        self._left, self._at = dict(arrays), at

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def __len__(self) -> int:
        return len(self._left)

    def array(
        self,
        name: str,
        kinds: str,
        shape: tuple[int | None, ...] | None,
        *,
        low: float | None = None,
        high: float | None = None,
        finite: bool = True,
        half: bool = False,
    ) -> NDArray[Any]:
        """Return an array of one of the kinds; in ``shape`` None stands for any length, or for any shape.

        Floats of half precision are refused unless ``half`` allows them: nothing is computed in them.
        """
        called = f"{self._at}{name}"
        if name not in self._left:
            raise ValueError(f"{called} is missing")
        array = self._left.pop(name)
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
        if array.dtype.kind not in kinds or (
            array.dtype.kind in "fc" and array.dtype.itemsize not in ((2, 4, 8) if half else (4, 8))
        ):
            raise ValueError(f"{called} has the dtype {array.dtype}")
        if shape is not None:
            sides: tuple[int, ...] = array.shape
            agree = [want in (None, n) for want, n in zip(shape, sides, strict=False)]
            if array.ndim != len(shape) or not all(agree):
                raise ValueError(f"{called} has the shape {array.shape}, not {shape}")
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{called} is not finite")
        if array.dtype.kind in "iuf" and (low is not None or high is not None):
            known = array[~np.isnan(array)] if array.dtype.kind == "f" else array
            if low is not None and known.size and known.min() < low:
                raise ValueError(f"{called} is below {low}")
            if high is not None and known.size and known.max() > high:
                raise ValueError(f"{called} is above {high}")
        return array

    def integer(self, name: str, low: int = 0, high: int = 10**15) -> int:
        """Return a whole number."""
        return int(self.array(name, "iu", (), low=low, high=high))

    def number(self, name: str, low: float = 0.0) -> float:
        """Return a finite number."""
        return float(self.array(name, "f", (), low=low))

    def part(self, prefix: str) -> "Fields":
        """Return those whose names begin with ``prefix``, without it; they are no longer here."""
        names = [name for name in self._left if name.startswith(prefix)]
        return Fields({name.removeprefix(prefix): self._left.pop(name) for name in names}, self._at + prefix)

    def end(self) -> None:
        """Refuse whatever was not taken out."""
        if self._left:
            raise ValueError(f"{self._at}{next(iter(self._left))} does not belong there")

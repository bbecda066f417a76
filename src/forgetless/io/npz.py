"""Reader of NumPy archives that users bring as input data: no pickles, and sizes are compared
before memory is used.
"""

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from forgetless._core.validate import check_memory
from forgetless.io.atomic import check_source
from forgetless.io.document import file_errors

MAX_ARRAYS = 2**16

MAX_HEADER = 1000
"""Characters of the header of an array; NumPy evaluates it as a Python literal."""

MAX_RATIO = 100
"""Bytes of the arrays over bytes of the file, for compressed archives."""

KINDS = "biufUSmM"


def read_npz(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file by name; FileError if it is damaged, or asks for too
    much memory.
    """
    path = check_source(path)
    with file_errors(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = _check_members(members, os.path.getsize(path))
        check_memory(total / 8, "reading it", "read it where there is more memory")
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _check_members(members: list[zipfile.ZipInfo], size: int) -> int:
    """Return the bytes of all arrays; ValueError where the archive declares more than it can
    hold.
    """
    if len(members) > MAX_ARRAYS:
        raise ValueError(f"it lists {len(members)} arrays, more than {MAX_ARRAYS}")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two of its arrays have the same name")
    for member in members:
        if not member.filename.endswith(".npy"):
            raise ValueError(f"{member.filename[:80]!r} is not an array")
        if member.flag_bits & 0x1:
            raise ValueError("it is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(
                "its arrays are compressed by an unusual method; save it with"
                " numpy.savez_compressed"
            )
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise ValueError(f"the sizes of {member.filename[:80]!r} contradict each other")
    # Overlapping members, as in zip bombs, add up to more than the file has.
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its arrays are larger than the file")
    total = sum(member.file_size for member in members)
    if total > max(size, 2**20) and total > MAX_RATIO * size:
        raise ValueError(
            f"its {size:,} bytes would become {total:,}, more than {MAX_RATIO} times as many; save"
            " it with numpy.savez"
        )
    return total


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array; its header is compared with its size before NumPy allocates memory for
    it.
    """
    name = member.filename[:80]
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[
            version
        ]
        shape, _, dtype = read_header(stream, max_header_size=MAX_HEADER)
        if dtype.kind not in KINDS or dtype.hasobject or dtype.itemsize == 0:
            raise ValueError(f"{name!r} holds {dtype}, which is not read from files")
        if any(type(n) is not int or not 0 <= n < 2**48 for n in shape):
            raise ValueError(f"{name!r} has the impossible shape {shape}")
        if math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
            raise ValueError(
                f"the shape of {name!r}, {shape} of {dtype}, contradicts its {member.file_size}"
                " bytes"
            )
    with archive.open(member) as stream:
        array: NDArray[Any] = npy.read_array(stream, allow_pickle=False, max_header_size=MAX_HEADER)
        stream.read(1)  # zipfile compares the checksum of a member at its end
    _check_values(array, name)
    return array


def _check_values(array: NDArray[Any], name: str) -> None:
    """Raise ValueError for bytes that are not booleans or characters: NumPy's behaviour on them is
    undefined.
    """
    flat = array.reshape(-1, order="A")
    if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ValueError(f"{name!r} holds booleans that are neither true nor false")
    if flat.dtype.kind == "U" and flat.size:
        codes = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
        if codes.max() > 0x10FFFF or bool(np.any((codes >= 0xD800) & (codes < 0xE000))):
            raise ValueError(f"{name!r} holds codes that are not characters")

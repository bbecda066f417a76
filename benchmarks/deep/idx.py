"""Arrays of bytes in idx files, the format of MNIST."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless.errors import FileError


def read_idx(file: Path) -> NDArray[Any]:
    """Return the array of an idx file of bytes, gzipped or not."""
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise FileError(f"{file} is not an idx file of bytes; it begins with {raw[:4]!r} instead of 00 00 08")
    rank = raw[3]
    shape = tuple(np.frombuffer(raw, ">u4", rank, 4).tolist()) if len(raw) >= 4 + 4 * rank else ()
    if len(raw) != 4 + 4 * rank + int(np.prod(shape)):
        raise FileError(f"{file} has {len(raw)} bytes, not those of an array {shape}; get it anew")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)

"""Documents to attack the reader with: mutations of valid files, and crafted ones whose checksum agrees."""

import hashlib
import json
import pickle
import struct

from forgetless.io.document import Document, read, write

METADATA = {"kind": "tasks", "version": "1", "note": "", "provenance": "{}", "header": "{}"}
X = {"x": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}}


def mutated(rng, content, other):
    """Return bytes with bits flipped, bytes changed, cut, removed, replaced by a piece of another file, or inserted."""
    content, at = bytearray(content), rng.randrange(len(content))
    match rng.randrange(6):
        case 0:
            content[at] ^= 1 << rng.randrange(8)
        case 1:
            for _ in range(rng.randrange(1, 20)):
                content[rng.randrange(len(content))] = rng.randrange(256)
        case 2:
            del content[at:]
        case 3:
            del content[at : at + rng.randrange(1, 200)]
        case 4:
            source = other if rng.random() < 0.5 else bytes(content)
            begin, count = rng.randrange(len(source)), rng.randrange(1, 400)
            content[at : at + count] = source[begin : begin + count]
        case _:
            content[at:at] = rng.randbytes(rng.randrange(1, 100))
    return bytes(content)


def file_of(table, metadata, data=b"", *, length=None, checksum=True, text=None):
    """Return the bytes of a file with this table of arrays; its checksum agrees unless told otherwise."""
    zeros = "0" * 64
    if metadata is not None:
        table = {**table, "__metadata__": {**metadata, "sha256": zeros} if checksum else metadata}
    head = json.dumps(table).encode() if text is None else text
    if metadata is not None and checksum:
        digest = hashlib.sha256(head + data).hexdigest()
        head = digest.encode().join(head.rsplit(zeros.encode(), 1))
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def forged(path, **changes):
    """Write the document at ``path`` again with some of its parts changed, and the checksum that belongs to them."""
    document = read(path)
    parts = {name: getattr(document, name) for name in ("kind", "header", "arrays", "provenance", "note")}
    write(path, Document(**{**parts, **changes}))


def crafted():
    """Yield (name, bytes) of files that must be rejected; for sparse files (bytes, size of the hole after them)."""
    data = bytes(16)
    yield from ((f"{n} bytes", bytes(n)) for n in range(9))
    yield from (
        (f"length {n}", file_of(X, METADATA, data, length=n)) for n in (0, 1, 2**24 + 1, 2**31, 2**63, 2**64 - 1)
    )
    for text in TEXTS:
        yield f"text {text[:30]!r} ({len(text)})", file_of({}, None, text=text)
    for name in ("header", "provenance"):
        for value in HEADERS:
            yield f"{name} {value[:30]!a}", file_of(X, {**METADATA, name: value}, data)
    for version in ("-1", "1.0", "", "0", "2", "9" * 20, "١", "true", " 1", 1):
        yield f"version {version!a}", file_of(X, {**METADATA, "version": version}, data)
    yield "kind is a list", file_of(X, {**METADATA, "kind": ["tasks"]}, data)
    for name in METADATA:
        yield f"no {name}", file_of(X, {key: value for key, value in METADATA.items() if key != name}, data)
    for change in ENTRIES:
        yield f"array with {change}", file_of({"x": X["x"] | change}, METADATA, data)
    yield "array is a list", file_of({"x": [1]}, METADATA, data)
    yield "overlap", file_of(X | {"y": X["x"]}, METADATA, data)
    yield "gap", file_of(X | {"y": X["x"] | {"data_offsets": [24, 40]}}, METADATA, bytes(40))
    yield "trailing bytes", file_of(X, METADATA, bytes(24))
    yield "no arrays, but data", file_of({}, METADATA, data)
    boolean = {"x": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}
    yield "boolean of 7", file_of(boolean, METADATA, b"\x07\x01")
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    yield "70,000 arrays", file_of({f"a{i}": empty for i in range(70_000)}, METADATA)
    yield "name with NUL", file_of({"\0": X["x"]}, METADATA, data)
    yield "name of a surrogate", file_of({"\ud800": X["x"]}, METADATA, data)
    yield "wrong checksum", file_of(X, {**METADATA, "sha256": "0" * 64}, data, checksum=False)
    yield "empty checksum", file_of(X, {**METADATA, "sha256": ""}, data, checksum=False)
    yield "no checksum", file_of(X, METADATA, data, checksum=False)
    yield "pickle", pickle.dumps({"x": 1})
    for size in (2**35, 2**40):
        array = {"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
        yield f"sparse file of {size:,} bytes", (file_of(array, METADATA), size)


TEXTS = [
    b"[]", b"1", b"null", b'"x"', b"{}", b"{", b"\xff\xfe{}", b"[" * 200_000, b'{"a":' * 100_000, b"NaN",
    b"9" * 100_000,
    b'{"__metadata__":{"kind":"a","kind":"b","version":"1","header":"{}","sha256":""}}', b'{"__metadata__":null}',
    b'{"__metadata__":[]}', b'{"__metadata__":{"sha256":""}}', b"\x00" * 64,
    b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b"[" + b"[]," * 500_000 + b"[]]",
]  # fmt: skip
HEADERS = [
    "NaN", "[NaN]", '{"a":NaN}', '{"a":Infinity}', '{"a":-Infinity}', '{"a":1e999}', '{"a":1,"a":2}', "[]", "1", "",
    "{",
    '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":' + "9" * 5000 + "}",
]  # fmt: skip
ENTRIES = [
    {"shape": [3]}, {"shape": [-2]}, {"shape": [2.0]}, {"shape": [True, 2]}, {"shape": "2"}, {"shape": None},
    {"shape": [[2]]}, {"shape": [2**63, 2]}, {"shape": [0, 2**47, 2**47]}, {"shape": [1] * 1000}, {"shape": [2] * 64},
    {"dtype": "F8"}, {"dtype": "F16"}, {"dtype": "BF16"}, {"dtype": ["F64"]}, {"dtype": "object"}, {"dtype": None},
    {"data_offsets": [0, 8]}, {"data_offsets": [8, 24]}, {"data_offsets": [16, 0]}, {"data_offsets": [0, 2**62]},
    {"data_offsets": [-16, 0]}, {"data_offsets": [0]}, {"data_offsets": "ab"}, {"data_offsets": [False, 16]},
    {"extra": 1},
]  # fmt: skip

"""The corpus: archives made to harm their reader, as bytes. Each is small; what it asks for is not."""

import io
import struct
import zipfile

import numpy as np


def npy(array=None, *, header=None, data=b"", version=(1, 0), magic=b"\x93NUMPY"):
    """Return a member as NumPy writes it, or with a header of one's own."""
    if array is not None:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
        return buffer.getvalue()
    text = header if isinstance(header, bytes) else (repr(header) + "\n").encode()
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return magic + bytes(version) + size + text + data


def described(shape, descr="<f8", fortran=False, data=b"", **options):
    return npy(header={"descr": descr, "fortran_order": fortran, "shape": shape}, data=data, **options)


def archive(members, method=zipfile.ZIP_STORED):
    """Return a zip file of (name, bytes)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            file.writestr(info, content)
    return buffer.getvalue()


def patched(content, signature, offset, format, value, every=False):
    """Return a zip file with a number of its (first or every) central or local entry replaced."""
    broken, at = bytearray(content), content.find(signature)
    while at >= 0:
        struct.pack_into(format, broken, at + offset, value)
        at = content.find(signature, at + 4) if every else -1
    return bytes(broken)


CENTRAL, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


def hostile():
    """Yield (name, bytes) of archives that no reader should believe; the arrays are called X."""
    plain = archive([("X.npy", npy(np.arange(6.0)))])
    zeros = npy(np.zeros(2**21))  # 16 MiB, of which deflate leaves 16 kB
    yield "bomb", archive([("X.npy", zeros)], zipfile.ZIP_DEFLATED)
    yield "bombs", archive([(f"{i}.npy", zeros) for i in range(4)], zipfile.ZIP_DEFLATED)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"compressed by {method}", archive([("X.npy", npy(np.zeros(99)))], method)
    yield "declares more", patched(plain, CENTRAL, 24, "<I", 2**31)
    yield "declares more, stored too", patched(patched(plain, CENTRAL, 24, "<I", 2**31), CENTRAL, 20, "<I", 2**31)
    yield "declares less", patched(plain, CENTRAL, 24, "<I", 9)
    yield "offset beyond", patched(plain, CENTRAL, 42, "<I", 2**31)
    yield "encrypted", patched(plain, CENTRAL, 8, "<H", 1)
    yield "another method", patched(plain, CENTRAL, 10, "<H", 99)
    yield "wrong checksum", patched(plain, CENTRAL, 16, "<I", 7)
    two = archive([("X.npy", npy(np.zeros(9000))), ("Y.npy", npy(np.zeros(9000)))])
    yield (
        "one place, two names",
        patched(patched(two, CENTRAL, 42, "<I", 0, every=True), END, 16, "<I", two.find(CENTRAL)),
    )
    one = archive([("000.npy", npy(np.zeros(9000)))])
    entry = one[one.find(CENTRAL) : one.find(END)]
    end = bytearray(one[one.find(END) :])
    struct.pack_into("<HHI", end, 8, 500, 500, 500 * len(entry))
    copies = b"".join(entry.replace(b"000.npy", f"{i:03d}.npy".encode()) for i in range(500))
    yield "overlapping", one[: one.find(CENTRAL)] + copies + bytes(end)
    yield "same name twice", two.replace(b"Y.npy", b"X.npy")
    yield "not an array", archive([("X.txt", b"hello")])
    yield "a path", archive([("../../X.npy", b"hello")])
    yield "a folder", archive([("X/", b"")])
    for name, member in members():
        yield name, archive([("X.npy", member)])
    for cut in (1, 30, len(plain) // 2, len(plain) - 1):
        yield f"first {cut} bytes", plain[:cut]
    yield "nothing", b""
    yield "text", b"X,y\n1,2\n"
    yield "pickle", b"cos\nsystem\n(S'echo harm'\ntR."


def members():
    """Yield (name, bytes) of single members."""
    yield "no header", b"\x93NUMPY\x01\x00"
    yield "not numpy", b"hello" * 9
    yield "huge", described((2**40,))
    yield "overflowing", described((2**40, 2**40))
    yield "negative", described((-1,), data=bytes(8))
    yield "two negatives", described((-1, -1), data=bytes(8))
    yield "true dimensions", described((True, 8), data=bytes(64))
    yield "empty and endless", described((0, 2**60))
    yield "no size, endless", described((10**12,), "<U0")
    yield "void, endless", described((10**12,), "|V0")
    yield "cut short", described((9,), data=bytes(8))
    yield "too long", described((1,), data=bytes(80))
    yield "objects", npy(np.array([{"a": 1}], dtype=object))
    yield "objects, said to be", described((1,), "|O", data=b"cos\nsystem\n(S'echo harm'\ntR.")
    yield "records", npy(np.zeros(2, dtype=[("a", "f8")]))
    yield "version 3", described((1,), data=bytes(8), version=(3, 0))
    yield "version 9", described((1,), data=bytes(8), version=(9, 0))
    yield "brackets", npy(header=b"(" * 900)
    yield "many brackets", npy(header=b"(" * 9000)
    yield "nested", npy(header=b"[" * 150 + b"]" * 150 + b"\n")
    yield "code", npy(header=b"__import__('os').system('echo harm')\n")
    yield "long header", npy(header=b"{'descr': '<f8'" + b" " * 60_000 + b"}\n")
    yield "header beyond", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{}"
    yield "no such dtype", described((1,), "<q9", data=bytes(8))
    yield "half truths", described((3,), "|b1", data=b"\x00\x01\x07")
    yield "no characters", described((1,), "<U1", data=b"\xff\xff\xff\xff")
    yield "half characters", described((1,), "<U1", data=b"\x00\xd8\x00\x00")

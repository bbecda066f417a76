"""Damaged, crafted and interrupted documents: FileError or the same content, and no other exception."""

import os
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import forgetless as fl
from attacks.documents import METADATA, X, crafted, file_of, mutated
from forgetless.io.document import Document, read, write
from support.campaigns import SEED, seed_for

ARRAYS = {
    "x": np.linspace(0, 1, 30).reshape(5, 6),
    "single": np.arange(5, dtype=np.float32),
    "counts": np.array([3, 0, -1]),
    "bytes": np.arange(7, dtype=np.uint8),
    "mask": np.array([True, False]),
    "empty": np.zeros((0, 4)),
    "scalar": np.array(2.5),
}
DOCUMENTS = [
    Document("test", {"labels": ["a", "é", "\x1b[2J"], "zeros": "0" * 64}, ARRAYS, note="0" * 64),
    Document("test", {"nested": {"k": [1, 2.5, None, True]}}, {}, provenance={}),
    Document("test", {}, {"x": np.arange(1000.0)}),
]


def equal(one, other):
    names = ("kind", "version", "header", "note", "provenance")
    return all(getattr(one, name) == getattr(other, name) for name in names) and (
        {name: (a.dtype, a.shape, a.tobytes()) for name, a in one.arrays.items()}
        == {name: (a.dtype, a.shape, a.tobytes()) for name, a in other.arrays.items()}
    )


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_round_trip(tmp_path, document, mmap):
    write(tmp_path / "d.fl", document)
    assert equal(read(tmp_path / "d.fl", mmap=mmap), document)
    for array in read(tmp_path / "d.fl", mmap=True).arrays.values():
        assert array.ctypes.data % array.itemsize == 0
        assert not array.size or not array.flags.writeable


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_safetensors_package_reads_the_same_arrays(tmp_path, document):
    write(tmp_path / "d.fl", document)
    arrays = safetensors.numpy.load_file(tmp_path / "d.fl")
    assert set(arrays) == set(document.arrays)
    for name, array in document.arrays.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    with safetensors.safe_open(tmp_path / "d.fl", "numpy") as file:
        assert file.metadata()["kind"] == "test"


@pytest.mark.parametrize(
    ("array", "error"),
    [(np.array(["text"]), TypeError), (np.array([None]), TypeError), (np.zeros(2, np.float16), TypeError)],
)
def test_other_arrays_cannot_be_written(tmp_path, array, error):
    with pytest.raises(error, match="cannot be stored; store numbers, and text in the header"):
        write(tmp_path / "d.fl", Document("test", {}, {"x": array}))
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(tmp_path / "d.fl", Document("test", {"x": float("nan")}))
    with pytest.raises(ValueError, match="store long lists as arrays"):
        write(tmp_path / "d.fl", Document("test", {"x": "long" * 2**22}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [600, pytest.param(30_000, marks=pytest.mark.long)])
def test_mutated_files_are_rejected_or_unchanged(tmp_path, count, campaign):
    rng, path, originals = random.Random(seed_for(count)), tmp_path / "d.fl", []
    for document in DOCUMENTS:
        write(path, document)
        originals.append((path.read_bytes(), document))
    rejected = 0
    for _ in range(count):
        content, document = rng.choice(originals)
        path.write_bytes(mutated(rng, content, rng.choice(originals)[0]))
        try:
            result = read(path, mmap=rng.random() < 0.2)
        except fl.errors.FileError:
            rejected += 1
        else:
            assert equal(result, document)
    assert rejected > 0.99 * count
    campaign(f"seed {SEED}: {count} mutations: {rejected} rejected, {count - rejected} unchanged, 0 silent, 0 raw")


def places(folder):
    """Yield paths that are not regular files."""
    os.mkfifo(folder / "pipe")
    yield from (folder, folder / "pipe", Path("/dev/zero"), Path("/dev/null"), folder / "none", folder / "d" / "none")


def test_crafted_files_are_rejected_in_little_memory(tmp_path, campaign):
    path, count = tmp_path / "d.fl", 0
    path.write_bytes(file_of(X, METADATA, bytes(16)))
    assert read(path).arrays["x"].tolist() == [0.0, 0.0]  # so that the others fail for their own reason
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, content in crafted():
        start, hole = content if isinstance(content, tuple) else (content, 0)
        with open(path, "wb") as file:
            file.write(start)
            file.truncate(len(start) + hole)
        for load in (read, fl.load) if count % 10 == 0 else (read,):
            with pytest.raises(
                fl.errors.FileError, match=r"d\.fl (is damaged or not a forgetless file|cannot be read): ."
            ):
                pytest.fail(f"{name}: {load(path)}")
        count += 1
    for place in places(tmp_path):
        for load in (read, fl.load):
            with pytest.raises(fl.errors.FileError, match=place.name):
                load(place)
        count += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert count > 100
    assert grown < 300
    campaign(f"{count} crafted files: all rejected, 0 raw exceptions, {grown:.0f} MiB more memory at most")


def test_a_future_version_is_named(tmp_path):
    path = tmp_path / "d.fl"
    path.write_bytes(file_of({}, {**METADATA, "version": "2"}))
    with pytest.raises(
        fl.errors.FileError, match=r"d\.fl .* format version '2', this forgetless reads 1; upgrade forgetless"
    ):
        fl.load(path)


def test_an_unknown_kind_is_named(tmp_path):
    write(tmp_path / "d.fl", Document("\x1b[31mnews", {}))
    with pytest.raises(
        fl.errors.FileError, match=r"d\.fl holds '\\+x1b\[31mnews', which this forgetless cannot load; upgrade"
    ):
        fl.load(tmp_path / "d.fl")
    with pytest.raises(fl.errors.FileError, match="not 'tasks'"):
        read(tmp_path / "d.fl", "tasks")


WRITER = """
import sys
import numpy as np
from forgetless.io.document import Document, write
value = int(sys.argv[2])
while True:
    value += 1
    write(sys.argv[1], Document("test", {"value": value}, {"x": np.full(200_000, float(value))}))
    print(value, flush=True)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(210, marks=pytest.mark.long)])
def test_kills_while_writing_lose_nothing(tmp_path, kills, campaign):
    rng, path, value = random.Random(seed_for(kills)), tmp_path / "d.fl", 0
    write(path, Document("test", {"value": 0}, {"x": np.zeros(200_000)}))
    path.chmod(0o640)
    leftovers = 0
    for _ in range(kills):
        command = [sys.executable, "-c", WRITER, str(path), str(value)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            acknowledged = [int(writer.stdout.readline())]
            reader = threading.Thread(
                target=lambda out=writer.stdout, to=acknowledged: to.extend(int(line) for line in out)
            )
            reader.start()
            threading.Event().wait(rng.uniform(0, 0.1))
            writer.kill()
            reader.join()
        document = read(path)
        value = document.header["value"]
        assert value >= acknowledged[-1]  # nothing lost that was acknowledged
        assert (document.arrays["x"] == value).all()
        names = sorted(each.name for each in tmp_path.iterdir())
        assert names in (["d.fl"], [".d.fl.part", "d.fl"])
        leftovers += len(names) - 1
    write(path, Document("test", {}))
    assert [each.name for each in tmp_path.iterdir()] == ["d.fl"]
    assert path.stat().st_mode & 0o777 == 0o640
    campaign(f"{kills} kills while writing: 0 torn, 0 lost, {leftovers} leftovers, none after the next save")

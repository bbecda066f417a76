"""The file format: what is read is what was written, and anything else raises FileError."""

import os
import pickle
import zipfile

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import forgetless as fl
from forgetless.errors import FileError
from forgetless.io import Fields, read, write

DTYPES = ["?", "i1", "u1", "<i2", "<i4", "<i8", "<u8", "<f2", "<f4", "<f8", ">f8", ">i4"]


@st.composite
def arrays(draw):
    """Arrays as they lie in memory: by rows, by columns, strided, reversed, of no element, of no dimension."""
    shape = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    array = draw(hnp.arrays(st.sampled_from(DTYPES), shape))
    layout = draw(st.sampled_from(["C", "F", "strided", "reversed", "transposed"]))
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided" and array.ndim:
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "reversed" and array.ndim:
        return array[..., ::-1]
    return array.T if layout == "transposed" else array


@settings(max_examples=40)
@given(
    content=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8).filter("__metadata__".__ne__), arrays())
)
def test_arrays_come_back(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("arrays") / "file"
    write(path, "test", {}, content)
    found = read(path, "test").arrays
    assert found.keys() == content.keys()
    for name, array in content.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable


def test_headers_come_back(tmp_path):
    header = {"text": 'ä\x00\x1b"', "numbers": [1, 2.5, -0.0, float("inf"), 10**30], "none": None, "nested": {"a": []}}
    write(tmp_path / "file", "test", header, {})
    document = read(tmp_path / "file")
    assert document == ("test", header, {}, fl.__version__)
    for shape in ((3,), (2, 1)):
        with pytest.raises(ValueError, match="a has the shape"):
            Fields({"a": np.ones(2)}).array("a", "f", shape)
    with pytest.raises(FileError, match="holds 'test', not 'model'"):
        read(tmp_path / "file", "model")
    with pytest.raises(FileError, match="'test', which this forgetless cannot load; upgrade"):
        fl.load(tmp_path / "file")


def test_values_that_cannot_be_stored_leave_the_file_alone(tmp_path):
    write(tmp_path / "file", "test", {}, {})
    before = (tmp_path / "file").read_bytes()
    for header, content in (({"x": np.arange(2)}, {}), ({}, {"x": np.array(["a"])}), ({}, {"x": np.array([{}])})):
        with pytest.raises((TypeError, ValueError, KeyError, safetensors.SafetensorError)):
            write(tmp_path / "file", "test", header, content)
    assert (tmp_path / "file").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_every_changed_byte_and_every_cut_is_noticed(tmp_path):
    path = tmp_path / "file"
    write(path, "test", {"a": [1, 2]}, {"X": np.arange(4.0), "flag": np.array([True, False])})
    content = path.read_bytes()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"file is damaged or not a forgetless file: .*; restore a copy"):
            read(path)
        path.write_bytes(content[:at])
        with pytest.raises(FileError):
            read(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(FileError):
        read(path)


def with_header(text, data=b""):
    head = text.encode()
    return len(head).to_bytes(8, "little") + head + data


PLAIN = safetensors.numpy.save({"X": np.arange(3.0)})
FOREIGN = {
    "empty": b"",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00",
    "safetensors of others": PLAIN,
    "other metadata": safetensors.numpy.save({}, {"forgetless": "x"}),
    "not JSON": safetensors.numpy.save({}, {"forgetless": "{", "sha256": "0" * 64}),
    "huge header": (2**62).to_bytes(8, "little") + b"{}",
    "no object": with_header("[]"),
    "deep": with_header('{"__metadata__":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "too large": with_header('{"X":{"dtype":"F64","shape":[1073741824,1073741824],"data_offsets":[0,8]}}', bytes(8)),
    "metadata are numbers": with_header('{"__metadata__":{"forgetless":3}}'),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files(tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(FileError, match="file is damaged or not a forgetless file"):
        fl.load(path)


def test_paths_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**42)
    for name in (".", "pipe", "loop", "missing", "sparse", "/dev/zero"):
        with pytest.raises(FileError, match="cannot be read"):
            fl.load(tmp_path / name)


def test_a_newer_format_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("forgetless.io.VERSION", 2)
    write(tmp_path / "file", "tasks", {}, {})
    monkeypatch.undo()
    with pytest.raises(FileError, match="has version 2 of the format, this forgetless reads 1; upgrade forgetless"):
        fl.load(tmp_path / "file")


def test_no_pickle_is_ever_run(tmp_path):
    """One that makes a folder when it is read, as a file and as an array of NumPy's archives."""
    harm = f"cos\nmkdir\n(V{tmp_path / 'trace'}\ntR.".encode()
    (tmp_path / "plain").write_bytes(harm)
    with zipfile.ZipFile(tmp_path / "archive.npz", "w") as archive:
        archive.writestr("X.npy", harm)
    for name in ("plain", "archive.npz"):
        with pytest.raises(FileError):
            fl.load(tmp_path / name)
    assert not (tmp_path / "trace").exists()
    pickle.loads(harm)
    assert (tmp_path / "trace").exists()

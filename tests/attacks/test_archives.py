"""Archives from strangers: whatever they hold, the answer is one named error, in little memory."""

import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import forgetless as fl
from attacks.archives import archive, hostile, npy
from attacks.models import written
from forgetless.io import npz
from forgetless.tables.task_files import read_tasks

CORPUS = dict(hostile())


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_archives_are_refused_in_little_memory(tmp_path, name):
    path = tmp_path / "bad.npz"
    path.write_bytes(CORPUS[name])
    readers = [
        lambda: read_tasks(path),
        lambda: npz.read_npz(path),
        lambda: fl.load(path),
    ]
    tracemalloc.start()
    try:
        for read in readers:
            with pytest.raises(fl.errors.FileError, match=r"bad\.npz"):
                read()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6 + 20 * len(CORPUS[name])


def test_the_directory_alone_is_reason_to_refuse():
    """Before anything is opened, where the zip library would refuse some of these later, or an older one would not."""

    def listed(**changes):
        info = zipfile.ZipInfo(changes.pop("filename", "X.npy"))
        info.file_size = info.compress_size = 600
        for name, value in changes.items():
            setattr(info, name, value)
        return info

    assert npz._check_members([listed()], 1000) == 600
    for members, words in (
        ([listed(), listed(filename="Y.npy")], "larger than the file"),
        ([listed(flag_bits=1)], "encrypted"),
        ([listed(), listed()], "the same name"),
        ([listed(file_size=601)], "contradict each other"),
        ([listed(compress_type=zipfile.ZIP_LZMA)], "compressed by an unusual method"),
    ):
        with pytest.raises(ValueError, match=words):
            npz._check_members(members, 1000)


@pytest.mark.parametrize("megabytes", [64, pytest.param(2048, marks=pytest.mark.long)])
def test_a_compressed_file_takes_at_most_a_hundred_times_its_size(tmp_path, rng, megabytes):
    path = tmp_path / "tasks.npz"
    # 2 MB that would become 2 GiB, say: refused before anything is read.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("X.npy", "w", force_zip64=True) as member:
        member.write(npy(header={"descr": "<f8", "fortran_order": False, "shape": (megabytes * 2**17,)}))
        for _ in range(megabytes):
            member.write(bytes(2**20))
    assert 1000 * megabytes < path.stat().st_size < 1100 * megabytes
    tracemalloc.start()
    try:
        with pytest.raises(fl.errors.FileError, match="more than 100 times as many; save it with numpy"):
            read_tasks(path)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    X = rng.standard_normal((40, 3)).round(1)
    np.savez_compressed(path, X=X, y=X @ np.ones(3), groups=np.repeat(np.arange("2020", "2030", dtype="M8[Y]"), 4))
    assert read_tasks(path).n_tasks == 10


def test_no_pickle_is_ever_run(tmp_path):
    """A pickle that would leave a trace, under every name and in every place of an archive."""
    trace = tmp_path / "trace"
    code = f"""
import numpy as np, pickle, forgetless as fl
from forgetless.tables.task_files import read_tasks
class Harm:
    def __reduce__(self): return open, ({str(trace)!r}, "w")
for name in ("header", "sha256", "X", "key", "state.coef"):
    np.savez("bad.npz", **{{name: np.array([Harm()], dtype=object)}})
    for read in (read_tasks, fl.load):
        try: read("bad.npz")
        except fl.errors.FileError: continue
        raise SystemExit("read")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not trace.exists()


def test_archives_with_too_many_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_ARRAYS", 50)
    path = written(tmp_path / "m.npz", archive([(f"{i}.npy", npy(np.zeros(1))) for i in range(51)]))
    with pytest.raises(fl.errors.FileError, match="51 arrays, more than 50"):
        read_tasks(path)

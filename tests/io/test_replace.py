"""Files are replaced atomically: old content or new, nothing left beside, permissions unchanged."""

import os
import stat
import subprocess
import sys

import pytest

from forgetless import io

OLD, NEW = b"old" * 1000, b"new content" * 500


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_failure_leaves_the_old_file_and_nothing_beside(tmp_path, monkeypatch, call, error):
    path = tmp_path / "m"
    path.write_bytes(OLD)

    def fail(*_):
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        io.replace_file(path, NEW)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["m"]


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    code = """
import sys
from pathlib import Path
from forgetless.io import replace_file
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"): replace_file(Path(sys.argv[1]), letter * 3_000_000)
"""
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "m")], stdout=subprocess.PIPE)
        process.stdout.readline()
        while not (tmp_path / "m").exists():
            pass
        process.kill()
        process.communicate()
        content = (tmp_path / "m").read_bytes()
        assert content in (b"a" * 3_000_000, b"b" * 3_000_000)


def test_permissions(tmp_path):
    umask = os.umask(0o027)
    try:
        io.replace_file(tmp_path / "new", NEW)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    io.replace_file(tmp_path / "new", OLD)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    (tmp_path / "new").chmod(0o444)
    with pytest.raises(PermissionError, match="new is read-only; allow writing"):
        io.replace_file(tmp_path / "new", NEW)


def test_links_are_followed_to_the_end(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to(tmp_path / "there" / "real")
    for content in (OLD, NEW):
        io.replace_file(tmp_path / "a", content)
        assert (tmp_path / "there" / "real").read_bytes() == content
    assert names(tmp_path / "there") == ["real"]
    assert (tmp_path / "a").is_symlink()


def test_paths_that_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_bytes(OLD)
    for path, error, words in (
        (tmp_path, FileExistsError, "is a folder, device, pipe or broken link; give the name of a file"),
        (tmp_path / "pipe", FileExistsError, "device, pipe or broken link; give the name"),
        ("/dev/null", FileExistsError, "device, pipe"),
        (tmp_path / "loop", FileExistsError, "broken link"),
        (tmp_path / "no" / "m", FileNotFoundError, "there is no folder .*no; create it first"),
    ):
        with pytest.raises(error, match=words):
            io.replace_file(path, NEW)
    with pytest.raises(NotADirectoryError, match="file is a file; give a folder"):
        io.check_folder(tmp_path / "file" / "more")

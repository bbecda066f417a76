"""The one writer of files: whole or not at all, nothing left beside, permissions kept, whatever fails."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading

import pytest

from forgetless.io import atomic as files
from forgetless.io.atomic import replace_file
from support.faults import Crash, FaultyLocks, FaultyOs, faults

OLD, NEW = b"old" * 1000, b"new content" * 500


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def attempt(monkeypatch, system, path, **options):
    """Save NEW under a faulty system; return whether it went well."""
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", system)
        patch.setattr(files, "fcntl", FaultyLocks(system))
        try:
            replace_file(path, NEW, **options)
        except (Crash, OSError):
            return False
        finally:
            system.bury()
    return True


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_every_system_call_may_fail_or_be_the_last(tmp_path, monkeypatch, there, keep, campaign):
    counting = FaultyOs()
    path = tmp_path / "m"
    if there:
        path.write_bytes(OLD)
    assert attempt(monkeypatch, counting, path, keep_previous=keep)
    assert counting.count > 10
    tries = outcomes = 0
    for fault, after in faults():
        for at in range(1, counting.count + 1):
            for file in tmp_path.iterdir():
                file.unlink()
            if there:
                path.write_bytes(OLD)
                path.chmod(0o600)
            done = attempt(monkeypatch, FaultyOs(at, fault, after), path, keep_previous=keep)
            tries += 1
            outcomes += done
            found = path.read_bytes() if path.exists() else None
            assert found in ((OLD, NEW) if there else (None, NEW)), (fault, at)
            assert found == NEW or not done, (fault, at)
            replace_file(path, NEW, keep_previous=keep)
            assert names(tmp_path) == (["m", "m.previous"] if keep and found else ["m"]), (fault, at)
            assert path.read_bytes() == NEW
            if there:
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert 0 < outcomes < tries
    campaign(f"{tries} faults, one at every system call: 0 files lost or torn, 0 left beside after the next save")


def test_an_error_leaves_nothing_behind_even_before_the_next_save(tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(OLD)
    for call in ("write", "fsync", "link", "replace", "chmod"):
        system = FaultyOs()
        assert attempt(monkeypatch, system, path, keep_previous=True)
        path.write_bytes(OLD)
        at = system.names.index(call) + 1
        attempt(monkeypatch, FaultyOs(at, 28), path, keep_previous=True)
        assert set(names(tmp_path)) <= {"m", "m.previous"}


def test_content_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    system = FaultyOs()
    attempt(monkeypatch, system, tmp_path / "m")
    order = [name for name in system.names if name in ("write", "fsync", "replace")]
    assert order == ["write", "fsync", "replace", "fsync"]


def test_long_writes_that_are_cut_short_go_on(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(files.os, "write", lambda to, data: write(to, bytes(data[:7])))
    replace_file(tmp_path / "m", NEW)
    assert (tmp_path / "m").read_bytes() == NEW


def test_a_file_that_is_being_written_is_no_leftover(tmp_path):
    path = tmp_path / "m"
    fresh = tmp_path / ".m.00112233aabb"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT)
    assert files._locked(descriptor)
    replace_file(path, NEW)
    assert names(tmp_path) == sorted([fresh.name, "m"])
    os.close(descriptor)
    replace_file(path, NEW)
    assert names(tmp_path) == ["m"]
    for name in (".m.0123456789ab", ".m.0123456789ab.old", ".m.0123456789ac.old"):
        (tmp_path / name).write_bytes(OLD)
    (tmp_path / ".m.notours").write_bytes(OLD)
    (tmp_path / ".mm.0123456789ab").write_bytes(OLD)
    (tmp_path / ".m.0123456789ad").mkdir()
    (tmp_path / ".m.0123456789ae").symlink_to(tmp_path / "other")
    replace_file(path, NEW)
    assert names(tmp_path) == [".m.0123456789ad", ".m.0123456789ae", ".m.notours", ".mm.0123456789ab", "m"]


def test_a_name_taken_for_a_leftover_before_its_lock_is_given_up(tmp_path, monkeypatch):
    lock, calls = files._locked, []

    def swept_first(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            for file in tmp_path.iterdir():
                file.unlink()
        return lock(descriptor)

    monkeypatch.setattr(files, "_locked", swept_first)
    replace_file(tmp_path / "m", NEW)
    assert len(calls) == 2
    assert names(tmp_path) == ["m"]


def test_savers_at_once_leave_one_whole_file(tmp_path):
    path, contents = tmp_path / "m", [bytes([65 + i]) * 20_000 for i in range(4)]

    def save(content):
        for _ in range(25):
            replace_file(path, content, keep_previous=True)

    threads = [threading.Thread(target=save, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert (tmp_path / "m.previous").read_bytes() in contents
    assert names(tmp_path) == ["m", "m.previous"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o200])
def test_permissions_are_kept_also_while_writing(tmp_path, monkeypatch, mode):
    path = tmp_path / "m"
    path.write_bytes(OLD)
    path.chmod(mode)
    seen, chmod, write, umask = [], os.chmod, os.write, os.umask(0)

    def looking(descriptor, data):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    def just_made(file, bits):  # who opened it before now could read what comes later
        seen.append(stat.S_IMODE(os.stat(file).st_mode))
        return chmod(file, bits)

    try:
        monkeypatch.setattr(files.os, "write", looking)
        monkeypatch.setattr(files.os, "chmod", just_made)
        replace_file(path, NEW, keep_previous=True)
    finally:
        os.umask(umask)
    assert all(bits & ~mode == 0 for bits in seen)
    assert seen
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "m.previous").stat().st_mode) == mode


def test_copies_for_file_systems_without_links_are_as_private(tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(OLD)
    path.chmod(0o600)

    def refused(*_):
        raise OSError(95, "no hard links here")

    monkeypatch.setattr(files.os, "link", refused)
    replace_file(path, NEW, keep_previous=True)
    assert (tmp_path / "m.previous").read_bytes() == OLD
    assert stat.S_IMODE((tmp_path / "m.previous").stat().st_mode) == 0o600


def test_new_files_follow_the_umask(tmp_path):
    umask = os.umask(0o027)
    try:
        replace_file(tmp_path / "m", NEW)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640


def test_read_only_files_are_refused(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(OLD)
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=r"m is read-only; allow writing with chmod u\+w"):
        replace_file(path, NEW)
    path.chmod(0o644)
    (tmp_path / "m.previous").write_bytes(b"mine")
    (tmp_path / "m.previous").chmod(0o444)
    with pytest.raises(PermissionError, match=r"m\.previous is read-only"):
        replace_file(path, NEW, keep_previous=True)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["m", "m.previous"]


def special(folder):
    """Yield paths that are neither file nor folder, with what they are called."""
    os.mkfifo(folder / "pipe")
    yield folder / "pipe", "a pipe"
    (folder / "to-pipe").symlink_to(folder / "pipe")
    yield folder / "to-pipe", "a pipe"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
        here = os.getcwd()
        os.chdir(folder)  # the name of a socket must be short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    yield folder / "socket", "a socket"
    (folder / "loop").symlink_to(folder / "loop")
    yield folder / "loop", "a link that leads nowhere"


def test_pipes_sockets_and_devices_are_never_replaced(tmp_path):
    for path, words in special(tmp_path):
        before = os.lstat(path)
        with pytest.raises(FileExistsError, match=words):
            replace_file(path, NEW)
        assert os.lstat(path).st_ino == before.st_ino
    with pytest.raises(FileExistsError, match="a device"):
        replace_file(files.Path("/dev/null"), NEW)
    (tmp_path / "m").write_bytes(OLD)
    os.mkfifo(tmp_path / "m.previous")
    with pytest.raises(FileExistsError, match="a pipe"):
        replace_file(tmp_path / "m", NEW, keep_previous=True)
    with pytest.raises(FileNotFoundError, match=r"pipe is a pipe, not a file"):
        files.check_source(tmp_path / "pipe")


def test_links_are_followed_to_the_end(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to(tmp_path / "there" / "real")
    for content in (OLD, NEW):
        replace_file(tmp_path / "a", content, keep_previous=True)
        assert (tmp_path / "there" / "real").read_bytes() == content
    assert names(tmp_path / "there") == ["real", "real.previous"]
    assert (tmp_path / "a").is_symlink()


KILLED = """
import sys
from pathlib import Path
from forgetless.io.atomic import replace_file
contents = [bytes([65 + i]) * 200_000 for i in range(2)]
print("ready", flush=True)
i = 0
while True:
    replace_file(Path(sys.argv[1]), contents[i % 2], keep_previous=True)
    i += 1
"""


@pytest.mark.parametrize("kills", [3, pytest.param(300, marks=pytest.mark.long)])
def test_a_killed_save_loses_nothing_and_the_next_one_clears_up(tmp_path, kills, rng, campaign):
    path, contents = tmp_path / "m", [bytes([65 + i]) * 200_000 for i in range(2)]
    replace_file(path, contents[0])
    strays = 0
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as saver:
            saver.stdout.readline()
            threading.Event().wait(rng.uniform(0, 0.05))
            saver.kill()
        assert path.read_bytes() in contents
        strays += len(names(tmp_path)) > 2
        replace_file(path, contents[0])
        assert set(names(tmp_path)) <= {"m", "m.previous"}
    campaign(f"{kills} kills during saves: 0 lost or torn, {strays} left hidden files, all swept by the next save")

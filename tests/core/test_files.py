"""The atomic writer: old content or new, nothing left beside, permissions unchanged, whatever fails."""

import contextlib
import errno
import os
import socket
import stat
import threading

import pytest

from forgetless.io import atomic as files
from forgetless.io.atomic import replace_file
from support.faults import Crash, FaultyLocks, FaultyOs, faults

OLD, NEW = b"old" * 1000, b"new content" * 500


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def attempt(monkeypatch, system, path):
    """Save NEW under a faulty system; return whether it succeeded."""
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", system)
        patch.setattr(files, "fcntl", FaultyLocks(system))
        try:
            replace_file(path, NEW)
        except (Crash, OSError):
            return False
        finally:
            system.bury()
    return True


@pytest.mark.parametrize("there", [False, True])
def test_every_system_call_may_fail_or_be_the_last(tmp_path, monkeypatch, there, campaign):
    counting = FaultyOs()
    path = tmp_path / "m"
    if there:
        path.write_bytes(OLD)
    assert attempt(monkeypatch, counting, path)
    assert counting.count > 10
    tries = outcomes = 0
    for fault, after in faults():
        for at in range(1, counting.count + 1):
            for file in tmp_path.iterdir():
                file.unlink()
            if there:
                path.write_bytes(OLD)
                path.chmod(0o600)
            done = attempt(monkeypatch, FaultyOs(at, fault, after), path)
            tries += 1
            outcomes += done
            content = path.read_bytes() if path.exists() else None
            assert content in ((OLD, NEW) if there else (None, NEW)), (fault, at)
            assert content == NEW or not done, (fault, at)
            replace_file(path, NEW)
            assert names(tmp_path) == ["m"], (fault, at)
            assert path.read_bytes() == NEW
            if there:
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert 0 < outcomes < tries
    campaign(f"{tries} faults, one at every system call: 0 files lost or torn, 0 left beside after the next save")


def test_an_error_leaves_nothing_behind_even_before_the_next_save(tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(OLD)
    for call in ("ftruncate", "write", "fsync", "replace", "chmod"):
        system = FaultyOs()
        assert attempt(monkeypatch, system, path)
        path.write_bytes(OLD)
        at = system.names.index(call) + 1
        attempt(monkeypatch, FaultyOs(at, 28), path)
        assert names(tmp_path) == ["m"]


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


def test_a_leftover_is_overwritten_and_other_files_are_not_touched(tmp_path):
    (tmp_path / ".m.part").write_bytes(OLD * 9)
    (tmp_path / ".m.part").chmod(0o600)
    (tmp_path / ".m.other").write_bytes(OLD)
    replace_file(tmp_path / "m", NEW)
    assert (tmp_path / "m").read_bytes() == NEW
    assert names(tmp_path) == [".m.other", "m"]


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(OLD)
    (tmp_path / ".m.part").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        replace_file(tmp_path / "m", NEW)
    assert (tmp_path / "victim").read_bytes() == OLD


def test_a_save_waits_for_another_that_is_under_way(tmp_path):
    descriptor = files._open_locked(tmp_path / ".m.part", 0o600)
    saver = threading.Thread(target=replace_file, args=(tmp_path / "m", NEW))
    saver.start()
    saver.join(0.2)
    assert saver.is_alive()
    os.write(descriptor, OLD)
    os.replace(tmp_path / ".m.part", tmp_path / "m")
    os.close(descriptor)
    saver.join(10)
    assert (tmp_path / "m").read_bytes() == NEW
    assert names(tmp_path) == ["m"]


def test_file_systems_without_locks(tmp_path, monkeypatch):
    class NoLocks:
        LOCK_EX = 2

        def flock(self, *_):
            raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(files, "fcntl", NoLocks())
    replace_file(tmp_path / "m", NEW)
    assert (tmp_path / "m").read_bytes() == NEW


def test_savers_at_once_leave_one_whole_file(tmp_path):
    path, contents = tmp_path / "m", [bytes([65 + i]) * 20_000 for i in range(4)]

    def save(content):
        for _ in range(25):
            replace_file(path, content)

    threads = [threading.Thread(target=save, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert names(tmp_path) == ["m"]


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
        replace_file(path, NEW)
    finally:
        os.umask(umask)
    assert all(bits & ~mode == 0 for bits in seen)
    assert seen
    assert stat.S_IMODE(path.stat().st_mode) == mode


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
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["m"]


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
    yield folder / "loop", "a broken link"


def test_pipes_sockets_and_devices_are_never_replaced(tmp_path):
    for path, words in special(tmp_path):
        before = os.lstat(path)
        with pytest.raises(FileExistsError, match=words):
            replace_file(path, NEW)
        assert os.lstat(path).st_ino == before.st_ino
    with pytest.raises(FileExistsError, match="a device"):
        replace_file(files.Path("/dev/null"), NEW)
    with pytest.raises(FileNotFoundError, match=r"pipe is a pipe, not a file"):
        files.check_source(tmp_path / "pipe")


def test_links_are_followed_to_the_end(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to(tmp_path / "there" / "real")
    for content in (OLD, NEW):
        replace_file(tmp_path / "a", content)
        assert (tmp_path / "there" / "real").read_bytes() == content
    assert names(tmp_path / "there") == ["real"]
    assert (tmp_path / "a").is_symlink()

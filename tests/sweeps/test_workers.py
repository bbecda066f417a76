"""What the user's functions may do to a worker and to a lock without harm to the sweep."""

import contextlib
import errno
import os
import subprocess

import pytest

import forgetless as fl
from forgetless.sweeps import Store, _local, _lock
from support.sweeping import gauss, small


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def one(function):
    """A sweep of three cells, whose tasks come from a function."""
    return small(tasks={"own": function}, schedules="none", k=4)


def test_programs_started_by_a_function_do_not_read_what_is_meant_for_the_worker(path):
    def reading(seed):
        assert subprocess.run(["cat"], capture_output=True, timeout=10).stdout == b""
        return gauss(seed)

    assert len(one(reading).run(path, n_workers=1)) == 3


def test_a_forked_process_does_not_answer_for_the_worker(path):
    def forking(seed):
        child = os.fork()
        if not child:
            for number in range(3, 64):
                with contextlib.suppress(OSError):
                    os.write(number, b"x" * 64)
            os._exit(0)
        os.waitpid(child, 0)
        return gauss(seed)

    assert len(one(forking).run(path, n_workers=1)) == 3


def test_an_answer_to_another_batch_is_not_taken():
    class Worker:
        given = _local.deque()

    sweep = small()
    first, second = sweep.batches[:2]
    engine, worker = _local.Local(b"", 1), Worker()
    worker.given.extend([(1, first), (2, second)])
    for number in (2, 1, 1, 2):
        engine._events.put((worker, (number, number)))
    assert engine._hear(_local.deque()) == [(first, 1), (second, 2)]


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


def test_errors_that_cannot_be_printed_are_recorded(path):
    def failing(seed):
        raise (ValueError("a\ud800\x1b[2J"), UnspeakableError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "\udcff"))[
            seed
        ]

    sweep = one(failing)
    assert len(sweep.run(path, n_workers=0)) == 0
    words = sweep.failures(path).columns["error"]
    assert words[0] == r"ValueError: a\ud800\x1b[2J"
    assert words[1] == "UnspeakableError: its message cannot be read (RuntimeError)"
    assert words[2].startswith("UnicodeDecodeError: ")
    assert "".join(words).isprintable()


def test_functions_that_end_the_process_fail_with_what_they_said(path, monkeypatch):
    monkeypatch.setattr(_local, "DEATHS", 1)

    def leaving(seed):
        if seed == 0:
            raise SystemExit(3)
        if seed == 1:
            os._exit(7)
        return gauss(seed)

    sweep = one(leaving)
    assert len(sweep.run(path, n_workers=1)) == 1
    first, second = sweep.failures(path).columns["error"]
    assert first == "SystemExit: 3"
    assert "(exit code 7)" in second


def test_a_lock_that_cannot_be_signed_holds(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_lock.os, "write", full)
        with Store(path, write=True), pytest.raises(fl.errors.StoreError, match="written by another process"):
            Store(path, write=True)
    with Store(path, write=True):
        pass


def test_a_lock_that_could_not_be_taken_whole_is_released(path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    for name in ("fstat", "ftruncate"):
        with monkeypatch.context() as patch:
            patch.setattr(_lock.os, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                Store(path, write=True)
        with Store(path, write=True):
            pass


def test_a_file_system_without_locks_is_named(path, monkeypatch):
    def without(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_lock.fcntl, "flock", without)
    with pytest.raises(fl.errors.StoreError, match=r"cannot be locked \(.*No locks available\); use a local disk"):
        Store(path, write=True)


def test_a_store_has_one_writer_by_whatever_name(path, tmp_path):
    small(k=4).run(path, n_workers=0)
    other = tmp_path / "link.db"
    other.symlink_to(path)
    with Store(path, write=True):
        with pytest.raises(fl.errors.StoreError, match="is being written by process"):
            Store(other, write=True)
        with Store(other) as reader:
            assert reader.status().columns["running now"] == ["yes"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"client": object(), "n_workers": 0}, ValueError, "n_workers=0 is for this machine and client= for a cluster"),
        ({"client": "tcp://head:8786"}, TypeError, r"client must be a distributed.Client, got str; connect by"),
    ],
)
def test_clients_that_are_none_are_refused_before_anything_is_made(path, options, error, words):
    with pytest.raises(error, match=words):
        small().run(path, **options)
    assert not path.exists()

"""What the user's functions may do to a worker and to a lock without harm to the sweep."""

import contextlib
import errno
import os
import re
import signal
import subprocess
import time
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool

import pytest

import forgetless as fl
from forgetless.io import atomic
from forgetless.sweeps import Store, workers
from forgetless.sweeps import run as runs
from forgetless.sweeps.evaluate import evaluate
from support.sweeping import gauss, small


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def one(function):
    """A sweep of three cells, whose tasks come from a function."""
    return small(tasks={"own": function}, schedules="none", k=4)


def test_programs_started_by_a_function_do_not_read_what_is_meant_for_the_worker(path):
    def reading(seed):
        assert subprocess.run(["cat"], capture_output=True, timeout=120).stdout == b""
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


class Scripted:
    """A backend whose executors fail as a list of errors says, and then compute."""

    name, n_executors, capacity = "scripted", 1, 1

    def __init__(self, sweep, errors):
        self.sweep, self.errors, self.submitted = sweep, list(errors), []

    def open(self):
        return self

    def setup(self):
        return None

    def is_working(self):
        return True

    def close(self, executor):
        pass

    def submit(self, function, name, version, batch, seconds):
        future = Future()
        self.submitted.append(len(batch.members))
        error = self.errors.pop(0) if self.errors else None
        if error is None:
            future.set_result(evaluate(self.sweep, batch))
        else:
            future.set_exception(error)
        return future


@pytest.mark.parametrize(
    ("errors", "sizes", "failed"),
    [
        ([BrokenProcessPool()] * 2, [3] * 3, 0),
        ([BrokenProcessPool()] * 3, [3] * 3 + [1] * 3 + [3], 0),  # no cell fails alone: as a whole once more
        ([BrokenProcessPool()] * 3 + [None] * 3 + [BrokenProcessPool()], [3] * 3 + [1] * 3 + [3], 0),
        ([BrokenProcessPool()] * 5 + [None, *[BrokenProcessPool()] * 2, None, BrokenProcessPool()], None, 1),
        ([CancelledError(), workers.MissingSweepError()], [3] * 3, 0),
    ],
)
def test_batches_are_repeated_then_split_then_repeated_as_a_whole(errors, sizes, failed):
    sweep = small(k=4, seeds=[0])
    backend = Scripted(sweep, errors)
    ((batch, outcomes),) = [each for finished in runs.Driver(backend).run(sweep.batches) for each in finished]
    assert batch == sweep.batches[0]
    assert {outcome.key for outcome in outcomes} == sweep.keys
    if sizes is not None:
        assert backend.submitted == sizes
        if sizes[-1] == 3 and len(errors) < 7:  # computed together: the same bits
            assert [each.rows for each in outcomes] == [each.rows for each in evaluate(sweep, batch)]
    assert sum(outcome.error is not None for outcome in outcomes) == failed


def test_errors_of_the_machinery_end_the_run():
    sweep = small(k=4, seeds=[0])
    with pytest.raises(fl.errors.StoreError, match=r"workers cannot compute \(ValueError: no\)"):
        list(runs.Driver(Scripted(sweep, [ValueError("no")])).run(sweep.batches))


def test_cells_over_the_time_limit_fail_and_the_others_are_kept(path):
    def hanging(seed):
        if seed == 1:
            time.sleep(1000)
        return gauss(seed)

    def endless(k, radius):
        re.match("(a+)+$", "a" * 60 + "b")  # never returns, and never releases the GIL
        return fl.Ridge(0.7)

    sweep = small(tasks={"own": hanging}, schedules={"none": fl.Projection(), "endless": endless}, k=4, seeds=[0, 1])
    table = sweep.run(path, n_workers=2, time_limit=0.7).columns
    assert (table["seed"], table["schedule"]) == ([0], ["none"])
    assert set(sweep.failures(path).columns["error"]) == {"TimeLimit: it took longer than 0.7 seconds"}


def test_ctrl_c_never_reaches_a_worker(path):
    """It would print a traceback where it arrives before the worker ignores it, while packages are imported."""

    def shielded(seed):
        if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []):
            raise RuntimeError("SIGINT is not blocked")
        return gauss(seed)

    sweep = one(shielded)
    assert len(sweep.run(path, n_workers=2)) == len(sweep)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


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
    monkeypatch.setattr(runs, "ATTEMPTS", 1)

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
    assert "(exit code EXIT(7))" in second


def test_a_lock_that_cannot_be_signed_holds(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "write", full)
        with Store(path, write=True), pytest.raises(fl.errors.StoreError, match="written by another process"):
            Store(path, write=True)
    with Store(path, write=True):
        pass


def test_a_lock_that_could_not_be_taken_whole_is_released(path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    for name in ("fstat", "ftruncate"):
        with monkeypatch.context() as patch:
            patch.setattr(atomic.os, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                Store(path, write=True)
        with Store(path, write=True):
            pass


def test_a_file_system_without_locks_is_named(path, monkeypatch):
    def without(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", without)
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
        ({"n_workers": 0, "time_limit": 1}, ValueError, "time_limit=1 ends worker processes, got n_workers=0"),
        ({"time_limit": 0}, ValueError, "time_limit must be"),
        ({"client": "tcp://head:8786"}, TypeError, r"client must be a distributed.Client, got str; connect by"),
    ],
)
def test_clients_that_are_none_are_refused_before_anything_is_made(path, options, error, words):
    with pytest.raises(error, match=words):
        small().run(path, **options)
    assert not path.exists()

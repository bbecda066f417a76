"""Drivers and workers killed with -9 at random moments: nothing acknowledged is lost, nothing torn, nobody stays."""

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from forgetless.sweeps import Store
from support.campaigns import SEED
from support.processes import alive, descendants
from support.sweeping import slow

ORPHANS = 10.0
"""Seconds that a process may outlive its driver."""

HANGS = 120.0
"""Seconds without a commit after which a sweep hangs."""


class Driver:
    """A sweep in a process of its own, and what it has acknowledged."""

    def __init__(self, path, n_seeds, engine):
        words = [sys.executable, "-P", "-m", "support.sweeping", str(path), str(n_seeds), engine]
        env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        self.lines, self.acknowledged, self.complete, self.family = queue.Queue(), 0, False, set()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put(None)

    def hear(self, seconds):
        """Listen for so long, or until it ends; return whether it still runs."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.family.update(descendants(self.process.pid))
            try:
                line = self.lines.get(timeout=min(left, 0.1))
            except queue.Empty:
                continue
            if line is None:
                self.lines.put(None)
                return False
            self._heed(line)
        return True

    def _heed(self, line):
        if line.startswith("committed") and line.endswith("\n"):
            self.acknowledged = int(line.split()[1])
        self.complete = self.complete or line == "complete\n"

    def kill(self):
        """End it, hear what it had said, and return how many of its processes stay for too long."""
        self.family.update(descendants(self.process.pid))
        self.process.kill()
        self.process.wait()
        while (line := self.lines.get()) is not None:
            self._heed(line)
        until = time.monotonic() + ORPHANS
        while (left := [pid for pid in self.family if alive(pid)]) and time.monotonic() < until:
            time.sleep(0.05)
        return len(left)


def check(path, acknowledged):
    """The store has what was acknowledged, and every batch of it whole."""
    if not path.exists():
        assert acknowledged == 0
        return 0
    with Store(path, write=True) as store:  # as the next run opens it
        there = store.finished()
        torn = store.database.execute(
            "SELECT tasks, seed, ordering, k, count(*), count(value) FROM cell LEFT JOIN result ON key = cell "
            "GROUP BY tasks, seed, ordering, k HAVING count(*) != 5 OR count(value) != 5"
        ).fetchall()
        assert store.database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert torn == []
    assert len(there) >= acknowledged
    return len(there)


def attack(tmp_path, engine, victim, kills, n_seeds, pause, seed):
    """Kill so many; return what happened. ``pause`` is the longest time between two kills."""
    rng = random.Random(seed)
    expected = slow(n_seeds).run(tmp_path / "expected.db", n_workers=0)
    done = sweeps = orphans = 0
    while done < kills:
        path, there = tmp_path / f"{sweeps}.db", 0
        complete = False
        while not complete:
            driver = Driver(path, n_seeds, engine)
            # A LocalCluster whose workers are killed before it has started gives up: dask's own limit.
            last, heard, killed_at = time.monotonic(), there, there if engine == "dask" else -1
            while driver.hear(rng.uniform(0.0, pause)):
                if driver.acknowledged > heard:
                    last, heard = time.monotonic(), driver.acknowledged
                assert time.monotonic() - last < HANGS, "the sweep hangs"
                if done >= kills:
                    continue
                if victim == "driver":
                    break
                # Only after progress, so that kills do not outrun it: a worker takes seconds to start.
                targets = [pid for pid in descendants(driver.process.pid) if is_worker(pid)]
                if targets and heard > killed_at:
                    os.kill(rng.choice(targets), signal.SIGKILL)
                    killed_at, done = heard, done + 1
            if victim == "driver" and driver.process.poll() is None and not driver.complete:
                done += 1
            orphans += driver.kill()
            there = check(path, driver.acknowledged)
            complete = driver.complete
        assert slow(n_seeds).table(path).columns == expected.columns
        sweeps += 1
    assert orphans == 0
    return (
        f"{engine}: {done} kill -9 of {victim}s over {sweeps} sweeps of {len(expected)} cells; none lost, torn or left"
    )


def is_worker(pid):
    """Return whether a process is a worker: dask has helpers too, and its nannies are threads of the driver."""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            words = file.read()
    except OSError:
        return False
    return "popen_loky" in words or "spawn_main" in words


@pytest.mark.long
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_a_few_kills(tmp_path, victim):
    attack(tmp_path, "local", victim, 2, 6, 1.5, seed=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "victim", "kills", "n_seeds", "pause"),
    [
        ("local", "driver", 80, 60, 4.0),
        ("local", "worker", 150, 150, 2.0),
        ("dask", "driver", 20, 60, 8.0),
        ("dask", "worker", 40, 150, 4.0),
    ],
)
def test_many_kills(tmp_path, campaign, monkeypatch, engine, victim, kills, n_seeds, pause):
    monkeypatch.delenv("FORGETLESS_NUMBA")
    campaign(attack(tmp_path, engine, victim, kills, n_seeds, pause, SEED))

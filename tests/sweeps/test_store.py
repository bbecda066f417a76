"""The store: durable, one writer, refusals in one sentence, readable by everybody, merging."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pandas
import pytest

import forgetless as fl
from forgetless.sweeps import Store, merge
from forgetless.sweeps.evaluate import evaluate
from forgetless.sweeps.store import APPLICATION, VERSION
from support.sweeping import SCHEDULES, broken, small


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def facts(path, words):
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(words).fetchall()


def refused(call, *words):
    """Call, which must be refused in one sentence with these words."""
    with pytest.raises((fl.errors.StoreError, OSError)) as caught:
        call()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_store_is_one_plain_file_in_wal_mode(path):
    small().run(path, n_workers=0)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert facts(path, "PRAGMA journal_mode") == [("wal",)]
    assert facts(path, "PRAGMA application_id") == [(APPLICATION,)]
    assert facts(path, "PRAGMA user_version") == [(VERSION,)]
    with Store(path, write=True) as store:
        assert store.database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_other_programs_read_it(path):
    table = small(metrics=("average_loss", "drift")).run(path, n_workers=0)
    with closing(sqlite3.connect(path)) as database, database:
        frame = pandas.read_sql("SELECT * FROM results WHERE metric = 'drift' ORDER BY key", database)
    assert len(frame) == len(table) == 18
    assert sorted(frame.value) == sorted(table.columns["drift"])
    assert set(frame.columns) >= {"tasks", "schedule", "scale", "ordering", "k", "seed", "metric", "step", "value"}


def test_provenance_says_with_what_where_and_how(path):
    small().run(path, n_workers=0)
    ((run, ended, total),) = facts(path, "SELECT provenance, ended, total FROM run")
    found = json.loads(run)
    assert found["forgetless"] == fl.__version__
    assert found["python"] == sys.version.split()[0]
    assert {"numpy", "scipy", "system", "host", "processors", "sqlite"} <= found.keys()
    assert found["command"] == sys.orig_argv
    assert (ended is not None, total) == (True, 18)


def test_a_second_writer_is_told_who_the_first_is(path):
    with Store(path, write=True):
        refused(lambda: small().run(path, n_workers=0), f"written by process {os.getpid()} on", "another store")
        with Store(path) as reader:
            assert reader.status().columns["running now"] == ["yes"]
    with Store(path) as reader:
        assert reader.status().columns["running now"] == ["no"]


def test_a_killed_writer_leaves_no_lock(path):
    code = f"from forgetless.sweeps import Store; import os; Store({str(path)!r}, write=True); os.kill(os.getpid(), 9)"
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env).returncode == -9
    assert path.with_name("results.db.lock").exists()
    small().run(path, n_workers=0)
    assert not path.with_name("results.db.lock").exists()


def test_a_lock_whose_owner_cannot_be_read_is_still_a_lock(path):
    with Store(path, write=True):
        path.with_name("results.db.lock").write_text("?")
        refused(lambda: Store(path, write=True), "written by another process")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metrics": "seen_loss"}, "metrics=['average_loss'] where this one has ['seen_loss']"),
        ({"n_trials": 3}, "n_trials=None where this one has 3"),
        ({"tasks": {"gauss": broken}}, "another tasks 'gauss'"),
        ({"schedules": {"up": "increasing:2"}}, "another schedule 'up'"),
        ({"orderings": {"with-replacement": fl.Cyclic()}}, "another ordering 'with-replacement'"),
    ],
)
def test_another_sweep_is_refused_and_nothing_changes(path, changes, words):
    table = small().run(path, n_workers=0)
    refused(lambda: small(**changes).run(path, n_workers=0), words, str(path))
    assert small().table(path).columns == table.columns
    assert facts(path, "SELECT count(*) FROM run") == [(1,)]


def test_files_that_are_no_stores_are_refused(path, tmp_path):
    path.write_text("not a database, but long enough to be looked at as one" * 100)
    refused(lambda: small().run(path, n_workers=0), "is not a store")
    refused(lambda: small().table(path), "is not a store")
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("CREATE TABLE mine (a)")
    refused(lambda: small().run(other, n_workers=0), "is not a store")
    refused(lambda: small().run(tmp_path, n_workers=0), "is not a file")
    refused(lambda: small().run(tmp_path / "none" / "a.db", n_workers=0), "there is no folder")
    refused(lambda: small().table(tmp_path / "none.db"), "there is no store")
    assert facts(other, "SELECT name FROM sqlite_master") == [("mine",)]
    with Store(tmp_path / "empty.db", write=True):
        pass
    with Store(tmp_path / "empty.db") as store:
        refused(store.last_sweep, "no sweep was run")


def test_a_newer_version_is_refused(path):
    small().run(path, n_workers=0)
    facts(path, f"PRAGMA user_version={VERSION + 1}")
    refused(lambda: small().run(path, n_workers=0), f"format version {VERSION + 1}", "update forgetless")
    refused(lambda: small().table(path), "update forgetless")


def test_a_full_disk_loses_nothing_that_was_committed(path):
    sweep = small(seeds=range(60))
    small().run(path, n_workers=0)
    with Store(path, write=True) as store:
        number = store.begin(sweep, "test")
        pages = store.database.execute("PRAGMA page_count").fetchone()[0]
        store.database.execute(f"PRAGMA max_page_count={pages + 1}")
        outcomes = evaluate(sweep, sweep.batches[0])

        def fill():
            for batch in sweep.batches[::2]:  # of k = 4, like the first
                made = [one._replace(key=member.key) for one, member in zip(outcomes, batch.members, strict=True)]
                store.add(number, [(batch, made)])

        refused(fill, "full", "what was committed is safe", "free some space")
        there = store.finished()
    assert facts(path, "PRAGMA integrity_check") == [("ok",)]
    with Store(path) as store:
        assert store.finished() == there > small().keys
    assert len(sweep.run(path, n_workers=0)) == len(sweep)


def test_a_store_that_may_not_be_written_is_refused_and_can_be_read(path, monkeypatch):
    table = small().run(path, n_workers=0)
    real = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: not mode & os.W_OK and real(place, mode))
    refused(lambda: small().run(path, n_workers=0), "read-only")
    assert small().table(path).columns == table.columns


def test_half_a_batch_is_never_there(path):
    sweep = small()
    with Store(path, write=True) as store:
        number = store.begin(sweep, "test")
        batch = sweep.batches[0]
        bad = [one._replace(rows=(("average_loss", 4, 1.0, None, None, "too long"),)) for one in evaluate(sweep, batch)]
        refused(lambda: store.add(number, [(batch, bad)]), "cannot be used")
        assert store.finished() == set()


def test_stores_are_merged_by_content(path, tmp_path):
    low, high = small(seeds=[0, 1]), small(seeds=[1, 2])
    other = tmp_path / "other.db"
    low.run(path, n_workers=0)
    high.run(other, n_workers=0)
    whole = small().run(tmp_path / "whole.db", n_workers=0)
    assert merge(path, other) == 6
    assert merge(path, other) == 0
    assert small().table(path).columns == whole.columns
    assert facts(path, "SELECT count(*) FROM run") == [(2,)]
    refused(lambda: merge(path, path), "into itself")
    small(metrics="drift").run(tmp_path / "drift.db", n_workers=0)
    refused(lambda: merge(path, tmp_path / "drift.db"), "other settings")
    small(schedules={"up": fl.Ridge(1.0)}).run(tmp_path / "names.db", n_workers=0)
    refused(lambda: merge(path, tmp_path / "names.db"), "another schedule by 'up'")
    assert small().table(path).columns == whole.columns


def test_what_failed_in_one_store_is_taken_from_the_other(path, tmp_path):
    sweep = small(schedules={"up": SCHEDULES["up"]})
    sweep.run(tmp_path / "good.db", n_workers=0)
    batch = sweep.batches[0]
    with Store(path, write=True) as store:
        failed = [one._replace(rows=(), error="no") for one in evaluate(sweep, batch)]
        store.add(store.begin(sweep, "test"), [(batch, failed)])
    assert len(sweep.failures(path)) == 1
    assert merge(path, tmp_path / "good.db") == len(sweep)
    assert len(sweep.failures(path)) == 0
    assert merge(tmp_path / "good.db", path) == 0


def test_a_value_keeps_its_name_in_a_store(path, tmp_path):
    small(schedules={"up": SCHEDULES["up"]}).run(path, n_workers=0)
    renamed = small(schedules={"new": SCHEDULES["up"]})
    refused(lambda: renamed.run(path, n_workers=0), "holds the schedule 'new' under the name 'up'")
    assert set(renamed.table(path).columns["schedule"]) == {"new"}
    renamed.run(tmp_path / "other.db", n_workers=0)
    refused(lambda: merge(path, tmp_path / "other.db"), "calls 'new' the schedule", "calls 'up'")


def status(path):
    with Store(path) as store:
        found = store.status().columns
    return {name: found[name][0] for name in ("cells", "done", "failed", "missing", "of other sweeps", "runs")}


def test_the_status_of_a_merged_store_is_counted_in_it(path, tmp_path):
    other, third = tmp_path / "other.db", tmp_path / "third.db"
    whole = small(scales=[0.1, 1.0])
    with Store(other, write=True) as store:  # cut short after a batch
        batch = whole.batches[0]
        store.add(store.begin(whole, "test"), [(batch, evaluate(whole, batch))])
    assert status(other) == {"cells": 30, "done": 5, "failed": 0, "missing": 25, "of other sweeps": 0, "runs": 1}
    small().run(path, n_workers=0)  # the same without scales: two cells of each batch are others
    for _ in range(2):
        merge(third, path, other)
        assert status(third) == {"cells": 18, "done": 18, "failed": 0, "missing": 0, "of other sweeps": 4, "runs": 2}
    merge(path, other)
    assert status(path) == status(third)
    whole.run(third, n_workers=0)
    assert status(third) == {"cells": 30, "done": 30, "failed": 0, "missing": 0, "of other sweeps": 12, "runs": 3}

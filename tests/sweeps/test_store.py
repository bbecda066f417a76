"""The store: durable, one writer, refusals in one sentence, readable by everybody, merging."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pandas
import pytest

import forgetless as fl
from forgetless.sweeps import Store, merge, report
from forgetless.sweeps import store as stores
from forgetless.sweeps.evaluate import evaluate
from forgetless.sweeps.format import APPLICATION, VERSION
from support.sweeping import SCHEDULES, broken, gauss, small


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


@pytest.mark.parametrize("protected", ["folder", "file"])
def test_a_store_of_which_a_part_is_read_only_is_read_without_files_beside_it(path, monkeypatch, protected):
    small(k=4, seeds=[0]).run(path, n_workers=0)
    place = path.resolve() if protected == "file" else path.resolve().parent
    monkeypatch.setattr(os, "access", lambda other, mode: other != place)
    with Store(path) as store:
        assert store.finished()
        assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_half_a_batch_is_never_there(path):
    sweep = small()
    with Store(path, write=True) as store:
        number = store.begin(sweep, "test")
        batch = sweep.batches[0]
        bad = [one._replace(rows=(("average_loss", 4, 1.0, None, None, 2.0),)) for one in evaluate(sweep, batch)]
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


def small_store(path):
    """Simulated cells with curves, a failure, two runs; return what may be read from it."""
    options = {"k": 4, "seeds": range(4), "n_trials": 3, "record": "all", "metrics": ("average_loss", "seen_loss")}
    small(tasks={"gauss": gauss}, **options).run(path, n_workers=0)
    sweep = small(tasks={"gauss": gauss, "broken": broken}, **options)
    sweep.run(path, n_workers=0)
    return sweep, readings(sweep, path)


def readings(sweep, path):
    """Everything that a store says of a sweep, except whether somebody writes to it."""
    with Store(path) as store:
        plain = [store.status().columns, store.finished(), store.failures(), store.versions(), store.last_sweep()]
    table, metric = report.of_store(path)
    return [*plain, sweep.table(path).columns, sweep.failures(path).columns, report.summary(table, metric).columns]


def read_or_refused(sweep, path):
    """What a store says, or None where it is refused in one sentence that names it and what to do."""
    message = ""
    try:
        return readings(sweep, path)
    except fl.errors.StoreError as error:
        message = str(error)
    assert message.startswith(str(path))
    assert message.isprintable()
    assert any(hint in message for hint in ("another store", "another name", "update forgetless"))
    return None


def test_flipped_bits_never_change_a_number(path, tmp_path):
    sweep, before = small_store(path)
    content, rng = bytearray(path.read_bytes()), np.random.default_rng(5)
    damaged, n_refused = tmp_path / "damaged.db", 0
    places = [*range(0, 100, 7), *rng.integers(0, len(content), 286).tolist()]  # of the header, and anywhere
    for place in places:
        bit = 1 << int(rng.integers(8))
        content[place] ^= bit
        damaged.write_bytes(content)
        content[place] ^= bit
        after = read_or_refused(sweep, damaged)
        assert after in (None, before), f"bit {bit} of byte {place}"
        n_refused += after is None
    assert len(places) >= 300
    assert 100 < n_refused < 300  # others are in free space


def test_a_store_that_is_cut_short_is_refused(path, tmp_path):
    sweep, _ = small_store(path)
    content, rng = path.read_bytes(), np.random.default_rng(6)
    cut = tmp_path / "cut.db"
    pages = list(range(0, len(content), 4096))
    lengths = [*pages, *rng.integers(0, len(content), max(0, 100 - len(pages))).tolist()]
    for length in lengths:
        cut.write_bytes(content[:length])
        assert read_or_refused(sweep, cut) is None, f"{length} of {len(content)} bytes"
    assert len(lengths) >= 100


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE result SET value = value * 2 WHERE step = 4", "the digest of cell"),
        ("UPDATE cell SET scale = 7.0 WHERE k = 4", "the digest of cell"),
        ("DELETE FROM result WHERE step = 4", "the digest of cell"),
        ("DELETE FROM cell WHERE error IS NOT NULL", r"it has \(18, 144\) of \(24, 144\) cells and results"),
        ("DELETE FROM cell WHERE seed = 0", ""),
        ("UPDATE run SET sweep = '{}'", "the digest of its runs and axes"),
        ("UPDATE axis SET label = 'x' WHERE label = 'up'", "the digest of its runs and axes"),
        ("DELETE FROM summary", "it has 0 summaries"),
        ("UPDATE summary SET last_run = 1", "the digest of its runs and axes"),
    ],
)
def test_every_change_of_a_store_is_noticed(path, change, reason):
    small_store(path)
    facts(path, change)
    for write in (False, True):
        with pytest.raises(fl.errors.StoreError, match=f"is damaged \\({reason}.*; restore a copy"):
            Store(path, write=write)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON cell BEGIN UPDATE cell SET k = 1; END", "trigger 't'"),
        ("CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n", "view"),
        ("CREATE TABLE more (a)", "table 'more'"),
        ("CREATE INDEX i ON cell (k)", "index 'i'"),
        ("DROP VIEW results", "view 'results'"),
        ("ALTER TABLE cell ADD COLUMN note TEXT", "table 'cell'"),
    ],
)
def test_a_foreign_schema_is_refused_before_anything_of_it_runs(path, change, name):
    small_store(path)
    facts(path, change)
    before = path.read_bytes()
    for write in (False, True):
        with pytest.raises(fl.errors.StoreError, match=f"has other tables than a store of a sweep \\(see the {name}"):
            Store(path, write=write)
    assert path.read_bytes() == before


def test_a_view_in_the_place_of_a_table_is_refused(path):
    """An endless query behind the name of a table, which a reader would wait for."""
    small_store(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP VIEW results")
        database.execute(
            "CREATE VIEW results AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) "
            "SELECT i AS tasks FROM n"
        )
    with pytest.raises(fl.errors.StoreError, match="view 'results'"):
        Store(path)


def test_stores_are_read_without_trust_and_without_writing(path):
    small().run(path, n_workers=0)
    with Store(path) as store:
        assert store.database.execute("PRAGMA trusted_schema").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.database.execute("DELETE FROM cell")
    with Store(path, write=True) as store:
        assert store.database.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_an_older_format_is_refused(path):
    small().run(path, n_workers=0)
    facts(path, "PRAGMA user_version=1")
    refused(lambda: Store(path), "format version 1", "compute the sweep again into another store")


def test_the_last_run_is_the_last_whatever_the_clock_said(path, monkeypatch):
    with monkeypatch.context() as ahead:
        ahead.setattr(stores, "now", lambda: "2099-01-01T00:00:00.000+00:00")
        small(seeds=range(5)).run(path, n_workers=0)
    small(scales=[0.1]).run(path, n_workers=0)
    assert status(path) == {"cells": 18, "done": 18, "failed": 0, "missing": 0, "of other sweeps": 24, "runs": 2}


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

"""The store of a sweep: one SQLite file, to which one process writes and any number read.

Every batch of cells is one transaction in WAL mode with ``synchronous=FULL``: once it is acknowledged it survives the
death of the process and of the machine, and it is there whole or not at all.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from forgetless._core.version import version
from forgetless.errors import StoreError
from forgetless.io.atomic import check_folder, check_source
from forgetless.reporting.table import Table
from forgetless.sweeps._lock import Lock, is_locked
from forgetless.sweeps._provenance import provenance
from forgetless.sweeps.evaluate import Outcome
from forgetless.sweeps.grid import AXES, Batch, Grid

APPLICATION = int.from_bytes(b"flsw", "big")
"""SQLite's application_id of a store; ``user_version`` is ``VERSION``."""

VERSION = 1

SCHEMA = """
CREATE TABLE run (
  id INTEGER PRIMARY KEY, started TEXT NOT NULL, ended TEXT, total INTEGER NOT NULL,
  sweep TEXT NOT NULL, provenance TEXT NOT NULL);
CREATE TABLE axis (
  name TEXT NOT NULL, label TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (name, label)) WITHOUT ROWID;
CREATE TABLE cell (
  key TEXT PRIMARY KEY, tasks TEXT NOT NULL, schedule TEXT NOT NULL, scale REAL, ordering TEXT NOT NULL,
  k INTEGER NOT NULL, seed INTEGER, version TEXT NOT NULL, error TEXT, seconds REAL NOT NULL,
  finished TEXT NOT NULL, run INTEGER NOT NULL REFERENCES run (id)) WITHOUT ROWID;
CREATE TABLE result (
  cell TEXT NOT NULL REFERENCES cell (key), metric TEXT NOT NULL, step INTEGER NOT NULL, value REAL,
  standard_error REAL, rounding REAL, PRIMARY KEY (cell, metric, step)) WITHOUT ROWID;
CREATE VIEW results AS
  SELECT tasks, schedule, scale, ordering, k, seed, metric, step, value, standard_error, rounding, version, key
  FROM cell JOIN result ON result.cell = cell.key;
"""
"""Version 1. docs/sweeps.md says what every column means."""

RESULTS = (*AXES, "metric", "step", "value", "standard_error", "rounding", "version", "key")
"""Columns of the view ``results``."""


class Store:
    """A store that is open; a context manager that closes it."""

    def __init__(self, path: str | os.PathLike[str], *, write: bool = False) -> None:
        self.path = Path(path)
        self._lock: Lock | None = None
        if not write:
            check_source(self.path, "store")
        elif not self.path.exists():
            if not self.path.parent.is_dir():
                raise FileNotFoundError(f"there is no folder {self.path.parent}; make it first")
            check_folder(self.path.parent)
        elif not self.path.is_file():
            raise StoreError(f"{self.path} is not a file; give the name of a store")
        elif not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            raise StoreError(f"{self.path} or its folder is read-only; allow writing, or give another store")
        if write:
            self._lock = Lock(self.path.resolve())  # by whatever name others know it
        try:
            with self.saying():
                self.database = self._open(write)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _open(self, write: bool) -> sqlite3.Connection:
        place = self.path.resolve().as_uri()
        mine = os.access(self.path.parent, os.W_OK) and os.access(self.path, os.W_OK)
        if write or mine:
            mode = "mode=rwc" if write else "mode=rw"  # a reader that may not write would leave files beside the store
        else:
            # Without a place for the files that readers share, it can only be read as it lies there.
            mode = "mode=ro" if Path(f"{self.path.resolve()}-wal").exists() else "mode=ro&immutable=1"
        database = sqlite3.connect(f"{place}?{mode}", uri=True, isolation_level=None, timeout=30)
        try:
            kind, found = (
                database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            empty = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
            if not (write and empty) and kind != APPLICATION:
                raise StoreError(f"{self.path} is not a store of a sweep; give another name")
            if found > VERSION:
                raise StoreError(
                    f"{self.path} has format version {found}, and this is forgetless {version()}, which reads up to "
                    f"{VERSION}; update forgetless"
                )
            if not write:
                database.execute("PRAGMA query_only=1")
            else:
                if database.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                    raise StoreError(f"{self.path} lies on a file system without shared memory; use a local disk")
                database.execute("PRAGMA synchronous=FULL")
                if empty:
                    made = f"{SCHEMA} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};"
                    database.executescript(f"BEGIN; {made} COMMIT;")
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def saying(self) -> Iterator[None]:
        """Inside, what SQLite cannot do becomes one sentence."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error):
                raise StoreError(f"{self.path} is not a store of a sweep; give another name") from None
            cure = "free some space" if "full" in str(error) else "see to the disk"
            raise StoreError(
                f"{self.path} cannot be used ({error}); what was committed is safe: {cure}, and run again"
            ) from error

    # --- writing ---

    def begin(self, sweep: Grid, engine: str) -> int:
        """Check that the store can hold the sweep, note who runs it and how, and return the number of the run."""
        plain = sweep.description()
        with self.saying(), self._transaction():
            self._check(sweep)
            for axis, values in sweep.axes.items():
                rows = [(axis, value.label, value.digest) for value in values.values()]
                self.database.executemany("INSERT OR IGNORE INTO axis VALUES (?,?,?)", rows)
            facts = (now(), len(sweep), json.dumps(plain), json.dumps(provenance(engine)))
            names = "started, total, sweep, provenance"
            made = self.database.execute(f"INSERT INTO run ({names}) VALUES (?,?,?,?)", facts)
            return int(made.lastrowid or 0)

    def _check(self, sweep: Grid) -> None:
        """Refuse the results of another sweep: other settings, or another thing under the same name."""
        last = self._last()
        held = sweep.settings if last is None else last[1]["settings"]
        for name, value in sweep.settings.items():
            if held.get(name) != value:
                raise StoreError(
                    f"{self.path} holds another sweep, with {name}={held.get(name)!r} where this one has {value!r}; "
                    "give this one another store"
                )
        for axis, values in sweep.axes.items():
            known = dict(self.database.execute("SELECT label, digest FROM axis WHERE name = ?", (axis,)))
            for value in values.values():
                if known.get(value.label, value.digest) != value.digest:
                    raise StoreError(
                        f"{self.path} holds results of another {axis} {value.label!r}, with another content; give it "
                        "another name, or this sweep another store"
                    )
                called = next((label for label, found in known.items() if found == value.digest), value.label)
                if called != value.label:
                    raise StoreError(
                        f"{self.path} holds the {axis} {value.label!r} under the name {called!r}; call it so, or give "
                        "this sweep another store"
                    )

    def add(self, run: int, finished: Sequence[tuple[Batch, Sequence[Outcome]]]) -> None:
        """Commit what became of some batches, all of it or nothing."""
        cells, results, when, made = [], [], now(), version()
        for batch, outcomes in finished:
            members = {member.key: member for member in batch.members}
            for key, rows, error, seconds in outcomes:
                member = members[key]
                axes = (batch.tasks, member.schedule, member.scale, batch.ordering, batch.k, batch.seed)
                cells.append((key, *axes, made, error, seconds, when, run))
                results += [(key, *row) for row in rows]
        with self.saying(), self._transaction():
            if any(cell[8] is not None for cell in cells):  # a cell that fails again must not keep older rows
                self.database.executemany("DELETE FROM result WHERE cell = ?", [(cell[0],) for cell in cells])
            self.database.executemany("INSERT OR REPLACE INTO cell VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", cells)
            self.database.executemany("INSERT OR REPLACE INTO result VALUES (?,?,?,?,?,?)", results)

    def end(self, run: int) -> None:
        """Note that a run came to its end."""
        with self.saying(), self._transaction():
            self.database.execute("UPDATE run SET ended = ? WHERE id = ?", (now(), run))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise

    # --- reading ---

    def finished(self, failed_since: int | None = 0) -> set[str]:
        """Return the keys of the cells that are there; those that failed, only in or after that run; None: never."""
        asked = "SELECT key FROM cell WHERE error IS NULL OR run >= ?"
        with self.saying():
            return {key for (key,) in self.database.execute(asked, (2**62 if failed_since is None else failed_since,))}

    def failures(self) -> dict[str, str]:
        """Return why cells failed, by their keys."""
        with self.saying():
            return dict(self.database.execute("SELECT key, error FROM cell WHERE error IS NOT NULL"))

    def rows(self, made_by: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the view ``results``, of one version of the package or of all."""
        asked = f"SELECT {', '.join(RESULTS)} FROM results WHERE version = ifnull(?, version)"
        with self.saying():
            yield from self.database.execute(asked, (made_by,))

    def versions(self) -> dict[str, int]:
        """Return how many cells there are of each version of the package."""
        with self.saying():
            return dict(self.database.execute("SELECT version, count(*) FROM cell GROUP BY version"))

    def last_sweep(self) -> dict[str, Any]:
        """Return the sweep that was run last as plain data; StoreError where none was."""
        with self.saying():
            found = self._last()
        if found is None:
            raise StoreError(f"{self.path} is empty: no sweep was run into it")
        return found[1]

    def _last(self) -> tuple[int, dict[str, Any]] | None:
        """Return how many cells the sweep has that was begun last, here or in a store that was merged, and itself."""
        asked = "SELECT total, sweep FROM run ORDER BY started DESC, id DESC LIMIT 1"
        found = self.database.execute(asked).fetchone()
        return None if found is None else (found[0], json.loads(found[1]))

    def status(self) -> Table:
        """Return what is there, what failed, what is missing of the sweep run last, and who runs it."""
        with self.saying():
            seconds, last = self.database.execute("SELECT total(seconds), max(finished) FROM cell").fetchone()
            runs = self.database.execute("SELECT count(*) FROM run").fetchone()[0]
            total, sweep = self._last() or (0, None)
            cells = list(self.database.execute(f"SELECT {', '.join(AXES)}, version, error FROM cell"))
        known = sweep is not None and "once" in sweep  # else written before sweeps said which cells have no seed
        own = [cell for cell in cells if known and _belongs(cell, sweep or {})]
        failed = sum(cell[-1] is not None for cell in own)
        facts = {
            "cells": total,
            "done": len(own) - failed if known else None,
            "failed": failed if known else None,
            "missing": total - len(own) if known else None,
            "of other sweeps": len(cells) - len(own) if known else None,
            "seconds of work": round(seconds, 3),
            "last commit": last,
            "runs": runs,
            "running now": "yes" if is_locked(self.path.resolve()) else "no",
        }
        return Table(f"Status of {self.path.name}", {name: [value] for name, value in facts.items()})

    def close(self) -> None:
        """Close the file; a store that was written is one file afterwards, if nobody else reads it."""
        try:
            self.database.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _belongs(cell: Sequence[Any], sweep: dict[str, Any]) -> bool:
    """Return whether a cell, by the names of its values and its version, is one of a sweep."""
    tasks, schedule, scale, ordering, k, seed, made_by, _ = cell
    axes, once = sweep["axes"], sweep["once"]
    if made_by != sweep["version"] or tasks not in axes["tasks"] or schedule not in axes["schedule"]:
        return False
    seeds = (None,) if tasks in once["seed"] else axes["seed"]
    scales = (None,) if schedule in once["scale"] else axes["scale"]
    return ordering in axes["ordering"] and k in axes["k"] and seed in seeds and scale in scales


def now() -> str:
    """Return the time, as the store keeps it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def merge(target: str | os.PathLike[str], *sources: str | os.PathLike[str]) -> int:
    """Copy the cells of other stores into one; return how many were new.

    All must be of the same settings, and mean the same by every name. A cell that failed in one store and not in
    another is taken from the other.

    Parameters
    ----------
    target : path
        A store; made where there is none.
    sources : paths
    """
    new = 0
    with Store(target, write=True) as store:
        for source in sources:
            if Path(source).resolve() == store.path.resolve():
                raise StoreError(f"{source} cannot be merged into itself")
            with Store(source) as other, store.saying():
                new += _merged(store, other)
    return new


def _merged(store: Store, other: Store) -> int:
    theirs = other.last_sweep()["settings"]
    database = store.database
    mine = store._last()
    if mine is not None and mine[1]["settings"] != theirs:
        raise StoreError(f"{other.path} holds a sweep with other settings than {store.path}; keep them apart")
    with store._transaction():
        known = {(name, label): digest for name, label, digest in database.execute("SELECT * FROM axis")}
        called = {(name, digest): label for (name, label), digest in known.items()}
        for name, label, digest in other.database.execute("SELECT * FROM axis"):
            if known.get((name, label), digest) != digest:
                raise StoreError(f"{other.path} means another {name} by {label!r} than {store.path}; keep them apart")
            if called.get((name, digest), label) != label:
                same = called[name, digest]
                raise StoreError(
                    f"{other.path} calls {label!r} the {name} that {store.path} calls {same!r}; rename one"
                )
            database.execute("INSERT OR IGNORE INTO axis VALUES (?,?,?)", (name, label, digest))
        # A run that came with an earlier merge is there already, perhaps from before it ended.
        there_already = {
            tuple(facts): number
            for number, *facts in database.execute("SELECT id, started, total, sweep, provenance FROM run")
        }
        runs = {}
        for number, *facts in other.database.execute("SELECT * FROM run"):
            started, ended, total, sweep, made_by = facts
            runs[number] = there_already.get((started, total, sweep, made_by))
            if runs[number] is None:
                runs[number] = database.execute("INSERT INTO run VALUES (NULL,?,?,?,?,?)", facts).lastrowid
            else:
                database.execute("UPDATE run SET ended = ifnull(ended, ?) WHERE id = ?", (ended, runs[number]))
        good, there = store.finished(failed_since=None), store.finished()
        cells = [
            (*cell[:-1], runs[cell[-1]])
            for cell in other.database.execute("SELECT * FROM cell")
            if cell[0] not in (there if cell[8] is not None else good)
        ]
        taken = {cell[0] for cell in cells}
        database.executemany("DELETE FROM result WHERE cell = ?", [(key,) for key in taken])
        database.executemany("INSERT OR REPLACE INTO cell VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", cells)
        rows = (row for row in other.database.execute("SELECT * FROM result") if row[0] in taken)
        database.executemany("INSERT OR REPLACE INTO result VALUES (?,?,?,?,?,?)", rows)
    return len(taken)

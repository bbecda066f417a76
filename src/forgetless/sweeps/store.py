"""The store of a sweep: one SQLite file, to which one process writes and any number read.

Batches of cells are committed atomically, in WAL mode with ``synchronous=FULL``: once acknowledged they survive a crash
of the process and of the machine.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from forgetless._core.environment import version
from forgetless.errors import StoreError
from forgetless.io.atomic import Lock, check_folder, check_source, is_locked
from forgetless.io.provenance import run_environment
from forgetless.reporting.table import Table
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
"""Version 1; docs/sweeps.md describes the columns."""

RESULTS = (*AXES, "metric", "step", "value", "standard_error", "rounding", "version", "key")
"""Columns of the view ``results``."""


class Store:
    """An open store; as a context manager it is closed at the end."""

    def __init__(self, path: str | os.PathLike[str], *, write: bool = False) -> None:
        self.path = Path(path)
        self._lock: Lock | None = None
        if not write:
            check_source(self.path, "store")
        else:
            _check_target(self.path)
            self._lock = Lock(self.path.resolve())  # links to one store share its lock
        try:
            with self.errors():
                self.database = self._open(write)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _open(self, write: bool) -> sqlite3.Connection:
        path = self.path.resolve()
        if write:
            mode = "mode=rwc"
        elif os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
            mode = "mode=rw"  # a reader with mode=ro would leave files beside the store
        else:
            # Without a place for the files that readers share, only a store without a writer can be read.
            mode = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
        database = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, timeout=30)
        try:
            self._check_format(database, write)
            if not write:
                database.execute("PRAGMA query_only=1")
        except BaseException:
            database.close()
            raise
        return database

    def _check_format(self, database: sqlite3.Connection, write: bool) -> None:
        """Raise StoreError if the file is no store that can be used; create the tables in an empty one."""
        application, number, n_tables = (
            database.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        is_new = write and n_tables == 0
        if not is_new and application != APPLICATION:
            raise StoreError(f"{self.path} is not a store of a sweep; give another name")
        if number > VERSION:
            raise StoreError(
                f"{self.path} has format version {number}, and this is forgetless {version()}, which reads up to "
                f"{VERSION}; update forgetless"
            )
        if not write:
            return
        if database.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise StoreError(f"{self.path} is on a file system without shared memory; use a local disk")
        database.execute("PRAGMA synchronous=FULL")
        if is_new:
            marks = f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};"
            database.executescript(f"BEGIN; {SCHEMA} {marks} COMMIT;")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of SQLite into StoreError."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error):
                raise StoreError(f"{self.path} is not a store of a sweep; give another name") from None
            hint = "free some space" if "full" in str(error) else "check the disk"
            raise StoreError(
                f"{self.path} cannot be used ({error}); what was committed is safe: {hint}, and run again"
            ) from error

    # --- writing ---

    def begin(self, sweep: Grid, engine: str) -> int:
        """Check that the store can hold the sweep, record the run and its environment, and return its number."""
        plain = sweep.description()
        with self.errors(), self._transaction():
            self._check(sweep)
            for axis, values in sweep.axes.items():
                rows = [(axis, value.label, value.digest) for value in values.values()]
                self.database.executemany("INSERT OR IGNORE INTO axis VALUES (?,?,?)", rows)
            facts = (now(), len(sweep), json.dumps(plain), json.dumps(run_environment(engine)))
            names = "started, total, sweep, provenance"
            cursor = self.database.execute(f"INSERT INTO run ({names}) VALUES (?,?,?,?)", facts)
            return int(cursor.lastrowid or 0)

    def _check(self, sweep: Grid) -> None:
        """Raise StoreError if the store holds another sweep: other settings, or another value under the same name."""
        last = self._last()
        stored = sweep.settings if last is None else last[1]["settings"]
        for name, value in sweep.settings.items():
            if stored.get(name) != value:
                raise StoreError(
                    f"{self.path} holds another sweep, with {name}={stored.get(name)!r} where this one has {value!r}; "
                    "give this one another store"
                )
        for axis, values in sweep.axes.items():
            digests = dict(self.database.execute("SELECT label, digest FROM axis WHERE name = ?", (axis,)))
            labels = {digest: label for label, digest in digests.items()}
            for value in values.values():
                if digests.get(value.label, value.digest) != value.digest:
                    raise StoreError(
                        f"{self.path} holds results of another {axis} {value.label!r}, with another content; give it "
                        "another name, or this sweep another store"
                    )
                if (label := labels.get(value.digest, value.label)) != value.label:
                    raise StoreError(
                        f"{self.path} holds the {axis} {value.label!r} under the name {label!r}; use this name, or "
                        "give this sweep another store"
                    )

    def add(self, run: int, finished: Sequence[tuple[Batch, Sequence[Outcome]]]) -> None:
        """Commit the outcomes of some batches atomically."""
        cells, results, time = [], [], now()
        for batch, outcomes in finished:
            members = {member.key: member for member in batch.members}
            for key, rows, error, seconds in outcomes:
                member = members[key]
                axes = (batch.tasks, member.schedule, member.scale, batch.ordering, batch.k, batch.seed)
                cells.append((key, *axes, version(), error, seconds, time, run))
                results += [(key, *row) for row in rows]
        with self.errors(), self._transaction():
            if any(cell[8] is not None for cell in cells):  # a cell that fails again must not have older rows
                self.database.executemany("DELETE FROM result WHERE cell = ?", [(cell[0],) for cell in cells])
            self.database.executemany("INSERT OR REPLACE INTO cell VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", cells)
            self.database.executemany("INSERT OR REPLACE INTO result VALUES (?,?,?,?,?,?)", results)

    def end(self, run: int) -> None:
        """Record the end of a run."""
        with self.errors(), self._transaction():
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
        """Return the keys of finished cells; of failed ones those since a run, None: no failed ones."""
        query, since = "SELECT key FROM cell WHERE error IS NULL OR run >= ?", failed_since
        with self.errors():
            return {key for (key,) in self.database.execute(query, (2**62 if since is None else since,))}

    def failures(self) -> dict[str, str]:
        """Return the errors of failed cells by key."""
        with self.errors():
            return dict(self.database.execute("SELECT key, error FROM cell WHERE error IS NOT NULL"))

    def rows(self, of_version: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the view ``results``, of one version of the package or of all."""
        query = f"SELECT {', '.join(RESULTS)} FROM results WHERE version = ifnull(?, version)"
        with self.errors():
            yield from self.database.execute(query, (of_version,))

    def versions(self) -> dict[str, int]:
        """Return the numbers of cells by version of the package."""
        with self.errors():
            return dict(self.database.execute("SELECT version, count(*) FROM cell GROUP BY version"))

    def last_sweep(self) -> dict[str, Any]:
        """Return the sweep that was run last as plain data; StoreError if there is none."""
        with self.errors():
            last = self._last()
        if last is None:
            raise StoreError(f"{self.path} is empty: no sweep was run into it")
        return last[1]

    def _last(self) -> tuple[int, dict[str, Any]] | None:
        """Return the number of cells and the description of the sweep of the last run, also if it came by a merge."""
        query = "SELECT total, sweep FROM run ORDER BY started DESC, id DESC LIMIT 1"
        row = self.database.execute(query).fetchone()
        return None if row is None else (row[0], json.loads(row[1]))

    def status(self) -> Table:
        """Return the numbers of finished, failed and missing cells of the sweep run last, and whether it is running."""
        with self.errors():
            seconds, last = self.database.execute("SELECT total(seconds), max(finished) FROM cell").fetchone()
            runs = self.database.execute("SELECT count(*) FROM run").fetchone()[0]
            total, sweep = self._last() or (0, {})
            cells = list(self.database.execute(f"SELECT {', '.join(AXES)}, version, error FROM cell"))
        current = [cell for cell in cells if _belongs(cell, sweep)]
        failed = sum(cell[-1] is not None for cell in current)
        facts = {
            "cells": total,
            "done": len(current) - failed,
            "failed": failed,
            "missing": total - len(current),
            "of other sweeps": len(cells) - len(current),
            "seconds of work": round(seconds, 3),
            "last commit": last,
            "runs": runs,
            "running now": "yes" if is_locked(self.path.resolve()) else "no",
        }
        return Table(f"Status of {self.path.name}", {name: [value] for name, value in facts.items()})

    def close(self) -> None:
        """Close the store, which is then a single file unless others read it."""
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
    """Return whether a cell, by the labels of its values and its version, is part of a sweep."""
    tasks, schedule, scale, ordering, k, seed, of_version, _ = cell
    axes, once = sweep["axes"], sweep["once"]
    if of_version != sweep["version"] or tasks not in axes["tasks"] or schedule not in axes["schedule"]:
        return False
    seeds = (None,) if tasks in once["seed"] else axes["seed"]
    scales = (None,) if schedule in once["scale"] else axes["scale"]
    return ordering in axes["ordering"] and k in axes["k"] and seed in seeds and scale in scales


def _check_target(path: Path) -> None:
    """Raise if a store cannot be written at a path."""
    if not path.exists():
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent}; create it first")
        check_folder(path.parent)
    elif not path.is_file():
        raise StoreError(f"{path} is not a file; give the name of a store")
    elif not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise StoreError(f"{path} or its folder is read-only; allow writing, or give another store")


def now() -> str:
    """Return the time in the format of the store."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def merge(target: str | os.PathLike[str], *sources: str | os.PathLike[str]) -> int:
    """Copy the cells of other stores into one; return how many were new.

    All must be of the same settings, and mean the same by every name. A cell that failed in one store and not in
    another is taken from the other.

    Parameters
    ----------
    target : path
        A store; created if it does not exist.
    sources : paths
    """
    count = 0
    with Store(target, write=True) as store:
        for source in sources:
            if Path(source).resolve() == store.path.resolve():
                raise StoreError(f"{source} cannot be merged into itself")
            with Store(source) as other, store.errors():
                settings, last = other.last_sweep()["settings"], store._last()
                if last is not None and last[1]["settings"] != settings:
                    raise StoreError(f"{other.path} holds a sweep with other settings than {store.path}; merge neither")
                with store._transaction():
                    _merge_axes(store, other)
                    count += _merge_cells(store, other, _merge_runs(store, other))
    return count


def _merge_axes(store: Store, other: Store) -> None:
    """Add the values of the axes of another store; StoreError if labels and contents do not agree."""
    digests = {(name, label): digest for name, label, digest in store.database.execute("SELECT * FROM axis")}
    labels = {(name, digest): label for (name, label), digest in digests.items()}
    for name, label, digest in other.database.execute("SELECT * FROM axis"):
        if digests.get((name, label), digest) != digest:
            raise StoreError(f"{other.path} means another {name} by {label!r} than {store.path}; merge neither")
        if labels.get((name, digest), label) != label:
            raise StoreError(
                f"{other.path} calls {label!r} the {name} that {store.path} calls {labels[name, digest]!r}; rename one"
            )
        store.database.execute("INSERT OR IGNORE INTO axis VALUES (?,?,?)", (name, label, digest))


def _merge_runs(store: Store, other: Store) -> dict[int, int | None]:
    """Add the runs of another store; return their numbers in this one by those in the other."""
    present = {
        tuple(facts): number
        for number, *facts in store.database.execute("SELECT id, started, total, sweep, provenance FROM run")
    }
    numbers = {}
    for number, *facts in other.database.execute("SELECT * FROM run"):
        started, ended, total, sweep, environment = facts
        numbers[number] = present.get((started, total, sweep, environment))
        if numbers[number] is None:
            numbers[number] = store.database.execute("INSERT INTO run VALUES (NULL,?,?,?,?,?)", facts).lastrowid
        else:  # from an earlier merge, perhaps before the run ended
            store.database.execute("UPDATE run SET ended = ifnull(ended, ?) WHERE id = ?", (ended, numbers[number]))
    return numbers


def _merge_cells(store: Store, other: Store, runs: dict[int, int | None]) -> int:
    """Add the cells that are new, or that failed here and not there; return their number."""
    succeeded, present = store.finished(failed_since=None), store.finished()
    cells = [
        (*cell[:-1], runs[cell[-1]])
        for cell in other.database.execute("SELECT * FROM cell")
        if cell[0] not in (present if cell[8] is not None else succeeded)
    ]
    keys = {cell[0] for cell in cells}
    store.database.executemany("DELETE FROM result WHERE cell = ?", [(key,) for key in keys])
    store.database.executemany("INSERT OR REPLACE INTO cell VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", cells)
    rows = (row for row in other.database.execute("SELECT * FROM result") if row[0] in keys)
    store.database.executemany("INSERT OR REPLACE INTO result VALUES (?,?,?,?,?,?)", rows)
    return len(keys)

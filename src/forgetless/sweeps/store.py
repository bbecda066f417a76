"""The store of a sweep: one SQLite file, to which one process writes and any number read.

Batches of cells are committed atomically, in WAL mode with ``synchronous=FULL``: once acknowledged
they survive a crash of the process and of the machine.
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
from forgetless._core.text import printable
from forgetless.errors import StoreError
from forgetless.io.atomic import Lock, check_folder, check_source, is_locked
from forgetless.io.provenance import run_environment
from forgetless.reporting.table import Table
from forgetless.sweeps.evaluate import Outcome
from forgetless.sweeps.format import (
    DamageError,
    cell_digest,
    check_format,
    create,
    number,
    parsed_sweep,
    summary_digest,
    verify,
)
from forgetless.sweeps.grid import AXES, Batch, Grid

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
            # Without a place for the files that readers share, only a store without a writer can be
            # read.
            mode = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
        database = sqlite3.connect(
            f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, timeout=30
        )
        try:
            # The file may come from somebody else: its schema must not call functions with side
            # effects.
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute(f"PRAGMA query_only={0 if write else 1}")
            self._prepare(database, write)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection, write: bool) -> None:
        """Check format and content of a store; create the tables in an empty one."""
        is_new = write and database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        if not is_new:
            check_format(database, self.path)
        if write:
            if database.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise StoreError(
                    f"{self.path} is on a file system without shared memory; use a local disk"
                )
            database.execute("PRAGMA synchronous=FULL")
        if is_new:
            create(database)
        verify(database)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of SQLite, and damage, into StoreError."""
        try:
            yield
        except (sqlite3.Error, DamageError, UnicodeDecodeError) as error:
            if "not a database" in str(error):
                raise StoreError(
                    f"{self.path} is not a store of a sweep; give another name"
                ) from None
            reason = printable(" ".join(str(error).split()), 200)
            if not isinstance(error, sqlite3.Error) or _is_damage(error):
                raise StoreError(
                    f"{self.path} is damaged ({reason}); restore a copy, or compute the sweep again"
                    " into another store"
                ) from error
            hint = "free some space" if "full" in reason else "check the disk"
            raise StoreError(
                f"{self.path} cannot be used ({reason}); what was committed is safe: {hint}, and"
                " run again"
            ) from error

    # --- writing ---

    def begin(self, sweep: Grid, engine: str) -> int:
        """Check that the store can hold the sweep, record the run and its environment, and return
        its number.
        """
        plain = sweep.description()
        with self.errors(), self.transaction():
            self._check(sweep)
            for axis, values in sweep.axes.items():
                rows = [(axis, value.label, value.digest) for value in values.values()]
                self.database.executemany("INSERT OR IGNORE INTO axis VALUES (?,?,?)", rows)
            facts = (now(), len(sweep), json.dumps(plain), json.dumps(run_environment(engine)))
            names = "started, total, sweep, provenance"
            cursor = self.database.execute(f"INSERT INTO run ({names}) VALUES (?,?,?,?)", facts)
            run = int(cursor.lastrowid or 0)
            self.seal(run)
        return run

    def seal(self, last_run: int) -> None:
        """Record the last run, and the digest of all runs and values of axes, after a change of
        them.
        """
        digest = summary_digest(self.database, last_run)
        self.database.execute("UPDATE summary SET last_run = ?, digest = ?", (last_run, digest))

    def _check(self, sweep: Grid) -> None:
        """Raise StoreError if the store holds another sweep: other settings, or another value under
        the same name.
        """
        last = self.last_run()
        stored = sweep.settings if last is None else last[-1]["settings"]
        for name, value in sweep.settings.items():
            if stored.get(name) != value:
                raise StoreError(
                    f"{self.path} holds another sweep, with {name}={stored.get(name)!r} where this"
                    f" one has {value!r}; give this one another store"
                )
        for axis, values in sweep.axes.items():
            digests = dict(
                self.database.execute("SELECT label, digest FROM axis WHERE name = ?", (axis,))
            )
            labels = {digest: label for label, digest in digests.items()}
            for value in values.values():
                if digests.get(value.label, value.digest) != value.digest:
                    raise StoreError(
                        f"{self.path} holds results of another {axis} {value.label!r}, with another"
                        " content; give it another name, or this sweep another store"
                    )
                if (label := labels.get(value.digest, value.label)) != value.label:
                    raise StoreError(
                        f"{self.path} holds the {axis} {value.label!r} under the name {label!r};"
                        " use this name, or give this sweep another store"
                    )

    def add(self, run: int, finished: Sequence[tuple[Batch, Sequence[Outcome]]]) -> None:
        """Commit the outcomes of some batches atomically."""
        cells: dict[str, tuple[Any, ...]] = {}
        results: dict[str, list[tuple[Any, ...]]] = {}
        time = now()
        for batch, outcomes in finished:
            members = {member.key: member for member in batch.members}
            for key, rows, error, seconds in outcomes:
                member = members[key]
                axes = (
                    batch.tasks,
                    member.schedule,
                    member.scale,
                    batch.ordering,
                    batch.k,
                    batch.seed,
                )
                cell = (key, *axes, version(), error, number(seconds), time, run)
                plain = [(metric, step, *map(number, numbers)) for metric, step, *numbers in rows]
                plain.sort(key=lambda row: row[:2])
                cells[key] = (*cell, cell_digest(cell, plain))
                results[key] = [(key, *row) for row in plain]
        with self.errors(), self.transaction():
            self.replace(list(cells.values()), [row for each in results.values() for row in each])

    def replace(self, cells: Sequence[Sequence[Any]], results: Sequence[Sequence[Any]]) -> None:
        """Replace cells and all their results; others stay as they are."""
        keys = [(cell[0],) for cell in cells]
        n_results = (
            len(results)
            - self.database.executemany("DELETE FROM result WHERE cell = ?", keys).rowcount
        )
        n_cells = (
            len(cells) - self.database.executemany("DELETE FROM cell WHERE key = ?", keys).rowcount
        )
        self.database.executemany("INSERT INTO cell VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", cells)
        self.database.executemany("INSERT INTO result VALUES (?,?,?,?,?,?)", results)
        self.database.execute(
            "UPDATE summary SET cells = cells + ?, results = results + ?", (n_cells, n_results)
        )

    def end(self, run: int) -> None:
        """Record the end of a run."""
        with self.errors(), self.transaction():
            self.database.execute("UPDATE run SET ended = ? WHERE id = ?", (now(), run))
            self.seal(run)

    @contextmanager
    def transaction(self) -> Iterator[None]:
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
        """Return the keys of finished cells; of failed ones those since a run, None: no failed
        ones.
        """
        query, since = "SELECT key FROM cell WHERE error IS NULL OR run >= ?", failed_since
        with self.errors():
            return {
                key for (key,) in self.database.execute(query, (2**62 if since is None else since,))
            }

    def failures(self) -> dict[str, str]:
        """Return the errors of failed cells by key."""
        with self.errors():
            return dict(
                self.database.execute("SELECT key, error FROM cell WHERE error IS NOT NULL")
            )

    def rows(self, of_version: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the view ``results``, of one version of the package or of all."""
        query = f"SELECT {', '.join(RESULTS)} FROM results WHERE version = ifnull(?, version)"
        with self.errors():
            yield from self.database.execute(query, (of_version,))

    def versions(self) -> dict[str, int]:
        """Return the numbers of cells by version of the package."""
        with self.errors():
            return dict(
                self.database.execute("SELECT version, count(*) FROM cell GROUP BY version")
            )

    def last_sweep(self) -> dict[str, Any]:
        """Return the sweep that was run last as plain data; StoreError if there is none."""
        with self.errors():
            last = self.last_run()
        if last is None:
            raise StoreError(f"{self.path} is empty: no sweep was run into it")
        return last[-1]

    def last_run(self) -> tuple[int, str, int, dict[str, Any]] | None:
        """Return number, start, number of cells and description of the last run; None if there is
        none.

        The last of several runs is known from their sequence, not from their times: a clock may
        have been ahead. Of merged stores the one whose last run started later has the last run.
        """
        query = (
            "SELECT id, started, total, sweep FROM run WHERE id = (SELECT last_run FROM summary)"
        )
        row = self.database.execute(query).fetchone()
        return None if row is None else (*row[:3], parsed_sweep(row[3]))

    def status(self) -> Table:
        """Return the numbers of finished, failed and missing cells of the sweep run last, and
        whether it is running.
        """
        with self.errors():
            seconds, last = self.database.execute(
                "SELECT total(seconds), max(finished) FROM cell"
            ).fetchone()
            runs = self.database.execute("SELECT count(*) FROM run").fetchone()[0]
            _, _, total, sweep = self.last_run() or (0, "", 0, {})
            cells = list(
                self.database.execute(f"SELECT {', '.join(AXES)}, version, error FROM cell")
            )
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
        return Table(
            f"Status of {self.path.name}", {name: [value] for name, value in facts.items()}
        )

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


def _is_damage(error: sqlite3.Error) -> bool:
    name = getattr(error, "sqlite_errorname", None) or ""
    reasons = ("malformed", "decode", "unsupported file format")
    return name.startswith("SQLITE_CORRUPT") or any(reason in str(error) for reason in reasons)


def _belongs(cell: Sequence[Any], sweep: dict[str, Any]) -> bool:
    """Return whether a cell, by the labels of its values and its version, is part of a sweep."""
    tasks, schedule, scale, ordering, k, seed, of_version, _ = cell
    axes, once = sweep["axes"], sweep["once"]
    if (
        of_version != sweep["version"]
        or tasks not in axes["tasks"]
        or schedule not in axes["schedule"]
    ):
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

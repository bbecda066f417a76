"""The format of a store: its tables, and the digests and row counts by which damage is detected."""

import functools
import itertools
import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from forgetless._core.environment import version
from forgetless.errors import StoreError
from forgetless.sweeps.code import text_digest

APPLICATION = int.from_bytes(b"flsw", "big")
"""SQLite's application_id of a store; ``user_version`` is ``VERSION``."""

VERSION = 2

SCHEMA = """
CREATE TABLE run (
  id INTEGER PRIMARY KEY, started TEXT NOT NULL, ended TEXT, total INTEGER NOT NULL,
  sweep TEXT NOT NULL, provenance TEXT NOT NULL);
CREATE TABLE axis (
  name TEXT NOT NULL, label TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (name, label))
  WITHOUT ROWID;
CREATE TABLE cell (
  key TEXT PRIMARY KEY, tasks TEXT NOT NULL, schedule TEXT NOT NULL, scale REAL,
  ordering TEXT NOT NULL,
  k INTEGER NOT NULL, seed INTEGER, version TEXT NOT NULL, error TEXT, seconds REAL NOT NULL,
  finished TEXT NOT NULL, run INTEGER NOT NULL REFERENCES run (id),
  digest TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE result (
  cell TEXT NOT NULL REFERENCES cell (key), metric TEXT NOT NULL, step INTEGER NOT NULL, value REAL,
  standard_error REAL, rounding REAL, PRIMARY KEY (cell, metric, step)) WITHOUT ROWID;
CREATE TABLE summary (
  cells INTEGER NOT NULL, results INTEGER NOT NULL, last_run INTEGER NOT NULL,
  digest TEXT NOT NULL);
CREATE VIEW results AS
  SELECT tasks, schedule, scale, ordering, k, seed, metric, step, value, standard_error,
    rounding, version, key
  FROM cell JOIN result ON result.cell = cell.key;
"""
"""docs/sweeps.md describes the columns."""

_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name, type"


class DamageError(Exception):
    """A store holds other data than were written."""


def number(value: float | None) -> float | None:
    """Return a number as SQLite returns it from a column of reals: None for NaN, and zero without a
    sign.
    """
    return None if value is None or math.isnan(value) else float(value) + 0.0


def cell_digest(cell: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Return the digest of a row of ``cell`` without its digest, and of its rows of ``result`` by
    metric and step.
    """
    return text_digest(repr((tuple(cell), [tuple(row) for row in rows])))


def summary_digest(database: sqlite3.Connection, last_run: int) -> str:
    """Return the digest of all runs and values of axes, and of the number of the last run."""
    tables = [
        database.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
        for name in ("run", "axis")
    ]
    return text_digest(repr((last_run, tables)))


def create(database: sqlite3.Connection) -> None:
    """Create the tables of an empty store."""
    marks = f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};"
    summary = f"INSERT INTO summary VALUES (0, 0, 0, '{text_digest(repr((0, [[], []])))}');"
    database.executescript(f"BEGIN; {SCHEMA} {summary} {marks} COMMIT;")


def check_format(database: sqlite3.Connection, path: Any) -> None:
    """Raise StoreError unless the file has exactly the tables of a store.

    A trigger or a view of somebody else would be executed by our own queries.
    """
    application, number_ = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise StoreError(f"{path} is not a store of a sweep; give another name")
    if number_ != VERSION:
        hint = (
            "update forgetless"
            if number_ > VERSION
            else "compute the sweep again into another store"
        )
        raise StoreError(
            f"{path} has format version {number_}, and this is forgetless {version()}, which reads"
            f" {VERSION}; {hint}"
        )
    differing = sorted(set(database.execute(_OBJECTS)) ^ _expected_objects(), key=str)
    if differing:
        kind, name = differing[0][:2]
        raise StoreError(
            f"{path} has other tables than a store of a sweep (see the {kind} {str(name)[:80]!r}),"
            " by damage or by another program; restore a copy, or compute the sweep again into"
            " another store"
        )


@functools.cache
def _expected_objects() -> frozenset[tuple[Any, ...]]:
    database = sqlite3.connect(":memory:")
    try:
        create(database)
        return frozenset(database.execute(_OBJECTS))
    finally:
        database.close()


def verify(database: sqlite3.Connection) -> None:
    """Raise DamageError unless all digests and row counts agree with the content, in one
    transaction.
    """
    database.execute("BEGIN")
    try:
        summaries = database.execute("SELECT * FROM summary").fetchall()
        if len(summaries) != 1:
            raise DamageError(f"it has {len(summaries)} summaries")
        n_cells, n_results, last_run, digest = summaries[0]
        if digest != summary_digest(database, last_run):
            raise DamageError("the digest of its runs and axes is wrong")
        counts = _verify_cells(database)
        if counts != (n_cells, n_results):
            raise DamageError(f"it has {counts} of ({n_cells}, {n_results}) cells and results")
    finally:
        database.execute("ROLLBACK")


def _verify_cells(database: sqlite3.Connection) -> tuple[int, int]:
    """Return the numbers of cells and results, each of which agrees with the digest of its cell."""
    n_cells = n_results = 0
    results = database.execute("SELECT * FROM result ORDER BY cell, metric, step")
    groups = itertools.groupby(results, key=lambda row: row[0])
    waiting = next(groups, None)
    for *cell, digest in database.execute("SELECT * FROM cell ORDER BY key"):
        rows: list[tuple[Any, ...]] = []
        if waiting is not None and waiting[0] == cell[0]:
            rows = [row[1:] for row in waiting[1]]
            waiting = next(groups, None)
        if digest != cell_digest(cell, rows):
            raise DamageError(f"the digest of cell {str(cell[0])[:40]!r} is wrong")
        n_cells, n_results = n_cells + 1, n_results + len(rows)
    if waiting is not None:
        raise DamageError(f"it has results of a cell {str(waiting[0])[:40]!r} that is missing")
    return n_cells, n_results


def parsed_sweep(text: str) -> dict[str, Any]:
    """Return the description of a sweep from its JSON; DamageError if it is none."""
    try:
        plain = json.loads(text)
        shape = {"settings": dict, "axes": dict, "once": dict, "version": str}
        is_sweep = all(isinstance(plain[name], kind) for name, kind in shape.items())
        axes = {
            name: set(plain["axes"][name])
            for name in ("tasks", "schedule", "ordering", "k", "seed", "scale")
        }
        is_sweep &= bool(axes["k"]) and {"seed", "scale"} <= plain["once"].keys()
        is_sweep &= isinstance(plain["settings"]["metrics"][0], str)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        is_sweep = False
    if not is_sweep:
        raise DamageError("a run has no readable description of its sweep")
    assert isinstance(plain, dict)
    return plain

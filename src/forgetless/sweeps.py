"""A function at every point of a grid, in many processes, with the results in one SQLite file.

``run`` computes the cells that the file lacks and commits each of them as it arrives, so that the
same call resumes after Ctrl-C, a crash or a loss of power. joblib starts the processes on this
machine. Inside ``joblib.parallel_config("dask")`` the cells run on a dask cluster instead.

A worker process can die: of a bug in compiled code, or for want of memory. On this machine one
death breaks joblib's whole pool, and nobody knows which of the cells in flight was guilty. So each
of them is run again alone; after ``MAX_DEATHS`` deaths alone it is recorded as failed. A dask
scheduler runs lost cells again by itself.

A cell is known by its version and its arguments, as JSON with sorted names, and is stored with the
SHA-256 of the source code: numbers of one computation never pass for those of another.
"""

import hashlib
import inspect
import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from forgetless._running import track
from forgetless._table import frame
from forgetless._text import error_text
from forgetless.errors import StoreError

__all__ = ["Results", "load", "run"]

MAX_DEATHS = 3
"""Workers that may die while they compute one cell and nothing else."""

_PATIENCE = 60.0  # no mutant: a second more or less of waiting
"""Seconds to wait for another process that is writing to the store."""

TABLE = """CREATE TABLE IF NOT EXISTS cell (
    key TEXT PRIMARY KEY, version TEXT, source TEXT, arguments TEXT,
    result TEXT, error TEXT, seconds REAL)"""

COLUMNS = ("error", "seconds", "version")
"""Columns that every row has beside arguments and results."""

_RESERVED = ", ".join(COLUMNS)

Arguments = dict[str, Any]
Cells = list[tuple[str, Arguments]]


class _Outcome(NamedTuple):
    """The result of a cell as JSON, or the text of its error."""

    key: str
    result: str | None
    error: str | None
    seconds: float


class Results(list[dict[str, Any]]):
    """Rows, one for every computed cell: its arguments, its result, its error and its seconds.

    A result that is a dict has a column for each of its keys, any other one the column ``result``.
    """

    def to_frame(self) -> Any:
        """Return them as a pandas data frame, with None where a row lacks a column of others."""
        names = dict.fromkeys(name for row in self for name in row)
        return frame({name: [row.get(name) for row in self] for name in names})


def run(
    function: Callable[..., Any],
    grid: Mapping[str, Sequence[Any]] | Sequence[Arguments],
    store: str | Path,
    *,
    n_jobs: int = -1,  # no mutant: processes change the time alone
    version: str | None = None,
) -> Results:
    """Compute a function at every point of a grid, and return the rows of this version.

    Cells that the store holds already are not computed again, except those that failed. A cell that
    raises an exception is stored with the text of it, and does not stop the others. Several calls,
    also on several machines that share the file, may work on one store at the same time.

    Parameters
    ----------
    function : callable
        Called with the arguments of a cell by name. It returns JSON values, or NumPy scalars and
        arrays, which become numbers and lists.
    grid : dict of lists, or list of dicts
        Every combination of the values, or the arguments of every cell. Arguments are JSON values.
    store : str or Path
        The SQLite file, which is created if there is none.
    n_jobs : int, default -1
        Number of processes; -1 for all processors, 1 to compute in this process. Not used on a dask
        cluster.
    version : str, optional
        Name of the computation. The source code of ``function`` belongs to it: other code under the
        same version raises an error. The code of what ``function`` calls is not looked at, so give
        a new version where that changes.

    Raises
    ------
    StoreError
        If the file is not a store, or holds results of other code under this version.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import forgetless as fl
    >>> store = pathlib.Path(tempfile.mkdtemp()) / "powers.db"
    >>> def power(x, n):
    ...     return {"value": x**n}
    >>> rows = fl.sweeps.run(power, {"x": [2, 3], "n": [1, 5]}, store, n_jobs=1, version="a")
    >>> [row["value"] for row in rows]
    [2, 32, 3, 243]
    """
    source = _source_hash(function, version)
    cells = _cells(grid, version)
    with _opened(Path(store)) as connection:
        _check_source(connection, store, version, source)
        rows = [(key, version, source, json.dumps(arguments)) for key, arguments in cells]
        # A cell that failed is computed again, perhaps by a function that was mended.
        insert = (
            "INSERT INTO cell (key, version, source, arguments) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET source = excluded.source WHERE result IS NULL"
        )
        # One transaction: thousands would each wait for the disk.
        with connection:
            connection.executemany(insert, rows)
        query = "SELECT key FROM cell WHERE result IS NOT NULL"
        known = {key for (key,) in connection.execute(query)}
        missing = [cell for cell in cells if cell[0] not in known]
        backend, _ = get_active_backend()
        if hasattr(backend, "client"):
            outcomes = _from_dask(backend.client, function, missing)
        else:
            outcomes = _from_processes(function, missing, n_jobs)
        for outcome in track(outcomes, "cells", len(missing)):
            # A result of another driver stays, whatever happened to the same cell here.
            connection.execute(
                "UPDATE cell SET result = ?, error = ?, seconds = ?"
                " WHERE key = ? AND result IS NULL",
                (outcome.result, outcome.error, outcome.seconds, outcome.key),
            )
    return Results(row for row in load(store) if row["version"] == version)


def load(store: str | Path) -> Results:
    """Return the rows of a store, of all versions, in the order of the grids that were run.

    Parameters
    ----------
    store : str or Path
        A file that ``run`` wrote or is writing.
    """
    if not Path(store).is_file():
        raise StoreError(f"there is no store {store}; forgetless.sweeps.run creates one")
    query = "SELECT arguments, result, error, seconds, version FROM cell ORDER BY rowid"
    with _opened(Path(store)) as connection:
        stored = connection.execute(query).fetchall()
    rows = Results()
    for arguments, result, *others in stored:
        columns = dict(zip(COLUMNS, others, strict=True))
        # Not computed yet.
        if result is None and columns["error"] is None:
            continue
        value = json.loads(result or "null")
        if not isinstance(value, dict):
            value = {"result": value}
        rows.append({**json.loads(arguments), **value, **columns})
    return rows


@contextmanager
def _opened(store: Path) -> Iterator[sqlite3.Connection]:
    """Open a store, in which every statement is a transaction of its own; StoreError on failure."""
    try:
        connection = sqlite3.connect(store, timeout=_PATIENCE, isolation_level=None)
        with closing(connection):
            connection.execute(TABLE)
            yield connection
    except sqlite3.Error as error:
        raise StoreError(
            f"{store} cannot be used as a store of a sweep: {error}; give another name, or free"
            " the disk and repeat the call, which resumes"
        ) from error


def _source_hash(function: Callable[..., Any], version: str | None) -> str:
    """Return the SHA-256 of the source code of a function; empty where there is none."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError) as error:
        if version is not None:
            return ""
        raise TypeError(
            f"the source code of {function!r} cannot be read, so that a change of it would not be"
            " noticed; pass version='…' and change it with the function"
        ) from error


def _check_source(
    connection: sqlite3.Connection, store: str | Path, version: str | None, source: str
) -> None:
    """Raise StoreError if results of other source code are stored under this version.

    Failed cells do not count: their function may be mended under the same version.
    """
    # IS compares like = and is true of two NULLs: the version may be None.
    query = "SELECT key FROM cell WHERE version IS ? AND source != ? AND result IS NOT NULL LIMIT 1"
    if connection.execute(query, (version, source)).fetchone() is not None:
        raise StoreError(
            f"{store} holds results of another function, or of other source code, under"
            f" version={version!r}; pass another version to compute new ones, or another store"
        )


def _cells(grid: Mapping[str, Sequence[Any]] | Sequence[Arguments], version: str | None) -> Cells:
    """Return the keys and arguments of all cells, each once.

    A key is JSON with sorted names. Arguments are read back from it, so that the function gets what
    the store holds, such as lists for tuples.
    """
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
                raise TypeError(f"grid[{name!r}] must be a list of values, got {values!r}")
        combined = itertools.product(*grid.values())
        grid = [dict(zip(grid, values, strict=True)) for values in combined]
    cells = {}
    for point in grid:
        if not isinstance(point, Mapping):
            raise TypeError(f"grid must be a dict of lists or a list of dicts, got {point!r} in it")
        if not {*COLUMNS, "result"}.isdisjoint(point):
            raise ValueError(f"arguments may not be called result, {_RESERVED}, got {point!r}")
        # NaN is no JSON, and would not be equal to itself in a key.
        try:
            key = json.dumps([version, point], sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"arguments of cells must be JSON values (text, finite numbers, booleans, None,"
                f" lists, dicts), got {point!r}: {error}"
            ) from error
        cells[key] = json.loads(json.dumps(point))
    return list(cells.items())


def _outcome(function: Callable[..., Any], key: str, arguments: Arguments) -> _Outcome:
    """Return the outcome of one cell; runs in a worker."""
    start = time.perf_counter()
    result = None
    message = None
    # SystemExit is caught, too: a cell that calls sys.exit must not end its worker.
    try:
        value = function(**arguments)
        if isinstance(value, Mapping) and not {*arguments, *COLUMNS}.isdisjoint(value):
            raise ValueError(
                f"names of results must differ from those of arguments, {_RESERVED}, got {[*value]}"
            )
        result = json.dumps(value, default=_plain)
    except (Exception, SystemExit) as error:
        message = error_text(error)
    return _Outcome(key, result, message, time.perf_counter() - start)


def _plain(value: Any) -> Any:
    """Return what NumPy has as JSON values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a result of type {type(value).__name__} is not a JSON value")


def _dead(key: str, reason: object) -> _Outcome:
    """Return the outcome of a cell that killed every worker that tried it."""
    return _Outcome(key, None, f"its worker process died again and again: {reason}", 0.0)


def _from_processes(function: Callable[..., Any], cells: Cells, n_jobs: int) -> Iterator[_Outcome]:
    """Yield the outcomes of cells from processes of this machine, as they arrive."""
    waiting = dict(cells)
    while waiting:
        # Cells that workers have got. If the pool breaks, the guilty one is among them.
        started: set[str] = set()
        # One cell a batch: a death loses no others, and results arrive as they are finished.
        pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        try:
            for outcome in pool(_calls(function, dict(waiting), started)):
                del waiting[outcome.key]
                yield outcome
        except TerminatedWorkerError:
            for key in started & waiting.keys():
                yield _alone(function, key, waiting.pop(key))


def _calls(
    function: Callable[..., Any], cells: Mapping[str, Arguments], started: set[str]
) -> Iterator[Any]:
    """Yield calls for joblib, which takes them when a worker is free, and note which it took."""
    for key, arguments in cells.items():
        started.add(key)
        yield delayed(_outcome)(function, key, arguments)


def _alone(function: Callable[..., Any], key: str, arguments: Arguments) -> _Outcome:
    """Return the outcome of one cell from a process of its own, which may die some times."""
    for _ in range(MAX_DEATHS):
        try:
            # With n_jobs=1 joblib would compute it in this process.
            outcomes: list[_Outcome] = Parallel(n_jobs=2)(_calls(function, {key: arguments}, set()))
        except TerminatedWorkerError as error:
            outcomes = [_dead(key, error)]
        else:
            break
    return outcomes[0]


def _from_dask(client: Any, function: Callable[..., Any], cells: Cells) -> Iterator[_Outcome]:
    """Yield the outcomes of cells from a dask cluster, as they arrive.

    Not through joblib, which waits for ever for a cell that kills its workers (joblib 1.6). The
    scheduler runs a cell again whose worker died, and gives up after
    ``distributed.scheduler.allowed-failures`` deaths. It counts deaths of the worker that a cell
    waits for, too, so that what it gives up is tried once more, alone.
    """
    from distributed import KilledWorker, as_completed

    def submitted(key: str, arguments: Arguments) -> Any:
        return client.submit(_outcome, function, key, arguments, pure=False)

    futures = {submitted(*cell): cell for cell in cells}
    suspects = []
    for future in as_completed(list(futures)):
        cell = futures.pop(future)  # forgotten by the cluster, too, once it is stored
        try:
            outcome = future.result()
        except KilledWorker:
            suspects.append(cell)
            continue
        yield outcome
    for cell in suspects:
        try:
            outcome = submitted(*cell).result()
        except KilledWorker as error:
            outcome = _dead(cell[0], error)
        yield outcome

"""Runs of a sweep: computes the cells that the store lacks and commits them; the store alone says what is done."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from forgetless._core import validate
from forgetless._core.compiled import n_threads
from forgetless.errors import StoreError
from forgetless.reporting.progress import Progress, progress_callback, terminal_progress
from forgetless.sweeps._driver import Driver
from forgetless.sweeps.evaluate import Finished, evaluate
from forgetless.sweeps.grid import Batch, Grid
from forgetless.sweeps.store import Store
from forgetless.sweeps.workers import Cluster, Processes, check_client


class Engine(NamedTuple):
    """A place where batches are computed: its name in the store, and a function that yields them as they finish."""

    name: str
    compute: Callable[[Sequence[Batch]], Generator[Finished]]


def choose_engine(sweep: Grid, client: Any, n_workers: int | None, time_limit: float | None) -> Engine:
    """Return a dask cluster if there is a client, this process for ``n_workers=0``, worker processes otherwise."""
    if n_workers is not None:
        n_workers = validate.integer("n_workers", n_workers, 0, "0 computes in this process")
    if time_limit is not None:
        time_limit = validate.number("time_limit", time_limit, "seconds per cell", positive=True)
    if client is not None:
        if n_workers is not None:
            raise ValueError(
                f"n_workers={n_workers} is for this machine and client= for a cluster, which has workers of its own; "
                "give one of the two"
            )
        check_client(client, time_limit)
        driver = Driver(Cluster(_pickle(sweep), client), time_limit)
        return Engine(f"dask {client.scheduler.address}", driver.run)
    if n_workers == 0:
        if time_limit is not None:
            raise ValueError(f"time_limit={time_limit:g} ends worker processes, got n_workers=0; use at least 1")
        return Engine("0 processes", lambda batches: ([(batch, evaluate(sweep, batch))] for batch in batches))
    count = n_threads() if n_workers is None else n_workers
    return Engine(f"{count} processes", Driver(Processes(_pickle(sweep), count), time_limit).run)


def run(
    sweep: Grid, path: str | os.PathLike[str], engine: Engine, retry: bool, progress: Progress | bool | None
) -> None:
    """Compute all cells of a sweep that a store lacks; see :meth:`forgetless.sweeps.Sweep.run`."""
    with (
        Store(path, write=True) as store,
        terminal_progress() if progress is None else progress_callback(progress) as report_progress,
    ):
        number = store.begin(sweep, engine.name)
        since = number if retry else 0
        present = sweep.keys & store.finished(since)
        while len(present) < len(sweep):
            n_before = done = len(present)
            # Closed whatever happens, also where a traceback holds a reference to it: workers must not remain.
            with closing(engine.compute(_missing(sweep, present))) as results:
                for finished in results:
                    store.add(number, finished)
                    done += sum(len(outcomes) for _, outcomes in finished)
                    report_progress(done, len(sweep), "cells")
            present = sweep.keys & store.finished(since)
            if len(present) == n_before:
                missing = f"{len(sweep) - n_before} of {len(sweep)} cells"
                raise StoreError(f"{missing} are missing in {store.path} and none of them could be computed")
        store.end(number)


def _missing(sweep: Grid, present: set[str] | frozenset[str]) -> list[Batch]:
    """Return the batches of the sweep, with those of their cells that are not present."""
    batches = (
        batch._replace(members=tuple(member for member in batch.members if member.key not in present))
        for batch in sweep.batches
    )
    return [batch for batch in batches if batch.members]


def _pickle(sweep: Grid) -> bytes:
    """Return the sweep as bytes for other processes; TypeError names the value that cannot be pickled."""
    # Unlike pickle it takes functions of scripts and notebooks. joblib, which comes with scikit-learn, needs or has it.
    try:
        import cloudpickle
    except ImportError:
        from joblib.externals import cloudpickle
    try:
        return bytes(cloudpickle.dumps(Grid.of(sweep)))
    except Exception as error:
        for axis, values in sweep.axes.items():
            for value in values.values():
                try:
                    cloudpickle.dumps(value.thing)
                except Exception as cause:
                    raise TypeError(
                        f"{axis} {value.label!r} cannot be sent to worker processes ({cause}); make it of plain "
                        "functions and arrays, or use n_workers=0"
                    ) from None
        raise TypeError(f"the sweep cannot be sent to worker processes ({error}); use n_workers=0") from None

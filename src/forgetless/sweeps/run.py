"""Runs of a sweep: batches of missing cells are submitted to executors, and committed to the store
as they finish.
"""

import os
import queue
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from typing import Any, NamedTuple

from forgetless._core import validate
from forgetless._core.compiled import n_threads
from forgetless._core.environment import version
from forgetless._core.text import error_text
from forgetless.errors import StoreError
from forgetless.reporting.progress import Progress, progress_callback, terminal_progress
from forgetless.sweeps.evaluate import Finished, Outcome, evaluate
from forgetless.sweeps.grid import Batch, Grid
from forgetless.sweeps.store import Store
from forgetless.sweeps.workers import (
    Cluster,
    MissingSweepError,
    Processes,
    check_client,
    compute,
    interrupts_blocked,
)

ATTEMPTS = 3
"""Worker processes that may die over a batch; then its cells are computed one by one, with as many
attempts each."""

STARTS = 10
"""Worker processes that may die one after the other while they start."""

WAIT, STALLED = 1.0, 20.0
"""Seconds without a result after which a backend is checked, and for which it may have work and do
none."""


class Job(NamedTuple):
    """A submitted call: a batch, or None while a worker receives the sweep."""

    executor: Executor
    batch: Batch | None
    since: float


class Driver:
    """Computes batches on the executors of a backend; ``time_limit`` is in seconds per cell."""

    def __init__(self, backend: Processes, time_limit: float | None = None) -> None:
        self._backend, self._time_limit = backend, time_limit
        self._executors: list[Executor] = []
        self._jobs: dict[Future[Any], Job] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._pending: deque[Batch] = deque()
        self._deaths: Counter[Batch] = Counter()
        self._whole: dict[Batch, Batch] = {}
        """Batches that were split, by the single cells that they were split into."""
        self._parts: dict[Batch, list[Outcome]] = {}
        """Outcomes of the single cells of batches that were split."""
        self._failed_starts, self._last_result = 0, time.monotonic()

    def run(self, batches: Sequence[Batch]) -> Generator[Finished]:
        """Yield finished batches, several at once where several are ready; closing the generator
        ends the workers.
        """
        self._pending.extend(batches)
        try:
            while self._pending or any(job.batch for job in self._jobs.values()):
                self._fill()
                if finished := self._wait():
                    self._fill()  # workers continue while the caller commits
                    yield finished
        finally:
            self._jobs.clear()
            while self._executors:
                self._backend.close(self._executors.pop())

    def _fill(self) -> None:
        """Open missing executors, and submit batches to those with room."""
        backend, load = self._backend, Counter(job.executor for job in self._jobs.values())
        for _ in range(min(backend.n_executors - len(self._executors), len(self._pending))):
            executor = backend.open()
            self._executors.append(executor)
            if call := backend.setup():
                load[executor] = backend.capacity
                self._submit(executor, None, *call)
        # the least loaded first, so that none waits while another has two
        for level in range(backend.capacity):
            for executor in [each for each in self._executors if load[each] == level][
                : len(self._pending)
            ]:
                batch = self._pending.popleft()
                load[executor] += 1
                self._submit(
                    executor, batch, compute, backend.name, version(), batch, self._allowed(batch)
                )

    def _allowed(self, batch: Batch) -> float | None:
        return None if self._time_limit is None else self._time_limit * len(batch.members)

    def _submit(self, executor: Executor, batch: Batch | None, *call: Any) -> None:
        try:
            with interrupts_blocked():  # the first call of an executor starts its process
                future = executor.submit(*call)
        except BrokenProcessPool:  # its worker died while it was idle
            self._close(executor)
            self._retry(batch)
        except Exception:
            self._backend.is_working()  # raises the better message if the backend is lost
            raise
        else:
            self._jobs[future] = Job(executor, batch, time.monotonic())
            future.add_done_callback(self._done.put)

    def _close(self, executor: Executor) -> None:
        if executor in self._executors:
            self._executors.remove(executor)
            self._backend.close(executor)

    def _retry(self, batch: Batch | None) -> None:
        if batch is not None:
            # behind all others: the next worker should not start with it
            self._pending.append(batch)

    def _wait(self) -> Finished:
        """Return the batches that are finished after waiting for a while."""
        finished: Finished = []
        with suppress(queue.Empty):
            future = self._done.get(timeout=WAIT)
            self._last_result = time.monotonic()
            while True:
                if job := self._jobs.pop(future, None):  # otherwise it was given up
                    finished += self._settle(future, job)
                future = self._done.get_nowait()
        if not finished and self._backend.is_working():
            self._last_result = time.monotonic()
        elif time.monotonic() - self._last_result > STALLED:  # a cluster that has lost the work
            for future in list(self._jobs):
                job = self._jobs.pop(future)
                self._close(job.executor)
                self._retry(job.batch)
        return finished

    def _settle(self, future: Future[Any], job: Job) -> Finished:
        """Return the outcomes of a batch, or submit it again if there are none."""
        error = CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self._failed_starts = 0
            return self._collect(job.batch, future.result()) if job.batch else []
        if isinstance(error, CancelledError | MissingSweepError):
            self._close(job.executor)
            self._retry(job.batch)
            return []
        if isinstance(error, BrokenProcessPool):
            self._close(job.executor)
        elif type(error).__name__ != "KilledWorker":  # dask's, which is not always installed
            raise (
                error
                if isinstance(error, StoreError)
                else StoreError(f"workers cannot compute ({error_text(error)})")
            )
        if job.batch:
            return self._handle_death(job.batch, time.monotonic() - job.since, error)
        self._failed_starts += 1
        if self._failed_starts >= STARTS:
            raise StoreError(
                f"{STARTS} worker processes ended while they started ({_exit_codes(error)}); see"
                " above"
            )
        return []

    def _handle_death(self, batch: Batch, seconds: float, error: BaseException) -> Finished:
        """Submit a batch again; after some attempts its cells one by one; after as many, record a
        cell as failed.
        """
        self._deaths[batch] += 1
        allowed = self._allowed(batch)
        late = allowed is not None and seconds >= allowed
        if parts := self._parts.pop(batch, None):
            return [(batch, parts)]
        if self._deaths[batch] < ATTEMPTS and not late:
            self._retry(batch)
        elif len(batch.members) > 1:
            self._parts[batch] = []
            for member in batch.members:
                self._whole[alone := batch._replace(members=(member,))] = batch
                self._retry(alone)
        else:
            cause = (
                f"TimeLimit: it took longer than {self._time_limit:g} seconds"
                if late
                else (
                    f"WorkerDied: {ATTEMPTS} worker processes ended over it ({_exit_codes(error)});"
                    " is there enough memory?"
                )
            )
            return self._collect(batch, [Outcome(batch.members[0].key, (), cause, seconds)])
        return []

    def _collect(self, batch: Batch, outcomes: list[Outcome]) -> Finished:
        """Return a finished batch; of a batch that was split, all cells at once.

        If none of its cells failed alone, the workers died of something else, and the batch is
        computed once more as a whole: the last bits of exact results depend on which cells are
        computed together.
        """
        original = self._whole.pop(batch, None)
        if original is None:
            self._parts.pop(batch, None)
            return [(batch, outcomes)]
        parts = self._parts[original]
        parts += outcomes
        if len(parts) < len(original.members):
            return []
        if any(outcome.error for outcome in parts):
            return [(original, self._parts.pop(original))]
        self._retry(original)
        return []


def _exit_codes(error: BaseException) -> str:
    """Return the exit codes in the message of a loky error, or the whole message."""
    codes = re.search(r"\{(.*?)\}", text := error_text(error))
    return f"exit code {codes[1]}" if codes else text[:200]


class Engine(NamedTuple):
    """A place where batches are computed: its name in the store, and a function that yields them as
    they finish.
    """

    name: str
    compute: Callable[[Sequence[Batch]], Generator[Finished]]


def choose_engine(
    sweep: Grid, client: Any, n_workers: int | None, time_limit: float | None
) -> Engine:
    """Return a dask cluster if there is a client, this process for ``n_workers=0``, worker
    processes otherwise.
    """
    if n_workers is not None:
        n_workers = validate.integer("n_workers", n_workers, 0, "0 computes in this process")
    if time_limit is not None:
        time_limit = validate.number("time_limit", time_limit, "seconds per cell", positive=True)
    if client is not None:
        if n_workers is not None:
            raise ValueError(
                f"n_workers={n_workers} is for this machine and client= for a cluster, which has"
                " workers of its own; give one of the two"
            )
        check_client(client, time_limit)
        driver = Driver(Cluster(_pickle(sweep), client), time_limit)
        return Engine(f"dask {client.scheduler.address}", driver.run)
    if n_workers == 0:
        if time_limit is not None:
            raise ValueError(
                f"time_limit={time_limit:g} ends worker processes, got n_workers=0; use at least 1"
            )
        return Engine(
            "0 processes", lambda batches: ([(batch, evaluate(sweep, batch))] for batch in batches)
        )
    count = n_threads() if n_workers is None else n_workers
    return Engine(f"{count} processes", Driver(Processes(_pickle(sweep), count), time_limit).run)


def run(
    sweep: Grid,
    path: str | os.PathLike[str],
    engine: Engine,
    retry: bool,
    progress: Progress | bool | None,
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
            # Closed whatever happens, also where a traceback holds a reference to it: workers must
            # not remain.
            with closing(engine.compute(_missing(sweep, present))) as results:
                for finished in results:
                    store.add(number, finished)
                    done += sum(len(outcomes) for _, outcomes in finished)
                    report_progress(done, len(sweep), "cells")
            present = sweep.keys & store.finished(since)
            if len(present) == n_before:
                missing = f"{len(sweep) - n_before} of {len(sweep)} cells"
                raise StoreError(
                    f"{missing} are missing in {store.path} and none of them could be computed"
                )
        store.end(number)


def _missing(sweep: Grid, present: set[str] | frozenset[str]) -> list[Batch]:
    """Return the batches of the sweep, with those of their cells that are not present."""
    batches = (
        batch._replace(
            members=tuple(member for member in batch.members if member.key not in present)
        )
        for batch in sweep.batches
    )
    return [batch for batch in batches if batch.members]


def _pickle(sweep: Grid) -> bytes:
    """Return the sweep as bytes for other processes; TypeError names the value that cannot be
    pickled.
    """
    # Unlike pickle it takes functions of scripts and notebooks. joblib, which comes with
    # scikit-learn, needs or has it.
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
                        f"{axis} {value.label!r} cannot be sent to worker processes ({cause}); make"
                        " it of plain functions and arrays, or use n_workers=0"
                    ) from None
        raise TypeError(
            f"the sweep cannot be sent to worker processes ({error}); use n_workers=0"
        ) from None

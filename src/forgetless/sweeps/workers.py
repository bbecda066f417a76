"""Worker processes of a sweep and the executors that submit batches to them: loky on this machine,
dask on a cluster.

Both offer ``concurrent.futures.Executor``. Every loky executor has a single worker process: a
process that dies breaks its own executor only, and the batch that it was computing is known.
"""

import contextlib
import faulthandler
import os
import pickle
import signal
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from forgetless._core.compiled import has_numba
from forgetless._core.dask_arrays import WorkerWatch
from forgetless._core.environment import needs, version
from forgetless._core.text import error_text
from forgetless.errors import StoreError
from forgetless.sweeps.evaluate import Outcome, evaluate, process_lock
from forgetless.sweeps.grid import Batch, Grid

CONNECT = "10s"
"""How long to wait for a dask scheduler."""

ENVIRONMENT = {
    **dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    ),
    "FORGETLESS_THREADS": "1",
    "PYTHONSAFEPATH": "1",  # no modules of the current folder before sys.path is that of the driver
}
"""Environment variables of worker processes: each uses one thread."""

_sweeps: dict[str, Grid] = {}
"""In a worker: the sweeps that it has received, by name."""


class MissingSweepError(Exception):
    """A worker that replaced another one has not received the sweep."""


# --- in a worker process ---


def initialize(parent: int) -> None:
    """Prepare a worker process: without input, output to standard error, and ended by the end of
    its parent.
    """
    # Ctrl-C reaches the driver, which ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):
        # loky's pipes: a process that a cell forks must not write to them.
        pipes = [number for number in range(3, 256) if _is_pipe(number)]
        os.register_at_fork(
            after_in_child=lambda: [os.dup2(null, pipe, inheritable=False) for pipe in pipes]
        )

    def watch() -> None:  # loky's workers do not notice that their parent was killed
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _is_pipe(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    return False


def receive_sweep(name: str, payload: bytes) -> None:
    """Load a sweep and the packages that it needs."""
    try:
        if has_numba() and os.environ.get("FORGETLESS_NUMBA") != "never":
            import numba  # noqa: F401 - now, so that no time limit includes it
        _sweeps[name] = pickle.loads(payload)
    except Exception as error:
        raise StoreError(
            f"the sweep cannot be loaded in a worker process ({error_text(error)}); make its"
            " modules importable there"
        ) from None


def drop_sweep(name: str) -> None:
    """Remove a sweep from a worker."""
    _sweeps.pop(name, None)


def compute(name: str, driver_version: str, batch: Batch, seconds: float | None) -> list[Outcome]:
    """Return the outcomes of a batch; after ``seconds`` the process prints a traceback and ends."""
    if driver_version != version():
        raise StoreError(
            f"a worker has forgetless {version()} and the driver {driver_version}; install one"
            " version everywhere"
        )
    if name not in _sweeps:
        raise MissingSweepError(name)
    with process_lock:  # there is one timer per process, and dask workers have threads
        if seconds is not None:
            # a C thread: also where the GIL is never released
            faulthandler.dump_traceback_later(seconds, exit=True)
        try:
            return evaluate(_sweeps[name], batch)
        finally:
            faulthandler.cancel_dump_traceback_later()


# --- in the driver ---


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Delay Ctrl-C; processes that are started meanwhile never receive it, also while they import
    their packages.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # loky needs it, and up to Python 3.12 its start would unblock the signal
    resource_tracker.ensure_running()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


class Processes:
    """Worker processes of this machine, each in an executor of its own.

    ``name`` is that of the sweep in its workers; ``n_executors`` take ``capacity`` batches at a
    time each.
    """

    def __init__(self, payload: bytes, n_workers: int) -> None:
        self.name, self.n_executors, self.capacity, self._payload = (
            uuid.uuid4().hex,
            n_workers,
            1,
            payload,
        )

    def open(self) -> Executor:
        """Return a new executor."""
        from joblib.externals.loky import ProcessPoolExecutor

        executor: Executor = ProcessPoolExecutor(
            1, initializer=initialize, initargs=(os.getpid(),), env=dict(ENVIRONMENT)
        )
        return executor

    def setup(self) -> tuple[Any, ...]:
        """Return the first call of every executor with its arguments, if there is one."""
        return receive_sweep, self.name, self._payload

    def is_working(self) -> bool:
        """Return False if the submitted work makes no progress; StoreError if the backend is
        lost.
        """
        return True

    def close(self, executor: Any) -> None:
        """End an executor and its workers."""
        executor.shutdown(wait=True, kill_workers=True)


class Cluster(Processes):
    """A dask cluster as a single executor; a plugin sends the sweep to its workers, also to those
    that start later.
    """

    def __init__(self, payload: bytes, client: Any) -> None:
        super().__init__(payload, 1)
        self._client, self._watch = client, WorkerWatch(client)

    def open(self) -> Executor:
        from distributed import WorkerPlugin

        self.is_working()
        name, payload = self.name, self._payload

        class SendSweep(WorkerPlugin):  # type: ignore[misc]
            def setup(self, worker: Any) -> None:
                receive_sweep(name, payload)

            def teardown(self, worker: Any) -> None:
                drop_sweep(name)  # pickled by value, the plugin has a copy of _sweeps

        self.capacity = max(2, 2 * sum(self._client.nthreads().values()))
        executor: Executor = self._client.get_executor(pure=False)
        try:
            self._client.register_plugin(SendSweep(), name=name)
        except BaseException:  # no sweep stays on the workers after Ctrl-C
            self.close(executor)
            raise
        return executor

    def setup(self) -> tuple[Any, ...]:
        return ()

    def is_working(self) -> bool:
        if self._client.status in ("closed", "closing"):
            raise StoreError(
                "the dask cluster is gone (the connection is closed); what was committed is safe:"
                " start it, and run again"
            )
        try:
            self._watch.check()
        except TimeoutError as error:
            raise StoreError(f"{error}; what was committed is safe") from None
        with contextlib.suppress(OSError, TimeoutError):
            cluster, workers = self._client.cluster, self._client.nthreads()
            n_workers = len(getattr(cluster, "worker_spec", ()))
            if len(workers) < n_workers and getattr(cluster, "_adaptive", None) is None:
                cluster.scale(n_workers)  # distributed gives up workers that died often
            return not workers or any(self._client.processing().values())
        return True

    def close(self, executor: Any) -> None:
        with contextlib.suppress(Exception):  # must not hide the error that ended the run
            executor.shutdown(wait=False)
            self._client.unregister_worker_plugin(self.name)


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Yield a client of the dask scheduler at an address."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT)
    except (OSError, ValueError, TimeoutError) as error:
        raise StoreError(
            f"there is no dask scheduler at {address} ({type(error).__name__}); nothing was begun"
        ) from None
    with client:
        yield client


def check_client(client: Any, time_limit: float | None) -> None:
    """Raise if a sweep cannot run on a dask client."""
    with needs("client=", "dask", "cluster"):
        from distributed import Client
    if not isinstance(client, Client):
        raise TypeError(
            f"client must be a distributed.Client, got {type(client).__name__}; connect by"
            " distributed.Client(address)"
        )
    if client.asynchronous:
        raise TypeError(
            "client must be a distributed.Client with asynchronous=False, got one that must be"
            " awaited"
        )
    if time_limit is not None and client.scheduler.address.startswith("inproc"):
        raise ValueError(
            f"time_limit={time_limit:g} ends worker processes, and this cluster has threads of this"
            " process; start it with processes=True"
        )

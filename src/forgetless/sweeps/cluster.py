"""Batches on a dask cluster: native futures, each committed as it completes, and a watchdog over lost workers."""

import pickle
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client, KilledWorker, WorkerPlugin

from forgetless._core.version import version
from forgetless.errors import StoreError
from forgetless.reporting.text import in_words
from forgetless.sweeps.evaluate import Finished, Outcome, evaluate
from forgetless.sweeps.grid import Batch, Grid

CONNECT = "10s"
"""How long a scheduler is waited for."""

FETCH = 10.0
"""Seconds that a result may take to come from its worker; then it is computed again."""

LOOK = 1.0
"""Seconds without news after which the cluster is looked at."""

STALLED = 20.0
"""Seconds for which the cluster may work on nothing while it has work of ours; then it is given again."""

GONE = 60.0
"""Seconds for which the scheduler may be out of reach."""

DEATHS = 5
"""Times that the cluster may give up a batch because workers died over it; then its cells count as failed."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a scheduler by its address, for as long as the context lasts."""
    try:
        client = Client(address, timeout=CONNECT)
    except (OSError, ValueError, TimeoutError) as error:
        why = type(error).__name__
        raise StoreError(f"there is no dask scheduler at {address} ({why}); nothing was begun") from None
    with client:
        yield client


def check_client(client: Any) -> None:
    """Refuse what is no client of dask, or one that must be awaited."""
    if not isinstance(client, Client):
        raise TypeError(
            f"client must be a distributed.Client, got {type(client).__name__}; connect by distributed.Client(address)"
        )
    if client.asynchronous:
        raise TypeError("client must be a distributed.Client with asynchronous=False, got one that must be awaited")


_sweeps: dict[str, Grid] = {}
"""On a worker: the sweeps that it was given, by their names."""


class Carrier(WorkerPlugin):  # type: ignore[misc]
    """A plugin that brings the sweep to every worker once, also to those that start later."""

    def __init__(self, name: str, payload: bytes) -> None:
        self.name, self.payload = name, payload

    def setup(self, worker: Any) -> None:
        """Take the sweep out, on a worker that starts or is told."""
        _sweeps[self.name] = pickle.loads(self.payload)

    def teardown(self, worker: Any) -> None:
        """Forget it."""
        _sweeps.pop(self.name, None)


def _remote(name: str, made_by: str, batch: Batch) -> list[Outcome]:
    if made_by != version():
        raise StoreError(
            f"a worker has forgetless {version()} and the driver {made_by}; install one version everywhere"
        )
    if name not in _sweeps:
        raise NotThereError(name)
    return evaluate(_sweeps[name], batch)


class NotThereError(Exception):
    """A worker has not got the sweep."""


class Dask:
    """An engine on a dask client; see ``Local`` for what it does."""

    def __init__(self, payload: bytes, client: Any, note: Callable[[str], None]) -> None:
        self._client, self._note = client, note
        # A name of its own: another run of the same sweep must not take it away at its end.
        self._payload, self._name = payload, f"forgetless-{uuid.uuid4().hex[:16]}"
        self._events: queue.Queue[Any] = queue.Queue()
        self._held: dict[str, tuple[Any, Batch]] = {}
        self._deaths: Counter[Batch] = Counter()
        self._count, self._room, self._most = 0, 1, 0
        self._worked = self._reached = time.monotonic()

    def run(self, batches: Sequence[Batch]) -> Generator[Finished]:
        """Yield finished batches, several at once where several have come."""
        todo = deque(batches)
        try:
            with self._saying():
                self._carry()
                self._look(todo)
            while todo or self._held:
                with self._saying():
                    while todo and len(self._held) < self._room:
                        self._submit(todo.popleft())
                    finished = self._hear(todo)
                if finished:
                    yield finished
        finally:
            with suppress(Exception):  # whatever ends a run is worth more than what this would say
                self._client.cancel([future for future, _ in self._held.values()], force=True)
                self._client.unregister_worker_plugin(self._name)

    def _carry(self) -> None:
        self._client.register_plugin(Carrier(self._name, self._payload), name=self._name)

    @contextmanager
    def _saying(self) -> Iterator[None]:
        """Inside, a cluster that cannot be reached becomes one sentence."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            if isinstance(error, OSError) or self._client.status != "running":
                raise self._gone(error) from error
            raise

    def _gone(self, why: object) -> StoreError:
        return StoreError(f"the dask cluster is gone ({why}); what was committed is safe: start it, and run again")

    def _submit(self, batch: Batch) -> None:
        self._count += 1
        key = f"{self._name}-{batch.members[0].key}-{self._count}"
        future = self._client.submit(_remote, self._name, version(), batch, key=key, pure=False)
        self._held[key] = (future, batch)
        future.add_done_callback(self._events.put)

    def _hear(self, todo: "deque[Batch]") -> Finished:
        """Wait for news for a while; return what is finished."""
        try:
            futures = [self._events.get(timeout=LOOK)]
        except queue.Empty:
            self._look(todo)
            return []
        with suppress(queue.Empty):
            while True:
                futures.append(self._events.get_nowait())
        self._worked = time.monotonic()
        finished: Finished = []
        for future in futures:
            if future.key in self._held:  # not one that was given up meanwhile
                finished += self._settle(future, self._held.pop(future.key)[1], todo)
        return finished

    def _settle(self, future: Any, batch: Batch, todo: "deque[Batch]") -> Finished:
        """Return what became of a batch; or put it back, where nothing did."""
        try:
            if future.status == "finished":
                return [(batch, future.result(timeout=FETCH))]
            error = future.exception(timeout=FETCH) if future.status == "error" else None
        except (OSError, TimeoutError):  # it was left on a worker that died before it could be fetched
            error = None
        if isinstance(error, StoreError):
            raise error
        if isinstance(error, NotThereError):
            self._carry()
        elif isinstance(error, KilledWorker):
            self._deaths[batch] += 1
            if self._deaths[batch] >= DEATHS:
                why = f"WorkerDied: workers died over it again and again ({error}); is there enough memory?"
                return [(batch, [Outcome(member.key, (), why, 0.0) for member in batch.members])]
        elif error is not None:
            raise StoreError(f"workers cannot compute ({in_words(error)}); is forgetless installed there?")
        todo.append(batch)
        return []

    def _look(self, todo: "deque[Batch]") -> None:
        """See whether the cluster is there, has its workers, and works."""
        client, now = self._client, time.monotonic()
        if client.status in ("closed", "closing"):
            raise self._gone("the connection is closed")
        try:
            threads = client.nthreads()
            processing = client.processing()
        except (OSError, TimeoutError) as error:
            if now - self._reached > GONE:
                raise self._gone(error) from error
            self._note("cells; the scheduler does not answer")
            return
        self._reached = now
        self._room = max(2, 2 * sum(threads.values()))
        if len(threads) < self._most or not threads:
            self._note(f"cells; {len(threads)} of {max(self._most, 1)} workers are there")
            self._ask_for_workers()
        self._most = max(self._most, len(threads))
        if not threads or any(processing.values()) or not self._held:
            self._worked = now
        if now - self._worked > STALLED:
            lost = [self._held.pop(key) for key in list(self._held)]
            client.cancel([future for future, _ in lost], force=True)
            todo.extendleft(batch for _, batch in lost)
            self._worked = now

    def _ask_for_workers(self) -> None:
        """Tell a cluster of ours to start again the workers that it gave up: distributed forgets them after a while."""
        cluster = getattr(self._client, "cluster", None)
        wanted = len(getattr(cluster, "worker_spec", ()))
        if cluster is not None and wanted and getattr(cluster, "_adaptive", None) is None:
            cluster.scale(wanted)

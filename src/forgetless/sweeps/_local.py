"""Batches on the processors of this machine: supervised worker processes, each with one thread."""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Generator, Sequence
from typing import Any

from forgetless.errors import StoreError
from forgetless.sweeps._worker import receive, send
from forgetless.sweeps.evaluate import Finished, Outcome
from forgetless.sweeps.grid import Batch

AHEAD = 2
"""Batches that a worker is given at a time: the next one lies there while the driver commits the one before."""

DEATHS = 5
"""Workers that may die over one batch before its cells count as failed."""

STARTS = 10
"""Workers that may die one after the other while they start; then something is wrong with all of them."""

ENDING = 2.0
"""Seconds that a process may take between the end of its answers and its own."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "FORGETLESS_THREADS")


class _Worker:
    """A process, what it was given and has not yet answered, and a thread that waits for its answers."""

    def __init__(self, events: "queue.Queue[tuple[_Worker, Any]]") -> None:
        self.given: deque[tuple[int, Batch]] = deque()
        self._count = 0
        self.ready, self.lost = False, False
        # All places that this process imports from, before the worker's own; -P keeps the current folder out.
        path = os.pathsep.join(place or os.getcwd() for place in sys.path)
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": path}
        code = "from forgetless.sweeps._worker import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._events = events
        threading.Thread(target=self._listen, daemon=True).start()

    def begin(self, sweep: bytes) -> None:
        """Hand over the sweep; of a large one this waits until the process has started."""
        self._send(sweep)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            while (message := receive(answers)) is not None:
                self._events.put((self, pickle.loads(message)))
        self._events.put((self, _Death))

    def _send(self, message: bytes) -> None:
        assert self.process.stdin is not None
        try:
            send(self.process.stdin, message)
        except OSError:  # it is dead, and the thread that listens says so
            self.lost = True

    def give(self, batch: Batch) -> None:
        """Hand over a batch."""
        self._count += 1
        self.given.append((self._count, batch))
        self._send(pickle.dumps(self.given[-1]))

    def end(self) -> None:
        """Stop it at once; one that is ending anyway keeps its own exit code."""
        if self.lost:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDING)
        self.process.kill()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # what could not be sent is of no interest any more
            self.process.stdin.close()
        self.process.wait()


class _Death:
    """What is heard of a worker last."""


class Local:
    """An engine: yields what is finished, as it is; closing it ends the workers."""

    def __init__(self, sweep: bytes, n_workers: int) -> None:
        self._sweep, self._n_workers = sweep, n_workers
        self._events: queue.Queue[tuple[_Worker, Any]] = queue.Queue()
        self._workers: set[_Worker] = set()
        self._deaths: Counter[Batch] = Counter()
        self._starts = 0

    def run(self, batches: Sequence[Batch]) -> Generator[Finished]:
        """Yield finished batches, several at once where several have come; each batch comes once."""
        todo, left = deque(batches), len(batches)
        try:
            while left:
                missing = min(self._n_workers, left) - len(self._workers)
                fresh = [_Worker(self._events) for _ in range(missing)]  # all of them first: they start side by side
                self._workers.update(fresh)
                for worker in fresh:
                    worker.begin(self._sweep)
                self._feed(todo)
                finished = self._hear(todo)
                left -= len(finished)
                if finished:
                    self._feed(todo)  # workers go on while the driver commits
                    yield finished
        finally:
            self.close()

    def _feed(self, todo: deque[Batch]) -> None:
        """Give batches to those who have the fewest, so that at the end nobody has two while another has none."""
        for full in range(AHEAD):
            for worker in self._workers:
                if todo and len(worker.given) == full and not worker.lost:
                    worker.give(todo.popleft())

    def _hear(self, todo: deque[Batch]) -> Finished:
        """Wait for news; return what is finished."""
        finished: Finished = []
        worker, news = self._events.get()
        while True:
            if news is _Death:
                worker.lost = True
                finished += self._bury(worker, todo)
            elif isinstance(news, str):
                raise StoreError(f"the sweep cannot be loaded in a worker process ({news}); import what it uses there")
            elif news is None:
                worker.ready, self._starts = True, 0
            elif worker.given and worker.given[0][0] == news[0]:  # anything else was not said by it
                finished.append((worker.given.popleft()[1], news[1]))
            try:
                worker, news = self._events.get_nowait()
            except queue.Empty:
                return finished

    def _bury(self, worker: _Worker, todo: deque[Batch]) -> Finished:
        """Take back what a dead worker had; return the batch it died of too often, as failed."""
        worker.end()
        self._workers.discard(worker)
        code = worker.process.returncode
        if not worker.ready:
            self._starts += 1
            if self._starts >= STARTS:
                raise StoreError(f"{STARTS} worker processes ended while they started (exit code {code}); see above")
        given = [batch for _, batch in worker.given]
        failed: Finished = []
        if worker.ready and given:
            self._deaths[given[0]] += 1  # it works in turn: the others it had not begun
            if self._deaths[given[0]] >= DEATHS:
                why = f"WorkerDied: {DEATHS} worker processes ended over it (exit code {code}); is there enough memory?"
                batch = given.pop(0)
                failed.append((batch, [Outcome(member.key, (), why, 0.0) for member in batch.members]))
        todo.extend(given)  # behind all others: whoever starts next must not begin with what killed the one before
        return failed

    def close(self) -> None:
        """End all workers."""
        while self._workers:
            self._workers.pop().end()

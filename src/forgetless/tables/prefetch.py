"""An iterator that is worked on in another thread while what it gave before is used."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

BYTES = 2**27
"""What may wait to be used."""

INTERVAL = 1e-4
"""Seconds after which a thread that waits for the interpreter gets it: parsers need it often, and briefly."""


class Ahead(Generic[T]):
    """The items of a generator, made in a thread of their own from now on; an error comes where its item would.

    Parameters
    ----------
    items : generator
        Run, and closed in the end, by that thread alone.
    size : callable
        Returns the bytes of an item. The thread waits while more than 128 MiB of them do, one item excepted.

    Examples
    --------
    >>> with Ahead((i**2 for i in range(3)), lambda item: 8) as squares:
    ...     print(list(squares))
    [0, 1, 4]
    """

    def __init__(self, items: Generator[T, None, None], size: Callable[[T], int]) -> None:
        self._items, self._size = items, size
        self._ready: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._error: BaseException | None = None
        self._ended = self._closed = False
        self._changed = threading.Condition()
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(min(INTERVAL, self._interval))
        self._thread = threading.Thread(target=self._work, name="forgetless-ahead", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                if not self._put(item, self._size(item)):
                    break
                del item
        except BaseException as caught:  # raised again where the item is asked for
            error = caught
        finally:
            self._items.close()
            with self._changed:
                self._error, self._ended = error, True
                self._changed.notify_all()

    def _put(self, item: T, size: int) -> bool:
        """Hand an item on as soon as there is room, and return whether anybody still wants it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._bytes + size <= BYTES or not self._ready)
            if not self._closed:
                self._ready.append((item, size))
                self._bytes += size
                self._changed.notify_all()
            return not self._closed

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            # Not without a limit, as on some systems nothing else would let an interruption through.
            while not self._changed.wait_for(lambda: self._ready or self._ended, timeout=0.2):
                pass
            if self._ready:
                item, size = self._ready.popleft()
                self._bytes -= size
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """Let the thread end after the item it is at, and wait for that."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    def __enter__(self) -> "Ahead[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

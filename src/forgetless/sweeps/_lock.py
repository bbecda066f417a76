"""One writer per store: a lock file beside it, which the system releases when its process ends, however it ends."""

import contextlib
import json
import os
import platform
from pathlib import Path

from forgetless.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks let writers take turns; cells may be computed twice
    fcntl = None  # type: ignore[assignment]


def _path(store: Path) -> Path:
    # Not the store itself: SQLite has locks there, which closing a second descriptor of the file would release.
    return store.with_name(f"{store.name}.lock")


class Lock:
    """A lock on a store from the constructor to ``release``; StoreError names the process that holds it already."""

    def __init__(self, store: Path) -> None:
        self.path, self._descriptor = _path(store), -1
        while fcntl is not None and self._descriptor < 0:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._take(descriptor, store)
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)

    def _take(self, descriptor: int, store: Path) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"{store} is being written by {_holder(self.path)}; wait until it ends, or give this sweep another "
                "store and merge the two afterwards"
            ) from None
        except OSError as error:
            raise StoreError(f"{store} cannot be locked ({error}); use a local disk") from None
        # The previous holder may have removed the file between our opening and locking it.
        if not os.fstat(descriptor).st_nlink:
            return
        with contextlib.suppress(OSError):  # the lock holds without the name of its holder, too
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; further calls have no effect."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            os.close(descriptor)


def is_locked(store: Path) -> bool:
    """Return whether a process is writing to a store."""
    if fcntl is None:
        return False
    try:
        with _path(store).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
    except OSError:  # there is no lock file
        pass
    return False


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {int(holder['pid'])} on {str(holder['host'])[:80]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"

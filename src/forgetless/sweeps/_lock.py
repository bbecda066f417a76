"""One writer a store: a lock file beside it, which the system releases when its process ends, however it ends."""

import contextlib
import json
import os
import platform
from pathlib import Path

from forgetless.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows: writers take turns by SQLite's own locks, and only do work twice
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Held from the constructor to ``release``; StoreError with the name of the other process where one holds it.

    Not on the store itself: SQLite keeps locks there, which closing a second descriptor of the file would release.
    """

    def __init__(self, store: Path) -> None:
        self.path, self._descriptor = store.with_name(f"{store.name}.lock"), -1
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
        # The one before may have removed the file between our opening and locking it.
        if not os.fstat(descriptor).st_nlink:
            return
        with contextlib.suppress(OSError):  # the lock holds without the note, for which a full disk has no room
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others write; again and again without harm."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            os.close(descriptor)


def is_locked(store: Path) -> bool:
    """Return whether some process is writing to a store."""
    path = store.with_name(f"{store.name}.lock")
    if fcntl is None or not path.exists():
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _holder(path: Path) -> str:
    try:
        found = json.loads(path.read_text())
        return f"process {int(found['pid'])} on {str(found['host'])[:80]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"

"""Atomic writing of files, and locks: a file has its old content or its new one, also after a kill
or power loss.
"""

import contextlib
import json
import os
import platform
import stat
from pathlib import Path

from forgetless.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows: there SQLite's own locks let the writers of a store take turns
    fcntl = None  # type: ignore[assignment]


def replace_file(path: Path, *chunks: bytes | memoryview) -> None:
    """Atomically replace the content of a file; mode and, where allowed, owner of an existing file
    stay the same.

    The content is written to a temporary file beside it, synced, and renamed. Links are followed.
    The temporary file has a fixed name and is locked: a killed save leaves at most this one, which
    the next save overwrites, and two saves at a time wait for each other. Raises an OSError where
    ``check_target`` does.
    """
    path = Path(os.path.realpath(path))
    existing = check_target(path)
    temporary = path.with_name(f".{path.name}.part")
    # Never readable by more people than the file that it replaces.
    descriptor = _open_locked(
        temporary, 0o666 if existing is None else existing.st_mode & 0o666 | 0o200
    )
    try:
        try:
            os.ftruncate(descriptor, 0)
            if existing is not None:
                _copy_owner_and_mode(temporary, existing)
            for chunk in chunks:
                _write(descriptor, chunk)
            os.fsync(descriptor)
            if fcntl is None:  # Windows renames closed files only
                os.close(descriptor)
                descriptor = -1
            os.replace(temporary, path)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:  # a full disk
            error.filename = str(path)
        raise
    _sync_folder(path.parent)


def _open_locked(temporary: Path, mode: int) -> int:
    """Return a descriptor of the temporary file; another save may rename or remove the file while
    we wait for it.
    """
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        descriptor = os.open(temporary, flags, mode)
        try:
            if fcntl is not None:
                with contextlib.suppress(OSError):  # file systems without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.lstat(temporary)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _copy_owner_and_mode(path: Path, existing: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(path, existing.st_uid, existing.st_gid)
    os.chmod(path, stat.S_IMODE(existing.st_mode))


def _write(descriptor: int, chunk: bytes | memoryview) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest[: 2**28]) :]  # Linux writes less than 2 GiB at a time


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # systems that cannot open or sync folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_target(path: str | Path) -> os.stat_result | None:
    """Return the status of the file to be replaced, None if there is none; an OSError where it
    cannot be written.
    """
    path = Path(os.path.realpath(path))
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        if not os.path.isdir(path.parent):
            raise FileNotFoundError(f"there is no folder {path.parent}; create it first") from None
        check_folder(path.parent)
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(
            f"{path} is {kind_of(status.st_mode)}, which is never replaced; give the name of a file"
        )
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise PermissionError(
            f"{path} is read-only; allow writing with chmod u+w, or give another name"
        )
    check_folder(path.parent)
    return status


def check_folder(folder: Path) -> None:
    """Raise an OSError if no file can be created in a folder, or in its nearest parent that
    exists.
    """
    nearest = next(place for place in [folder, *folder.parents] if place.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file; give a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(
            f"no file can be created in the folder {nearest}; allow writing, or give another folder"
        )


def check_source(path: str | Path, what: str = "file") -> Path:
    """Return the path of a regular file; FileNotFoundError for anything else."""
    path = Path(path)
    if path.is_file():
        return path
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder, not a file")
    if path.exists():
        raise FileNotFoundError(f"{path} is {kind_of(path.stat().st_mode)}, not a file")
    if path.is_symlink():
        raise FileNotFoundError(
            f"{path} is a broken link, or one that leads back to itself; give the {what} it"
            " stands for"
        )
    raise FileNotFoundError(f"there is no {what} {path}")


def kind_of(mode: int) -> str:
    """Return the name of a path that is neither a file nor a folder."""
    kinds = {stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISLNK: "a broken link"}
    return next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")


def _lock_path(store: Path) -> Path:
    # Not the store itself: SQLite has locks there, which closing a second descriptor of the file
    # would release.
    return store.with_name(f"{store.name}.lock")


class Lock:
    """A lock on a store from the constructor to ``release``; StoreError names the process that
    holds it already.
    """

    def __init__(self, store: Path) -> None:
        self.path, self._descriptor = _lock_path(store), -1
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
                f"{store} is being written by {_holder(self.path)}; wait until it ends, or give"
                " this sweep another store and merge the two afterwards"
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
        with _lock_path(store).open("rb") as file:
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

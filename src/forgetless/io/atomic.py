"""The one writer of files: they appear whole or not at all, and nothing is left beside them.

The new content is written beside the target under a hidden name, synced, and renamed over it. A process that is killed
on the way leaves that hidden file; the next save to the same target removes it. It knows one that is being written by
its lock, which the system releases when a process ends, however it ends.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed: that is the lock
    fcntl = None  # type: ignore[assignment]

_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF, errno.EISDIR}
"""How systems say that a folder cannot be opened or synced; whatever else happens then is reported."""


def replace_file(path: Path, content: bytes, *, keep_previous: bool = False) -> None:
    """Put ``content`` at ``path`` in one step; what was there is kept as ``path`` + ``.previous``, if told to.

    A symbolic link is followed. Permissions and, where allowed, owner of what was there are kept, also while writing.
    Only ordinary files that may be written are replaced: no folder, device, pipe or socket, and nothing read-only.
    """
    path = Path(os.path.realpath(path))
    was = check_target(path)
    if keep_previous:
        check_target(_previous(path))
    _sweep(path)
    while not _replaced(path, content, was, keep_previous):
        pass
    _sync_folder(path.parent)


def _replaced(path: Path, content: bytes, was: os.stat_result | None, keep_previous: bool) -> bool:
    """Write beside and rename; return False where another save took the new file for a leftover, before its lock."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    spare = _spare(fresh)
    # Never readable by more people than what it replaces.
    mode = 0o666 if was is None else was.st_mode & 0o666 | 0o200
    descriptor = -1
    try:
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
            if not _locked(descriptor) or not os.fstat(descriptor).st_nlink:
                return False
            if was is not None:
                _inherit(fresh, was)
            _write(descriptor, content)
            if was is not None and keep_previous:
                _keep(path, spare, was)
            if fcntl is None:  # Windows renames closed files only
                os.close(descriptor)
                descriptor = -1
            os.replace(fresh, path)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
    except BaseException:
        for leftover in (spare, fresh):
            with contextlib.suppress(OSError):
                os.unlink(leftover)
        raise
    return True


def check_target(path: str | Path) -> os.stat_result | None:
    """Return the state of the file to be replaced, None if there is none; an OSError says why it must not be."""
    path = Path(os.path.realpath(path))
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        if not os.path.isdir(path.parent):
            raise FileNotFoundError(f"there is no folder {path.parent}; make it first") from None
        check_folder(path.parent)
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if not stat.S_ISREG(found.st_mode):
        raise FileExistsError(f"{path} is {kind_of(found.st_mode)}, which is never replaced; give the name of a file")
    if not found.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise PermissionError(f"{path} is read-only; allow writing with chmod u+w, or give another name")
    check_folder(path.parent)
    return found


def check_folder(folder: Path) -> None:
    """Refuse a folder, or the nearest one above it that there is, in which no file can be made."""
    there = next(place for place in [folder, *folder.parents] if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file; give a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"no file can be made in the folder {there}; allow writing there, or give another place")


def check_source(path: str | Path, what: str = "file") -> Path:
    """Return the path of an ordinary file; FileNotFoundError where there is none, which a pipe or device is not."""
    path = Path(path)
    if path.is_file():
        return path
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder, not a file")
    if path.exists():
        raise FileNotFoundError(f"{path} is {kind_of(path.stat().st_mode)}, not a file")
    raise FileNotFoundError(f"there is no {what} {path}")


def kind_of(mode: int) -> str:
    """Return in words what a path is that is neither file nor folder."""
    kinds = {stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISLNK: "a link that leads nowhere"}
    return next((words for is_kind, words in kinds.items() if is_kind(mode)), "a device")


def _locked(descriptor: int) -> bool:
    """Return whether the file is now ours; also where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
            raise
    return True


def _sweep(path: Path) -> None:
    """Remove what saves to ``path`` that were killed have left."""
    leftover = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{12}(\.old)?")
    try:
        found = os.listdir(path.parent)
    except OSError:  # a folder that may be written but not listed
        found = []
    for stray in (path.with_name(name) for name in found if leftover.fullmatch(name)):
        # A save that is under way may end while we look; and what cannot be removed does no harm.
        with contextlib.suppress(OSError):
            if stray.suffix == ".old":
                if not os.path.lexists(stray.with_suffix("")):
                    os.unlink(stray)
            elif stat.S_ISREG(os.lstat(stray).st_mode):
                descriptor = os.open(stray, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
                try:
                    if _locked(descriptor):
                        for file in (_spare(stray), stray):
                            if os.path.lexists(file):
                                os.unlink(file)
                finally:
                    os.close(descriptor)


def _spare(fresh: Path) -> Path:
    return fresh.with_name(fresh.name + ".old")


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def _keep(path: Path, spare: Path, was: os.stat_result) -> None:
    """Give what is at ``path`` a second name, so that at no moment there is nothing under the first."""
    while True:
        try:
            os.link(path, spare)
            break
        except FileNotFoundError:  # another save replaced the file at this very moment; or it was removed
            if not os.path.lexists(path):
                return
        except OSError:  # a file system without hard links
            with open(path, "rb") as source:
                old = source.read()
            descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                _write(descriptor, old)
            finally:
                os.close(descriptor)
            _inherit(spare, was)
            break
    os.replace(spare, _previous(path))
    with contextlib.suppress(FileNotFoundError):  # where both were names of one file, renaming does nothing
        os.unlink(spare)


def _write(descriptor: int, content: bytes) -> None:
    """Write everything and wait until it is on the disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _inherit(path: Path, was: os.stat_result) -> None:
    """Give a file the owner, where that is allowed, and the permissions of another."""
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(path, was.st_uid, was.st_gid)
    os.chmod(path, stat.S_IMODE(was.st_mode))


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise

"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
from pathlib import Path


def replace_file(path: Path, content: bytes, *, keep_previous: bool = True) -> None:
    """Put ``content`` at ``path`` in one step; what was there is kept as ``path`` + ``.previous``, if told to.

    A symbolic link is followed, and the permissions of what was there are kept.
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}; make it first")
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    spare = fresh.with_name(fresh.name + ".old")
    try:
        _write(fresh, content)
        if path.exists():
            fresh.chmod(path.stat().st_mode & 0o7777)
            if keep_previous:
                try:
                    os.link(path, spare)  # so that at no moment is there no file under ``path``
                except OSError:  # a file system without hard links
                    _write(spare, path.read_bytes())
                os.replace(spare, path.with_name(path.name + ".previous"))
        os.replace(fresh, path)
    except BaseException:
        for leftover in (fresh, spare):
            leftover.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every system can sync a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

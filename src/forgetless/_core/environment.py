"""The installation and the machine: version, optional packages, free memory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path


def version() -> str:
    """Return it; asked for when it is needed, since the package itself imports what asks."""
    return str(import_module("forgetless").__version__)


def how(extra: str) -> str:
    """Return how to install an extra of this package, from a checkout as from an index.

    Examples
    --------
    >>> from forgetless._core.environment import how
    >>> how("plot")
    "pip install '.[plot]' in a checkout of forgetless, or pip install 'forgetless[plot]'"
    """
    return (
        f"pip install '.[{extra}]' in a checkout of forgetless, or pip install"
        f" 'forgetless[{extra}]'"
    )


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Say what to install where an import inside fails."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs {package} ({error}); install it with: {how(extra)}"
        ) from error


UNKNOWN = 8 * 2**30
"""Bytes assumed to be free on a system that does not report it."""

FACTORIZATION_LIMIT = int(os.environ.get("FORGETLESS_MEMORY_LIMIT", 2**31))
"""Bytes that one Gram matrix or factorization of an estimator may take; larger tasks are solved
iteratively."""

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def free_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Return how many more bytes this process may take: the least that any of the known limits
    leaves.
    """
    limits = [*_free_ram(proc), *_left_by_groups(proc, groups), *_left_by_own_limits(proc)]
    return max(0, min(limits)) if limits else UNKNOWN


def _free_ram(proc: Path) -> Iterator[int]:
    for line in _lines(proc / "meminfo"):
        if line.startswith("MemAvailable:"):
            yield 1024 * int(line.split()[1])
            return
    names = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" in names:
        yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_by_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Yield what every control group that this process is in, directly or through its parents, has
    left.
    """
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            top, limit, used = groups, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            top, limit, used = groups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        place = top / name.strip("/")
        # In a container the name may be one of the host's: then only the top is there.
        for folder in [place, *place.parents]:
            most, now = _number(folder / limit), _number(folder / used)
            if most is not None and now is not None:
                yield most - now + _reclaimable(folder)
            if folder == top:
                break


def _reclaimable(folder: Path) -> int:
    """Return the bytes of files in a group's memory that the kernel can reclaim."""
    for line in _lines(folder / "memory.stat"):
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def _left_by_own_limits(proc: Path) -> Iterator[int]:
    try:
        import resource
    except ImportError:  # Windows has none
        return
    fields = (_lines(proc / "self" / "statm") or [""])[0].split()
    if len(fields) < 6:
        return
    page = os.sysconf("SC_PAGE_SIZE")
    for limit, place in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield most - page * int(fields[place])


def _number(path: Path) -> int | None:
    """Return the number in a file; None where there is no such file, or no limit in it."""
    fields = "".join(_lines(path)).split()
    return int(fields[0]) if fields and fields[0].isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []

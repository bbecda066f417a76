"""System calls that fail: a stand-in for ``os`` in the file layer, and the search for the n-th call that matters."""

import errno
import fcntl
import os

CALLS = {
    *("access", "chmod", "chown", "close", "fsync", "fstat", "ftruncate"),
    *("lstat", "open", "replace", "unlink", "write"),
}

ERRORS = (errno.ENOSPC, errno.EIO, errno.EINTR, errno.EDQUOT, errno.EACCES)


class Crash(BaseException):
    """The process is gone: nothing that it would have done afterwards is done."""


class FaultyOs:
    """``os``, but call number ``at`` fails with an error number, or the process ends there: before or after the call.

    A write that fails has written half of what it was given, as on a disk that fills up.
    """

    def __init__(self, at=0, fault=None, after=False):
        self.at, self.fault, self.after, self.count, self.dead, self.opened = at, fault, after, 0, False, set()
        self.names = []

    def __getattr__(self, name):
        real = getattr(os, name)
        return self._wrapped(name, real) if name in CALLS else real

    def flock(self, *arguments):
        return self._wrapped("flock", fcntl.flock)(*arguments)

    def _wrapped(self, name, real):
        def call(*arguments, **options):
            if self.dead:
                raise Crash
            self.count += 1
            self.names.append(name)
            hit = self.count == self.at
            if hit and not self.after:
                self._fail(name, real, arguments)
            result = real(*arguments, **options)
            if name == "open":
                self.opened.add(result)
            if name == "close":
                self.opened.discard(arguments[0])
            if hit:
                self._fail(name, None, arguments)
            return result

        return call

    def _fail(self, name, real, arguments):
        if name == "write" and real is not None:
            real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        if self.fault is Crash:
            self.dead = True
            raise Crash
        raise OSError(self.fault, os.strerror(self.fault))

    def bury(self):
        """Close what a dead process had open, as the system does."""
        for descriptor in self.opened:
            os.close(descriptor)
        self.opened.clear()


class FaultyLocks:
    """``fcntl`` whose locks count as system calls of a :class:`FaultyOs`."""

    LOCK_EX = fcntl.LOCK_EX

    def __init__(self, system):
        self.flock = system.flock


def faults():
    """Yield every (fault, after): each error number once before the call, and a crash on either side of it."""
    yield from ((number, False) for number in ERRORS)
    yield from ((Crash, after) for after in (False, True))

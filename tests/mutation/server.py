"""A process that has imported the libraries once, and runs pytest in a child of it for every request.

A request is a line of JSON on the standard input: arguments of pytest, environment variables, a limit of processor
seconds (or null) and a file for the output. The reply is the exit code, or ``hangs``. Nothing of forgetless is imported
before the fork, so that every child reads the source as it is then.
"""

import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback

LIBRARIES = (
    "pytest",
    "_pytest.python",
    "_pytest.assertion.rewrite",
    "numpy",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.base",
    "sklearn.linear_model",
    "sklearn.datasets",
    "sklearn.utils.estimator_checks",
    "pandas",
    "mpmath",
    "numba",
    "click.testing",
)

HANGS = 900.0
"""Seconds after which tests that wait without computing are ended; a busy machine does not take as long."""


def child(request: dict) -> None:
    """Run pytest; never returns."""
    os.setsid()
    if request["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (request["limit"], request["limit"]))
    os.environ.update(request["environment"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    import pytest

    code = 3
    try:
        code = int(pytest.main(request["arguments"]))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait(pid: int, limit: int | None) -> str:
    """Return the exit code of a child, which is ended with its own children when it hangs."""
    until = time.monotonic() + HANGS
    while limit is None or time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def main() -> None:
    """Serve requests until the input ends."""
    for name in (*LIBRARIES, *sys.argv[1:]):
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            child(request)
        print(wait(pid, request["limit"]), flush=True)


if __name__ == "__main__":
    main()

"""The ``forgetless`` command: says what to install where the command line's own packages are
missing.
"""

import os
import signal
import sys
from typing import Any


def run() -> None:
    """Start the command line; Ctrl-C while its packages are imported ends it at once."""
    # An exception in the middle of an import would leave a traceback, or modules that are loaded in
    # part.
    previous = signal.signal(signal.SIGINT, _leave)
    try:
        from forgetless.cli import run as start
    # The tables and the command line are an extra: the library itself needs none of their packages.
    except ImportError as error:
        from forgetless._text import how

        sys.exit(f"Error: the command line needs {error.name}; install it with: {how('tables')}")
    signal.signal(signal.SIGINT, previous)
    start()


def _leave(*_: Any) -> None:
    os.write(2, b"\ninterrupted\n")
    os._exit(130)


if __name__ == "__main__":
    run()

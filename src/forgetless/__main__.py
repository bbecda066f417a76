"""The ``forgetless`` command: says what to install where the command line's own packages are missing."""

import sys

from forgetless._core.environment import how


def run() -> None:
    """Start the command line."""
    try:
        from forgetless.cli.app import run as start
    except ImportError as error:
        sys.exit(f"Error: the command line needs {error.name}; install it with: {how('cli')}")
    start()


if __name__ == "__main__":
    run()

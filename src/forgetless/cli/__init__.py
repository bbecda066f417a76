"""The command line: parses, calls the library, prints. Exit codes: 0 ok, 1 failure, 2 usage, 130
interrupted.
"""

from forgetless.cli.app import cli, main, run

__all__ = ["cli", "main", "run"]

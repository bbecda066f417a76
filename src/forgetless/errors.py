"""Errors that a caller may want to catch."""

__all__ = ["ConvergenceError", "FileError", "NoExactLawError", "StoreError"]


class ConvergenceError(ArithmeticError):
    """The step of one task could not be computed to the requested accuracy; the message has a
    hint.
    """


class FileError(ValueError):
    """A file is damaged, of another kind, too large or unsafe to read; the message names the file
    and the reason.
    """


class NoExactLawError(TypeError):
    """The expectation over this ordering cannot be computed, only sampled."""


class StoreError(ValueError):
    """A store of a sweep cannot be used, or its disk or cluster is not available; committed cells
    are safe.
    """

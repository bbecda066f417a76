"""Errors that a caller may want to catch."""


class ConvergenceError(ArithmeticError):
    """The step of one task could not be computed to the accuracy asked for; the message names the cure."""


class CheckError(AssertionError):
    """A filter, schedule or ordering lacks a property that the engines rely on; see :mod:`forgetless.checks`."""


class NoExactLawError(TypeError):
    """The expectation over this ordering cannot be computed here, only sampled."""


class FileError(ValueError):
    """A file is damaged, foreign, too large or unsafe to read; the message names the file and what is wrong with it."""


class DataMissingError(FileNotFoundError):
    """The package that holds a data set is not installed; the message names the command that installs it."""


class StoreError(ValueError):
    """A store of a sweep cannot be used as asked, or its disk or cluster is gone; what was committed is safe."""

"""Errors that a caller may want to catch."""


class ConvergenceError(ArithmeticError):
    """The step of one task could not be computed to the accuracy asked for; the message names the cure."""


class NoExactLawError(TypeError):
    """The expectation over this ordering cannot be computed here, only sampled."""

"""Tsipory, Levinstein, Evron, Kong, Needell and Soudry (NeurIPS 2025): greedy orders that depend on the weights."""

from forgetless.reproduce.field._statement import Statement

PAPER = "Tsipory et al. 2025"


def statements() -> list[Statement]:
    """Return nothing yet."""
    return []

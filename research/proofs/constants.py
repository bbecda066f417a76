"""Proofs of the constants for every k, run by computer: E L(w_k) ≤ C·R²D²/(k+1), whatever the
realizable collection.

The proof is in docs/proofs.md, "Constants for every k"; letters, formulas and (a), (b), (c)
are those there. (a), (b) and the tail are computed in ball arithmetic, (c) in floats with rigorous
rounding error bounds.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forgetless._running import track
from forgetless._table import Table
from forgetless.theory.bounds import Constant, constants
from research.proofs.horizons_numba import worst_horizon
from research.proofs.induction import induction

FROM = 2200
"""N₀: from here on by induction, below by computing the upper bound."""

_PER_DECADE = 30.0
"""Nodes of part (c): good to 5e-4 of the value."""


@dataclass(frozen=True)
class Proof:
    """Result of the proof of one constant; (a), (b) and the tail must be below 1, n·bound at most
    C.

    Attributes
    ----------
    constant : Constant
    first, middle, tail : float
        The largest left side over its right side in (a), (b) and its tail.
    small : float
        The largest n·bound over n < N₀, of horizon ``worst``.
    worst : int
    seconds : float
    """

    constant: Constant
    first: float
    middle: float
    tail: float
    small: float
    worst: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the constant is proved."""
        return max(self.first, self.middle, self.tail) < 1 and self.small <= float(
            self.constant.value
        )


def prove(constant: Constant, n: int = FROM) -> Proof:
    """Run the proof of one constant, by induction from k + 1 = n on.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.theory.catalogue["increasing, every k"].at(k=99)
    0.0104
    """
    began = time.perf_counter()
    large = induction(constant, n)
    explicit = constant.scheme == "explicit"
    small, worst = worst_horizon(n, float(1 / constant.scale), explicit, _PER_DECADE)
    seconds = time.perf_counter() - began
    return Proof(constant, large.first, large.middle, large.tail, float(small), int(worst), seconds)


def prove_all(chosen: Iterable[Constant] = constants) -> list[Proof]:
    """Run the proofs of several constants, by default those of the catalogue."""
    return [prove(constant) for constant in track(list(chosen), "constants")]


def table(proofs: Iterable[Proof]) -> Table:
    """Return a run as a table."""
    proofs = list(proofs)
    columns: dict[str, list[Any]] = {
        "constant of": [proof.constant.name for proof in proofs],
        "C": [float(proof.constant.value) for proof in proofs],
        f"(a)\nk + 1 ≥ {FROM}": [proof.first for proof in proofs],
        "(b)\n": [proof.middle for proof in proofs],
        "tail\n": [proof.tail for proof in proofs],
        f"(k+1)·loss ≤\nk + 1 < {FROM}": [proof.small for proof in proofs],
        "at k + 1\n": [proof.worst for proof in proofs],
        "verdict": ["proved" if proof.holds else "FAILS" for proof in proofs],
        "seconds": [proof.seconds for proof in proofs],
    }
    return Table("Proofs", columns, number=".5f", formats={"C": "g", "seconds": ".1f"})

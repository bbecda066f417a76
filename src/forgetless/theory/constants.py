"""Constants proved for every number of steps: E L ≤ C·R²D²/(k+1) for every realizable collection.

``make proofs`` runs the proofs.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Constant:
    """One constant and its schedule: λ_t = c·R²(k+1)/(k−t+2), or single gradient steps of size 1/λ_t."""

    name: str  # that of its entry in ``bounds.catalogue``
    scheme: str  # "explicit" or "one step"
    scale: Fraction  # c
    value: Fraction  # C


constants = (
    Constant("increasing, every k", "explicit", Fraction(13, 3), Fraction("1.04")),
    Constant("increasing, one gradient step, every k", "one step", Fraction(13, 3), Fraction("0.91")),
    Constant("increasing, scale 1, every k", "explicit", Fraction(1), Fraction("0.45")),
    Constant("increasing, scale 1/2, every k", "explicit", Fraction(1, 2), Fraction("0.39")),
    Constant("increasing, scale 1, one gradient step, every k", "one step", Fraction(1), Fraction("0.39")),
)

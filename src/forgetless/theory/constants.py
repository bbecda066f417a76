"""Constants that are proved for every number of steps: E L ≤ C·R²D²/(k+1) for every realizable collection.

``forgetless proofs`` runs the proofs, which ``certificates.proofs`` states.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Constant:
    """One constant and the schedule it is for.

    Attributes
    ----------
    name : str
        Of its entry in ``bounds.catalogue``.
    scheme : "explicit" or "one step"
        λ_t = c·R²(k+1)/(k−t+2), or a single gradient step per task of size (k−t+2)/((k+1)·c·R²).
    scale : Fraction
        c.
    value : Fraction
        C.
    """

    name: str
    scheme: str
    scale: Fraction
    value: Fraction


constants = (
    Constant("increasing, every k", "explicit", Fraction(13, 3), Fraction("1.04")),
    Constant("increasing, one gradient step, every k", "one step", Fraction(13, 3), Fraction("0.91")),
    Constant("increasing, scale 1, every k", "explicit", Fraction(1), Fraction("0.45")),
    Constant("increasing, scale 1/2, every k", "explicit", Fraction(1, 2), Fraction("0.39")),
    Constant("increasing, scale 1, one gradient step, every k", "one step", Fraction(1), Fraction("0.39")),
)

"""The catalogue of bounds: published ones, those derived here, computed ones, and lower bounds."""

from forgetless.theory.bound import Bound, Catalogue
from forgetless.theory.computed import COMPUTED
from forgetless.theory.derived import DERIVED, Constant, constants
from forgetless.theory.lower import LOWER
from forgetless.theory.published import PUBLISHED, last_iterate_rate

__all__ = ["Bound", "Catalogue", "Constant", "catalogue", "constants", "last_iterate_rate"]

catalogue = Catalogue((*PUBLISHED, *DERIVED, *COMPUTED, *LOWER))
"""All of them, in this order."""

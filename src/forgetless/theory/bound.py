"""A bound as data: one frozen record for every result about the loss after k tasks.

Values are over R²D²: R is the largest spectral norm of a task, D the distance from the start to the
nearest solution of all tasks, and the loss is ½‖Xw − y‖². κ = φ(R²) is the part of an error that a
step removes along the largest singular vector: R²/(R² + λ), 1 − (1 − γR²)^N, or 1 without
regularization.

An *upper* bound holds for the expected loss on the tasks at hand, if its hypotheses do. A *lower*
bound says that some collection has at least this loss: no guarantee for all collections is below
it.

PAPER is Levinstein et al. (2025), arXiv 2506.06501. Its statements are named by title, section and
label, since its source does not determine the printed numbers (docs/paper.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from forgetless import _validate as validate
from forgetless._table import Printed, Table
from forgetless.metrics import quantity
from forgetless.theory.hypotheses import Failure, Hypothesis, Setting

PAPER = "Levinstein et al. (2025)"
QUANTITIES = ("average_loss", "seen_loss", "next_loss")
KINDS = ("upper", "lower")


@dataclass(frozen=True)
class Bound:
    """One result.

    Attributes
    ----------
    name : str
    rate : str
        The value in words, over R²D².
    hypotheses : tuple of Hypothesis
    place : str
        Where it is: title, part, section, label.
    citation : str
        The publication, by default the paper, or the page of these docs.
    status : str
        "paper"; "paper, tight" (the constant that its proof ends with); "derived" (proved in this
        project, not published); "literature"; or "elementary".
    value : function of a Setting, or None
        The same as a function; None where only a rate is known.
    kind : "upper" or "lower"
    quantity : "average_loss", "seen_loss" or "next_loss"
    absolute : bool
        Whether the value is a loss, and not over R²D².
    """

    name: str
    rate: str
    hypotheses: tuple[Hypothesis, ...]
    place: str
    citation: str = PAPER
    status: str = "paper"
    value: Callable[[Setting], float] | None = field(default=None, repr=False)
    kind: str = "upper"
    quantity: str = "average_loss"
    absolute: bool = False

    def __post_init__(self) -> None:
        quantity("kind", self.kind, KINDS)
        object.__setattr__(self, "quantity", quantity("quantity", self.quantity, QUANTITIES))

    def failures(self, setting: Setting) -> tuple[Failure, ...]:
        """Return the hypotheses that fail in a setting; none where the bound applies."""
        return tuple(filter(None, (each.failure(setting) for each in self.hypotheses)))

    @property
    def least_k(self) -> int:
        """The smallest k that its hypotheses allow."""
        return max((each.least for each in self.hypotheses), default=1)

    def at(self, k: int, **numbers: float) -> float:
        """Return the value over R²D² after k steps, without a setting.

        Parameters
        ----------
        k : int
        **numbers : float
            ``kappa`` is κ, ``scale`` c and ``eta`` η, where the rate has them.

        Examples
        --------
        >>> import forgetless as fl
        >>> round(fl.theory.catalogue["increasing"].at(99), 6)
        0.2
        >>> round(fl.theory.catalogue["minimax"].at(99, eta=0.5), 6)
        0.01
        """
        k = validate.integer("k", k, self.least_k, f"{self.name} holds for k ≥ {self.least_k}")
        if self.value is None:
            raise ValueError(f"{self.name}: only the rate {self.rate} is known, not a value")
        if not 0 < numbers.get("kappa", 1) < 2:
            raise ValueError(f"kappa must lie in (0, 2), got {numbers['kappa']}; it is φ(R²)")
        setting: Any = SimpleNamespace(k=k, **numbers)
        try:
            return float(self.value(setting))
        except AttributeError as error:
            raise TypeError(
                f"{self.name} needs more than k and {[*numbers]}: its rate is {self.rate}; give"
                " kappa, scale or eta, or ask fl.compare_bounds for it"
            ) from error


class Catalogue(Printed, tuple[Bound, ...]):
    """All bounds in order; ``catalogue["increasing"]`` is one by name. Prints as a table."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for bound in self:
            if bound.name == key:
                return bound
        raise KeyError(f"no bound is called {key!r}; there are {[bound.name for bound in self]}")

    def table(self) -> Table:
        """Return all bounds; every bound has its citation, its place and its hypotheses besides."""
        keys = ("name", "kind", "quantity", "rate", "status")
        return Table("Bounds", {key: [getattr(bound, key) for bound in self] for key in keys})

"""The arguments of the solvers: a one-shot task, and limits."""

from typing import NamedTuple

from forgetless._core.arrays import Array
from forgetless.solvers.rows import Rows


class OneTask(NamedTuple):
    """A one-shot task with its residual at the current weights w."""

    rows: Rows  # X (n, d)
    residual: Array  # r = y − Xw (n, c), one column per target
    right: Array = None  # Xᵀr (d, c); optional in the argument of ``learn`` only
    norm: float | None = None  # ‖X‖₂ where it has been computed

    @property
    def n_targets(self) -> int:
        """The number of columns c."""
        return int(self.residual.shape[1])


class Limits(NamedTuple):
    """Limits of a solver."""

    tol: float = 1e-10  # bound of the relative error at which an iteration stops
    memory: int = 2**31  # largest size in bytes of a Gram matrix, a spectrum or a stored basis
    passes: int = 5000  # largest number of passes over X of an iteration


DEFAULT = Limits()

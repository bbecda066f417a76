"""What a solver is given: one task as seen from the weights, and how far it may go."""

from typing import NamedTuple

from forgetless._core.arrays import Array
from forgetless.solvers.rows import Rows


class OneTask(NamedTuple):
    """A task that is met once, seen from the weights w it starts from.

    Attributes
    ----------
    rows : Rows
        X, of shape (n, d).
    residual : array of shape (n, c)
        r = y − Xw, one column per target.
    right : array of shape (d, c), optional
        Xᵀr where it is known; the solvers themselves are always given it.
    norm : float, optional
        ‖X‖₂ where it is known.
    """

    rows: Rows
    residual: Array
    right: Array = None
    norm: float | None = None

    @property
    def n_targets(self) -> int:
        """The number of columns c."""
        return int(self.residual.shape[1])


class Limits(NamedTuple):
    """How far a solver may go.

    Attributes
    ----------
    tol : float
        Bound of the relative error at which an iteration stops.
    memory : int
        Bytes that a Gram matrix, a spectrum or a stored basis may take.
    passes : int
        Passes over X after which an iteration is given up.
    """

    tol: float = 1e-10
    memory: int = 2**31
    passes: int = 5000


DEFAULT = Limits()

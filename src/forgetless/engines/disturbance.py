"""Fresh label noise at every visit, and a teacher that walks, for finite collections.

Step t learns a task m with the labels y_m + X_m u_t + σε: ε is drawn anew in every row, and u_t,
the distance the teacher has walked, moves before every task but the first by a Gaussian step of
mean square length q², the same in all directions. Losses are those of the present labels without
noise, y_m + X_m u_t. In coordinates that move with the teacher, walks add Q = (q²/d) I to the
second moments S before a step, and noise adds Lᵀ diag(σ²φ²/s²) L after it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array, Floats
from forgetless.engines.moments import Moments
from forgetless.errors import NoExactLawError
from forgetless.metrics import OTHER_LOSS
from forgetless.orderings import Draws


@dataclass(frozen=True)
class Disturbance:
    """The standard deviation σ of label noise, and q, the root mean square step of the teacher."""

    noise: float
    walk: float

    @classmethod
    def of(cls, noise: Any, walk: Any) -> "Disturbance | None":
        """Return the validated disturbance; None if both are 0."""
        sigma = validate.number(
            "noise", noise, "it is the standard deviation of label noise; 0 for none"
        )
        step = validate.number(
            "walk", walk, "it is the root mean square step of the teacher; 0 if it stays"
        )
        return cls(sigma, step) if sigma or step else None

    @property
    def undefined(self) -> tuple[str, ...]:
        """The metrics that compare outputs with earlier ones, for labels that move meanwhile."""
        return ("drift", "task_drift") if self.walk else ()

    def check(self, names: tuple[str, ...]) -> None:
        """Raise ValueError for metrics that a walking teacher does not have."""
        wrong = [name for name in names if name in self.undefined]
        if wrong:
            raise ValueError(
                f"metrics={', '.join(wrong)} compares outputs with earlier ones, and"
                f" walk={self.walk:g} moves the labels meanwhile; ask for forgetting, seen_loss,"
                " average_loss, next_loss, distance or task_losses"
            )

    def check_law(self, law: Any, ordering: Any, average: float | None) -> None:
        """Raise NoExactLawError for orders other than independent draws, and for averages of
        iterates.
        """
        if not isinstance(law, Draws) or average is not None:
            what = f"ordering={ordering!r}" if average is None else f"average={average:g}"
            raise NoExactLawError(
                "noise and walk have an exact expectation for the last iterate of independent"
                f" draws only, got {what}; use simulate, which takes the same arguments"
            )

    def walk_moment(self, moments: Moments) -> Array:
        """Return Q of shape (Q, Q, 1): what one step of the teacher adds to S."""
        q = moments.tasks.span_dimension
        frame = np.eye(q) if moments.frame is None else moments.frame
        q, result = frame.shape[0], np.zeros((moments.size, moments.size, 1))
        result[:q, :q, 0] = self.walk**2 / moments.tasks.n_features * (frame @ frame.T)
        return result

    def variances(self, moments: Moments) -> Array:
        """Return cσ²/s² of every singular vector, (Σr, 1): the mean square noise of its error, over
        all c targets.
        """
        tasks = moments.tasks
        return (tasks.n_targets * self.noise**2 / tasks.singular_values**2)[:, None]

    def outside(self, name: str, n_steps: int, moments: Moments) -> float:
        """Return what the walk adds to a metric outside the joint span of the rows, where S does
        not reach.
        """
        tasks = moments.tasks
        walked = self.walk**2 / tasks.n_features * max(0, n_steps - 1)
        if name == "distance":
            return walked * (tasks.n_features - tasks.span_dimension)
        return (
            0.5 * walked * moments.other.outside
            if name == OTHER_LOSS and moments.other is not None
            else 0.0
        )

    def errors(
        self,
        errors: dict[str, Floats],
        curves: dict[str, Floats],
        moments: Moments,
        probabilities: Floats,
    ) -> dict[str, Floats]:
        """Return absolute errors of curves with those of noise of variance 1/s², s being rounded
        relative to R.
        """
        tasks = moments.tasks
        rounding = (
            8 * np.finfo(np.float64).eps * np.max(tasks.radii / tasks.singular_values, initial=0.0)
        )
        result = {}
        for name, values in curves.items():
            sizes = np.abs(values)
            # a difference of losses, of which the visits of a task are a part
            if name.endswith("forgetting"):
                seen = 2 * curves["seen_loss"]
                sizes = sizes + (
                    seen[..., None] / np.maximum(probabilities, 1e-300)
                    if name.startswith("task")
                    else seen
                )
            result[name] = errors[name] + rounding * sizes
        return result

"""The strength that a drifting teacher asks for: derived here, not published."""

import numpy as np

from forgetless.ensembles import Gaussian
from forgetless.reporting.table import Table
from forgetless.schedules.tracking import Steady


def curves(k: int = 300) -> Table:
    """Return the optimal λ_t of Gaussian tasks with noise 1 for several drifts, and their
    limits.
    """
    ensemble, rows = Gaussian(100, 20, 1.0), []
    for drift in (0.0, 0.01, 0.1, 1.0):
        schedule = Steady(1.0, drift)
        for t, coefficient in enumerate(
            np.asarray(schedule.for_spectrum(k, ensemble).coefficient), start=1
        ):
            rows.append(
                {
                    "drift": drift,
                    "task": t,
                    "λ": float(coefficient),
                    "limit": schedule.limit(ensemble),
                }
            )
    return Table.of_rows("Optimal λ for a teacher that drifts", rows)

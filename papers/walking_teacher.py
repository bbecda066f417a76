"""The strength that a walking teacher asks for: derived here, not published."""

import numpy as np

import forgetless as fl
from forgetless._table import Table


def curves(k: int = 300) -> Table:
    """Return the optimal λ_t of Gaussian tasks with noise 1 for several lengths of the teacher's
    steps.
    """
    ensemble = fl.ensembles.Gaussian(100, 20, 1.0)
    rows = []
    for length in (0.0, 0.01, 0.1, 1.0):
        strengths = fl.schedules.steady(ensemble, 1.0, length)(k, 1.0).strength()
        for t, coefficient in enumerate(np.ravel(strengths), start=1):
            rows.append({"step": length, "task": t, "λ": float(coefficient)})
    return Table.of_rows("Optimal λ for a teacher that walks", rows)

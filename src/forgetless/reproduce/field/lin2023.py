"""Lin, Ju, Liang and Shroff (ICML 2023), Theorem 4.1: fresh Gaussian tasks with given teachers,
solved exactly.
"""

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.engines.expectation import expect
from forgetless.ensembles import Gaussian, teachers
from forgetless.filters import Projection
from forgetless.reporting.table import Table
from forgetless.reproduce.field._statement import CODE, MEMORY, Statement
from forgetless.theory.fresh_tasks import forgetting_of_projections, generalization_of_projections

PAPER = "Lin et al. 2023"
SETTINGS = ((50, 100, 10, 0.3), (50, 500, 10, 1.0), (50, 20, 10, 0.3), (10, 13, 4, 0.5))


def statements() -> list[Statement]:
    """Return generalization and forgetting in some settings (n, d, k, σ)."""
    rng, result = np.random.default_rng(0), []
    for n, d, k, noise in SETTINGS:
        W = (rng.standard_normal((k, d)) + 1.0) / np.sqrt(d)
        ensemble = Gaussian(d, n, noise, teachers.given(W))
        distances = _between(ensemble, k)
        errors = expect(
            ensemble, Projection(), k, metrics="task_distances", record="all"
        ).task_distances
        setting = f"n = {n}, d = {d}, k = {k}, σ = {noise}"
        published = generalization_of_projections(distances, d, n, noise)
        result.append(
            Statement(f"generalization, {setting}", published, float(errors[-1].mean()), CODE)
        )
        if n < d:
            computed = float(np.mean(errors[-1, :-1] - np.diagonal(errors)[:-1]))
            published = forgetting_of_projections(distances, d, n, noise)
            result.append(Statement(f"forgetting, {setting}", published, computed, MEMORY))
    return result


def _between(ensemble: Gaussian, k: int) -> Floats:
    """Return the squared distances of the start and the teacher of every task."""
    points = np.concatenate([[0], ensemble.teachers.order(k)])
    return np.asarray(ensemble.teachers.distances(k)[np.ix_(points, points)])


def curves(n: int = 50, k: int = 10, noise: float = 0.3) -> Table:
    """Return forgetting against the number of features for several similarities of the teachers."""
    rows = []
    for similarity in (0.0, 0.5, 0.9, 1.0):
        for d in np.unique(np.geomspace(n + 5, 20 * n, 40).astype(int)).tolist():
            ensemble = Gaussian(d, n, noise, teachers.exchangeable(1.0, similarity))
            errors = expect(
                ensemble, Projection(), k, metrics="task_distances", record="all"
            ).task_distances
            forgetting = float(np.mean(errors[-1, :-1] - np.diagonal(errors)[:-1]))
            rows.append(
                {"similarity": similarity, "features per row": d / n, "forgetting": forgetting}
            )
    return Table.of_rows("Forgetting of exactly solved Gaussian tasks", rows)

"""Lin, Ju, Liang and Shroff (ICML 2023), Theorem 4.1: fresh Gaussian tasks with given teachers,
solved exactly.

With r = max(0, 1 − n/d), the part of the error that a task leaves, and the squared distances D of
the start (0) and the teachers (1..k).
"""

import numpy as np

import forgetless as fl
from forgetless._table import Table
from papers.statement import CODE, MEMORY, Floats, Statement

PAPER = "Lin et al. 2023"
SETTINGS = ((50, 100, 10, 0.3), (50, 500, 10, 1.0), (50, 20, 10, 0.3), (10, 13, 4, 0.5))


def generalization(distances: Floats, d: int, n: int, noise: float = 0.0) -> float:
    """Return the mean over k teachers of E‖w_k − v_i‖² after k tasks of n rows and d features.

    As in the public code of Banayeeanzade et al. (2025).

    Parameters
    ----------
    distances : array of shape (k + 1, k + 1)
        Squared distances of the start and the k teachers.
    d, n : int
        Features and rows; with noise they differ by at least two, else the mean is infinite.
    noise : float, default 0
        Standard deviation of the noise of labels.
    """
    k = len(distances) - 1
    r = max(0.0, 1.0 - n / d)
    last = r ** np.arange(k - 1, -1, -1)  # the part that the k − i tasks after task i leave
    between = (1.0 - r) * float(last @ distances[1:, 1:].sum(axis=1)) / k
    learned = r**k * distances[0, 1:].mean() + between
    return float(learned + noise_limit(d, n, noise) * (1.0 - r**k))


def forgetting(distances: Floats, d: int, n: int, noise: float = 0.0) -> float:
    """Return the mean over i < k of E‖w_k − v_i‖² − E‖w_i − v_i‖²; arguments as above."""
    k = len(distances) - 1
    r = max(0.0, 1.0 - n / d)
    total = 0.0
    for i in range(1, k):
        later = np.arange(i + 1, k + 1)
        weights = (1.0 - r) * (r ** (k - i) - r ** (later - i) + r ** (k - later))
        total += (r**k - r**i) * distances[0, i] + float(weights @ distances[i, later])
        total += noise_limit(d, n, noise) * (r**i - r**k)
    return float(total / (k - 1))


def noise_limit(d: int, n: int, noise: float) -> float:
    """Return the part of E‖w − v‖² that noise of labels has after many tasks."""
    return d * noise**2 / (abs(n - d) - 1.0) if noise else 0.0


def statements() -> list[Statement]:
    """Return generalization and forgetting in some settings (n, d, k, σ)."""
    rng = np.random.default_rng(0)
    result = []
    for n, d, k, noise in SETTINGS:
        W = (rng.standard_normal((k, d)) + 1.0) / np.sqrt(d)
        ensemble = fl.ensembles.Gaussian(d, n, noise, fl.ensembles.teachers.given(W))
        points = np.concatenate([[0], ensemble.teachers.order(k)])
        distances = ensemble.teachers.distances(k)[np.ix_(points, points)]
        errors = task_distances(ensemble, k)
        setting = f"n = {n}, d = {d}, k = {k}, σ = {noise}"
        published = generalization(distances, d, n, noise)
        computed = float(errors[-1].mean())
        result.append(Statement(f"generalization, {setting}", published, computed, CODE))
        if n < d:
            published = forgetting(distances, d, n, noise)
            computed = growth(errors)
            result.append(Statement(f"forgetting, {setting}", published, computed, MEMORY))
    return result


def task_distances(ensemble: fl.ensembles.Gaussian, k: int) -> Floats:
    """Return E‖w_t − v_i‖² of every teacher i after every task t, exactly."""
    result = ensemble.expect(fl.Projection(), k, metrics="task_distances", record="all")
    return np.asarray(result.task_distances)


def growth(errors: Floats) -> float:
    """Return the mean growth of the errors since each task was learned."""
    return float(np.mean(errors[-1, :-1] - np.diagonal(errors)[:-1]))


def curves(n: int = 50, k: int = 10, noise: float = 0.3) -> Table:
    """Return forgetting against the number of features for several similarities of the teachers."""
    rows = []
    for similarity in (0.0, 0.5, 0.9, 1.0):
        teachers = fl.ensembles.teachers.exchangeable(1.0, similarity)
        for d in np.unique(np.geomspace(n + 5, 20 * n, 40).astype(int)).tolist():
            errors = task_distances(fl.ensembles.Gaussian(d, n, noise, teachers), k)
            row = {"similarity": similarity, "features per row": d / n}
            rows.append({**row, "forgetting": growth(errors)})
    return Table.of_rows("Forgetting of exactly solved Gaussian tasks", rows)

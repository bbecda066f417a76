"""Checks of a filter, a schedule or an ordering: copy them for your own.

Each raises AssertionError with the property that fails. Every leaf of the package passes them.
"""

import copy
import dataclasses

import numpy as np
import pytest

import forgetless as fl

XI = np.array([1e-3, 0.02, 0.3, 1.0])
"""Eigenvalues at which filters are evaluated, of tasks of radius 1."""


def check_frozen(made, *, by_value=True):
    """It cannot be changed, so that it can be hashed; what holds arrays is not compared by value."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.anything = 1
    assert hash(made) == hash(made)
    assert (copy.copy(made) == made) is by_value


def check_filter(filter_):
    """Factors, steps, derivatives and copies of a filter, for tasks of radius 1, agree with each other."""
    factors = filter_.table(XI)
    assert np.isfinite(factors).all(), "factors must be finite"
    assert (factors >= -1e-12).all(), "factors must not be negative"
    assert (factors <= 2 + 1e-12).all(), "factors must be at most 2"
    assert not np.any(filter_.table(np.zeros(1))), "factors must be 0 at 0"
    assert copy.deepcopy(filter_) == filter_, "it must compare by value: use @dataclass(frozen=True, eq=False)"
    for t in range(filter_.horizon or 1):
        now = filter_[t]
        np.testing.assert_allclose(now.factors(XI), factors[t], rtol=1e-12)
        np.testing.assert_allclose(now.remaining(XI), 1 - factors[t], rtol=1e-8, atol=1e-11)
        assert now.strength() == pytest.approx(fl.Filter.strength(now), rel=1e-9), "strength must be 1/φ'(0)"
        _check_derivatives(now)
        _check_step(now)


def _check_derivatives(filter_):
    for name, derivative in filter_.derivatives(XI).items():
        value = filter_.parameters[name]
        h = 1e-6 * value or 1e-9
        differences = filter_.replaced(**{name: value + h}).factors(XI) - filter_.factors(XI)
        # A difference of two factors near 1 is known to 4e-16, over h.
        np.testing.assert_allclose(derivative, differences / h, rtol=1e-4, atol=4e-16 / h + 1e-6)


def _check_step(filter_):
    """The step on one task is w − φ(XᵀX)(w − X⁺y), by a dense eigendecomposition."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 5))
    X /= np.linalg.norm(X, 2)
    y, w = rng.standard_normal(3), rng.standard_normal(5)
    eigenvalues, vectors = np.linalg.eigh(X.T @ X)
    factors = np.asarray(filter_.factors(np.where(eigenvalues > 1e-12, eigenvalues, 0.0)))
    expected = w - vectors @ (factors * (vectors.T @ (w - np.linalg.pinv(X) @ y)))
    np.testing.assert_allclose(fl.step(w, (X, y), filter_), expected, rtol=1e-8, atol=1e-11)


def check_schedule(schedule, ks=(3, 10, 101), radii=(0.3, 1.0, 20.0)):
    """A schedule returns, reproducibly, a contracting filter of k steps for every k and radius."""
    for k in ks:
        for radius in radii:
            filter_ = fl.schedules.resolve(schedule, k, radius)
            assert filter_ == fl.schedules.resolve(schedule, k, radius), "it must be the same each time"
            growth = np.abs(1 - filter_.table(radius**2 * XI))
            assert (growth <= 1 + 1e-9).all(), f"errors grow on tasks of radius {radius}"


def check_ordering(ordering, n_tasks=4, k=8):
    """An ordering samples reproducibly, and by its moves: exact means are those of runs within 5 standard errors."""
    orders = ordering.sample(n_tasks, k, seed=0, n_trials=5)
    np.testing.assert_array_equal(orders[:3], ordering.sample(n_tasks, k, seed=0, n_trials=3))
    try:
        ordering.moves(n_tasks, 0)
    except fl.errors.NoExactLawError:
        return
    rng = np.random.default_rng(1)
    tasks = fl.TaskCollection([(rng.standard_normal((1, 3)), rng.standard_normal(1)) for _ in range(n_tasks)])
    filter_ = fl.Ridge(tasks.radius**2 * np.linspace(1.0, 0.1, k))
    names = ("average_loss", "seen_loss", "forgetting")
    exact = fl.expect(tasks, filter_, k, ordering=ordering, metrics=names)
    runs = fl.simulate(tasks, filter_, k, ordering=ordering, n_trials=2000, seed=2, metrics=names)
    for name in names:
        values = np.asarray(runs.values[name])[:, -1]
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - exact.values[name][-1]) <= 5 * error + 1e-9, (
            f"moves() and blocks() disagree in {name}"
        )

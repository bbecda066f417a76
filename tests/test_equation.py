"""The equation against the three literal algorithms of the paper."""

import mpmath
import numpy as np
import pytest
import scipy.sparse

import forgetless as fl
from support import literal
from support.collections import FAMILIES, random_pairs


def relative(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


@pytest.fixture(params=FAMILIES)
def pairs(request, rng):
    return random_pairs(rng, **FAMILIES[request.param])


@pytest.fixture
def start(pairs, rng):
    return rng.standard_normal((pairs[0][0].shape[1], *pairs[0][1].shape[1:]))


STRENGTHS = [fl.Ridge(1e-3), fl.Ridge(0.5), fl.Ridge(40.0)]
BUDGETS = [fl.GradientDescent(1, 0.8), fl.GradientDescent(2, 0.8), fl.GradientDescent(25, 0.8)]


@pytest.mark.parametrize("filter_", [*STRENGTHS, *BUDGETS, fl.Projection()], ids=repr)
def test_a_step_equals_its_definition_and_surrogate_descent(pairs, start, filter_):
    """Normal equations, inner gradient steps, or a pseudoinverse; of a task and of its arrays."""
    tasks = fl.TaskCollection(pairs)
    filter_ = filter_.scaled(tasks.radius**2)
    for task, (X, y) in zip(tasks, pairs, strict=True):
        ours = fl.step(start, task, filter_)
        assert relative(ours, literal.step_of(filter_)(start, X, y, 1)) < 1e-9
        assert relative(ours, fl.step(start, (X, y), filter_)) < 1e-9
        assert relative(ours, literal.surrogate_step(start, X, y, filter_.factors, 0.37)) < 1e-9


def test_limits_give_the_projection(pairs, start):
    for task in fl.TaskCollection(pairs):
        exact = fl.step(start, task, fl.Projection())
        weak, long = fl.Ridge(1e-13 * task.radius**2), fl.GradientDescent(10**9, 0.9 / task.radius**2)
        for filter_, error in ((weak, 1e-9), (long, 1e-9), (fl.Ridge(0.0), 1e-14)):
            assert relative(fl.step(start, task, filter_), exact) < error


def hard_task(kind, shape, rng):
    X = rng.standard_normal(shape)
    if kind == "decaying":
        U, _, V = np.linalg.svd(X, full_matrices=False)
        X = (U * np.logspace(0, -9, min(shape))) @ V
    if kind == "low rank":
        X = X[:, :2] @ X[:2, :]
    if kind == "repeated feature":
        X[:, 1] = X[:, 0]
    return X / np.linalg.norm(X, 2)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (6, 6), (2, 5), (5, 2)])
@pytest.mark.parametrize("kind", ["generic", "decaying", "low rank", "repeated feature"])
@pytest.mark.parametrize("strength", [1e-9, 1e-7, 1e-4, 1.0, 1e6])
@pytest.mark.parametrize("made", [np.asarray, scipy.sparse.coo_array])
def test_a_one_shot_step_against_fifty_digits(rng, shape, kind, strength, made):
    X, r = hard_task(kind, shape, rng), rng.standard_normal(shape[0])
    with mpmath.workdps(50):
        A = mpmath.matrix(X.tolist())
        system = A.T * A + mpmath.mpf(strength) * mpmath.eye(shape[1])
        exact = np.array([float(value) for value in mpmath.lu_solve(system, A.T * mpmath.matrix(r.tolist()))])
    assert relative(fl.step(np.zeros(shape[1]), (made(X), r), fl.Ridge(strength)), exact) < max(1e-8, 1e-15 / strength)


def test_directions_below_the_rounding_of_squares_count_after_many_steps(rng):
    for _ in range(10):  # rounding leaves the smallest eigenvalue below 0 in some
        X, r = hard_task("repeated feature", (30, 6), rng), rng.standard_normal(30)
        X[:, 1] += 1e-9 * rng.standard_normal(30)
        filter_ = fl.GradientDescent(10**5, 1.0)
        spectral = fl.step(np.zeros(6), fl.TaskCollection([(X, r)])[0], filter_)
        assert relative(fl.step(np.zeros(6), (X, r), filter_), spectral) < 1e-9


@pytest.mark.parametrize(
    "filter_", [fl.Ridge(0.3), fl.Ridge(0.0), fl.Projection(), fl.GradientDescent(20, 0.001)], ids=repr
)
def test_large_sparse_tasks_are_solved_by_products_alone(rng, filter_):
    """From 250 rows and features on."""
    X, r = rng.standard_normal((600, 260)) / 20, rng.standard_normal((600, 2))
    whole, given, start = fl.step(np.zeros((260, 2)), (X, r), filter_), scipy.sparse.csr_array(X), np.zeros((260, 2))
    np.testing.assert_allclose(fl.step(start, (given, r), filter_), whole, rtol=1e-8, atol=1e-9)
    # A schedule whose radius is the norm of the task.
    dense, sparse = (fl.ContinualRidge(schedule="fixed", n_tasks=9).fit(each, r) for each in (X, given))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-8, atol=1e-9)
    with pytest.raises(ValueError, match="at most 100,000 are taken one by one"):
        fl.step(start, (given, r), fl.GradientDescent(10**6, 0.001))


SIZES = [(1e150, 1e-60), (1e-150, 1e60), (1e99, 1e-99), (1e120, 1e-120), (1e140, 1e-170), (1e-150, 1e-150)]


@pytest.mark.parametrize("shape", [(5, 20), (20, 5), (1, 20)])
@pytest.mark.parametrize("sizes", [*SIZES, (1e-60, 1e-60), (1e60, 1e60), (1e150, 1e150)])
@pytest.mark.parametrize("filter_", [*(fl.Ridge(each) for each in (1e-9, 1e-6, 1.0)), fl.GradientDescent(20, 0.01)])
def test_rows_and_residuals_of_sizes_far_apart(rng, shape, sizes, filter_):
    """Of a task, and of its arrays."""
    X, r, start = rng.standard_normal(shape), rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    pair, unit = (X * sizes[0], r * sizes[1]), sizes[1] / sizes[0]
    for task in (pair, fl.TaskCollection([pair])[0]):
        found = fl.step(start * unit, task, filter_.scaled(sizes[0] ** 2.0))
        np.testing.assert_allclose(found, fl.step(start, (X, r), filter_) * unit, rtol=1e-11)


@pytest.mark.parametrize("columns", [(), (1,), (3,)])
@pytest.mark.parametrize("filter_", [fl.Ridge(1.0), fl.GradientDescent(3, 0.1), fl.Projection()], ids=repr)
def test_tasks_without_rows_or_with_rows_of_zeros_teach_nothing(rng, columns, filter_):
    w, X, y = rng.standard_normal((4, *columns)), np.zeros((0, 4)), np.zeros((0, *columns))
    tasks = fl.TaskCollection([(X, y), (np.zeros((2, 4)), np.ones((2, *columns)))])
    for task in (*tasks, (X, y), (scipy.sparse.csr_array(X), y)):
        np.testing.assert_array_equal(fl.step(w, task, filter_), w)
    assert tasks.radius == 0.0
    assert tasks.floors.tolist() == [0.0, np.prod(columns)]

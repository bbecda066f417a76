"""Rows, targets and strengths of any size: nothing leaves the range of a float on the way."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.solvers import one_task
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import OneTask, Rows
from support.steps import relative


@pytest.mark.parametrize("shape", [(5, 20), (20, 5), (1, 20)])
@pytest.mark.parametrize("sizes", [(1e150, 1e-60), (1e-150, 1e60), (1e99, 1e-99), (1e120, 1e-120), (1e140, 1e-170)])
def test_rows_and_residuals_of_sizes_far_apart(rng, shape, sizes):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 1))
    for strength in (1e-6, 1.0):
        for filter_ in (fl.Ridge(strength * sizes[0] ** 2), fl.GradientDescent(20, 0.01 / sizes[0] ** 2)):
            made = learn(OneTask(Rows.of(X * sizes[0]), r * sizes[1]), filter_)
            plain = learn(OneTask(Rows.of(X), r), filter_.scaled(sizes[0] ** -2.0))
            np.testing.assert_allclose(made.change, plain.change * (sizes[1] / sizes[0]), rtol=1e-10)
        model = fl.ContinualRidge(strength * sizes[0] ** 2)
        model.partial_fit(np.eye(shape[1]), np.zeros(shape[1])).partial_fit(X * sizes[0], r[:, 0] * sizes[1])
        expected = learn(OneTask(Rows.of(X), r), fl.Ridge(strength)).change[:, 0]
        np.testing.assert_allclose(model.coef_, expected * (sizes[1] / sizes[0]), rtol=1e-9)


def test_a_row_whose_gain_is_below_the_range_of_a_float_is_learned(rng):
    x = rng.standard_normal((1, 3)) * 1e13
    model = fl.ContinualRidge(1.0).partial_fit(np.eye(3), np.zeros(3))
    model.partial_fit(x, np.array([1e-288]))
    np.testing.assert_allclose(model.coef_, x[0] / 1e13 * (1e-288 / 1e13) / np.sum((x / 1e13) ** 2), rtol=1e-9)


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1e120, 1e200])
def test_targets_of_any_size(rng, size):
    X, r = rng.standard_normal((6, 4)), rng.standard_normal((6, 1))
    for filter_ in (fl.Ridge(2.0), fl.GradientDescent(20, 0.05), fl.Projection()):
        expected = learn(OneTask(Rows.of(X), r), filter_)
        made = learn(OneTask(Rows.of(X), r * size), filter_)
        np.testing.assert_allclose(made.change / size, expected.change, rtol=1e-12)


def test_budget_at_extreme_norms(rng):
    X, r = rng.standard_normal((6, 4)), rng.standard_normal((6, 1))
    expected = learn(OneTask(Rows.of(X), r), fl.GradientDescent(50, 0.02)).change
    for size in (1e-140, 1e140):
        made = learn(OneTask(Rows.of(X * size), r), fl.GradientDescent(50, 0.02 / size / size))
        np.testing.assert_allclose(made.change * size, expected, rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-12, 1.0, 1e12, 1e18])
@pytest.mark.parametrize("solver", ["auto", "krylov", "gram"])
def test_float32_rows_of_any_size(rng, scale, solver):
    X, r = rng.standard_normal((260, 230)), rng.standard_normal((260, 2))
    square = np.linalg.norm(X, 2) ** 2
    for filter_, scaled in (
        (fl.Ridge(square), fl.Ridge(square * scale * scale)),
        (fl.GradientDescent(30, 0.5 / square), fl.GradientDescent(30, 0.5 / square / scale / scale)),
    ):
        exact = learn(OneTask(Rows.of(X), r), filter_).change / scale
        made = learn(OneTask(Rows.of((X * scale).astype(np.float32)), r.astype(np.float32)), scaled, solver=solver)
        assert relative(made.change.astype(np.float64), exact) < 3e-5


def test_sizes_are_scaled_where_their_squares_leave_the_range_and_nowhere_else():
    double, single = np.ones(1), np.ones(1, dtype=np.float32)
    for like, limit in ((double, 1e100), (single, 1e12)):
        for size in (limit * 0.99, 1.01 / limit, 1.0, 0.0):
            assert one_task._exponent(size, like) == 0
        for size in (limit * 1.01, 0.99 / limit):
            assert 0.5 <= size / 2.0 ** one_task._exponent(size, like) < 1
    assert one_task._exponent(np.inf, double) == 1
    assert one_task._largest(np.array([[-3.0, 2.0]])) == 3
    assert one_task._largest(np.array([[-3.0, 5.0]])) == 5


@pytest.mark.parametrize(
    ("rows", "residual", "scaled"),
    [
        (1.0, 1.0, (0, 0)),
        (1.0, 2.0**400, (0, 401)),
        (2.0**400, 2.0**-200, (401, 0)),
        (2.0**340, 1.0, (341, 0)),
        (2.0**340, 2.0**-300, (341, 0)),
    ],
)
def test_which_of_rows_and_residuals_are_scaled(rows, residual, scaled):
    X, r = rows * np.eye(2), residual * np.ones((2, 1))
    task = OneTask(Rows.of(X), r, X.T @ r)
    assert one_task._exponents(task, fl.Ridge(1.0)) == scaled
    assert one_task._exponents(task, fl.Projection()) == (0, scaled[1])
    blocks = Rows(lambda: iter([X]), X.shape, X.size)
    assert one_task._exponents(OneTask(blocks, r, X.T @ r), fl.Ridge(1.0)) == (0, scaled[1])

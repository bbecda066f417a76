"""Rows, targets and strengths of any size: nothing leaves the range of a float on the way."""

import mpmath
import numpy as np
import pytest

import forgetless as fl
from forgetless.errors import ConvergenceError
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import OneTask, Rows
from support.steps import learn_by, relative


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


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-12, 1.0, 1e12, 1e18])
@pytest.mark.parametrize("solver", ["auto", "iterative"])
def test_float32_rows_of_any_size(rng, scale, solver):
    X, r = rng.standard_normal((260, 230)), rng.standard_normal((260, 2))
    square = np.linalg.norm(X, 2) ** 2
    for filter_, scaled in (
        (fl.Ridge(square), fl.Ridge(square * scale * scale)),
        (fl.GradientDescent(30, 0.5 / square), fl.GradientDescent(30, 0.5 / square / scale / scale)),
    ):
        exact = learn(OneTask(Rows.of(X), r), filter_).change / scale
        made = learn_by(solver, (X * scale).astype(np.float32), r.astype(np.float32), scaled)
        assert relative(made.change.astype(np.float64), exact) < 3e-5


def _literal_step(X, r, filter_):
    """Return δ and ‖r − Xδ‖² of Ridge or GradientDescent with 60 digits, by their definitions."""
    X, r = mpmath.matrix(X.tolist()), mpmath.matrix(r.tolist())
    if isinstance(filter_, fl.Ridge):
        dual = X.T * mpmath.lu_solve(X * X.T + mpmath.mpf(filter_.coefficient) * mpmath.eye(X.rows), r)
        return dual, mpmath.norm(r - X * dual) ** 2
    change = mpmath.zeros(X.cols, 1)
    for _ in range(filter_.n_steps):
        change += mpmath.mpf(filter_.step_size) * (X.T * (r - X * change))
    return change, mpmath.norm(r - X * change) ** 2


@pytest.mark.parametrize("solver", ["auto", "iterative"])
@pytest.mark.parametrize("x_size", [1e-150, 1e-80, 1e-30, 1e60, 1e99, 1e150])
@pytest.mark.parametrize("r_size", [1e-150, 1e-100, 1.0, 1e80, 1e150])
def test_steps_and_stated_errors_at_extreme_sizes_against_sixty_digits(rng, solver, x_size, r_size):
    X, r = rng.standard_normal((3, 6)) * x_size, rng.standard_normal((3, 1)) * r_size
    weak = 1e30 if x_size < 1e100 else 1.0
    filters = [fl.Ridge(strength * x_size * x_size) for strength in (1e-6, 1.0, weak)]
    filters += [fl.GradientDescent(8, 0.03 / strength / x_size / x_size) for strength in (1.0, weak)]
    with mpmath.workdps(60):
        for filter_ in filters:
            expected, after = _literal_step(X, r, filter_)
            size = mpmath.norm(expected)
            if not 1e-290 < size < 1e300:
                continue
            result = learn_by(solver, X, r, filter_)
            error = float(mpmath.norm(mpmath.matrix(result.change.tolist()) - expected) / size)
            assert error <= max(3 * result.error, 1e-14)
            assert result.error < 1e-8
            if 1e-290 < after < 1e300:
                assert abs(float(result.after[0]) - float(after)) <= 1e-9 * float(np.sum(r * r))


@pytest.mark.parametrize(("x_size", "y_size"), [(1e-80, 1e80), (1e60, 1e-100)])
@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_public_step_at_extreme_sizes(rng, x_size, y_size, shape):
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    expected = np.linalg.lstsq(np.vstack([X, np.eye(shape[1])]), np.concatenate([y, np.zeros(shape[1])]))[0]
    result = fl.step(np.zeros(shape[1]), (X * x_size, y * y_size), fl.Ridge(x_size * x_size))
    np.testing.assert_allclose(result, expected * (y_size / x_size), rtol=1e-12)
    model = fl.ContinualRidge(1.0).partial_fit(np.eye(shape[1]), np.zeros(shape[1]))
    model.set_params(alpha=x_size * x_size).partial_fit(X * x_size, y * y_size)
    assert model.history_["mse_after"][-1] == pytest.approx(
        np.mean((X @ expected - y) ** 2) * y_size * y_size, rel=1e-9, abs=0
    )


def test_steps_that_leave_the_range_of_a_float_raise_an_error():
    with pytest.raises(OverflowError, match="exceed the largest float"):
        fl.step(np.zeros(1), ([[1e-300]], [1e300]), fl.Projection())
    blocks = Rows(lambda: iter([np.full((1, 1), 1e-30)]), (1, 1), 1)
    with pytest.raises(ConvergenceError, match="sizes too far apart"):
        learn(OneTask(blocks, np.full((1, 1), 1e40)), fl.Ridge(1e300))
    with pytest.raises(OverflowError, match="residuals"):
        fl.step(np.full(1, 1e200), ([[1e200]], [1.0]), fl.Ridge(1.0))

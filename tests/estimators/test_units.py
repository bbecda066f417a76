"""``standardize=True``: the function stays when statistics change, units do not matter, and literal solutions."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import forgetless as fl
from forgetless.estimators._units import UnitChange, Units

D = 5
MODELS = {
    "ridge": lambda **more: fl.ContinualRidge(alpha=0.3, **more),
    "auto": lambda **more: fl.ContinualRidge(schedule="auto", **more),
    "rank": lambda **more: fl.ContinualRidge(alpha=0.3, memory=fl.LowRankMemory(3, dtype="float64"), **more),
    "diagonal": lambda **more: fl.ContinualRidge(
        schedule="auto", memory=fl.LowRankMemory(2, diagonal=True, decay=0.1), **more
    ),
    "average": lambda **more: fl.ContinualRidge(schedule="increasing", n_tasks=12, average=2, **more),
    "descent": lambda **more: fl.ContinualGD(n_steps=20, **more),
    "joint": lambda **more: fl.JointRidge(alpha=0.3, **more),
    "rls": lambda **more: fl.RecursiveLeastSquares(alpha=0.3, **more),
}


def test_squares_in_other_units_are_those_of_the_rows_in_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, D))
    X -= X.mean(0)
    old = Units.none(D, centred=True)._replace(mean=np.zeros(D), scale=np.ones(D))
    new = old._replace(mean=np.arange(1.0, D + 1), scale=np.geomspace(0.5, 4.0, D))
    change = UnitChange.between(old, new)
    with_ones = np.column_stack([X, np.ones(len(X))])
    inside = np.column_stack([(X - new.mean) / new.scale, np.ones(len(X))])
    np.testing.assert_allclose(change.squares(np.sum(with_ones**2, axis=0)), np.sum(inside**2, axis=0), rtol=1e-12)
    np.testing.assert_allclose(change.rows(with_ones), inside, rtol=1e-12)
    np.testing.assert_allclose(change.gram(with_ones.T @ with_ones), inside.T @ inside, rtol=1e-10, atol=1e-10)


def made(name, **more):
    return MODELS[name](standardize=True, **{"fit_intercept": True, **more})


def tasks(count=12, n=9, targets=(), seed=0):
    """Tasks whose means and scales move, with columns far from zero and far from each other in size."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal((D, *targets))
    for t in range(count):
        X = rng.standard_normal((n, D)) * (1 + 0.2 * t) * [1, 2, 3, 0.1, 5] + [0, 10, -4, 1, 100] + 0.5 * t
        yield X, X @ teacher + 30 + 0.1 * rng.standard_normal((n, *targets))


def learned(model, stream):
    for X, y in stream:
        model.partial_fit(X, y)
    return model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("intercept", [True, False])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), power=st.floats(-4, 4), offset=st.floats(-1e4, 1e4))
def test_other_statistics_leave_the_function_as_it_was(name, intercept, seed, power, offset):
    model = learned(made(name, fit_intercept=intercept), tasks(5, seed=seed))
    X = next(tasks(1, 20, seed=seed + 1))[0]
    more = 10**power * np.random.default_rng(seed).standard_normal((7, D)) + offset
    other, state = copy.copy(model), model._state
    other._state = state.in_units(state.units.with_rows(more, None))
    before = model.predict(X)
    np.testing.assert_allclose(other.predict(X), before, rtol=1e-9, atol=1e-9 * (1 + abs(offset)))
    np.testing.assert_allclose(X @ other.coef_ + other.intercept_, before, rtol=1e-8, atol=1e-8 * (1 + abs(offset)))


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8)
@given(powers=st.lists(st.integers(-6, 6), min_size=D, max_size=D))
def test_units_of_columns_change_nothing_beyond_rounding(name, powers):
    factors = 10.0 ** np.array(powers)
    one = learned(made(name), tasks())
    other = learned(made(name), ((X * factors, y) for X, y in tasks()))
    X = next(tasks(1, 20, seed=5))[0]
    np.testing.assert_allclose(other.predict(X * factors), one.predict(X), rtol=1e-6)
    np.testing.assert_allclose(other.coef_ * factors, one.coef_, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(other.history_["mse_before"], one.history_["mse_before"], rtol=1e-5)


def standardised(X, mean, scale):
    return np.column_stack([(X - mean) / scale, np.ones(len(X))])


def test_joint_ridge_is_ridge_regression_on_all_rows_standardised():
    found = list(tasks())
    model = learned(made("joint"), found)
    X, y = (np.concatenate(part) for part in zip(*found, strict=True))
    A = standardised(X, X.mean(0), X.std(0))
    w = np.linalg.solve(A.T @ A + 0.3 * np.eye(D + 1), A.T @ y)
    np.testing.assert_allclose(model.predict(X), A @ w, rtol=1e-9)


def test_every_task_is_learned_in_the_units_of_all_rows_so_far():
    """Literally: each step in the user's units, with the penalty that standardised units mean."""
    model, rows, f, before = made("ridge"), np.empty((0, D)), None, np.ones(D)
    for X, y in tasks(6):
        model.partial_fit(X, y)
        rows = np.concatenate([rows, X])
        mean, scale = rows.mean(0), rows.std(0)
        A = standardised(X, mean, scale)
        # The function so far as weights in these units; before the first task it is the mean of its targets.
        start = np.append(np.zeros(D), y.mean()) if f is None else np.append(f[:-1] * scale, f[-1] + f[:-1] @ mean)
        if f is not None:  # the penalty on weights of columns that vary more now is about smaller weights
            start[:-1] *= np.minimum(1.0, before / scale) ** 2
        before = scale
        w = start + np.linalg.solve(A.T @ A + 0.3 * np.eye(D + 1), A.T @ (y - A @ start))
        f = np.append(w[:-1] / scale, w[-1] - (w[:-1] / scale) @ mean)
        np.testing.assert_allclose(np.append(model.coef_, model.intercept_), f, rtol=1e-8)


def test_the_first_task_counts_from_zero_in_the_history():
    X, y = next(tasks(1))
    model = made("ridge").partial_fit(X, y)
    assert model.history_["mse_before"][0] == pytest.approx(np.mean(y**2), rel=1e-12)


@pytest.mark.parametrize("name", ["ridge", "auto", "diagonal", "joint"])
def test_sparse_rows_are_scaled_and_not_centred(name):
    rng = np.random.default_rng(0)
    found = [(X * (rng.random(X.shape) < 0.4), y) for X, y in tasks()]
    model = learned(made(name), ((sparse.csr_array(X), y) for X, y in found))
    assert not model._state.units.centred
    if name == "joint":
        X, y = (np.concatenate(part) for part in zip(*found, strict=True))
        A = standardised(X, 0.0, np.sqrt(np.mean(X**2, axis=0)))
        w = np.linalg.solve(A.T @ A + 0.3 * np.eye(D + 1), A.T @ y)
        np.testing.assert_allclose(model.predict(sparse.csr_array(X)), A @ w, rtol=1e-9)
    X = found[3][0]
    np.testing.assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X), rtol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_a_sparse_task_among_dense_ones_ends_the_centring(name):
    found = list(tasks())
    model = learned(made(name), found[:6])
    assert model._state.units.centred
    model.partial_fit(sparse.csr_array(found[6][0]), found[6][1])
    assert not model._state.units.centred
    other = learned(made(name), found[:6])
    units = other._state.units._replace(centred=False)
    units = units._replace(scale=np.sqrt(units.spread / units.total + units.mean**2))
    X, before = found[7][0], other.predict(found[7][0])
    other._state = other._state.in_units(units)
    np.testing.assert_allclose(other.predict(X), before, rtol=1e-9)


@pytest.mark.parametrize("name", ["ridge", "auto", "rank", "diagonal", "average", "joint"])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_are_learned_like_the_whole_task(name, weighted):
    rng = np.random.default_rng(0)
    whole, listed, called, once = (made(name) for _ in range(4))
    for X, y in tasks(4):
        weight = rng.random(len(X)) if weighted else None
        parts = [slice(0, 4), slice(4, 7), slice(7, None)]
        cut = [(X[part], y[part], *(() if weight is None else (weight[part],))) for part in parts]
        whole.partial_fit(X, y, weight)
        listed.partial_fit_blocks(cut)
        called.partial_fit_blocks(lambda cut=cut: iter(cut))
        once.partial_fit_blocks(iter(cut))
    X = next(tasks(1, seed=4))[0]
    for other in (listed, called):
        np.testing.assert_allclose(other.predict(X), whole.predict(X), rtol=1e-7)
    assert once._state.units.total == pytest.approx(whole._state.units.total)
    if name not in ("auto", "diagonal"):  # which keep random sums of rows, and of these XᵀX is left
        np.testing.assert_allclose(once.predict(X), whole.predict(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["ridge", "rank", "joint"])
@pytest.mark.parametrize("intercept", [True, False])
def test_columns_that_the_first_of_blocks_read_once_does_not_show_are_learned(name, intercept):
    """A column that is constant there, or zero, or far from zero: XᵀX keeps what the other blocks say of it."""
    whole, once = (made(name, fit_intercept=intercept) for _ in range(2))
    for X, y in tasks(4):
        X = X.copy()
        X[:4, 0], X[:4, 1], X[:, 2], X[:, 3] = 0.0, 7.0, X[:, 2] + 1e6, 0.1  # the last one never varies
        whole.partial_fit(X, y)
        once.partial_fit_blocks((X[part], y[part]) for part in (slice(0, 4), slice(4, 6), slice(6, None)))
        np.testing.assert_allclose(once.predict(X), whole.predict(X), rtol=1e-6)
        np.testing.assert_allclose(once._state.units.scale, whole._state.units.scale, rtol=1e-9)
        np.testing.assert_allclose(once._state.units.mean, whole._state.units.mean, rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_a_column_that_varies_later_counts_from_then_on(name, factor):
    found = [(X.copy(), y) for X, y in tasks()]
    for X, _ in found[:4]:
        X[:, 2] = 0.1
    model = made(name)
    learned(model, ((X * [1, 1, factor, 1, 1], y) for X, y in found[:4]))
    assert model.coef_[2] == 0.0
    learned(model, ((X * [1, 1, factor, 1, 1], y) for X, y in found[4:]))
    plain = learned(made(name), found)
    assert model.coef_[2] != 0.0
    np.testing.assert_allclose(model.predict(X * [1, 1, factor, 1, 1]), plain.predict(X), rtol=1e-6)


def test_single_precision_keeps_what_lies_below_a_large_mean():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 2)) + np.array([1e4, 0])).astype(np.float32)
    y = (X[:, 0] - np.float32(1e4)).astype(np.float32)
    model = fl.ContinualRidge(alpha=1e-3, standardize=True, fit_intercept=True).partial_fit(X, y)
    assert model.coef_.dtype == np.float32
    assert np.mean((model.predict(X) - y) ** 2) < 1e-6


def test_what_standardize_cannot_do_is_refused():
    X, y = next(tasks(1))
    with pytest.raises(TypeError, match="standardize must be True or False, got 'yes'"):
        fl.ContinualRidge(alpha=1.0, standardize="yes").partial_fit(X, y)
    model = fl.ContinualRidge(alpha=1.0).partial_fit(X, y)
    model.standardize = True
    with pytest.raises(ValueError, match="standardize was False for the first task"):
        model.partial_fit(X, y)
    with pytest.raises(OverflowError, match="too large to be squared"):
        made("ridge").partial_fit(1e200 * X, y)

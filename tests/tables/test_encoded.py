"""Encoded tables that are not written down give the products and tasks of those that are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forgetless as fl
from forgetless.estimators import counted as encoded
from forgetless.estimators import regressor


def table(n, seed, gaps=0.1):
    rng = np.random.default_rng(seed)
    words = np.array([f"town {i}" for i in range(12)] + ["rare"])
    found = pd.DataFrame(
        {
            "size": 1e6 + rng.standard_normal(n),
            "sold": rng.random(n) < 0.5,
            "town": rng.choice(words, n, p=[*[0.083] * 12, 0.004]),
            "kind": rng.choice(["red", "blue"], n),
            "day": (np.datetime64("2024-01-01") + rng.integers(0, 400, n)).astype(str),
            "when": np.datetime64("2024-01-01T00:00") + rng.integers(0, 10**6, n).astype("timedelta64[m]"),
            "same": "one",
            "constant": 0.1,
            "count": rng.integers(0, 5, n),
        }
    )
    for name in ("size", "town", "day", "when"):
        found.loc[rng.random(n) < gaps, name] = None
    return found


def target(X, rng):
    y = 3.0 * X["sold"] - (X["town"] == "town 3") + X["count"] + 0.1 * rng.standard_normal(len(X))
    return y.to_numpy(dtype=float)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 60), gaps=st.sampled_from([0.0, 0.3]), most=st.sampled_from([5, 1024])
)
def test_products_are_those_of_the_rows_written_down(seed, n, gaps, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "MOST", most)
        found = fl.tables.TableEncoder(min_count=2).partial_fit(table(60, seed, gaps)).encoded(table(n, seed + 1, gaps))
        rows = found.summed()
    X = found.whole()
    assert np.array_equal(X, np.concatenate([found.block(low, low + 7) for low in range(0, n, 7)]))
    A = np.column_stack([X - rows.center, np.ones(n)])
    rng = np.random.default_rng(seed)
    V, U = rng.standard_normal((X.shape[1], 2)), rng.standard_normal((n, 3))
    np.testing.assert_allclose(rows.gram(), A.T @ A, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(rows.forward(V), A[:, :-1] @ V, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(rows.adjoint(U), A.T @ U, rtol=1e-9, atol=1e-8)


def test_sparse_rows_are_the_dense_ones(monkeypatch):
    encoder, X = fl.tables.TableEncoder(min_count=2).partial_fit(table(60, 0)), table(40, 1)
    dense = encoder.transform(X)
    monkeypatch.setattr("forgetless.tables.encoder.WIDEST", 3)
    np.testing.assert_array_equal(encoder.transform(X).toarray(), dense)


MEMORY = fl.LowRankMemory(80, dtype="float64")
MODELS = {
    "ridge": lambda: fl.ContinualRidge(alpha=0.3, fit_intercept=True, standardize=True),
    "rank": lambda: fl.ContinualRidge(0.3, memory=MEMORY, fit_intercept=True, standardize=True),
    "average": lambda: fl.ContinualRidge(alpha=0.3, average=1, fit_intercept=True, standardize=True),
    "joint": lambda: fl.JointRidge(alpha=0.3, fit_intercept=True, standardize=True),
}


@pytest.mark.parametrize(("name", "count"), [("ridge", 1), ("ridge", 2), ("rank", 1), ("average", 2), ("joint", 1)])
def test_tall_tasks_are_learned_as_those_written_down(name, count, monkeypatch):
    """Row by row the ordinary way, and from counts and sums: the same functions, units and errors before learning."""
    models = [fl.tables.make_pipeline(fl.tables.TableEncoder(), MODELS[name]()) for _ in range(2)]
    encoded_task, tasks = regressor.encoded_task, []
    monkeypatch.setattr(regressor, "encoded_task", lambda *args: tasks.append(encoded_task(*args)) or tasks[-1])
    rng = np.random.default_rng(3)
    for t in range(2):
        X = table(10_000, t)
        y = target(X, rng)
        y = y if count == 1 else np.column_stack([y, 1.0 - 2.0 * y])
        for model, limit in zip(models, (10**9, 50), strict=True):
            monkeypatch.setattr(regressor, "TALL", limit)
            model.partial_fit(X, y)
    assert len(tasks) == 2
    assert None not in tasks
    plain, summed = (model[-1] for model in models)
    X = table(50, 9)
    np.testing.assert_allclose(models[1].predict(X), models[0].predict(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(summed._state.units.scale, plain._state.units.scale, rtol=1e-9)
    np.testing.assert_allclose(summed.history_["mse_before"], plain.history_["mse_before"], rtol=1e-6)
    np.testing.assert_allclose(summed.history_["mse_after"], plain.history_["mse_after"], rtol=1e-5, atol=1e-9)


def test_targets_that_are_not_finite_are_refused_as_ever():
    model, X = fl.tables.make_pipeline(fl.tables.TableEncoder(), MODELS["ridge"]()), table(12_000, 0)
    y = target(X, np.random.default_rng(0)).copy()
    y[7] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X, y)
    assert not hasattr(model[0], "columns_")

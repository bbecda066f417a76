"""Encoded tables: dense rows and sparse rows are the same, and a task is learned whole or not at all."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forgetless as fl


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
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), gaps=st.sampled_from([0.0, 0.3]))
def test_sparse_rows_are_the_dense_ones(seed, n, gaps):
    encoder, X = fl.tables.TableEncoder(min_count=2).partial_fit(table(60, seed, gaps)), table(n, seed + 1, gaps)
    dense = encoder.transform(X)
    assert dense.flags.c_contiguous
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forgetless.tables.encoder.WIDEST", 3)
        np.testing.assert_array_equal(encoder.transform(X).toarray(), dense)


def test_categories_are_one_in_their_column():
    X = {"town": ["Ulm", "Bonn", None, "Ulm"], "size": [1.0, 2.0, 3.0, 4.0]}
    encoder = fl.tables.TableEncoder(min_count=1).partial_fit(X)
    names = encoder.get_feature_names_out().tolist()
    rows = encoder.transform(X)
    np.testing.assert_array_equal(rows[:, names.index("town=Ulm")], [1, 0, 0, 1])
    np.testing.assert_array_equal(rows[:, names.index("town is missing")], [0, 0, 1, 0])
    np.testing.assert_array_equal(rows[:, names.index("size")], X["size"])


def test_targets_that_are_not_finite_are_refused_and_nothing_is_learned():
    model, X = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge()), table(1200, 0)
    y = target(X, np.random.default_rng(0)).copy()
    y[7] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X, y)
    assert not hasattr(model[0], "columns_")
    model.partial_fit(X[:600], np.nan_to_num(y[:600]))
    columns, width = model[0].columns_, model[-1].n_features_in_
    more = X[600:].assign(kind="green")
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(more, np.full(600, np.nan))
    assert model[0].columns_ is columns
    assert model[-1].n_features_in_ == width
    assert model.partial_fit(more, np.nan_to_num(y[600:]))[-1].n_features_in_ > width

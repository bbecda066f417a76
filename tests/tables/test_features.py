"""Features without their zeros: the same statistics and predictions as those of the matrix."""

import numpy as np
import pandas as pd
import pytest

from forgetless.estimators.inputs import Linear
from forgetless.estimators.rows import Rows
from forgetless.tables import TableEncoder, TableModel
from forgetless.tables.values import columns_of


def table(n, seed=0, towns=4):
    rng = np.random.default_rng(seed)
    found = {
        "size": rng.standard_normal(n),
        "town": rng.choice([f"town {i}" for i in range(towns)], n).astype(object),
        "day": (np.datetime64("2024-03-01") + rng.integers(0, 400, n)).astype(str),
        "kind": rng.choice(["a", "b"], n),
    }
    for name, share in (("size", 0.1), ("town", 0.2)):
        found[name][rng.random(n) < share] = None
    return pd.DataFrame(found)


def encoded(n=60, drop=()):
    encoder = TableEncoder(drop=drop).partial_fit(table(n))
    later = columns_of(table(n, seed=1, towns=6).assign(late=range(n)))
    return encoder.partial_fit(later).features(columns_of(table(n, seed=2, towns=7)))


KINDS = [(), ("late",), ("town", "kind", "day")]


@pytest.mark.parametrize("drop", KINDS, ids=["all", "early", "numbers"])
def test_statistics_are_those_of_the_matrix(drop):
    features = encoded(drop=drop)
    y = np.random.default_rng(3).standard_normal(60) + 5.0
    found, expected = features.rows(y), Rows.of(features.toarray(), y[:, None])
    for name in ("n", "mean", "target", "cross", "squares", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(found.gram.matrix, expected.gram.matrix, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("drop", KINDS, ids=["all", "early", "numbers"])
def test_predictions_are_those_of_the_matrix_also_where_features_are_held(drop):
    features = encoded(drop=drop)
    rng = np.random.default_rng(4)
    d = features.shape[1]
    low = np.minimum(rng.standard_normal(d), 0.5)
    model = Linear(rng.standard_normal((d, 1)), rng.standard_normal(1), low, low + rng.random(d))
    np.testing.assert_allclose(features.predict(model), model.predict(features.toarray())[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("objective", ["next", "all"])
def test_large_tasks_are_learned_as_small_ones_are(monkeypatch, objective):
    """Also where the third task has a town, and numbers outside of the range, that no task had before."""
    tasks = [table(300, seed, towns) for seed, towns in enumerate((3, 3, 4, 4))]
    tasks[2]["size"] *= 100.0

    def fitted(least):
        monkeypatch.setattr("forgetless.tables.features.MANY", least)
        model = TableModel(objective)
        for X in tasks:
            model.partial_fit(X, X["size"].fillna(0.0) + (X["kind"] == "a") + 0.1 * X.index)
        return model

    one, other = fitted(10), fitted(10**9)
    np.testing.assert_allclose(one.predict(tasks[3]), other.predict(tasks[3]), rtol=1e-8)
    for record, same in zip(one.history_[1:], other.history_[1:], strict=True):
        assert record["error"] == pytest.approx(same["error"], rel=1e-8)
        assert record["interval"] == pytest.approx(same["interval"], rel=1e-8)

"""Columns without any value in the first tasks: learned as if their missing values had been seen from the start."""

import json

import numpy as np
import pytest

import forgetless as fl
from forgetless.tables.encoder import TableEncoder

KINDS = {
    "number": lambda rng, n: 50.0 + rng.standard_normal(n),
    "category": lambda rng, n: rng.choice(["Ulm", "Bonn", "Jena"], n).tolist(),
    "date": lambda rng, n: [f"2024-{month:02d}-01" for month in rng.integers(1, 13, n)],
    "text": lambda rng, n: rng.choice(["red wine", "white wine", "beer"], n).tolist(),
}


def tasks(kind, n_tasks=8, empty=4, n=30):
    rng = np.random.default_rng(0)
    for t in range(n_tasks):
        values = [None] * n if t < empty else list(KINDS[kind](rng, n))
        if t >= empty:
            values[3] = None
        a = rng.standard_normal(n)
        yield {"a": a, "late": values}, a + 0.1 * rng.standard_normal(n)


def encoder_of(kind):
    return TableEncoder(text=["late"] if kind == "text" else (), text_features=16)


@pytest.mark.parametrize("kind", list(KINDS))
def test_rows_before_are_zero_in_the_features_of_a_late_column(kind):
    encoder = encoder_of(kind)
    for X, _ in tasks(kind):
        encoder.partial_fit(X)
    encoder = TableEncoder.from_plain(json.loads(json.dumps(encoder.to_plain())))
    names = encoder.get_feature_names_out().tolist()
    late = [i for i, name in enumerate(names) if name.startswith("late") and name != "late is missing"]
    indicator = names.index("late is missing")
    for t, (X, _) in enumerate(tasks(kind)):
        rows = encoder.transform(X)
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        mask = np.array([value is None for value in X["late"]])
        assert np.all(rows[mask][:, late] == 0)
        assert np.any(rows[~mask][:, late] != 0) or t < 4
        step = rows[mask][:, indicator].mean() - rows[~mask][:, indicator].mean() if t >= 4 else 1.0
        assert step == 1.0, "the indicator is larger by 1 where the value is missing"
    assert encoder.columns_["late"].missing == 4 * 30 + 4


@pytest.mark.parametrize("kind", ["number", "category", "date"])
def test_learning_task_by_task_is_learning_the_whole_table(kind):
    model = fl.tables.make_pipeline(encoder_of(kind), fl.StreamingRidge(alpha=1e-3))
    for X, y in tasks(kind):
        model.partial_fit(X, y)
    parts = list(tasks(kind))
    X = np.concatenate([model[0].transform(X) for X, _ in parts])
    whole = fl.StreamingRidge(alpha=1e-3).fit(X, np.concatenate([y for _, y in parts]))
    np.testing.assert_allclose(model[-1].predict(X), whole.predict(X), atol=1e-8)


def test_the_coefficient_of_a_late_column_is_that_of_the_rows_that_have_it():
    rng = np.random.default_rng(1)
    model = fl.tables.make_pipeline(TableEncoder(), fl.StreamingRidge(alpha=1.0))
    for t in range(8):
        a, b = rng.standard_normal(100), 7.0 + rng.standard_normal(100)
        X = {"a": a, "b": np.full(100, np.nan) if t < 4 else b}
        model.partial_fit(X, a + 3 * b + 0.1 * rng.standard_normal(100))
    names = model[0].get_feature_names_out().tolist()
    assert names == ["a", "b", "b is missing"]
    assert model[-1].coef_[1] == pytest.approx(3.0, abs=0.05)
    assert model[0].summary().columns["note"][1].startswith("400 missing, filled with the mean ")

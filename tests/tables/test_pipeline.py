"""Pipelines that learn task by task: features that come later, refusals, files; against features declared at first."""

import copy
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import forgetless as fl
from forgetless.io import read, write
from support.tables import LIBRARIES

MODELS = {
    "default": fl.StreamingRidge,
    "adaptive": lambda: fl.StreamingRidge(adaptive=True),
    "joint": lambda: fl.StreamingRidge(0.3, standardize=False),
    "rank": lambda: fl.StreamingRidge(0.3, rank=5),
    "ridge": lambda: fl.ContinualRidge(0.3, fit_intercept=True, average=2),
    "descent": lambda: fl.ContinualGD(n_steps=9),
}


def months(count=12, n=40, seed=0):
    """Sales of shops, of which new ones open: words, dates, gaps, units."""
    rng = np.random.default_rng(seed)
    for t in range(count):
        shop = rng.choice(["Ulm", "Bonn", "Köln", "Jena", "Trier"][: 2 + t // 3], n)
        price = 1000 * rng.random(n)
        day = pd.Timestamp("2023-01-01") + pd.to_timedelta(30 * t + rng.integers(0, 30, n), "D")
        y = 0.01 * price + 3.0 * (shop == "Ulm") + 0.5 * (day.day_of_week == 6) + 0.1 * rng.standard_normal(n)
        price = np.where((rng.random(n) < 0.1) & (t > 1), np.nan, price)
        yield pd.DataFrame({"shop": shop, "price": price, "day": day}), y


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_features_that_come_later_are_as_if_they_had_been_zero(name, kind):
    rng = np.random.default_rng(0)
    one, other = MODELS[name](), MODELS[name]()
    for t in range(8):
        X = rng.standard_normal((9, 6)) * (rng.random((9, 6)) < 0.7)
        X[:, 4:] *= t >= 4
        y = X @ np.arange(6.0) + 7
        if t == 4:
            one.widen(2)
        one.partial_fit(kind(X if t >= 4 else X[:, :4]), y)
        other.partial_fit(kind(X), y)
    tol = 0.05 if name == "rank" else 1e-8  # whose truncations differ
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=tol, atol=tol)
    np.testing.assert_allclose(one.predict(kind(X)), other.predict(kind(X)), rtol=tol, atol=tol)


@pytest.mark.parametrize("name", MODELS)
def test_twelve_tasks_are_six_a_file_and_six_bit_for_bit(name, tmp_path):
    tasks = list(months())
    whole, first = (fl.tables.make_pipeline(fl.tables.TableEncoder(), MODELS[name]()) for _ in range(2))
    for X, y in tasks:
        whole.partial_fit(X, y)
    for X, y in tasks[:6]:
        first.partial_fit(X, y)
    first.save(tmp_path / "m.npz")
    back = fl.load(tmp_path / "m.npz")
    assert np.array_equal(back.predict(X), first.predict(X))
    for X, y in tasks[6:]:
        back.partial_fit(X, y)
    assert np.array_equal(back.predict(X), whole.predict(X))
    assert back[-1].coef_.tolist() == whole[-1].coef_.tolist()
    assert back[0].get_feature_names_out().tolist() == whole[0].get_feature_names_out().tolist()
    assert "shop=Trier" in back[0].get_feature_names_out()


def test_a_refused_task_changes_nothing():
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(min_count=1), fl.StreamingRidge())
    (X, y), (more, _) = list(months(2))
    model.partial_fit(X, y)
    before, state = model[0].to_plain(), model[-1]._state
    more = more.assign(shop="Rom")
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(more, np.full(len(more), np.nan))
    assert model[0].to_plain() == before
    assert model[-1]._state is state
    model.partial_fit(more, y)


def test_other_steps_learn_too_or_must_be_ready():
    X, y = next(months())
    model = fl.tables.make_pipeline(
        fl.tables.TableEncoder(), StandardScaler(), fl.ContinualRidge(alpha=1.0)
    ).partial_fit(X, y)
    assert model[1].n_samples_seen_ == len(X)
    words = ColumnTransformer([("shop", OneHotEncoder(), ["shop"]), ("price", "passthrough", ["price"])])
    X = X.fillna({"price": 0.0})
    with pytest.raises(TypeError, match="step 'columntransformer', ColumnTransformer, has no partial_fit"):
        fl.tables.make_pipeline(words, fl.ContinualRidge(alpha=1.0)).partial_fit(X, y)
    model = fl.tables.make_pipeline(words.fit(X), "passthrough", fl.ContinualRidge(alpha=1.0)).partial_fit(X, y)
    assert model.predict(X).shape == y.shape


def test_scikit_learns_own_pipeline_learns_a_whole_table():
    tasks = list(months())
    X, y = pd.concat([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    model = make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge())
    model.fit(X, y, streamingridge__groups=np.repeat(np.arange(12), 40))
    assert model[-1].n_tasks_seen_ == 12
    assert model.score(X, y) > 0.9
    assert copy.deepcopy(model).predict(X[:3]).tolist() == model.predict(X[:3]).tolist()


def test_classes_are_learned_from_tables():
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidgeClassifier())
    for X, y in months():
        model.partial_fit(X, np.where(y > 5, "high", "low"), classes=["high", "low"])
    assert model.score(X, np.where(y > 5, "high", "low")) > 0.8


def test_files_with_an_encoder_are_read_with_it_only(tmp_path):
    path = tmp_path / "m.npz"
    X, y = next(months())
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge(alpha=1.0)).partial_fit(X, y)
    model.save(path)
    assert isinstance(fl.load(path), fl.tables.TaskPipeline)
    assert np.array_equal(fl.load(path).predict(X), model.predict(X))
    model[-1].save(path)
    assert isinstance(fl.load(path), fl.ContinualRidge)
    with pytest.raises(TypeError, match="a file holds a TableEncoder and a streaming model"):
        fl.tables.make_pipeline(StandardScaler(), fl.ContinualRidge(alpha=1.0)).partial_fit(
            [[1.0], [2.0]], [1.0, 2.0]
        ).save(path)


SPLIT = {"holdout": 0.2, "seed": 1, "refit": True}
FACTS = {"task": "t", "targets": ["y"], "tasks": ["u"], "rows": 3, "mean": 1.5, "last": 2, "split": SPLIT}
TWO = {"targets": ["y", "z"], "mean": [1.5, 0.0], "last": [2, 3]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": [1.5]}, "not numbers"),
        ({"mean": math.nan}, "not numbers"),
        ({"last": math.inf}, "not numbers"),
        ({"mean": "1.5"}, "not numbers"),
        ({"targets": ["y", "z"]}, "not numbers"),
        ({**TWO, "mean": [1.0, math.nan]}, "not numbers"),
        ({"rows": 3.0}, "not strings"),
        ({"task": 1}, "not strings"),
        ({"tasks": [1]}, "not strings"),
        ({"more": 1}, "incomplete"),
        ({"split": {"holdout": "much"}}, "held-out rows"),
        ({"split": {"holdout": 1.0}}, "held-out rows"),
        ({"split": {"seed": -1}}, "held-out rows"),
        ({"split": {"refit": 1}}, "held-out rows"),
        ({"split": {**SPLIT, "more": 1}}, "held-out rows"),
        ({"split": [0.2, 1, True]}, "held-out rows"),
    ],
)
def test_forged_facts_about_tables_and_encoders_are_refused(change, message, tmp_path):
    path = tmp_path / "m.npz"
    X, y = next(months())
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge(alpha=1.0)).partial_fit(X, y)
    for model.table_ in (None, FACTS, {**FACTS, **TWO}):
        model.save(path)
        assert fl.load(path).table_ == model.table_
    model.table_ = {**FACTS, **change}
    model.save(path)
    with pytest.raises(fl.errors.FileError, match=message):
        fl.load(path)
    document = read(path)
    encoder = document.header["encoder"]
    for forged in ("code", {**encoder, "order": encoder["order"][:-1]}):
        write(path, document.kind, {**document.header, "table": None, "encoder": forged}, document.arrays)
        with pytest.raises(fl.errors.FileError, match="is damaged or not a forgetless file"):
            fl.load(path)


def test_collections_are_made_of_tables():
    X, y = next(months())
    table = X.assign(sales=y, month=np.repeat([2, 1], 20)).drop(columns="day")
    with pytest.raises(ValueError, match=r"column 'shop' must hold finite numbers, got strings; use encoder="):
        fl.TaskCollection.from_table(table, "month", "sales")
    tasks = fl.TaskCollection.from_table(table, "month", "sales", encoder=fl.tables.TableEncoder())
    assert (tasks.n_tasks, tasks.n_features) == (2, 3)
    np.testing.assert_allclose(tasks[0].y, y[20:])
    plain = fl.TaskCollection.from_table(table[["month", "price", "sales"]].to_dict("list"), "month", ["sales"])
    assert (plain.target_shape, plain.n_features) == ((1,), 1)
    with pytest.raises(ValueError, match="frame has no column 'year' for the task"):
        fl.TaskCollection.from_table(table, "year", "sales")


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_every_library_give_the_same_model(library):
    """Task by task, with predictions, and as a collection."""
    made, models = [LIBRARIES["dict"], LIBRARIES[library]], []
    for make in made:
        model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge(alpha=0.1))
        for X, y in itertools.islice(months(), 3):
            table = {name: X[name].tolist() for name in X.columns}
            model.partial_fit(make(table), y)
        models.append(model)
    np.testing.assert_allclose(models[1].predict(made[1](table)), models[0].predict(table), rtol=1e-12)
    whole = {**table, "month": ["a"] * 20 + ["b"] * (len(y) - 20), "sales": y.tolist()}
    tasks = [
        fl.TaskCollection.from_table(make(whole), "month", "sales", encoder=fl.tables.TableEncoder()) for make in made
    ]
    for ours, theirs in zip(*tasks, strict=True):
        np.testing.assert_array_equal(ours.X, theirs.X)

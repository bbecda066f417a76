"""Models of tables: what they predict, the errors that they report, files, scikit-learn."""

import copy
import math
import operator
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

import forgetless as fl
from forgetless.errors import FileError
from forgetless.io import read, write
from forgetless.tables import TableModel, report
from support.tables import sales


def months(first, last, **options):
    table = sales(range(first, last + 1), **options)
    return [
        (part.drop(columns=["month", "sales"]), part["sales"].to_numpy(), month)
        for month, part in table.groupby("month")
    ]


def learned(tasks, model=None):
    model = TableModel() if model is None else model
    for X, y, label in tasks:
        model.partial_fit(X, y, label)
    return model


def classes(y):
    return np.where(y > 25, "high", "low")


@pytest.mark.parametrize("objective", ["next", "all"])
def test_errors_are_those_of_the_model_that_is_written(objective, tmp_path):
    """Every error in the history is made again by models of the tasks before, read from files."""
    tasks = months(1, 6)
    whole = learned(tasks, TableModel(objective))
    model = TableModel(objective)
    for t, (X, y, label) in enumerate(tasks):
        if t:
            residuals = y - model.predict(X)
            record = whole.history_[t]
            assert record["error"] == pytest.approx(np.mean(residuals**2))
            assert record["bias"] == pytest.approx(residuals.mean())
            assert record["within"] == pytest.approx(np.quantile(np.abs(residuals), 0.9))
            before = np.concatenate([other for _, other, _ in tasks[:t]])
            assert record["mean"] == pytest.approx(np.mean((y - before.mean()) ** 2))
        model.partial_fit(X, y, label).save(tmp_path / "m.safetensors")
        model = fl.load(tmp_path / "m.safetensors")
    assert whole.history_[0]["error"] is None
    np.testing.assert_allclose(model.predict(X), whole.predict(X))
    assert model.history_ == whole.history_


def test_it_is_the_streaming_estimator_on_its_features_and_the_baseline_is_ridge_on_all_rows_before():
    tasks = months(1, 4)
    model = learned(tasks[:3], TableModel("all"))
    Z = model.encoder_.transform(pd.concat([X for X, _, _ in tasks[:3]]))
    y = np.concatenate([y for _, y, _ in tasks[:3]])
    plain, ridge = (fl.StreamingRidge(**options).partial_fit(Z, y) for options in ({"rank": 2000}, {"guard": None}))
    np.testing.assert_allclose(model.predict(tasks[0][0]), plain.predict(Z[: len(tasks[0][0])]), rtol=0.02)
    X, y, _ = tasks[3]
    expected = np.mean((y - ridge.predict(model.encoder_.transform(X))) ** 2)
    assert learned(tasks).history_[3]["ridge"] == pytest.approx(expected, rel=0.02)


def panel(years, firms=12, seed=0):
    rng = np.random.default_rng(seed)
    level = 10 * np.random.default_rng(1).standard_normal(firms)
    for year in years:
        order = rng.permutation(firms)
        x = rng.standard_normal(firms)
        yield pd.DataFrame({"firm": 100 + order, "x": x}), level[order] + x + 0.1 * rng.standard_normal(firms), year


def test_identifiers_are_categories_from_the_first_task_on_also_of_a_file(tmp_path):
    tasks = list(panel(range(6)))
    found = learned(tasks)
    told = learned(tasks, TableModel(categorical=["firm"]))
    assert [r["error"] for r in found.history_] == [r["error"] for r in told.history_]
    assert any("--number firm" in note for note in found.notes_)
    numbers = learned(tasks, TableModel(number=["firm"]))
    assert found.history_[-1]["error"] < 0.1 * numbers.history_[-1]["error"]
    assert not numbers.notes_
    learned(tasks[:1]).save(tmp_path / "m")
    later = learned(tasks[1:], fl.load(tmp_path / "m"))
    assert later.encoder_.columns_["firm"].kind == "category"
    assert later.history_[-1]["error"] < 0.2 * numbers.history_[-1]["error"]
    one, X = learned(tasks[:1]), tasks[1][0]
    for rows, options in ((12, {"categorical": ["firm"]}), (6, {"categorical": ["firm"]}), (5, {"number": ["firm"]})):
        same = learned(tasks[:1], TableModel(**options)).predict(X[:rows])  # half of the rows before show it
        np.testing.assert_allclose(one.predict(X[:rows]), same)


def test_names_do_not_take_the_place_of_what_matters():
    """A feature for each row would explain it alone."""
    tasks = [(X.assign(name=[f"Person {t} {i}" for i in range(40)]), y, t) for X, y, t in months(1, 5)]
    found = learned(tasks)
    dropped = learned(tasks, TableModel(drop=["name"]))
    assert [r["error"] for r in found.history_[1:]] == pytest.approx([r["error"] for r in dropped.history_[1:]])
    kept = learned(tasks, TableModel(categorical=["name"]))
    assert kept.history_[-1]["error"] > 4 * found.history_[-1]["error"]
    assert learned([(X[["name"]], y, t) for X, y, t in tasks]).n_tasks_ == 5
    assert not any(alarm for alarm in found.alarms())


def test_a_new_column_and_new_labels_are_learned():
    tasks = []
    for t in range(8):
        x, z = np.random.default_rng(t).standard_normal((2, 50))
        kind = np.where((z > 1) & (t > 2), "b", "a")
        X = pd.DataFrame({"x": x, "kind": kind} | ({"z": z} if t > 2 else {}))
        tasks.append((X, x + 5 * (t > 2) * z + 3 * (kind == "b"), t))
    model = learned(tasks, TableModel("all"))
    assert np.sqrt(np.mean((model.predict(X) - tasks[-1][1]) ** 2)) < 0.3
    assert model.history_[-1]["error"] < 0.3 < model.history_[3]["error"]


def test_the_order_of_rows_and_columns_and_the_memory_of_a_table_do_not_matter():
    X, y, _ = months(1, 1, n=60)[0]
    order = np.random.default_rng(0).permutation(len(y))
    expected = learned([(X, y, 1)]).predict(X)
    for other in (X.iloc[order].assign(y=y[order]), X[X.columns[::-1]].assign(y=y), X.assign(y=y).convert_dtypes()):
        model = learned([(other.drop(columns="y"), other["y"], 1)])
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)


def test_learning_is_all_or_nothing():
    model = learned(months(1, 3))
    before = model.predict(months(4, 4)[0][0])
    X, y, _ = months(4, 4)[0]
    with pytest.raises(ValueError, match="column 'price' held numbers"):
        model.partial_fit(X.assign(price="high", new=1.0), y)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X.assign(new=1.0), np.where(y > 25, np.nan, y))
    assert model.n_tasks_ == len(model.history_) == 3
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (X, y[:-1]), "one target a row"),
        (lambda X, y: (X, np.stack([y, y], axis=1)), "y must be of shape"),
        (lambda X, y: (X, classes(y)), "y held numbers so far and now holds classes"),
        (lambda X, y: (X[:0], y[:0]), "X has 0 rows"),
    ],
)
def test_mistakes(change, said):
    model = learned(months(1, 2))
    X, y, _ = months(3, 3)[0]
    with pytest.raises(ValueError, match=said):
        model.partial_fit(*change(X, y))
    with pytest.raises(ValueError, match="no column of the model: it needs "):
        model.predict({"other": [1.0]})


def test_before_learning():
    with pytest.raises(NotFittedError, match="call partial_fit first"):
        TableModel().predict({"x": [1]})
    with pytest.raises(ValueError, match="objective must be 'next' or 'all'"):
        TableModel("past").partial_fit({"x": [1.0]}, [1.0])
    with pytest.raises(ValueError, match="no column has a value"):
        TableModel().partial_fit({"x": [None, None]}, [1.0, 2.0])


def test_intervals_hold_what_they_promise():
    tasks = months(1, 12, n=200)
    covered = [record["covered"] for record in learned(tasks).history_[3:]]
    assert 0.85 < np.mean(covered) < 0.98
    X, y, _ = tasks[-1]
    mean, std = learned(tasks[:-1]).predict(X, return_std=True)
    assert np.mean(np.abs(y - mean) < 1.645 * std) == pytest.approx(covered[-1])
    (X, y, _), model = months(1, 1, n=1001)[0], learned(tasks)
    half = 1.645 * model.predict(X, return_std=True)[1][::2]  # of above a thousand rows every second one
    assert model.judged(X, y, "1")["interval"] == pytest.approx(np.median(half), rel=1e-9)


def test_a_history_has_a_thousand_tasks_and_twenty_changes():
    model, (X, y, _) = learned(months(1, 2)), months(3, 3)[0]
    model.history_ = model.history_ * 501
    model.partial_fit(X.assign(**{f"column {i}": 1.0 for i in range(25)}), y)
    assert (len(model.history_), len(model.history_[-1]["changes"])) == (1000, 20)
    assert model.history_[-1]["task"] == "3"  # its number, where it has no name


def test_classes_and_their_probabilities():
    tasks = [(X, classes(y), label) for X, y, label in months(1, 8)]
    model = learned(tasks[:-1])
    X, y, _ = tasks[-1]
    probabilities = model.predict_proba(X)
    assert model.classes_.tolist() == ["high", "low"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (model.predict(X) == model.classes_[probabilities.argmax(axis=1)]).all()
    record = model.judged(X, y, "8")
    assert record["error"] == np.mean(model.predict(X) != y)
    true = probabilities[np.arange(len(y)), (y == "low").astype(int)]
    assert record["loss"] == pytest.approx(-np.log(true).mean())
    before = np.concatenate([other for _, other, _ in tasks[:-1]])
    most = "high" if np.mean(before == "high") > 0.5 else "low"
    assert record["mean"] == np.mean(y != most)
    assert record["error"] < 0.6 * record["mean"]
    shares = np.where(y == "high", np.mean(before == "high"), np.mean(before == "low"))
    assert record["base_loss"] == pytest.approx(-np.log(shares).mean())
    assert record["spread"] == pytest.approx(np.std(model.predict(X) != y) / np.sqrt(len(y)))
    assert record["predicted"] == len(set(model.predict(X)))
    counted = sum(n for (true, other), n in model.confusion_.items() if true != other)
    wrong = sum(r["error"] * r["rows"] for r in model.history_[1:])
    assert counted == pytest.approx(wrong)
    assert np.sum(model.calibration_[0]) == sum(r["rows"] for r in model.history_[1:])
    largest = learned(tasks[:1]).predict_proba(tasks[1][0]).max(axis=1)
    counts = np.histogram(largest, np.arange(11) / 10)[0]
    np.testing.assert_array_equal(learned(tasks[:2]).calibration_[0], counts)
    rows, said, right = model.calibration_.sum(axis=1)
    assert right == pytest.approx(rows - wrong)
    assert said == pytest.approx(right, rel=0.1)
    rows, said, right = model.calibration_[:, model.calibration_[0] > 0]
    shown = report.class_tables(model)["calibration"].columns
    assert shown["rows"] == rows.tolist()
    assert [each.value for each in shown["said"]] == pytest.approx(100 * said / rows, abs=0.051)
    assert [each.value for each in shown["was right"]] == pytest.approx(100 * right / rows, abs=0.051)
    with pytest.raises(ValueError, match="classes have predict_proba"):
        model.predict(X, return_std=True)
    assert TableModel().partial_fit(X, y == "high").classes_.tolist() == ["False", "True"]
    assert not TableModel().partial_fit(X, (y == "high").astype(int)).is_classifier


def test_a_new_class_comes_later():
    tasks = [(X, classes(y), label) for X, y, label in months(1, 3)]
    X, y, _ = months(4, 4)[0]
    model = learned([*tasks, (X, np.where(X["shop"] == "Ulm", "new", classes(y)), 4)])
    assert model.classes_.tolist() == ["high", "low", "new"]
    assert math.isfinite(model.history_[-1]["loss"])
    assert {predicted for true, predicted in model.confusion_ if true == "new"} <= {"high", "low"}


@pytest.mark.parametrize(
    ("targets", "kind", "method"),
    [(np.array, LinearRegression, "predict"), (classes, LogisticRegression, "predict_proba")],
)
def test_scikit_learn_predicts_the_same(targets, kind, method):
    tasks = [(X, targets(y), label) for X, y, label in months(1, 4)]
    model, X = learned(tasks), tasks[0][0]
    linear = model.to_sklearn()
    assert isinstance(linear, kind)
    assert linear.feature_names_in_.tolist() == model.encoder_.get_feature_names_out().tolist()
    Z = pd.DataFrame(model.encoder_.transform(X), columns=linear.feature_names_in_)
    np.testing.assert_allclose(getattr(linear, method)(Z), getattr(model, method)(X))


def test_a_task_larger_than_the_memory_is_learned_in_parts(monkeypatch):
    tasks = months(1, 3, n=400)
    whole = learned(tasks, TableModel("all"))
    monkeypatch.setattr("forgetless.tables.stream.BLOCK", 8 * 14 * 150)
    parts = learned(tasks, TableModel("all"))
    X = tasks[0][0]
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-3)
    assert [r["rows"] for r in parts.history_] == [400] * 3
    for ours, theirs in zip(parts.history_[1:], whole.history_[1:], strict=True):
        assert ours["error"] == pytest.approx(theirs["error"], rel=1e-2)


FORGED = {
    ("objective",): "past",
    ("confusion",): [["a"]],
    ("calibration",): [],
    ("history",): [{"task": "1", "rows": 0, "changes": []}],
    ("history", 0, "error"): "much",
    ("history", 1, "error"): True,
    ("encoder", "order"): [],
    ("encoder", "order", 0, 1): 99,
    ("encoder", "columns"): [],
    ("encoder", "columns", 0, "kind"): "nothing",
    ("encoder", "columns", 0, "state"): {"name": "shop"},
    ("encoder", "columns", 0, "state", "rows"): 0,
}


def test_forged_files_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    learned(months(1, 2)).save(path)
    kind, header, arrays, _ = read(path)
    for (*above, last), value in FORGED.items():
        forged = copy.deepcopy(header)
        reduce(operator.getitem, above, forged["table"])[last] = value
        write(path, kind, forged, arrays)
        with pytest.raises(FileError, match=r"m\.safetensors is damaged"):
            fl.load(path)


def judged(model=None, **records):
    """What is said of a model whose last tasks had these errors, a list of all for each item."""
    model = learned(months(1, 3)) if model is None else model
    plain = {"error": 0.16, "mean": 0.64, "ridge": 0.16, "within": 1.0, "interval": 1.0, "covered": 0.9, "bias": 0.0}
    plain |= {"loss": 0.1, "base_loss": 0.2} if model.is_classifier else {"spread": 0.0}
    model.history_ = [
        {"task": str(t), "rows": 100, "changes": [], **plain, **dict(zip(records, each, strict=True))}
        for t, each in enumerate(zip(*records.values(), strict=True))
    ]
    return " ".join([report.bottom_line(model), *report.warnings(model)])


SEVERE, LATER = [["x", "is not in this table", True]], [["x", "is new", False]]
SAID = [
    ({"within": range(1, 14)}, "within ± 7.5 ", "alarm"),  # of twelve tasks
    ({"within": [1, 3, 1, 3], "changes": [SEVERE, [], SEVERE, LATER]}, "alarm (2): 9 of 10 rows within ± 3 ", ""),
    ({"within": [1, 3, 1, 3], "changes": [SEVERE, SEVERE, SEVERE, []]}, "within ± 2 ", "alarm"),
    ({"ridge": [0.64]}, "is 50% smaller than that of the mean and 50% smaller than that of ret", "hardly"),
    ({"within": [99.0], "ridge": [0.04]}, "± 99. The error (RMSE) is 50% smaller than that of the mean and 100% l", ""),
    ({"error": [0.62], "ridge": [0.6264]}, "1% smaller than that of retraining", "hardly"),
    ({"error": [0.63], "ridge": [0.6362]}, "as large as that of retraining ridge. The columns hardly tell", "wide"),
    ({"mean": [0.0]}, "as large as that of the mean", "smaller"),
    ({"interval": [2.0], "covered": [0.8]}, "Next", "90 %"),
    ({"interval": [9.0, 2.1], "within": [1.0, 1.0]}, "± 2.1 after larger errors: take them for too wide", "narrow"),
    ({"interval": [9.0, 2.1], "within": [1.0, 1.1]}, "Next", "wide"),
    ({"covered": [0.79]}, "90 % intervals held 79% of the rows", "wide"),
    ({"bias": [0.0, 0.3]}, "1 was predicted too low by 0.3", "wide"),
]


@pytest.mark.parametrize(("records", "said", "other"), SAID)
def test_what_is_said_of_errors(records, said, other):
    found = judged(**records)
    assert said in found
    assert not other or other not in found


def test_what_is_said_of_classes_and_how_much_is_shown():
    tasks = [(X, [f"class {i % 15}" for i in range(40)], label) for X, _, label in months(1, 3)]
    model = learned(tasks[:1])
    assert report.headline(model).startswith("1 task and 40 rows learned, ")
    model = learned(tasks[1:], model)
    assert len(next(iter(report.class_tables(model)["confusion"].columns.values()))) == 12
    for predicted, warns in (([2, 1], True), ([1, 2], False)):
        assert ("one class is predicted for every row of 1" in judged(model, predicted=predicted)) == warns
    history = [{"task": str(t), "changes": [[f"column {i % 35}", "is new", i == 34]]} for t, i in enumerate(range(36))]
    columns = report.changes_table(history).columns
    assert columns["column"] == ["column 34", *(f"column {i}" for i in range(29))]
    assert columns["tasks"] == [1, 2] + [1] * 28

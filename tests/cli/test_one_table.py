"""One table for every command: the same columns, loss and intercept as fit, and messages about its rows."""

import errno
import json
import os

import numpy as np
import pandas
import pytest

import forgetless as fl
from forgetless import cli
from forgetless.cli import app
from forgetless.estimators.evaluation import StreamResult, TargetMeans
from forgetless.tables import read_tasks
from forgetless.tables.pipeline import evaluate
from forgetless.tables.task_files import Part
from support.cli import run

ROLES = ("--task", "month", "--target", "sales")


def sales(months=range(1, 7), n=30, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for month in months:
        size = n + 5 * (month % 3)
        shop, price = rng.choice(["Ulm", "Bonn"], size), rng.random(size)
        y = 3.0 * price + 2.0 * (shop == "Ulm") + 1.0 + 0.1 * rng.standard_normal(size)
        date = [f"{day} Jan 2024" for day in rng.integers(1, 29, size)]
        price = np.where(rng.random(size) < 0.1, np.nan, price)
        order = 1000 * month + np.arange(size)
        columns = {"month": month, "order": order, "shop": shop, "price": price, "date": date, "sales": y}
        parts.append(pandas.DataFrame(columns))
    return pandas.concat(parts, ignore_index=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sales().to_csv("sales.csv", index=False)
    return tmp_path


# --- the same tasks for every command ---


def test_the_tasks_of_a_table_are_those_that_fit_learns(folder, capsys):
    """One cycle over them is what fit does with the same λ."""
    words = ("--schedule", "ridge:0.3", "--holdout", 0, "--out", "m.fl", "--drop", "order")
    assert run(capsys, "fit", "sales.csv", *ROLES, *words)[0] == 0
    model = fl.load("m.fl")[-1]
    encoder = fl.tables.TableEncoder(drop=["order"])
    tasks = read_tasks("sales.csv", task="month", target="sales", loss="sum", intercept=True, encoder=encoder)
    assert (tasks.n_tasks, tasks.n_features) == (6, model.n_features_in_ + 1)
    weights = fl.simulate(tasks, fl.Ridge(0.3), 6, ordering="cyclic", record="last", metrics="weights").weights[0, -1]
    # Means of missing prices change while fit learns, and the encoder of the tasks has seen all of them.
    np.testing.assert_allclose(weights[:-1], model.coef_, atol=0.02)


# --- the order of tasks, row numbers ---


@pytest.mark.parametrize(
    ("months", "unsorted"),
    [([1, 2, 3], False), ([3, 2, 1], True), ([1, 3, 2], True), (["c", "b", "a"], False), ([7], False),
     (["2024-02", "2024-01", "2023-12"], True), (["1/31/24", "12/1/24"], False), (["12/1/24", "1/31/24"], True)],
)  # fmt: skip
def test_the_order_of_the_file_is_reported_where_it_is_not_that_of_the_tasks(folder, capsys, months, unsorted):
    parts = [sales([i], seed=i).assign(month=month) for i, month in enumerate(months)]
    pandas.concat(parts).to_csv("order.csv", index=False)
    for more, hint in (((), "--order sorted learns them"), (("--chunk-rows", 10), "sort the file by it")):
        code, out, _ = run(capsys, "fit", "order.csv", *ROLES, "--out", "m.fl", "--drop", "order", *more)
        assert code == 0
        assert ("tasks are learned in the order of the file, which is not that of month" in out) == unsorted
        assert (hint in out) == unsorted
    assert "order of the file" not in run(capsys, "fit", "order.csv", *ROLES, "--out", "m.fl", "--order", "sorted")[1]


@pytest.mark.parametrize("first", [1, 10**19, 2 * 10**19])
@pytest.mark.parametrize("more", [(), ("--chunk-rows", 10)])
def test_row_numbers_of_any_length_are_doubted(folder, capsys, first, more):
    table = sales().drop(columns="order")
    table.assign(id=[first + i for i in range(len(table))]).to_csv("ids.csv", index=False)
    _, out, _ = run(capsys, "fit", "ids.csv", *ROLES, "--out", "m.fl", *more)
    assert "Warning: id counts up from row to row; if it numbers rows, use --drop id" in out
    mixed = np.random.default_rng(0).permutation(len(table)).tolist()
    table.assign(id=[first + i for i in mixed]).to_csv("ids.csv", index=False)
    assert "counts up" not in run(capsys, "fit", "ids.csv", *ROLES, "--out", "m.fl", *more)[1]


# --- held-out rows ---


def test_the_first_line_says_how_many_rows_were_learned(folder, capsys):
    fit = ("fit", "sales.csv", *ROLES, "--out", "m.fl", "--drop", "order")
    n = len(sales())
    held_out = n - sum(len(part) - round(0.2 * len(part)) for _, part in sales().groupby("month"))
    first = [run(capsys, *fit, *more)[1].splitlines()[0] for more in ((), ("--no-refit",), ("--holdout", 0))]
    assert first[0].startswith(
        f"6 tasks learned from sales.csv, {n} rows ({held_out} held out for errors, then learned), "
    )
    assert first[1].startswith(f"6 tasks learned from sales.csv, {n - held_out} of {n} rows, ")
    assert first[2].startswith(f"6 tasks learned from sales.csv, {n} rows, ")


# --- fair references ---


def test_what_a_linear_model_could_reach_is_below_every_linear_model():
    """Also where tasks have very different numbers of rows: both count tasks the same."""
    rng = np.random.default_rng(0)
    parts = []
    for size, slope in ((4, 5.0), (400, 1.0)):
        x = rng.standard_normal(size)
        parts.append(Part(str(size), {"x": x}, slope * x + 0.1 * rng.standard_normal(size)))
    for slope in np.linspace(1, 5, 9):
        model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.ContinualRidge(alpha=1e-9, fit_intercept=True))
        model.partial_fit({"x": np.arange(9.0)}, slope * np.arange(9.0))
        overall = evaluate(model, parts).overall
        assert overall["rmse_of_ridge_fitted_here"] <= overall["rmse"]


def test_the_joint_reference_counts_tasks_the_same_and_sees_the_table_as_it_is(folder, capsys):
    from sklearn.linear_model import Ridge

    table = sales()
    table.loc[table["month"] <= 3, "price"] = np.nan  # begins late
    table.to_csv("late.csv", index=False)
    words = ("--out", "m.fl", "--drop", "order", "--drop", "date", "--no-refit", "--json")
    found = json.loads(run(capsys, "fit", "late.csv", *ROLES, *words)[1])
    encoder = fl.load("m.fl")[0]
    train, test = [], []
    for t, (_, rows) in enumerate(table.groupby("month")):
        order = np.random.default_rng([0, 0, t]).permutation(len(rows))[: round(0.2 * len(rows))]
        held = rows.iloc[order]
        train.append(rows.drop(index=held.index))
        test.append(held)
    X = np.concatenate([encoder.transform(rows) for rows in train])
    weight = np.concatenate([np.full(len(rows), len(X) / len(train) / len(rows)) for rows in train])
    mean = np.average(X, axis=0, weights=weight)
    size = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    size[size == 0] = 1
    ridge = Ridge(1.0).fit((X - mean) / size, np.concatenate([rows["sales"] for rows in train]), sample_weight=weight)
    errors = [np.mean((ridge.predict((encoder.transform(r) - mean) / size) - r["sales"]) ** 2) for r in test]
    assert found["rmse_of_joint_ridge"] == pytest.approx(np.sqrt(np.mean(errors)), rel=1e-6)


def test_large_numbers_are_written_for_people(folder, capsys):
    sales().assign(sales=35_010 * sales()["sales"]).to_csv("large.csv", index=False)
    for words in (("fit", "large.csv", *ROLES, "--out", "m.fl", "--drop", "order"), ("evaluate", "m.fl", "large.csv")):
        _, out, _ = run(capsys, *words)
        assert "e+0" not in out


@pytest.mark.parametrize(("factor", "verdict"), [(0.99, None), (1.04, "no better than"), (1.06, "worse than")])
def test_the_verdict_at_the_end(factor, verdict):
    """Above the mean squared error of the mean is no better, above 1.05 of it worse."""
    from forgetless.tables.report import warnings_of

    nothing = np.full(2, np.nan)
    model = fl.ContinualRidge().partial_fit(np.eye(2), np.ones(2))
    run_ = StreamResult(
        model, ["1", "2"], np.array([9, 9]), np.full((2, 2), factor), np.zeros((2, 2)), nothing, nothing, nothing,
        np.ones(2), None, begin=TargetMeans(), end=TargetMeans(), earlier=np.zeros(0), single=0,
    )  # fmt: skip
    lines = [line for line in warnings_of(run_) if "at the end" in line]
    assert len(lines) == (verdict is not None)
    assert all(f"the model is {verdict} the mean on the tasks seen" in line for line in lines)


# --- predictions for spreadsheets ---


def test_text_that_a_spreadsheet_would_execute_is_written_behind_an_apostrophe(folder, capsys):
    assert run(capsys, "fit", "sales.csv", *ROLES, "--out", "m.fl", "--drop", "order")[0] == 0
    cells = ["=1+2", "+cmd|x", "-a", "@sum", "\tx", "\rx", "-5", "+3.5", "-1e3", "plain", "a=b"]
    new = sales().head(len(cells)).assign(**{"id": cells, "=name": range(len(cells))})
    new.to_parquet("new.parquet")
    code, _, _ = run(capsys, "predict", "m.fl", "new.parquet", "--id", "id", "--id", "=name", "--out", "p.csv")
    assert code == 0
    table = pandas.read_csv("p.csv", dtype=str)
    assert table.columns.tolist() == ["id", "'=name", "prediction"]
    safe = ["'=1+2", "'+cmd|x", "'-a", "'@sum", "'\tx", "'\rx", "-5", "+3.5", "-1e3", "plain", "a=b"]
    assert table["id"].tolist() == safe
    assert run(capsys, "predict", "m.fl", "new.parquet", "--id", "id", "--raw", "--out", "p.csv")[0] == 0
    assert pandas.read_csv("p.csv", dtype=str)["id"].tolist() == cells


def test_strings_among_the_numbers_to_predict_are_named(folder, capsys):
    assert run(capsys, "fit", "sales.csv", *ROLES, "--out", "m.fl", "--drop", "order")[0] == 0
    new = sales().astype({"price": object})
    new.loc[4, "price"] = "1O5"
    new.to_csv("new.csv", index=False)
    for words in (("predict", "m.fl", "new.csv"), ("evaluate", "m.fl", "new.csv", "--json")):
        code, _, err = run(capsys, *words)
        assert code == 0
        assert err == "Warning: '1O5' in column 'price', line 6, is not a number, and was taken for missing\n"
    new.assign(price="high").to_csv("new.csv", index=False)
    code, out, err = run(capsys, "predict", "m.fl", "new.csv")
    assert (code, out) == (1, "")
    assert "new.csv, line 2: column 'price' was numbers so far and now holds 'high'" in err


# --- messages ---


def test_links_in_a_circle_are_one_sentence(folder, capsys):
    os.symlink("a.csv", "b.csv")
    os.symlink("b.csv", "a.csv")
    for words in (
        ("fit", "a.csv", *ROLES, "--out", "m.fl"),
        ("fit", "sales.csv", *ROLES, "--out", "a.csv"),
        ("fit", "sales.csv", *ROLES, "--out", "m.fl", "--report", "b.csv"),
        ("fit", "sales.csv", "--from", "a.csv", "--out", "m.fl"),
        ("predict", "a.csv", "sales.csv"),
        ("evaluate", "a.csv", "sales.csv"),
        ("explore", "a.csv", *ROLES),
        ("show", "a.csv"),
    ):
        code, out, err = run(capsys, *words)
        assert (code in (1, 2), out) == (True, "")
        assert "link" in err.splitlines()[-1]


def test_a_full_disk_names_the_file(folder, capsys, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run(capsys, "fit", "sales.csv", *ROLES, "--out", "m.fl")
    assert code == 1
    assert "No space left on device" in err
    assert str(folder / "m.fl") in err
    assert not (folder / "m.fl").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "there is not enough memory"),
        (ValueError(), "ValueError"),
        (OSError(errno.ENOSPC, "No space left on device"), "standard output cannot be written"),
    ],
)
def test_no_error_is_empty(capsys, monkeypatch, error, message):
    def fail(**_):
        raise error

    monkeypatch.setattr(app.cli, "main", fail)
    assert cli.main(["show", "m.fl"]) == 1
    assert message in capsys.readouterr().err

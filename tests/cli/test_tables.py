"""An ordinary table on the command line: words, dates, gaps and units; going on, evaluating, other formats, chunks."""

import gzip
import io
import json
import sys

import numpy as np
import pandas
import pytest

import forgetless as fl
from forgetless.io import read
from forgetless.tables import readers as tables
from support.cli import run

FIT = ("--task", "month", "--target", "sales")


def sales(months, seed=0, n=40):
    rng = np.random.default_rng(seed)
    parts = []
    for t, month in enumerate(months):
        shop = rng.choice(["Ulm", "Bonn", "Köln", "Jena"][: 2 + t // 3], n)
        price, day = 1000 * rng.random(n), rng.integers(1, 29, n)
        weight = 1e-6 * rng.random(n)
        y = 0.01 * price + 3.0 * (shop == "Ulm") + 1e6 * weight + 20 + 0.1 * rng.standard_normal(n)
        price = np.where(rng.random(n) < 0.05, np.nan, price)
        date = [f"2023-{month:02d}-{d:02d}" for d in day]
        parts.append(
            pandas.DataFrame({"month": month, "shop": shop, "price": price, "date": date, "weight": weight, "sales": y})
        )
    return pandas.concat(parts, ignore_index=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = sales(range(1, 13))
    table[table["month"] <= 10].to_csv("sales.csv", index=False)
    table[table["month"] == 11].to_csv("november.csv", index=False)
    table[table["month"] == 12].to_csv("december.csv", index=False)
    table.to_csv("all.csv", index=False)
    return tmp_path


def test_the_practitioners_path(folder, capsys):
    code, out, err = run(capsys, "fit", "sales.csv", *FIT, "--out", "model.npz", "--report", "report.html")
    assert (code, err) == (0, "")
    assert "10 tasks learned from sales.csv, 400 rows" in out
    for told in ("shop    category", "date    date", "missing, filled with the mean", "read as ISO 8601"):
        assert told in out
    code, out, err = run(capsys, "fit", "november.csv", "--from", "model.npz", "--out", "model.npz")
    assert (code, err) == (0, "")
    assert fl.load("model.npz")[-1].n_tasks_seen_ == 11
    code, out, _ = run(capsys, "evaluate", "model.npz", "december.csv", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["tasks"]["task"] == ["12"]
    assert found["rmse_of_ridge_fitted_here"] <= found["rmse"] < 0.2 * found["rmse_of_the_mean"]
    december = pandas.read_csv("december.csv")["sales"]
    learned = fl.load("model.npz").table_["mean"]
    assert found["rmse_of_the_mean_learned"] == pytest.approx(np.sqrt(np.mean((december - learned) ** 2)))
    code, out, _ = run(capsys, "predict", "model.npz", "december.csv", "--id", "date", "--std", "--out", "p.csv")
    found, december = pandas.read_csv("p.csv"), pandas.read_csv("december.csv")
    assert found.columns.tolist() == ["date", "prediction", "std"]
    assert found["date"].tolist() == december["date"].tolist()
    kept = december["price"].notna()
    assert np.sqrt(np.mean((found["prediction"] - december["sales"])[kept] ** 2)) < 0.5
    code, out, _ = run(capsys, "show", "model.npz")
    assert "last tasks: 7, 8, 9, 10, 11" in out
    expected = np.sqrt(fl.load("model.npz")[-1].prequential_mse_)
    assert f"RMSE of rows before they were learned, from the second task on: {expected:.6g}" in out
    assert "price" in out
    assert "±" in out
    code, out, _ = run(capsys, "show", "model.npz", "--json")
    coefficients = json.loads(out)["coefficients"]
    named = dict(zip(coefficients["feature"], coefficients["coefficient"], strict=True))
    assert named["price"] == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(
    "options", [(), ("--no-refit",), ("--holdout", 0), ("--holdout", 0.4, "--seed", 7, "--no-refit")]
)
def test_going_on_is_one_fit_bit_for_bit(folder, capsys, options):
    """A model knows its own options of held-out rows; where these are learned in the end, all rows are."""
    table = pandas.read_csv("all.csv", dtype=str)  # numbers stay as they are written
    table[table["month"].astype(int) <= 6].to_csv("first.csv", index=False)
    table[table["month"].astype(int) > 6].to_csv("second.csv", index=False)
    assert run(capsys, "fit", "first.csv", *FIT, "--out", "m.npz", *options)[0] == 0
    assert run(capsys, "fit", "second.csv", "--from", "m.npz", "--out", "m.npz")[0] == 0
    assert run(capsys, "fit", "all.csv", *FIT, "--out", "whole.npz", *options)[0] == 0
    one, other = read("whole.npz"), read("m.npz")  # the time of writing may differ
    assert one.header == other.header
    assert one.arrays.keys() == other.arrays.keys()
    different = [name for name, array in one.arrays.items() if array.tobytes() != other.arrays[name].tobytes()]
    assert different == []
    whole, parts = fl.load("whole.npz"), fl.load("m.npz")
    assert whole[-1].coef_.tolist() == parts[-1].coef_.tolist()
    assert np.array_equal(whole.predict(table), parts.predict(table))
    assert whole.table_ == parts.table_
    if not options:
        assert run(capsys, "fit", "all.csv", *FIT, "--out", "all.npz", "--holdout", 0)[0] == 0
        assert fl.load("all.npz")[-1].coef_.tolist() == whole[-1].coef_.tolist()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.txt", "semi.csv", "t.parquet", "t.feather"])
def test_every_format_gives_the_same_model(folder, capsys, name):
    table = pandas.read_csv("all.csv")
    if name.endswith(".parquet"):
        table.to_parquet(name)
    elif name.endswith(".feather"):
        table.to_feather(name)
    elif name == "semi.csv":
        table.to_csv(name, index=False, sep=";", decimal=",")
    else:
        table.to_csv(name, index=False, sep={"tsv": "\t", "txt": "|"}.get(name[-3:], ","))
    assert run(capsys, "fit", "all.csv", *FIT, "--out", "one.npz")[0] == 0
    code, _, err = run(capsys, "fit", name, *FIT, "--out", "m.npz")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(
        fl.load("m.npz")[-1].coef_, fl.load("one.npz")[-1].coef_, rtol=1e-6
    )  # a memory in single precision


@pytest.mark.parametrize("packed", [False, True])
def test_tables_come_from_standard_input(folder, capsys, monkeypatch, packed):
    content = (folder / "all.csv").read_bytes()
    content = gzip.compress(content) if packed else content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, err = run(capsys, "fit", "-", *FIT, "--out", "m.npz")
    assert (code, err) == (0, "")
    assert "12 tasks learned" in out


def test_archives_need_no_names(folder, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    np.savez("t.npz", X=X, y=X @ [1.0, 2.0, 3.0], groups=np.repeat(np.arange(6), 10))
    assert run(capsys, "fit", "t.npz", "--out", "m.npz")[0] == 0
    np.testing.assert_allclose(fl.load("m.npz")[-1].coef_, [1, 2, 3], rtol=1e-3)


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
@pytest.mark.parametrize("rows", [7, 40, 1000])
def test_chunks_give_the_same_model(folder, capsys, name, rows):
    pandas.read_csv("all.csv").to_parquet("all.parquet")
    assert run(capsys, "fit", name, *FIT, "--out", "one.npz")[0] == 0
    code, out, err = run(capsys, "fit", name, *FIT, "--out", "m.npz", "--chunk-rows", rows)
    assert (code, err) == (0, "")
    assert "12 tasks learned" in out
    assert fl.load("m.npz")[-1].coef_.tolist() == fl.load("one.npz")[-1].coef_.tolist()


def test_chunks_of_tasks_that_are_not_in_one_piece_are_refused(folder, capsys):
    table = pandas.read_csv("all.csv").sample(frac=1, random_state=0)
    table.to_csv("mixed.csv", index=False)
    code, _, err = run(capsys, "fit", "mixed.csv", *FIT, "--out", "m.npz", "--chunk-rows", 100)
    assert code == 1
    assert "are not in one piece; sort it by month, or read it at once with --chunk-rows 0" in err
    code, _, _ = run(capsys, "fit", "mixed.csv", *FIT, "--out", "m.npz", "--order", "sorted")
    assert code == 0
    assert fl.load("m.npz").table_["tasks"] == [str(month) for month in range(1, 13)]


def test_large_files_are_read_in_chunks_without_being_told(folder, capsys, monkeypatch):
    monkeypatch.setattr(tables, "LARGE", 1000)
    monkeypatch.setattr(tables, "CHUNK", 50)
    code, out, _ = run(capsys, "fit", "all.csv", *FIT, "--out", "m.npz")
    assert code == 0
    assert "12 tasks learned from all.csv, 480 rows" in out


def test_columns_are_chosen_and_declared(folder, capsys):
    words = ("--drop", "weight", "--categorical", "price", "--text", "shop", "--impute", "zero")
    assert run(capsys, "fit", "sales.csv", *FIT, *words, "--out", "m.npz")[0] == 0
    kinds = {name: column.kind for name, column in fl.load("m.npz")[0].columns_.items()}
    assert kinds == {"shop": "text", "price": "category", "date": "date"}
    assert run(capsys, "fit", "sales.csv", *FIT, "--features", "price", "--out", "m.npz")[0] == 0
    assert fl.load("m.npz")[0].feature_names_in_.tolist() == ["price"]


def test_what_was_left_out_is_said(folder, capsys):
    table = pandas.read_csv("sales.csv")
    table.loc[:4, "sales"] = np.nan
    table.to_csv("gaps.csv")
    code, out, _ = run(capsys, "fit", "gaps.csv", *FIT, "--out", "m.npz")
    assert code == 0
    assert "5 rows without a target were left out" in out
    assert "a column without a name was left out (Unnamed: 0), perhaps row numbers" in out


def test_a_model_of_python_has_no_table_to_go_on_with(folder, capsys):
    fl.ContinualRidge(alpha=1.0).partial_fit([[1.0]], [1.0]).save("m.npz")
    code, _, err = run(capsys, "fit", "november.csv", "--from", "m.npz", "--out", "m.npz")
    assert code == 1
    assert "was not written by forgetless fit" in err

"""Tables that nobody would wish for: a result, or one clear sentence."""

import numpy as np
import pandas
import pytest

import forgetless as fl
from forgetless import cli


def mixed(rng):
    values = ["a", 1, 2.5, None, "2020-01-01"] * 20
    return pandas.DataFrame({"t": rng.integers(0, 9, 100), "m": values, "none": None, "c": 7, "y": rng.random(100)})


def many_columns(rng):
    table = pandas.DataFrame(rng.standard_normal((12, 10_000)), columns=[f"f{i}" for i in range(10_000)])
    return table.assign(t=np.arange(12) // 6, y=table["f0"])


def many_categories(rng):
    ids = [f"c{i}" for i in rng.permutation(20_000)]
    return pandas.DataFrame({"t": np.arange(20_000) // 5000, "id": ids, "y": rng.standard_normal(20_000)})


def a_million_categories(rng):
    ids = [f"c{i}" for i in rng.permutation(10**6)]
    return pandas.DataFrame({"t": np.arange(10**6) // 250_000, "id": ids, "y": rng.standard_normal(10**6)})


def single_rows(rng):
    return pandas.DataFrame({"t": np.arange(40), "x": rng.standard_normal(40), "y": rng.standard_normal(40)})


def constant(rng):
    return pandas.DataFrame({"t": np.repeat([1, 2], 5), "x": 5.0, "y": 3.0})


def duplicates(rng):
    x = rng.standard_normal(60)
    return pandas.DataFrame({"t": np.arange(60) // 10, "x": x, "again": x, "minus": -x, "y": x})


def infinite(rng):
    x = np.where(rng.random(60) < 0.2, np.inf, rng.standard_normal(60))
    return pandas.DataFrame({"t": np.arange(60) // 10, "x": x, "y": rng.standard_normal(60)})


def unsorted(rng):
    return duplicates(rng).sample(frac=1, random_state=0)


TABLES = [
    mixed,
    pytest.param(many_columns, marks=pytest.mark.long),
    many_categories,
    pytest.param(a_million_categories, marks=pytest.mark.long),
    single_rows,
    constant,
    duplicates,
    infinite,
    unsorted,
]


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_a_strange_table_gives_a_model_that_predicts(make, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = make(np.random.default_rng(0))
    table.to_csv("t.csv", index=False)
    assert cli.main(["fit", "t.csv", "--task", "t", "--target", "y", "--out", "m.npz", "--report", "r.html"]) == 0
    assert capsys.readouterr().err == ""
    found = fl.load("m.npz").predict(pandas.read_csv("t.csv"))
    assert np.all(np.isfinite(found))
    if make in (duplicates, unsorted):
        np.testing.assert_allclose(found, table["y"], atol=1e-3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "t.csv cannot be read as csv"),
        (b"t,x,y\n", "t.csv has no rows"),
        (b"t,x,y\n1,,\n1,2,\n", "t.csv has no rows with a target"),
        (b"t,x,y\n1,2,3\n,2,3\n", "1 rows have no value of 't', first in line 3"),
        (b"t,y\n1,2\n", "has no feature column besides 't' and 'y'"),
        (b"t,x,x,y\n1,2,3,4\n", "several columns are named 'x'"),
        (b"t,x,y\n1,2,3,4\n1,2,3\n", "values, but the header has 3 names"),
        (b"\xff\xfe\x00\x00", "t.csv is not written in UTF-8; convert it"),
        (b"t,x,y\n1,2,3\n1,3,4\n1,2,high\n", "the target 'y' must be numbers, but holds strings"),
        (b"t,x,y\n1,1e300,1\n1,-1e300,2\n", "too large"),
        (b"t,x,y\n1,,1\n1,,2\n", "no column has a value yet: nothing to learn from"),
    ],
)
def test_what_cannot_be_learned_is_one_sentence(content, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(content)
    assert cli.main(["fit", "t.csv", "--task", "t", "--target", "y", "--out", "m.npz"]) == 1
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "m.npz").exists()

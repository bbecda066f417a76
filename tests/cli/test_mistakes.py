"""Natural mistakes: one sentence that says what is wrong, where, and what to do."""

import gzip

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from support.cli import run
from support.tables import sales

FIT = ("fit", "t.csv", "--task", "t", "--target", "y", "--out", "m")

CONTENTS = [
    (b"", "t.csv is empty; it needs a line with names and rows"),
    (b"t,x,y\n", "t.csv has no rows"),
    (b"t,x,y\n1,1,\n1,2,\n", "t.csv has no row with a value of the target 'y'"),
    (b"t,x,y\n1,2,3\n,2,3\n", "t.csv, line 3: 1 rows have no value of the task 't'; name or remove them"),
    (b"t,y\n1,2\n", "t.csv has no column besides 't' and 'y': nothing to predict from"),
    (b"t,x,x,y\n1,2,3,4\n", "t.csv, line 1: several columns are named 'x'"),
    (b"t,x,y\n1,2,3\n1,2,3,4\n", "t.csv, line 3 has 4 values, but the header has 3 names"),
    (b"t,x,y\n1,2,3,4\n1,2,3,4\n", "rows have more values than the header has names"),
    (b"t,x,y\n1,2,3\n1,3,4\n1,2,high\n", "t.csv, line 4: the target 'y' must hold numbers, but holds 'high'"),
    (b't,x,y\n1,"two\nlines",3\n1,b,high\n1,c,1\n', "t.csv, line 4: the target 'y' must hold numbers"),
    (b"t,x,y\n1,1e300,1\n1,-1e300,2\n", "too large"),
    (b"t,x,y\n1,,1\n1,,2\n", "no column has a value: nothing to learn from"),
    (b"t x y\n1 2 3\n", "t.csv has no column 't'"),
    (b"PK\x03\x04\x00\x00", "t.csv is no text: it holds zero bytes; export it as CSV"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, words, said, code=1):
    found, out, err = run(capsys, *words)
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
    assert code == 2 or err.count("\n") == 1


@pytest.mark.parametrize(("content", "said"), CONTENTS, ids=[said[-25:] for _, said in CONTENTS])
def test_what_cannot_be_learned(folder, content, said, capsys):
    (folder / "t.csv").write_bytes(content)
    refused(capsys, FIT, said)
    assert not (folder / "m").exists()


def test_a_target_of_names(folder, capsys):
    rows = "".join(f"{i // 20},{i},name {i}\n" for i in range(200))
    (folder / "t.csv").write_text(f"t,x,y\n{rows}")
    refused(capsys, FIT, "the target 'y' of t.csv holds 20 different texts, such as 'name 0'")


@pytest.fixture
def model(folder, capsys):
    sales(range(1, 4)).to_csv("sales.csv", index=False)
    assert cli.main(["fit", "sales.csv", "--task", "month", "--target", "sales", "--out", "m"]) == 0
    fl.TaskCollection([(np.eye(2), np.ones(2))]).save("tasks.safetensors")
    capsys.readouterr()


ON = ("fit", "sales.csv", "--task", "month", "--target", "sales", "--out", "n")
WORDS = [
    (("fit", "sales.csv", "--out", "n"), 2, "choose a column with --task: sales.csv has month, shop, price"),
    (("fit", "sales.csv", "--task", "month", "--out", "n"), 2, "choose a column with --target"),
    (ON[:-2], 2, "Missing option '--out'"),
    ((*ON[:3], "Month", *ON[4:]), 1, "sales.csv has no column 'Month': did you mean 'month'?"),
    ((*ON[:5], "sale", *ON[6:]), 1, "did you mean 'sales'?"),
    ((*ON, "--drop", "prise"), 1, "no column 'prise': did you mean 'price'?"),
    ((*ON[:5], "month", *ON[6:]), 1, "task and target must be different columns, got 'month' for both"),
    (("fit", "missing.csv", *ON[2:]), 1, "there is no file missing.csv"),
    (("fit", ".", *ON[2:]), 1, ". is a folder, device, pipe or broken link, not a file"),
    (("fit", "m", *ON[2:]), 1, "m is no table: its name must end in .csv"),
    ((*ON[:-1], "sales.csv"), 2, "--out and FILE are the same file, sales.csv"),
    ((*ON[:-1], "no/where"), 2, "there is no folder"),
    ((*ON, "--objective", "past"), 2, "'past' is not one of 'next', 'all'"),
    (("fit", "sales.csv", "--from", "m", "--out", "n", "--drop", "price"), 2, "--drop belongs to the first fit"),
    (("fit", "sales.csv", "--from", "sales.csv", "--out", "n"), 1, "sales.csv is a table, and the first argument"),
    (("predict", "sales.csv", "m"), 1, "sales.csv is a table, and the first argument is the model"),
    (("predict", "tasks.safetensors", "sales.csv"), 1, "holds TaskCollection, no model of tables"),
    (("predict", "m", "missing.csv"), 1, "there is no file missing.csv"),
    (("evaluate", "m", "sales.csv", "--target", "shop"), 1, "the target 'shop' must hold numbers, but holds"),
    (("show", "sales.csv"), 1, "sales.csv is damaged or not a forgetless file"),
    (("fitt", "sales.csv"), 2, "No such command 'fitt'"),
]


@pytest.mark.parametrize(("words", "code", "said"), WORDS, ids=[" ".join(words)[-40:] for words, _, _ in WORDS])
def test_wrong_words(model, words, code, said, capsys):
    refused(capsys, words, said, code)


def test_a_broken_archive(folder, capsys):
    content = gzip.compress(sales([1]).to_csv(index=False).encode())
    (folder / "t.csv.gz").write_bytes(content[: len(content) // 2])
    refused(capsys, ("fit", "t.csv.gz", *ON[2:]), "t.csv.gz is cut off or no gzip file")


def test_another_delimiter_is_found_and_a_wrong_one_is_named(folder, capsys):
    table = sales(range(1, 4))
    table.to_csv("t.csv", index=False, sep=";", decimal=",")
    assert run(capsys, "fit", "t.csv", *ON[2:])[0] == 0
    table.to_csv("t.csv", index=False, sep="^")
    refused(capsys, ("fit", "t.csv", *ON[2:]), "is the delimiter right?")


def test_tasks_in_falling_order_are_warned_of(folder, capsys):
    sales([3, 2, 1]).to_csv("sales.csv", index=False)
    code, out, _ = run(capsys, *ON)
    assert code == 0
    assert "Warning: tasks come in falling order, from 3 to 1" in out


def test_one_task_is_asked_about(folder, capsys):
    sales([3]).to_csv("sales.csv", index=False)
    out = run(capsys, *ON)[1]
    assert "There is one task; is 'month' the column that tells tasks apart?" in out
    assert "No error is known yet" in out

"""Natural mistakes: one sentence that says what is wrong, where, and what to do."""

import contextlib
import gzip
import json
import shutil

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from support.cli import run
from support.tables import sales

FIT = ("fit", "t.csv", "--task", "t", "--target", "y", "--out", "n")
ON = ("fit", "sales.csv", "--task", "month", "--target", "sales", "--out", "n")
LARGE = "t,x,y\n" + "".join(f"{i // 20},{'1e300' if i == 50 else i},{i % 7}\n" for i in range(60))
NAMES = "t,x,y\n" + "".join(f"{i // 20},{i},name {i}\n" for i in range(200))

MISTAKES = [
    # What is in t.csv, and what is said of it.
    *(
        (FIT, 1, said, content)
        for content, said in [
            ("", "t.csv is empty; it needs a line with names and rows"),
            ("t,x,y\n", "t.csv has no rows"),
            ("t,x,y\n1,1,\n1,2,\n", "t.csv has no row with a value of the target 'y'"),
            ("t,x,y\n1,2,3\n,2,3\n", "t.csv, line 3: 1 rows have no value of the task 't'; name or remove them"),
            ("t,x,y\n,2,3\n", "t.csv has no value of the task 't'"),
            ("t,y\n1,2\n", "t.csv has no column besides 't' and 'y': nothing to predict from"),
            ("t,x,x,y\n1,2,3,4\n", "t.csv, line 1: several columns are named 'x'"),
            ("t,x,y\n1,2,3\n1,2,3,07\n", "t.csv, line 3 has 4 values, but the header has 3 names"),
            ("t,x,y\n1,2,3,4\n1,2,3,4\n", "rows have more values than the header has names"),
            ("t,x,y\n1,2,3\n1,3,4\n1,2,high\n", "t.csv, line 4: the target 'y' must hold numbers, but holds 'high'"),
            ('t,x,y\n1,"two\nlines",3\n1,b,high\n1,c,1\n', "t.csv, line 4: the target 'y' must hold numbers"),
            ("t,x,y\n1,1,1\n1,-1e140,2\n", "column 'x' holds 1e+140, too large to be squared; rescale"),
            (LARGE, "column 'x' holds 1e+300, too large to be squared; rescale"),
            ("t,x,y\n1,,1\n1,,2\n", "no column has a value: nothing to learn from"),
            ("t,x,y\n1,2,3\n2,a,3\n", "so far and now holds 'a'; correct the file, or fit a new model with --drop x"),
            ("t x y\n1 2 3\n", "no column 't': it has t x y; is the delimiter a comma, a semicolon, a tab or |?"),
            ("PK\x03\x04\0\0", "t.csv is in no known encoding; export it as CSV in UTF-8"),
            (NAMES, "the target 'y' of t.csv holds 20 different texts, such as 'name 0'"),
            (NAMES.replace("name ", "0"), "the target 'y' of t.csv holds 20 different texts, such as '00'"),
        ]
    ),
    # What is typed.
    (("fit", "sales.csv", "--out", "n"), 2, "choose a column with --task: sales.csv has month, shop, price", ""),
    (("fit", "sales.csv", "--task", "month", "--out", "n"), 2, "choose a column with --target", ""),
    (ON[:-2], 2, "Missing option '--out'", ""),
    ((*ON[:3], "Month", *ON[4:]), 1, "sales.csv has no column 'Month': did you mean 'month'?", ""),
    ((*ON[:5], "sale", *ON[6:]), 1, "did you mean 'sales'?", ""),
    ((*ON, "--drop", "prise"), 1, "no column 'prise': did you mean 'price'?", ""),
    ((*ON, "--drop", "price", "--number", "price"), 1, "column 'price' is named for two of number, categorical", ""),
    ((*ON[:5], "month", *ON[6:]), 1, "task and target must be different columns, got 'month' for both", ""),
    (("fit", "missing.csv", *ON[2:]), 1, "there is no file missing.csv", ""),
    (("fit", ".", *ON[2:]), 1, ". is a folder, device, pipe or broken link, not a file", ""),
    (("fit", "m", *ON[2:]), 1, "m is no table: its name must end in .csv", ""),
    ((*ON[:-1], "sales.csv"), 2, "--out and FILE are the same file, sales.csv", ""),
    ((*ON[:-1], "no/where"), 2, "there is no folder", ""),
    ((*ON, "--objective", "past"), 2, "'past' is not one of 'next', 'all'", ""),
    (("fit", "sales.csv", "--from", "m", "--out", "n", "--drop", "price"), 2, "--drop belongs to the first fit", ""),
    *(
        (words, 1, "sales.csv is a table, and a file that forgetless has written is needed", "")
        for words in [
            ("fit", "sales.csv", "--from", "sales.csv", "--out", "n"),
            ("predict", "sales.csv", "m"),
            ("show", "sales.csv"),
        ]
    ),
    *(
        ((*words, "t.csv"), 1, "t.csv has no column of the model, which was made for another", "month,sales\n1,2\n")
        for words in [("predict", "m"), ("evaluate", "m"), ("fit", "--from", "m", "--out", "n")]
    ),
    (("evaluate", "m", "t.csv"), 1, "--task and --target name other columns, and forgetless predict", "shop\nUlm\n"),
    (("predict", "tasks.safetensors", "sales.csv"), 1, "holds TaskCollection, no model of tables", ""),
    (("predict", "m", "missing.csv"), 1, "there is no file missing.csv", ""),
    (("evaluate", "m", "sales.csv", "--target", "shop"), 1, "the target 'shop' must hold numbers, but holds", ""),
    (("fitt", "sales.csv"), 2, "No such command 'fitt'", ""),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with a table, a model of it, and a file of tasks."""
    folder = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(folder):
        sales(range(1, 4)).to_csv("sales.csv", index=False)
        assert cli.main([*ON[:-1], "m"]) == 0
        fl.TaskCollection([(np.eye(2), np.ones(2))]).save("tasks.safetensors")
    return folder


@pytest.fixture(autouse=True)
def folder(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path, dirs_exist_ok=True))
    return tmp_path


def refused(capsys, words, said, code=1):
    found, out, err = run(capsys, *words)
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
    assert code == 2 or err.count("\n") == 1


@pytest.mark.parametrize(("words", "code", "said", "content"), MISTAKES, ids=[said[:40] for _, _, said, _ in MISTAKES])
def test_a_mistake_is_answered_by_a_sentence(folder, words, code, said, content, capsys):
    (folder / "t.csv").write_text(content)
    refused(capsys, words, said, code)
    assert not (folder / "n").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_are_found(folder, capsys, encoding, packed):
    content = sales(range(1, 4)).to_csv(index=False).encode(encoding)
    path = folder / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    code, out, _ = run(capsys, "fit", path.name, *ON[2:])
    assert code == 0
    assert ("read as Windows text (cp1252)" in out) == (encoding == "cp1252")
    assert "shop=Köln" in fl.load("n").encoder_.get_feature_names_out()


MONTH = sales([1]).to_csv(index=False)
UNREADABLE = [  # the name of a file, its bytes, and what is said of them
    ("t.csv", MONTH.encode("utf-16-le"), "is UTF-16 without its mark; export it as CSV in UTF-8"),
    ("t.csv", MONTH.encode("cp037"), "is in no known encoding; export it as CSV in UTF-8"),
    ("t.csv.gz", gzip.compress(MONTH.encode())[:500], "is cut off or no gzip file"),
    ("t.csv.gz", gzip.compress(b"t,x,y\n1,2," + b"3" * 2**26, 1), "has a line of more than 16,777,216 bytes"),
]


@pytest.mark.parametrize(("name", "content", "said"), UNREADABLE, ids=[said for _, _, said in UNREADABLE])
def test_files_that_cannot_be_read_say_why(folder, capsys, name, content, said):
    (folder / name).write_bytes(content)
    refused(capsys, ("fit", name, *ON[2:]), f"{name} {said}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop(columns="shop"), ["Add the column, or give it the name that it had"]),
        (lambda table: table.rename(columns={"shop": "Shop"}), ["shop is not in", "; did you mean 'Shop'?"]),
        (lambda table: table.assign(price=100 * table["price"]), ["unit × 100", "Convert the column to the unit"]),
        (lambda table: table.assign(shop="Rom"), ["never seen in 100% of the rows: 'Rom'. Correct labels"]),
        (lambda table: table.assign(price=np.nan), ["price 100% missing, was", "Find out why"]),
        (lambda table: table.assign(rain=1.0), []),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_makes_predictions_wrong_is_warned_of(folder, capsys, change, said, options):
    """On standard error, and in one line a column, with what to do about it."""
    change(sales([4])).to_csv("t.csv", index=False)
    code, out, err = run(capsys, "predict", "m", "t.csv", *options)
    n = len(json.loads(out)["prediction"]) if options else len(out.splitlines()) - 1
    assert (code, n, err.count("Warning: ")) == (0, 40, bool(said))
    assert not [words for words in said if words not in err], err


@pytest.mark.parametrize(
    ("months", "said"),
    [
        ([3, 2, 1], ["Warning: tasks come in falling order, from 3 to 1"]),
        ([3], ["There is one task; is 'month' the column that tells tasks apart?", "No error is known yet"]),
    ],
)
def test_tasks_that_are_probably_none_are_asked_about(folder, capsys, months, said):
    sales(months).to_csv("sales.csv", index=False)
    code, out, _ = run(capsys, *ON)
    assert code == 0
    assert all(words in out for words in said)

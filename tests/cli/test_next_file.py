"""The next file of a model, and files as people have them: codes, names, decimals, what is new and what comes again."""

import json

import numpy as np
import pandas
import pytest

import forgetless as fl
from support.cli import run

FIT = ("--task", "month", "--target", "sales", "--out", "m.npz")
ON = ("--from", "m.npz", "--out", "next.npz")


def table(month, seed=0, n=40, **columns):
    rng = np.random.default_rng([seed, month])
    price, zip_code = 100 * rng.random(n), rng.choice(["01234", "00123", "98765"], n)
    sales = 0.5 * price + 10.0 * (zip_code == "01234") + rng.standard_normal(n)
    order = [f"{month:03d}{i:04d}" for i in range(n)]
    found = pandas.DataFrame({"month": month, "order": order, "zip": zip_code, "price": price, "sales": sales})
    return found.assign(**columns)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pandas.concat([table(1), table(2)]).to_csv("begin.csv", index=False)
    return tmp_path


def begin(capsys, *more):
    assert run(capsys, "fit", "begin.csv", *FIT, "--drop", "order", "--categorical", "zip", *more)[0] == 0


def test_codes_are_what_the_file_says(folder, capsys):
    begin(capsys)
    named = set(fl.load("m.npz")[0].get_feature_names_out())
    assert {"zip=01234", "zip=00123", "zip=98765"} <= named
    # One more code with a letter makes pandas read all of them as words; a gap makes it write 123.0.
    table(3, zip=["01234", "AB"] * 20).to_csv("letters.csv", index=False)
    assert run(capsys, "fit", "letters.csv", *ON)[0] == 0
    assert set(fl.load("next.npz")[0].get_feature_names_out()) - named == {"zip=AB"}
    codes = pandas.concat([table(1, zip=5), table(2, zip=7)])
    codes.to_csv("begin.csv", index=False)
    begin(capsys)
    codes.assign(month=3, zip=[5.0, None] * 40).to_csv("gaps.csv", index=False)
    assert run(capsys, "fit", "gaps.csv", *ON)[0] == 0
    found = fl.load("next.npz")[0].get_feature_names_out().tolist()
    assert [name for name in found if name.startswith("zip")] == ["zip=5", "zip=7", "zip is missing"]


def test_words_of_the_first_chunk_are_words_in_all(folder, capsys):
    parts = [table(1, kind="A1"), table(2, kind="007"), table(3, kind=["007", "A1"] * 20)]
    pandas.concat(parts).to_csv("begin.csv", index=False)
    begin(capsys)
    whole = fl.load("m.npz")[0].get_feature_names_out().tolist()
    begin(capsys, "--chunk-rows", 40)
    assert fl.load("m.npz")[0].get_feature_names_out().tolist() == whole
    assert "kind=007" in whole


@pytest.mark.parametrize("dropped", [True, False])
def test_ids_come_back_as_they_were(folder, capsys, dropped):
    begin(capsys) if dropped else run(capsys, "fit", "begin.csv", *FIT)
    new = table(3)
    new.loc[2, "order"] = None
    new.to_csv("new.csv", index=False)
    code, out, _ = run(capsys, "predict", "m.npz", "new.csv", "--id", "order")
    assert code == 0
    assert out.splitlines()[1].startswith("0030000,")
    assert out.splitlines()[3].startswith(",")


def test_large_integers_stay_apart(folder, capsys):
    first = 2**53
    many = pandas.concat([table(month).assign(month=first + month) for month in (1, 2, 3)])
    many.to_parquet("many.parquet")
    code, out, _ = run(capsys, "fit", "many.parquet", *FIT, "--drop", "order", "--json")
    assert (code, json.loads(out)["tasks"]) == (0, 3)
    assert fl.load("m.npz").table_["tasks"] == [str(first + month) for month in (1, 2, 3)]


def test_what_is_new_or_comes_again_is_said(folder, capsys):
    begin(capsys)
    table(2, promotion=1).to_csv("next.csv", index=False)
    code, out, _ = run(capsys, "fit", "next.csv", *ON, "--json")
    assert code == 0
    assert json.loads(out)["notes"] == [
        "columns that the model does not know were left out: order, promotion",
        "Warning: learned before, and now once more: 2",
    ]


def test_a_report_never_replaces_the_model_that_goes_on(folder, capsys):
    begin(capsys)
    before = (folder / "m.npz").read_bytes()
    table(3).to_csv("next.csv", index=False)
    code, _, err = run(capsys, "fit", "next.csv", *ON, "--report", "m.npz")
    assert code == 2
    assert "--report and --from are the same file" in err
    assert (folder / "m.npz").read_bytes() == before


def test_json_has_no_words_that_json_lacks(folder, capsys):
    def refuse(word):
        raise AssertionError(word)

    table(1).to_csv("one.csv", index=False)
    _, out, _ = run(capsys, "fit", "one.csv", *FIT, "--drop", "order", "--json")
    assert json.loads(out, parse_constant=refuse)["prequential_rmse"] is None
    table(2, sales=1.0).to_csv("same.csv", index=False)
    _, out, _ = run(capsys, "evaluate", "m.npz", "same.csv", "--json")
    assert json.loads(out, parse_constant=refuse)["r2"] is None
    _, out, _ = run(capsys, "show", "m.npz", "--json")
    json.loads(out, parse_constant=refuse)


def test_decimal_commas_of_a_short_file(folder, capsys):
    begin(capsys)
    (folder / "two.csv").write_text("zip;price\n01234;5\n00123;7,5\n")
    (folder / "same.csv").write_text("zip,price\n01234,5\n00123,7.5\n")
    assert run(capsys, "predict", "m.npz", "two.csv")[:2] == run(capsys, "predict", "m.npz", "same.csv")[:2]


def test_a_task_without_a_name_is_found_in_any_chunk(folder, capsys):
    many = pandas.concat([table(1), table(2)]).astype({"month": object})
    many.iloc[50, 0] = None
    many.to_csv("gap.csv", index=False)
    for rows in (0, 8):
        code, _, err = run(capsys, "fit", "gap.csv", *FIT, "--chunk-rows", rows)
        assert code == 1
        assert "first in line 52" in err


@pytest.mark.parametrize("written", ["{:.2f}", "${:.2f}", "{:,.2f}", "{:.1f} %"])
def test_numbers_in_text_are_numbers(folder, capsys, written):
    many = pandas.concat([table(1), table(2)])
    many["price"] = [written.format(1000 * value) for value in many["price"]]
    many.iloc[3, 3] = "?"
    many.to_csv("begin.csv", index=False)
    code, out, _ = run(capsys, "fit", "begin.csv", *FIT, "--drop", "order")
    assert code == 0
    column = fl.load("m.npz")[0].columns_["price"]
    assert (column.kind, column.missing) == ("number", 1)
    assert column.mean == pytest.approx(50_000, rel=0.2)
    assert "1 missing (1 written '?'), filled with the mean" in out
    assert "Warning: " not in out


def test_few_strings_among_numbers_are_named_with_their_line(folder, capsys):
    many = pandas.concat([table(1, n=100), table(2, n=100)]).astype({"price": object})
    many.iloc[7, 3] = "12O5"
    many.to_csv("begin.csv", index=False)
    for more in ((), ("--chunk-rows", 150)):
        code, out, _ = run(capsys, "fit", "begin.csv", *FIT, "--drop", "order", *more)
        assert code == 0
        assert "Warning: '12O5' in column 'price', line 9, is not a number, and was taken for missing" in out
    assert "12O5" not in json.dumps(fl.load("m.npz")[0].to_plain()), "a model file holds no values of single rows"
    # Many of them are another kind of column, in the first task and later.
    many["price"] = ["sold" if i % 10 == 0 else value for i, value in enumerate(many["price"])]
    many.to_csv("words.csv", index=False)
    code, out, _ = run(capsys, "fit", "words.csv", *FIT, "--drop", "order")
    assert code == 0
    assert "Warning: column 'price' was taken for categories, but most of its values look like numbers" in out
    assert "Warning: column" not in run(capsys, "fit", "words.csv", *FIT, "--categorical", "price")[1]
    begin(capsys)
    code, _, err = run(capsys, "fit", "words.csv", *ON)
    assert code == 1
    assert "words.csv, line 2: column 'price' was numbers so far and now holds 'sold'; correct it" in err


@pytest.mark.parametrize(("cell", "message"), [("12O5", "line 9: the target 'sales' must be numbers"), ("-", "")])
def test_strings_in_the_target(folder, capsys, cell, message):
    many = pandas.concat([table(1), table(2)]).astype({"sales": object})
    many.iloc[7, 4] = cell
    many.to_csv("begin.csv", index=False)
    code, out, err = run(capsys, "fit", "begin.csv", *FIT)
    assert code == (1 if message else 0)
    assert message in err
    if message:
        assert "e.g. '12O5'" in err
    else:
        assert "'-' in the target 'sales' was taken for missing" in out
        assert "1 rows without a target were left out" in out
        assert "2 tasks learned from begin.csv, 79 of 80 rows" in out


def test_amounts_are_targets(folder, capsys):
    many = pandas.concat([table(1), table(2)])
    many.to_csv("plain.csv", index=False)
    many.assign(sales=[f"${value:,.6f}" for value in many["sales"]]).to_csv("amounts.csv", index=False)
    means = [
        run(capsys, "fit", f"{name}.csv", *FIT) and fl.load("m.npz").table_["mean"] for name in ("plain", "amounts")
    ]
    assert means[0] == pytest.approx(means[1], abs=1e-5)


@pytest.mark.parametrize("schedule", ["increasing", "increasing-budget"])
def test_schedules_that_are_made_for_a_number_of_tasks_end_there(folder, capsys, schedule):
    begin(capsys, "--schedule", schedule)
    pandas.concat([table(3), table(4)]).to_csv("next.csv", index=False)
    code, _, err = run(capsys, "fit", "next.csv", *ON)
    assert code == 1
    assert "task 3 is beyond the 2 tasks that the schedule was made for" in err
    begin(capsys, "--schedule", schedule, "--horizon", 4)
    assert run(capsys, "fit", "next.csv", *ON)[0] == 0
    pandas.concat([table(1), table(2), table(3), table(4)]).to_csv("begin.csv", index=False)
    begin(capsys, "--schedule", schedule)
    assert fl.load("m.npz")[-1].coef_.tolist() == fl.load("next.npz")[-1].coef_.tolist()


def test_tasks_have_one_name_in_every_file_and_chunk(folder, capsys):
    many = pandas.concat([table(month).assign(month=at) for month, at in ((1, 1.5), (2, 2.0), (3, 3.0), (4, 4.5))])
    many.to_csv("begin.csv", index=False)
    for rows in (0, 30):
        begin(capsys, "--chunk-rows", rows)
        assert fl.load("m.npz").table_["tasks"] == ["1.5", "2", "3", "4.5"]
    days = pandas.to_datetime(["2024-01-01 00:00"] * 80 + ["2024-02-01 06:00"] * 80)
    many.assign(month=days).to_parquet("days.parquet")
    assert run(capsys, "fit", "days.parquet", *FIT)[0] == 0
    assert fl.load("m.npz").table_["tasks"] == ["2024-01-01", "2024-02-01 06:00:00"]


@pytest.mark.parametrize("delimiter", [":", " ", "^"])
def test_rare_delimiters(folder, capsys, delimiter):
    begin(capsys)
    table(1).head(3).to_csv("usual.csv", index=False)
    table(1).head(3).to_csv("rare.csv", index=False, sep=delimiter)
    assert run(capsys, "predict", "m.npz", "rare.csv")[:2] == run(capsys, "predict", "m.npz", "usual.csv")[:2]


def test_tables_of_very_many_columns_are_told_in_few_lines(folder, capsys):
    rng = np.random.default_rng(0)
    many = table(1).drop(columns=["order", "zip"]).assign(**{f"f{i}": rng.random(40) for i in range(80)})
    many.to_csv("begin.csv", index=False)
    _, out, _ = run(capsys, "fit", "begin.csv", *FIT)
    assert "and 31 more: forgetless show" in out
    assert "f80" not in out
    assert "f79 " in run(capsys, "show", "m.npz")[1]


def test_decimal_commas_are_said(folder, capsys):
    table(1).to_csv("comma.csv", index=False, sep=";", decimal=",")
    for name, said in (("comma", ["comma.csv has decimal commas: 1,234 is a little more than one"]), ("begin", [])):
        _, out, _ = run(capsys, "fit", f"{name}.csv", *FIT, "--drop", "order", "--json")
        assert json.loads(out)["notes"] == said

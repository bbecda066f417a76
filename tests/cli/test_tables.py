"""Tables on the command line: fit, go on with the next file, predict, evaluate, show."""

import json
import re
import subprocess
import sys

import html5lib
import numpy as np
import pandas as pd
import pytest

import forgetless as fl
from forgetless import cli
from forgetless._text import readable_number
from support.cli import run
from support.tables import sales

FIT = ("--task", "month", "--target", "sales")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = sales(range(1, 13))
    for name, last in (("sales", 10), ("november", 11), ("december", 12)):
        first = 1 if name == "sales" else last
        table[table["month"].between(first, last)].to_csv(f"{name}.csv", index=False)
    return tmp_path


def fitted(capsys, *words, file="sales.csv", out="m.safetensors"):
    code, text, err = run(capsys, "fit", file, *FIT, "--out", out, *words)
    assert (code, err) == (0, ""), err
    return text


def test_the_first_hour(folder, capsys):
    out = fitted(capsys, "--report", "r.html")
    assert out.startswith("sales.csv: 10 tasks, 400 rows learned\n")
    assert "Next month: 9 of 10 rows within ± " in out
    assert "smaller than that of the mean" in out
    assert out.endswith("model: m.safetensors\nreport: r.html\n")
    code, out, err = run(capsys, "fit", "november.csv", "--from", "m.safetensors", "--out", "m.safetensors")
    assert (code, err) == (0, "")
    assert "november.csv: 1 task, 40 rows learned" in out
    code, out, err = run(capsys, "evaluate", "m.safetensors", "december.csv", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["tasks_of_file"]["task"] == ["12"]
    assert found["summary"].startswith("december.csv: 9 of 10 rows")
    assert found["rmse"] < 0.5 * found["rmse_of_the_mean"]
    code, out, err = run(capsys, "predict", "m.safetensors", "december.csv", "--out", "p.csv")
    assert (code, out, err) == (0, "40 predictions: p.csv\n", "")
    table = pd.read_csv("december.csv")
    predictions = pd.read_csv("p.csv")
    assert list(predictions.columns) == ["prediction", "low", "high"]
    rmse = np.sqrt(np.mean((predictions["prediction"] - table["sales"]) ** 2))
    assert rmse == pytest.approx(found["rmse"])
    assert np.mean((predictions["low"] < table["sales"]) & (table["sales"] < predictions["high"])) > 0.8
    deviations = fl.load("m.safetensors").predict(table, return_std=True)[1]
    np.testing.assert_allclose(predictions["high"] - predictions["low"], 2 * 1.645 * deviations, rtol=1e-3)


def test_json_has_the_errors_of_the_model_that_is_written(folder, capsys):
    found = json.loads(fitted(capsys, "--json"))
    history = fl.load("m.safetensors").history_
    errors, rows = zip(*[(each["error"], each["rows"]) for each in history[1:]], strict=True)
    assert found["rmse"] == pytest.approx(np.sqrt(np.average(errors, weights=rows)))
    assert (found["tasks"], found["rows"], found["target"]) == (10, 400, "sales")
    assert found["model"] == "m.safetensors"


@pytest.mark.parametrize("wrong", [range(9, 10), range(3, 13)])
def test_tasks_with_an_alarm_are_no_part_of_the_answer_unless_most_have_one(folder, capsys, wrong):
    table = sales(range(1, 13))
    noise = np.random.default_rng(0).standard_normal(len(table))
    is_wrong = table["month"].isin(wrong)
    table.assign(sales=table["sales"] + 3.0 ** table["month"] * noise * is_wrong).to_csv("t.csv", index=False)
    answer = json.loads(fitted(capsys, "--json", file="t.csv"))["summary"]
    model = fl.load("m.safetensors")
    alarmed = {alarm.task for alarm in model.alarms()}
    counted = [each["within"] for each in model.history_[1:] if len(wrong) > 1 or each["task"] not in alarmed]
    assert f"within ± {readable_number(np.mean(counted), '.3g')}" in answer
    assert (f"without tasks with an alarm ({len(alarmed)})" in answer) == (len(wrong) == 1)


def test_show_prints_what_a_model_knows(folder, capsys):
    fitted(capsys)
    code, out, err = run(capsys, "show", "m.safetensors")
    assert (code, err) == (0, "")
    for told in ("table-model, written by forgetless", "target sales", "10 tasks and 400 rows", "Ulm +", "a unit"):
        assert told in out
    found = json.loads(run(capsys, "show", "m.safetensors", "--json")[1])
    table = pd.read_csv("sales.csv")
    columns = dict(zip(found["columns"]["column"], zip(*list(found["columns"].values())[1:], strict=True), strict=True))
    gaps = round(100 * table["price"].isna().mean(), 1)
    assert columns == {"shop": ("category", 3, 0.0), "price": ("number", 2, gaps), "date": ("date", 8, 0.0)}
    assert found["effects"]["column"] == ["price", "shop", "date"]
    # Sales rise by 0.01 a unit of the price, and by 3 in one of three shops.
    assert found["effects"]["effect"][0] == pytest.approx(0.01 * table["price"].std(), rel=0.05)
    assert found["effects"]["effect"][1] == pytest.approx(3 * (table["shop"] == "Ulm").std(), rel=0.05)
    table.assign(ulm=np.where(table.pop("shop") == "Ulm", "yes", "no")).to_csv("two.csv", index=False)
    fitted(capsys, file="two.csv")
    effects = json.loads(run(capsys, "show", "m.safetensors", "--json")[1])["effects"]
    assert re.fullmatch(r"no -[\d.]+ … yes \+[\d.]+", effects["how"][effects["column"].index("ulm")])


def test_drop_number_and_classes(folder, capsys):
    rng = np.random.default_rng(0)
    firms = np.concatenate([rng.permutation(8) for _ in range(4)])
    table = pd.DataFrame({"month": np.repeat(range(1, 5), 8), "firm": firms, "x": rng.random(32)})
    table["sales"] = (table["firm"] > 3).astype(int)
    table.to_csv("panel.csv", index=False)
    out = fitted(capsys, file="panel.csv")
    assert "firm: integers that occur once a task" in out
    assert "sales holds 0 and 1 only: taken for numbers (--classes takes them for classes)" in out
    assert "taken for categories" not in fitted(capsys, "--number", "firm", file="panel.csv")
    assert "firm" not in fitted(capsys, "--drop", "firm", file="panel.csv")
    assert fl.load("m.safetensors").objective == "next"
    fitted(capsys, "--classes", "--objective", "all", file="panel.csv", out="c")
    assert fl.load("c").objective == "all"
    code, out, _ = run(capsys, "predict", "c", "panel.csv")
    assert (code, out.splitlines()[0]) == (0, '"prediction","probability 0","probability 1"')
    assert len(out.splitlines()) == 33


def test_a_changed_unit_is_said_before_it_is_learned(folder, capsys):
    fitted(capsys)
    table = pd.read_csv("december.csv")
    table.assign(rain=1.0, price=100 * table["price"]).drop(columns="shop").to_csv("cents.csv", index=False)
    code, out, _ = run(capsys, "evaluate", "m.safetensors", "cents.csv")
    assert code == 0
    assert 0 < out.index("unit × 100 (percent, cents)") < out.index("is new")  # severe changes first
    assert "shop    12        is not in this table: taken for missing" in out
    code, out, _ = run(capsys, "fit", "cents.csv", "--from", "m.safetensors", "--out", "n")
    assert "Alarm: 12: " in out
    assert out.index("What changed") < out.index("Alarm")
    code, out, _ = run(capsys, "fit", "november.csv", "--from", "m.safetensors", "--out", "n")
    code, out, _ = run(capsys, "fit", "november.csv", "--from", "n", "--out", "n")
    assert "Warning: learned before, and counts twice: 11" in out


def test_classes_of_text(folder, capsys):
    table = pd.read_csv("sales.csv")
    table["sales"] = np.where(table["sales"] > 25, "=high", "low")
    table.to_csv("classes.csv", index=False)
    out = fitted(capsys, "--report", "r.html", file="classes.csv")
    assert "of the rows in the wrong class; always" in out
    found = json.loads(run(capsys, "show", "m.safetensors", "--json")[1])
    assert 0 < found["error"] < 0.5 * found["mean"]
    page = (folder / "r.html").read_text()
    for told in ("base rate", "Calibration", "Log-loss"):
        assert told in page
    out = run(capsys, "predict", "m.safetensors", "classes.csv")[1].splitlines()
    assert out[0].startswith('"prediction","probability =high"') or "'=high" in out[0]
    assert not any(line.lstrip('"').startswith("=") for line in out)  # what spreadsheets execute


@pytest.mark.parametrize("always", ["same", 3.7, 0.0])
def test_a_target_that_never_varies_is_called_so(folder, capsys, always):
    """Rather than errors and intervals of 1e-16."""
    pd.read_csv("sales.csv").assign(sales=always).to_csv("other.csv", index=False)
    out = fitted(capsys, "--report", "r.html", file="other.csv")
    page = (folder / "r.html").read_text()
    assert "The target never varies" in out
    assert "The target never varies" in page
    assert not [each for each in ("within ±", "intervals", "predicted too") if each in out]
    assert "interval is" not in page


def test_predictions_of_blank_lines_are_left_out(folder, capsys):
    fitted(capsys)
    with open("december.csv", "a") as file:
        file.write("\n\n")
    code, out, _ = run(capsys, "predict", "m.safetensors", "december.csv")
    assert (code, len(out.splitlines())) == (0, 1 + 40)


def test_the_report_answers_first(folder, capsys):
    table = sales(range(1, 13))
    table.loc[table["month"] == 9, "price"] *= 100
    table.to_csv("t.csv", index=False)
    fitted(capsys, "--report", "r.html", file="t.csv")
    text = (folder / "r.html").read_text()
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    words = "".join(page.itertext())
    answer = "Next month, without tasks with an alarm (1): 9 of 10 rows within ±\xa0"
    for told in ("Target sales", "t.csv", "480 rows", fl.__version__, answer, "cut, up to"):
        assert told in words
    order = ["Target sales", "Next month", "Alarms", "Error by task", "What changed", "What the columns do", "Columns"]
    places = [words.index(each) for each in order]
    assert places == sorted(places)
    svg = "{http://www.w3.org/2000/svg}"
    picture = next(page.iter(f"{svg}svg"))
    dots = [dot for dot in picture.iter(f"{svg}circle") if dot.get("class") == "alarm"]
    assert [next(dot.iter(f"{svg}title")).text.split(":")[0] for dot in dots] == ["9"]
    names = {each.text for each in picture.iter(f"{svg}text")}
    assert {"2", "5", "8"} <= names
    assert "http" not in text.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: {"m": ["a", 1, 2.5, None, "2020-01-01"] * 20, "none": None, "c": 7},
        lambda rng: {"id": [f"c{i}" for i in rng.permutation(100)]},
        lambda rng: {"x": np.where(rng.random(100) < 0.2, np.inf, rng.standard_normal(100))},
        lambda rng: {"x": 5.0},
        lambda rng: {"x": (x := rng.standard_normal(100)), "again": x, "minus": -x},
        lambda rng: {"x": 1e-300 * rng.random(100), "y": 1e100 * rng.random(100)},
    ],
)
@pytest.mark.parametrize("size", [1, 10])
def test_strange_tables_give_a_model_that_predicts(folder, capsys, make, size):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"month": np.arange(100) // size, "sales": rng.random(100)}).assign(**make(rng))
    table.to_csv("t.csv", index=False)
    fitted(capsys, "--report", "r.html", file="t.csv")
    assert np.isfinite(fl.load("m.safetensors").predict(table)).all()
    assert run(capsys, "show", "m.safetensors")[0] == 0


def test_interrupted_work_leaves_the_file(folder, capsys, monkeypatch):
    fitted(capsys)
    before = (folder / "m.safetensors").read_bytes()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("forgetless.tables.TableModel.partial_fit", stop)
    assert cli.main(["fit", "november.csv", "--from", "m.safetensors", "--out", "m.safetensors"]) == 130
    assert (folder / "m.safetensors").read_bytes() == before


def test_a_fit_imports_nothing_that_takes_long_and_is_not_needed(folder):
    """What waits is whole when it is asked for."""
    code = (
        "import sys\nfrom forgetless import cli\ntry:\n    cli.run()\nexcept SystemExit:\n    loaded = {*sys.modules}\n"
        "import scipy.stats\nfrom scipy.stats import norm\nimport scipy.stats._stats_py\n"
        "print([each for each in ('matplotlib', 'numba', 'jinja2', 'scipy.stats._stats_py') if each in loaded])\n"
        "print(sum(name.split('.')[0] == 'forgetless' for name in loaded) <= 30)\n"
        "print(norm.cdf(0.0), scipy.stats.norm is norm, type(sys.modules['scipy.stats']).__name__)"
    )
    words = (sys.executable, "-c", code, "fit", "sales.csv", *FIT, "--out", "m.safetensors")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-3:] == ["[]", "True", "0.5 True module"]

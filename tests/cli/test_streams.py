"""``forgetless fit`` and ``predict``, and the report of a stream, as a user meets them."""

import json
from pathlib import Path
from types import SimpleNamespace

import html5lib
import numpy as np
import pandas
import pytest

import forgetless as fl
from forgetless.tables.task_files import TableTasks
from support.cli import run

FEATURES = ["f0", "f1", "f2"]


def load_table(path, task, target):
    table = pandas.read_csv(path)
    return SimpleNamespace(X=table[FEATURES].to_numpy(), y=table[target].to_numpy(), groups=table[task].to_numpy())


@pytest.fixture
def frame(rng):
    teacher, parts = np.array([1.0, -2.0, 0.5]), []
    for station in ["north", "south", "east", "west"]:
        X = rng.standard_normal((15, 3))
        part = pandas.DataFrame(X, columns=FEATURES)
        parts.append(part.assign(station=station, pm25=X @ teacher + 4 + 0.1 * rng.standard_normal(15)))
    return pandas.concat(parts, ignore_index=True)


@pytest.fixture
def folder(tmp_path, frame, monkeypatch):
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame.to_parquet(tmp_path / "data.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fit_with_a_memory(folder, capsys):
    code, _, err = run(capsys, "fit", "data.csv", *FIT, "--rank", 2)
    assert (code, err) == (0, "")
    model = fl.load("model.npz")[-1]
    assert model.rank == 2
    assert 0 < model.retained_fraction_ < 1
    code, _, err = run(capsys, "fit", "data.csv", *FIT, "--schedule", "fixed-budget:5", "--rank", 2)
    assert code == 2
    assert "--rank needs --schedule auto" in err


FIT = ("--task", "station", "--target", "pm25", "--out", "model.npz")


@pytest.mark.parametrize("file", ["data.csv", "data.parquet"])
@pytest.mark.parametrize(
    "schedule",
    ["auto", "none", "fixed", "increasing", "increasing:0.2", "ridge:0.1", "fixed-budget:5", "increasing-budget:3"],
)
def test_fit_then_predict(folder, frame, file, schedule, capsys):
    code, out, err = run(capsys, "fit", file, *FIT, "--schedule", schedule)
    assert (code, err) == (0, "")
    assert "4 tasks learned" in out
    kind = fl.StreamingRidge if schedule == "auto" else fl.ContinualGD if "budget" in schedule else fl.ContinualRidge
    model = fl.load("model.npz")
    assert isinstance(model[-1], kind)
    assert model[-1].n_tasks_seen_ == 4
    assert model[0].get_feature_names_out().tolist() == FEATURES
    # Columns in another order, and some the model does not know.
    frame[["station", "f2", "f1", "pm25", "f0"]].to_csv("new.csv", index=False)
    code, out, _ = run(capsys, "predict", "model.npz", "new.csv")
    assert code == 0
    np.testing.assert_allclose([float(line) for line in out.split()[1:]], model.predict(frame[FEATURES]))
    code, out, _ = run(capsys, "predict", "model.npz", "new.csv", "--out", "p.csv")
    np.testing.assert_allclose(pandas.read_csv("p.csv")["prediction"], model.predict(frame[FEATURES]))


def parts(table, labels):
    """Return the tasks of a table in some order."""
    return [(label, table.X[table.groups == label], table.y[table.groups == label]) for label in labels]


def test_fit_is_what_the_library_does(folder, frame, capsys):
    words = ("fit", "data.csv", *FIT, "--schedule", "ridge:0.3", "--json", "--seed", 3)
    code, out, _ = run(capsys, *words, "--no-refit")
    found = json.loads(out)
    model = fl.ContinualRidge(0.3, fit_intercept=True)
    tasks = parts(load_table("data.csv", "station", "pm25"), ["north", "south", "east", "west"])
    stream = fl.evaluate_stream(model, tasks, holdout=0.2, seed=3)
    assert code == 0
    np.testing.assert_allclose(fl.load("model.npz")[-1].coef_, model.coef_, rtol=1e-12)
    assert stream.tasks == ["north", "south", "east", "west"]
    assert found["rmse_at_the_end"] == pytest.approx(np.sqrt(stream.errors[-1].mean()))
    assert found["prequential_rmse"] == pytest.approx(np.sqrt(model.prequential_mse_))
    assert found["rmse_of_joint_ridge"] < 0.2 < found["rmse_of_the_mean"]
    assert (found["rows"], found["rows_held_out"]) == (48, 12)
    # With the held-out rows, after the same errors.
    refitted = json.loads(run(capsys, *words)[1])
    assert (refitted.pop("rows"), refitted.pop("rows_held_out")) == (60, 12)
    assert all(refitted[name] == found[name] for name in refitted)
    model = fl.ContinualRidge(0.3, fit_intercept=True)
    fl.evaluate_stream(model, tasks)
    np.testing.assert_allclose(fl.load("model.npz")[-1].coef_, model.coef_, rtol=1e-12)


def test_fit_of_an_average(folder, frame, capsys):
    words = ["data.csv", "--task", "station", "--target", "pm25", "--schedule", "ridge:0.5", "--out", "m.npz"]
    code, _, err = run(capsys, "fit", *words, "--average", 2)
    assert (code, err) == (0, "")
    model = fl.load("m.npz")[-1]
    assert model.average == 2
    assert model._state.total == pytest.approx((1 + 4 + 9 + 16) / 16)


def test_classes_are_predicted_as_words(folder, frame, capsys):
    model = fl.StreamingRidgeClassifier().fit(frame[FEATURES], frame["station"])
    model.save("model.npz")
    code, out, _ = run(capsys, "predict", "model.npz", "data.csv")
    assert code == 0
    lines = [line.split(",") for line in out.split()]
    assert lines[0] == ["prediction", *(f"probability_{label}" for label in model.classes_)]
    assert [line[0] for line in lines[1:]] == model.predict(frame[FEATURES]).tolist()
    probabilities = np.array([line[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(probabilities, model.predict_proba(frame[FEATURES]))
    assert run(capsys, "predict", "model.npz", "data.csv", "--std")[0] == 2


@pytest.fixture
def labelled(rng, folder):
    """Tables of rows in three classes, of which the last comes with the third task."""
    centers, parts = 3.0 * np.eye(3), []
    for day in range(1, 6):
        codes = rng.integers(0, 2 if day < 3 else 3, 40)
        X = centers[codes] + rng.standard_normal((40, 3))
        names = np.array(["low", "high", "=danger"])[codes]
        parts.append(pandas.DataFrame(X, columns=FEATURES).assign(day=day, level=names, code=codes, odd=codes == 1))
    table = pandas.concat(parts, ignore_index=True)
    table[table.day < 3].to_csv("first.csv", index=False)
    table[table.day >= 3].to_csv("second.csv", index=False)
    table.to_csv("all.csv", index=False)
    return table


def test_tables_with_classes(labelled, capsys):
    fit = ("--task", "day", "--target", "level", "--drop", "code", "--drop", "odd")
    code, out, _ = run(capsys, "fit", "all.csv", *fit, "--out", "all.fl", "--report", "page.html")
    assert code == 0
    assert "error rate" in out
    text = Path("page.html").read_text()
    assert all(part in text for part in ("<h2>Classes</h2>", "probability predicted", "=danger"))
    html5lib.HTMLParser(strict=True).parse(text)
    code, out, _ = run(capsys, "fit", "first.csv", *fit, "--out", "model.fl", "--json")
    summary = json.loads(out)
    assert summary["error_at_the_end"] < 0.15 < summary["error_of_the_mean"]
    assert 0 < summary["log_loss"] < 0.5
    code, out, _ = run(capsys, "fit", "second.csv", "--from", "model.fl", "--out", "model.fl")
    assert (code, "new classes: =danger" in out) == (0, True)
    model, whole = fl.load("model.fl"), fl.load("all.fl")
    np.testing.assert_allclose(model[-1].coef_, whole[-1].coef_, rtol=1e-6)
    assert model.table_["classes"] == labelled["level"].value_counts().to_dict()
    code, out, _ = run(capsys, "evaluate", "model.fl", "all.csv", "--json")
    figures = json.loads(out)
    predicted = model.predict(labelled[FEATURES])
    wrong = pandas.Series(predicted != labelled["level"]).groupby(labelled["day"]).mean()
    assert figures["error"] == pytest.approx(wrong.mean())
    assert figures["error"] <= figures["error_of_ridge_fitted_here"] + 0.05
    code, out, _ = run(capsys, "predict", "model.fl", "all.csv")
    assert out.split("\n")[0] == "prediction,probability_=danger,probability_high,probability_low"
    assert "'=danger," in out  # as text for a spreadsheet
    code, out, _ = run(capsys, "evaluate", "model.fl", "second.csv")
    assert "log-loss" in out
    assert run(capsys, "show", "model.fl")[1].count("temperature of the probabilities") == 1


def test_new_classes_count_as_errors_before_they_are_learned(labelled, capsys):
    run(capsys, "fit", "first.csv", "--task", "day", "--target", "level", "--features", "f0", "--out", "model.fl")
    code, out, _ = run(capsys, "evaluate", "model.fl", "second.csv")
    count = int((labelled[labelled.day >= 3]["level"] == "=danger").sum())
    assert (code, f"{count} rows are of classes that the model has not learned: =danger" in out) == (0, True)


@pytest.mark.parametrize(("target", "options", "classes"), [("odd", (), 2), ("code", ("--classes",), 3)])
def test_booleans_are_classes_and_numbers_on_request(labelled, capsys, target, options, classes):
    fit = ("--task", "day", "--target", target, "--features", "f0", "--features", "f1", "--out", "model.fl")
    assert run(capsys, "fit", "all.csv", *fit, *options)[0] == 0
    assert len(fl.load("model.fl")[-1].classes_) == classes
    if options:
        assert run(capsys, "fit", "all.csv", *fit)[0] == 0
        assert isinstance(fl.load("model.fl")[-1], fl.StreamingRidge)


def test_one_class_is_reported(folder, frame, capsys):
    frame.assign(wind="strong").to_csv("words.csv", index=False)
    code, out, _ = run(capsys, "fit", "words.csv", *FIT[:2], "--target", "wind", "--out", "m.fl")
    assert (code, "wind has one class only so far" in out) == (0, True)


def test_several_targets(folder, frame, capsys):
    frame.assign(ozone=frame["f0"]).to_csv("two.csv", index=False)
    code, _, _ = run(capsys, "fit", "two.csv", *FIT, "--target", "ozone", "--no-intercept")
    assert code == 0
    code, out, _ = run(capsys, "predict", "model.npz", "two.csv")
    assert out.splitlines()[0] == "prediction_pm25,prediction_ozone"
    assert fl.load("model.npz")[-1].coef_.shape == (2, 3)
    assert json.loads(run(capsys, "show", "model.npz", "--json")[1])["coefficients"].keys() == {
        "feature",
        "pm25",
        "ozone",
    }


def test_report_is_one_valid_page_with_the_same_figures(folder, capsys):
    code, out, _ = run(capsys, "fit", "data.csv", *FIT, "--schedule", "increasing:0.1", "--report", "report.html")
    assert code == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    html5lib.HTMLParser(strict=True).parse(page)
    assert page.count("data:image/png;base64,") == 2
    assert "http" not in page
    for label in ("north", "south", "east", "west"):
        assert f"<td>{label}</td>" in page
    told = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    assert len(told) >= 3
    assert all(line in page for line in told)


def test_random_order_is_seeded(folder):
    def order(seed):
        return [part.label for part in TableTasks(Path("data.csv"), "station", ("pm25",), order="random", seed=seed)]

    assert order(0) == order(0)
    assert len({tuple(order(seed)) for seed in range(4)}) > 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("fit", "nothing.csv", *FIT), 1, "there is no file nothing.csv"),
        (("fit", "data.csv", "--task", "city", "--target", "pm25", "--out", "m.npz"), 1, "no column 'city'"),
        (("fit", "data.csv", *FIT, "--schedule", "rising"), 2, "none, ridge:COEFFICIENT, fixed, increasing"),
        (("fit", "data.csv", *FIT, "--schedule", "ridge:-1"), 2, "coefficient must be nonnegative"),
        (("fit", "data.csv", *FIT, "--schedule", "ridge:x"), 2, "--schedule"),
        (("fit", "data.csv", *FIT, "--holdout", "1"), 2, "--holdout"),
        (("fit", "data.csv", *FIT, "--report", "no/such/report.html"), 2, "there is no folder"),
        (("fit", "model.npz", *FIT), 2, "--out and FILE are the same file"),
        (("fit", "data.csv", *FIT, "--report", "model.npz"), 2, "--report and --out are the same file"),
        (("predict", "model.npz", "data.csv", "--out", "data.csv"), 2, "--out and FILE are the same file"),
        (("fit", "data.csv", *FIT, "--target", "pm25"), 1, "targets must be different columns"),
        (
            ("fit", "words.csv", *FIT[:2], "--target", "wind", "--out", "m.npz", "--schedule", "fixed-budget:5"),
            2,
            "classes and --objective next need --schedule auto",
        ),
        (("fit", "gaps.csv", *FIT, "--impute", "error"), 1, "column 'f1' has missing or infinite values"),
        (("fit", "data.csv", "--target", "pm25", "--out", "m.npz"), 2, "with --task NAME; data.csv has f0, f1, f2"),
        (("fit", "data.csv", *FIT, "--drop", "wind"), 1, "no column 'wind'; it has f0"),
        (("fit", "data.csv", "--from", "model.npz", "--out", "m.npz", "--rank", "3"), 2, "--rank was decided"),
        (("fit", "few.csv", "--from", "model.npz", "--out", "m.npz"), 1, "no column 'station' for the task"),
        (("fit", "data.csv", *FIT, "--chunk-rows", "7", "--order", "sorted"), 1, "needs the order of the file"),
        (("evaluate", "data.parquet", "data.csv"), 1, "damaged or not a forgetless file"),
        (("predict", "model.npz", "data.csv", "--id", "name"), 1, "no column 'name' for --id"),
        (("predict", "data.parquet", "data.csv"), 1, "damaged or not a forgetless file"),
        (("predict", "model.npz", "few.csv"), 1, "X lacks 2 of the 3 columns known so far, e.g. 'f1'"),
        (("predict", "model.npz", "data.txt"), 1, "there is no file data.txt"),
    ],
)
def test_mistakes_are_one_sentence(folder, frame, capsys, words, code, message):
    assert run(capsys, "fit", "data.csv", *FIT)[0] == 0
    before = (folder / "model.npz").read_bytes()
    frame.assign(wind="strong").to_csv("words.csv", index=False)
    frame.assign(f1=[None, None, *frame["f1"][2:]]).to_csv("gaps.csv", index=False)
    frame[["f0"]].to_csv("few.csv", index=False)
    found, out, err = run(capsys, *words)
    assert found == code
    assert message in err
    assert "Traceback" not in err
    assert out == ""
    assert (folder / "model.npz").read_bytes() == before

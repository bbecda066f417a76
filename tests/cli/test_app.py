"""The command line, as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from forgetless.cli import shared
from support.processes import listening


@pytest.fixture
def archive(tmp_path, rng):
    X, w = rng.standard_normal((12, 4)), rng.standard_normal(4)
    path = tmp_path / "tasks.npz"
    np.savez(path, X=X, y=X @ w, groups=np.repeat(["a", "b", "c"], 4))
    return path


@pytest.fixture
def tables(archive, tmp_path):
    import pandas

    with np.load(archive) as data:
        frame = pandas.DataFrame(data["X"], columns=list("pqrs")).assign(y=data["y"], station=data["groups"])
    frame.to_csv(tmp_path / "tasks.csv", index=False)
    frame.to_parquet(tmp_path / "tasks.parquet")
    return tmp_path / "tasks.csv", tmp_path / "tasks.parquet"


def run(capsys, *words):
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    "form", [("--loss", "sum", "--no-intercept"), ("--loss", "mean", "--intercept", "--standardize")]
)
def test_every_format_gives_the_same_tasks(archive, tables, capsys, form):
    _, expected, _ = run(capsys, "lab", "expect", archive, "--k", 10, "--json", *form)
    for path in tables:
        words = (path, "--k", 10, "--json", "--task", "station", "--target", "y")
        code, out, err = run(capsys, "lab", "expect", *words, *form)
        assert (code, err) == (0, "")
        for name, values in json.loads(out).items():
            np.testing.assert_allclose(values, json.loads(expected)[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "schedule", ["none", "fixed", "increasing", "increasing:0.5", "ridge:0.3", "fixed-budget:3", "increasing-budget"]
)
@pytest.mark.parametrize("ordering", ["with-replacement", "cyclic", "random-reshuffling"])
def test_commands_agree_with_the_library(archive, schedule, ordering, capsys):
    words = [archive, "--k", 6, "--schedule", schedule, "--ordering", ordering, "--json"]
    code, out, _ = run(capsys, "lab", "expect", *words, "--record", "last")
    tasks = fl.TaskCollection.from_arrays(**dict(np.load(archive)))
    expected = fl.expect(tasks, shared.schedule_of(schedule, 3), 6, ordering=ordering, metrics=fl.metrics.METRICS)
    assert code == 0
    assert json.loads(out)["drift"] == pytest.approx(expected.drift.tolist())
    code, out, _ = run(capsys, "lab", "simulate", *words, "--trials", 300)
    assert json.loads(out)["step"][-1] == 6
    code, out, _ = run(capsys, "lab", "compare-bounds", *words)
    assert json.loads(out)["average_loss"] == pytest.approx(expected.average_loss[0])
    code, out, _ = run(capsys, "lab", "worst-case", *words, "--record", "last")
    worst = fl.worst_case(tasks, shared.schedule_of(schedule, 3), 6, ordering=ordering)
    assert json.loads(out) == {"step": [6], "worst_case": pytest.approx([worst.loss], rel=1e-12)}


@pytest.mark.parametrize("ordering", ["greedy-residual", "greedy-distance"])
def test_greedy_orders_agree_with_the_library(archive, ordering, capsys):
    words = [archive, "--k", 3, "--schedule", "ridge:0.3", "--ordering", ordering, "--json", "--record", "last"]
    tasks = fl.TaskCollection.from_arrays(**dict(np.load(archive)))
    exact = fl.expect(tasks, 0.3, 3, ordering=ordering, metrics=fl.metrics.METRICS)
    for verb in ("expect", "simulate"):
        code, out, _ = run(capsys, "lab", verb, *words)
        assert code == 0
        assert json.loads(out)["drift"] == pytest.approx(exact.drift.tolist(), rel=1e-9)
    code, _, err = run(capsys, "lab", "worst-case", *words)
    assert code != 0
    assert "Greedy" in err


@pytest.mark.parametrize("ordering", ["with-replacement", "cyclic"])
def test_averages_agree_with_the_library(archive, ordering, capsys):
    words = [archive, "--k", 20, "--schedule", "none", "--ordering", ordering, "--record", "last", "--average", 2]
    law = {"cyclic": fl.Cyclic(), "with-replacement": fl.WithReplacement()}[ordering]
    tasks = fl.TaskCollection.from_arrays(**dict(np.load(archive)))
    code, out, _ = run(capsys, "lab", "expect", *words, "--json")
    exact = fl.expect(tasks, fl.Projection(), 20, ordering=law, average=2).average_loss.tolist()
    assert (code, json.loads(out)) == (0, {"step": [20], "average_loss": pytest.approx(exact, rel=1e-12)})
    code, out, _ = run(capsys, "lab", "simulate", *words, "--trials", 30, "--json")
    trace = fl.simulate(tasks, fl.Projection(), 20, ordering=law, n_trials=30, seed=0, record="last", average=2)
    assert json.loads(out)["drift"] == pytest.approx([trace.drift.mean()], rel=1e-9)
    assert json.loads(out)["drift_se"] == pytest.approx([trace.drift.std(ddof=1) / np.sqrt(30)], rel=1e-9)
    assert "of the average with weights t^2" in run(capsys, "lab", "expect", *words)[1]
    assert run(capsys, "lab", "expect", archive, "--k", 3, "--average", -1)[0] == 2


def test_tables_for_people(archive, capsys):
    for command in ("expect", "simulate"):
        code, out, _ = run(capsys, "lab", command, archive, "--k", 50)
        assert code == 0
        assert "average_loss" in out
        assert out.splitlines()[-1].split()[0] == "50"
    assert "bound that applies" in run(capsys, "lab", "compare-bounds", archive, "--k", 50)[1]
    code, out, _ = run(capsys, "lab", "bounds")
    count = len(fl.theory.bounds.catalogue)
    assert out.count(" bound of ") == count
    assert len(json.loads(run(capsys, "lab", "bounds", "--json")[1])) == count


@pytest.mark.parametrize("objective", ["average_loss", "seen_loss", "worst_case", "worst-case"])
def test_advise_agrees_with_the_library(archive, objective, capsys):
    words = ["advise", archive, "--k", 12, "--objective", objective, "--json"]
    code, out, err = run(capsys, *words, "--loss", "sum", "--no-intercept")
    assert (code, err) == (0, "")
    tasks = fl.TaskCollection.from_arrays(**dict(np.load(archive)))
    expected = fl.advise(tasks, 12, objective=objective)
    assert json.loads(out) == json.loads(json.dumps(expected.to_dict()))


@pytest.fixture
def uncentred(tmp_path):
    """A table of tasks of different sizes whose targets have a large mean."""
    import pandas

    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 3))
    y = 50 + X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(30)
    frame = pandas.DataFrame(X, columns=list("pqr")).assign(y=y, station=np.repeat([0, 1, 2, 3], [3, 5, 9, 13]))
    frame.to_csv(tmp_path / "uncentred.csv", index=False)
    return tmp_path / "uncentred.csv", frame


@pytest.mark.parametrize(
    ("objective", "loss", "intercept"),
    [
        ("average_loss", "mean", True),
        ("average_loss", "mean", False),
        ("average_loss", "sum", True),
        ("seen_loss", "mean", True),
        ("worst_case", "sum", False),
        ("validation", "mean", True),
    ],
)
def test_the_code_that_advise_prints_gives_the_loss_it_states(objective, loss, intercept, uncentred, capsys):
    """The model in it, learning the rows of the table, ends where advice says: in the order of a cycle, exactly."""
    path, frame = uncentred
    words = ["advise", path, "--k", 8, "--task", "station", "--target", "y", "--ordering", "cyclic"]
    words += ["--objective", objective, "--loss", loss, "--intercept" if intercept else "--no-intercept"]
    words += ["--validation", path] if objective == "validation" else []
    found = json.loads(run(capsys, *words, "--json")[1])
    stated, average = found["loss"], found["average"]
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    said, _, printed = out.partition("To use it:")
    assert max(len(line) for line in said.splitlines()) <= 100 or objective == "validation"
    namespace = {}
    exec("\n".join(line.strip() for line in printed.splitlines()), namespace)
    assert namespace["loss"] == pytest.approx(stated, rel=1e-9)
    assert (average is None) == (objective == "validation")
    if average is not None:
        assert namespace["anytime_loss"] == pytest.approx(average["loss"], rel=1e-9)
    if objective == "worst_case":
        return
    expected = {"model": stated} if average is None else {"model": stated, "anytime": average["loss"]}
    for name, value in expected.items():
        model, parts = namespace[name], [frame[frame["station"] == m] for m in range(4)]
        for t in range(8):
            model.partial_fit(parts[t % 4][list("pqr")].to_numpy(), parts[t % 4]["y"].to_numpy())
        errors = [0.5 * (model.predict(part[list("pqr")].to_numpy()) - part["y"].to_numpy()) ** 2 for part in parts]
        losses = [error.mean() if loss == "mean" else error.sum() for error in errors]
        assert np.mean(losses) == pytest.approx(value, rel=1e-8)


def test_the_printed_code_of_random_orders_and_of_runs_gives_the_stated_loss(uncentred, capsys):
    words = ["advise", uncentred[0], "--k", 20, "--task", "station", "--target", "y"]
    for extra in ([], ["--trials", 300], ["--validation", uncentred[0]]):
        best = json.loads(run(capsys, *words, *extra, "--json")[1])
        namespace = {}
        exec(
            "\n".join(line.strip() for line in run(capsys, *words, *extra)[1].split("To use it:")[1].splitlines()),
            namespace,
        )
        assert best["n_runs"] == (300 if extra[:1] == ["--trials"] else 0)
        spread = 6 * best["table"][0]["error"] if best["n_runs"] else 0.0
        spread += 0.2 * best["loss"] if best["objective"] == "validation" else 0.0
        assert abs(namespace["loss"] - best["loss"]) <= spread + 1e-9 * best["loss"]
        if best["average"] is not None:
            stated, error = best["average"]["loss"], best["average"]["error"]
            assert abs(namespace["anytime_loss"] - stated) <= (8 * error if best["n_runs"] else 0.0) + 1e-9 * stated


def test_uncentred_targets_are_noticed(uncentred, capsys):
    words = ["advise", uncentred[0], "--k", 8, "--task", "station", "--target", "y"]
    for loss in ("mean", "sum"):
        out = " ".join(run(capsys, *words, "--loss", loss, "--no-intercept")[1].split())
        assert "targets are not centred" in out
        assert "not centred" not in " ".join(run(capsys, *words, "--loss", loss)[1].split())
    frame = uncentred[1]
    X, y = frame[list("pqr")].to_numpy(), frame["y"].to_numpy()
    gained = 1 - _least(np.column_stack([X, np.ones(30)]), y) / _least(X, y)
    tasks = fl.TaskCollection.from_arrays(X, y, frame["station"].to_numpy())
    note = next(note for note in fl.advise(tasks, 8).notes if "not centred" in note)
    assert f"take away {np.floor(100 * gained):.0f} % of the least possible loss" in note
    assert f"mean {y.mean():.3g}, standard deviation {y.std():.3g}" in note


def _least(X, y):
    return np.sum((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2)


@pytest.mark.parametrize("name", ["end-ramp:1/2,0.1", "noise-aware:0.1", "increasing:0.5", "increasing-budget:4,0.5"])
def test_schedule_names_mean_the_same_to_every_command_and_estimator(name, uncentred, tmp_path, capsys):
    path, frame = uncentred
    schedule = shared.schedule_of(name, 4)
    words = [path, "--task", "station", "--target", "y", "--schedule", name]
    for command in ("expect", "compare-bounds", "simulate", "worst-case"):
        assert run(capsys, "lab", command, *words, "--k", 4)[0] == 0
    assert run(capsys, "fit", *words, "--out", tmp_path / "model.npz")[0] == 0
    X, y, groups = frame[list("pqr")].to_numpy(), frame["y"].to_numpy(), frame["station"].to_numpy()
    for kind in (fl.ContinualRidge, fl.ContinualGD):
        named, given = (kind(schedule=each, n_tasks=4).fit(X, y, groups=groups) for each in (name, schedule))
        np.testing.assert_array_equal(named.coef_, given.coef_)


def test_advise_with_held_out_rows(tables, capsys):
    words = ["advise", tables[0], "--k", 9, "--task", "station", "--target", "y", "--json"]
    code, out, _ = run(capsys, *words, "--validation", tables[1])
    assert code == 0
    found = json.loads(out)
    assert found["objective"] == "validation"
    assert found["loss"] == pytest.approx(found["table"][0]["average_loss"])  # the same rows
    code, out, _ = run(capsys, *words, "--validation", tables[1], "--objective", "average_loss")
    assert (code, json.loads(out)["objective"]) == (0, "average_loss")


BAD = [
    (["advise", "ARCHIVE"], 2, "Missing option '--k'"),
    (
        ["advise", "ARCHIVE", "--k", "5", "--objective", "best"],
        2,
        "--objective must be one of average_loss, seen_loss, worst_case, validation, got 'best'",
    ),
    (["advise", "ARCHIVE", "--k", "5", "--objective", "validation"], 2, "needs held-out rows"),
    (["advise", "ARCHIVE", "--k", "5", "--validation", "missing.npz"], 1, "there is no file"),
    (["advise", "ARCHIVE", "--k", "5", "--objective", "worst_case", "--trials", "2"], 1, "which no runs sample"),
    (["advise", "ARCHIVE", "--k", "9", "--ordering", "without-replacement"], 1, "k must be at most"),
    (["lab", "expect", "missing.npz", "--k", "3"], 1, "there is no file"),
    (["lab", "expect", "ARCHIVE", "--k", "0"], 2, "0 is not in the range"),
    (["lab", "expect", "ARCHIVE"], 2, "Missing option '--k'"),
    (["lab", "expect", "ARCHIVE", "--k", "3", "--schedule", "rising"], 2, "increasing[:SCALE]"),
    (["lab", "expect", "ARCHIVE", "--k", "3", "--schedule", "ridge:-1"], 2, "coefficient must be nonnegative"),
    (["lab", "expect", "ARCHIVE", "--k", "2", "--schedule", "fixed"], 1, "k must be at least 3"),
    (["lab", "expect", "ARCHIVE", "--k", "9", "--ordering", "without-replacement"], 1, "k must be at most"),
    (["lab", "compare-bounds", "CSV", "--k", "3"], 1, "choose the task, with --task NAME"),
    (["lab", "compare-bounds", "CSV", "--k", "3", "--task", "x", "--target", "y"], 1, "no column 'x'"),
    (["lab", "compare-bounds", "CSV", "--k", "3", "--task", "y", "--target", "y"], 1, "different columns"),
    (
        ["lab", "compare-bounds", "CSV", "--k", "3", "--task", "p", "--target", "station"],
        1,
        "line 2: the target 'station' must be numbers, but holds strings, e.g. ",
    ),
    (["lab", "expect", "FOLDER", "--k", "3"], 1, "is a folder"),
    (["lab", "simulate", "ARCHIVE", "--k", "3", "--seed", "-1"], 2, "not in the range"),
    (["reproduce", "--out", "ARCHIVE"], 1, "is a file"),
    (["nothing"], 2, "No such command"),
    (["reproduce", "nothing"], 2, "not one of"),
]


@pytest.mark.parametrize(("words", "code", "message"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_errors_are_one_sentence(words, code, message, archive, tables, capsys):
    words = [
        {"ARCHIVE": str(archive), "CSV": str(tables[0]), "FOLDER": str(archive.parent)}.get(word, word)
        for word in words
    ]
    found, out, err = run(capsys, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "forgetless", "--version"], capture_output=True, text=True)
    assert (done.returncode, "forgetless" in done.stdout) == (0, True)


def test_debug_shows_where_it_happened(capsys):
    for words in (
        ["--debug", "lab", "expect", "missing.npz", "--k", "3"],
        ["lab", "expect", "missing.npz", "--k", "3", "--debug"],
    ):
        with pytest.raises(FileNotFoundError):
            cli.main(words)


def test_other_files_are_refused(tmp_path, capsys):
    (tmp_path / "x.doc").write_text("hello")
    assert ".npz or .fl files, not .doc" in run(capsys, "lab", "expect", tmp_path / "x.doc", "--k", 3)[2]
    np.savez(tmp_path / "y.npz", X=np.eye(2))
    assert "groups, y is missing" in run(capsys, "lab", "expect", tmp_path / "y.npz", "--k", 3)[2]
    (tmp_path / "z.npz").write_bytes(b"PK nonsense")
    code, _, err = run(capsys, "lab", "expect", tmp_path / "z.npz", "--k", 3)
    assert code == 1
    assert "damaged" in err
    assert "pickle" not in err
    for content, message in [
        (b"", "cannot be read as csv"),
        (b"\xff\xfe\x00", "is not written in UTF-8"),
        (b"t,a,y\n", "has no rows"),
        (b"t,a,y\n1,2,3\n,2,3\n", "1 rows have no value of 't'"),
        (b"t,a,y\n1,2,x\n", "line 2: the target 'y' must be numbers, but holds strings, e.g. 'x'"),
        (b"t,a,y\n1,,3\n", "no column has a value: nothing to learn from"),
        (b"t,y\n1,3\n", "no feature column"),
    ]:
        (tmp_path / "bad.csv").write_bytes(content)
        code, _, err = run(capsys, "lab", "expect", tmp_path / "bad.csv", "--k", 3, "--task", "t", "--target", "y")
        assert code == 1
        assert message in err


def test_the_installed_command_answers():
    command = Path(sys.executable).parent / "forgetless"
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert fl.__version__ in shown
    assert "reproduce" in subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    for shell in ("bash", "zsh", "fish"):
        script = subprocess.run([command, "completion", shell], capture_output=True, text=True, check=True).stdout
        assert "_FORGETLESS_COMPLETE" in script


def test_progress_goes_to_a_terminal_only(archive):
    command = [
        sys.executable,
        "-c",
        "from forgetless.cli import run; run()",
        "lab",
        "expect",
        archive,
        "--k",
        "5",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stderr == ""
    assert json.loads(done.stdout)["step"][-1] == 5


def test_certified_prints_the_bound_of_a_schedule(capsys):
    words = ("lab", "upper-bound", "--schedule", "increasing:1", "--k", 20, "--quantity", "seen_loss", "--radius", 2)
    code, out, err = run(capsys, *words, "--json")
    assert (code, err) == (0, "")
    found = fl.upper_bound(fl.schedules.increasing(1.0), 20, quantity="seen_loss", radius=2.0)
    assert json.loads(out) == found.to_dict()
    assert run(capsys, *words)[1] == f"{found!r}\n"
    code, out, _ = run(capsys, "lab", "upper-bound", "--schedule", "none", "--k", 20, "--average", 2)
    assert code == 0
    assert "t^2-average" in out
    code, _, err = run(capsys, "lab", "upper-bound", "--schedule", "increasing", "--k", 20, "--average", 2)
    assert code == 1
    assert "one fixed filter" in err
    code, _, err = run(capsys, "lab", "upper-bound", "--schedule", "cyclic", "--k", 20)
    assert code == 2
    assert "needs n_tasks" in err


def test_help_lists_every_command_on_one_line(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    commands = cli.app.cli.commands
    names = {*commands, *(f"lab {name}" for name in commands["lab"].commands)} - {"lab"}
    assert names == {name for lines in cli.app.GROUPS.values() for name in lines}
    for heading, lines in cli.app.GROUPS.items():
        assert f"\n{heading}:\n" in out
        for name, text in lines.items():
            assert sum(line.split() == [*name.split(), *text.split()] for line in out.splitlines()) == 1, name


@pytest.mark.parametrize("module", ["forgetless.cli.app", "numpy", "click"])
def test_ctrl_c_while_a_command_starts_is_one_line(module):
    """Whatever is imported when it comes."""
    code = f"""
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupting())
import forgetless.__main__
assert "numpy" not in sys.modules and "click" not in sys.modules
sys.argv = ["forgetless", "--help"]
forgetless.__main__.run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=listening)
    assert (done.returncode, done.stdout, done.stderr.split()) == (130, "", ["interrupted"])

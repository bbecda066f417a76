"""The command line, as a user meets it."""

import json
import subprocess
import sys
import webbrowser
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from support.cli import run
from support.processes import listening


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """A folder with a table, and a file of the same three tasks."""
    monkeypatch.chdir(tmp_path)
    X, w = rng.standard_normal((12, 4)), rng.standard_normal(4)
    y, stations = X @ w, np.repeat(["a", "b", "c"], 4)
    fl.TaskCollection.from_arrays(X, y, stations).save("tasks.safetensors")
    rows = [",".join([station, *map(repr, row)]) for station, row in zip(stations, np.c_[X, y].tolist(), strict=True)]
    Path("tasks.csv").write_text("\n".join(["station,p,q,r,s,y", *rows]))
    return tmp_path


ROLES = ("--task", "station", "--target", "y")


def data_of(path):
    """What a page was written with."""
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(text.split('<script id="data" type="application/json">')[1].split("</script>")[0])


def test_explore_writes_a_page_with_the_tasks_inside_and_opens_it(folder, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    words = ("explore", "tasks.csv", *ROLES, "--k", 40, "--schedule", "fixed", "--out", "page.html")
    assert run(capsys, *words) == (0, "page: page.html\n", "")
    assert opened == [(folder / "page.html").as_uri()]
    data, scope = data_of("page.html"), {"fl": fl}
    assert data["state"]["k"] == 40
    exec(data["source"], scope)
    again = fl.TaskCollection([(task["X"], task["y"]) for task in data["tasks"]["tasks"]])
    assert fl.expect(again, 1.0, 5).average_loss == pytest.approx(fl.expect(scope["tasks"], 1.0, 5).average_loss)
    assert run(capsys, "explore", "tasks.safetensors", "--no-browser", "--out", "other.html")[0] == 0
    assert len(opened) == 1
    assert run(capsys, "explore", "--no-browser")[0] == 0


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("increasing:13/3", fl.schedules.increasing()),
        ("increasing: 0.5", fl.schedules.increasing(0.5)),
        ("end_ramp:1/4,2e-1", fl.schedules.end_ramp(0.25, 0.2)),
        ("increasing-budget:3,1", fl.schedules.increasing_budget(3, 1.0)),
        ("cyclic:7", fl.schedules.cyclic(7)),
        ("cyclic", fl.schedules.cyclic(3)),
        ("minimax-budget:5,0.5", fl.schedules.minimax_budget(5, eta=0.5)),
        ("ridge:2", fl.Ridge(2.0)),
        ("none", fl.Projection()),
    ],
)
def test_a_schedule_is_a_name_and_numbers(folder, capsys, text, schedule):
    words = ("explore", "tasks.safetensors", "--no-browser", "--schedule", text, "--out", "page.html")
    assert run(capsys, *words)[0] == 0
    fl.explore(fl.load("tasks.safetensors"), schedule, out="same.html", show=False)
    assert data_of("page.html")["state"] == data_of("same.html")["state"]


SCHEDULES = [  # what is typed, and what is said of it
    ("incresing", "did you mean 'increasing'"),
    ("zigzag", "schedule 'zigzag' is not one of none, ridge:COEFFICIENT, fixed"),
    ("rising", "increasing[:SCALE], "),
    ("fixed:x", "minimax-budget[:N_STEPS[,ETA[,NOISE]]]"),
    ("none:1", "schedule 'none:1' is not one of"),
    ("ridge", "missing 1 required positional argument: 'coefficient'"),
    ("increasing-budget:1.5", "n_steps"),
    ("increasing:1/0", "is not one of"),
    ("increasing:1,2", "too many positional arguments"),
    ("ridge:1e400", "schedule 'ridge:1e400' is not one of"),
    ("ridge:-1", "coefficient must be nonnegative"),
    ("end-ramp:2", "length must lie in"),
]

BAD = [
    (["explore", "--task", "t"], 2, "--task needs a FILE"),
    (["explore", "missing.safetensors"], 1, "there is no file"),
    (["explore", "missing.csv", *ROLES], 1, "there is no file"),
    (["explore", "tasks.csv"], 2, "choose a column with --task: tasks.csv has station, p, q"),
    (["explore", "tasks.csv", "--task", "x", "--target", "y"], 1, "no column 'x'"),
    (["explore", "tasks.csv", "--task", "y", "--target", "y"], 1, "different columns"),
    (["explore", ".", *ROLES], 1, "is a folder"),
    *((["explore", "tasks.safetensors", "--schedule", text], 2, said) for text, said in SCHEDULES),
    (["explore", "--k", "0"], 2, "0 is not in the range"),
    (["explore", "--out", "nowhere/page.html"], 1, "there is no folder"),
    (["reproduce", "everything"], 2, "'everything' is not one of"),
    (["advice"], 2, "No such command 'advice'"),
]


@pytest.mark.parametrize(("words", "code", "message"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_errors_are_one_sentence(words, code, message, folder, capsys):
    found, out, err = run(capsys, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_debug_shows_where_it_happened():
    for words in (["--debug", "show", "missing"], ["show", "missing", "--debug"]):
        with pytest.raises(fl.errors.FileError):
            cli.main(words)


def test_the_installed_command_answers():
    command = Path(sys.executable).parent / "forgetless"
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert fl.__version__ in shown
    assert "reproduce" in subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout


def test_help_lists_every_command_on_one_line(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    listed = [name for lines in cli.GROUPS.values() for name in lines]
    assert listed == ["fit", "predict", "evaluate", "show", "reproduce", "explore"]
    for heading, lines in cli.GROUPS.items():
        assert f"\n{heading}:\n" in out
        for name, text in lines.items():
            assert sum(line.split() == [*name.split(), *text.split()] for line in out.splitlines()) == 1, name
            assert f"Examples:\n    forgetless {name}" in run(capsys, name, "--help")[1]


@pytest.mark.parametrize("module", ["forgetless.cli", "numpy", "click"])
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
sys.argv = ["forgetless", "show", "missing"]
forgetless.__main__.run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=listening)
    assert (done.returncode, done.stdout, done.stderr.split()) == (130, "", ["interrupted"])


def test_help_imports_neither_numpy_nor_pandas():
    code = """
import sys
from forgetless.cli import main
assert main(["--help"]) == 0
assert not {"numpy", "pandas", "sklearn", "scipy", "jinja2", "rich"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_other_files_are_shown_too(tmp_path, capsys):
    rng = np.random.default_rng(0)
    model = fl.ContinualRidge(alpha=1.0).partial_fit(rng.standard_normal((4, 3)), rng.standard_normal(4))
    model.save(tmp_path / "m")
    assert "ContinualRidge(alpha=1.0)" in run(capsys, "show", tmp_path / "m")[1]
    code, out, _ = run(capsys, "show", tmp_path / "m", "--json")
    assert (code, json.loads(out)["kind"]) == (0, "model")

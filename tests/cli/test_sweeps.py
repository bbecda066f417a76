"""``forgetless sweep``, as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pandas
import pytest

import forgetless as fl
from forgetless import cli
from forgetless.sweeps import Store, load_sweep, workers
from support.processes import listening

SWEEP = """
k = [4, 16]
schedules = {none = "none", up = "increasing:0.5"}
orderings = ["with-replacement", "cyclic"]
seeds = {count = 2}
scales = {from = 0.1, to = 10, count = 3}
metrics = ["average_loss", "drift"]

[tasks.mine]
file = "tasks.npz"

[tasks.gauss]
function = "my_tasks:gauss"
d = 3
"""

TASKS = """
from support.processes import listening
from support.sweeping import gauss as made

def gauss(seed, d, wait=0.0):
    return made(seed, d=d, wait=wait)
"""


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    X, w = rng.standard_normal((12, 4)), rng.standard_normal(4)
    np.savez(tmp_path / "tasks.npz", X=X, y=X @ w, groups=np.repeat(["a", "b", "c"], 4))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "my_tasks.py").write_text(TASKS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_tasks", raising=False)
    return tmp_path


def run(capsys, *words):
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_file_is_run_and_its_store_read(folder, capsys):
    store = folder / "results.db"
    code, out, err = run(capsys, "sweep", folder / "sweep.toml", "--store", store, "--workers", 0)
    assert (code, err) == (0, "")
    assert out.splitlines()[:4] == [
        "cells            48",
        "done             48",
        "failed           0",
        "missing          0",
    ]
    code, out, _ = run(capsys, "sweep", "status", store, "--json")
    assert {name: json.loads(out)[name] for name in ("cells", "done", "running now")} == {
        "cells": 48,
        "done": 48,
        "running now": "no",
    }
    code, out, _ = run(capsys, "sweep", "table", store)
    assert code == 0
    assert out.splitlines()[0].split()[:4] == ["tasks", "ordering", "schedule", "scale"]
    sweep = load_sweep(folder / "sweep.toml")
    expected = sweep.summary(store).to_frame().to_csv(index=False)
    assert run(capsys, "sweep", "table", store, "--format", "csv")[1] == expected
    assert "drift" in run(capsys, "sweep", "table", store, "--y", "drift", "--format", "json")[1]
    exact = partial(pandas.read_csv, dtype=str)
    for name, read in (("a.csv", exact), ("a.parquet", pandas.read_parquet)):
        code, out, _ = run(capsys, "sweep", "export", store, "--out", folder / name)
        assert (code, out) == (0, f"48 rows in {folder / name}\n")
        frame = read(folder / name)
        assert list(frame.columns[8:]) == ["average_loss rounding", "drift", "drift rounding", "version", "key"]
        assert len(frame) == 48
        np.testing.assert_array_equal(frame["drift"].astype(float), sweep.table(store).columns["drift"])


def test_words_are_a_command_or_given_to_run(folder, capsys):
    words = ["--store", folder / "a.db", "--workers", 0, folder / "sweep.toml"]
    assert run(capsys, "sweep", *words)[0] == 0  # options first
    assert run(capsys, "sweep", "run", *words)[0] == 0
    (folder / "status").write_text(SWEEP)
    assert run(capsys, "sweep", "run", folder / "status", "--store", folder / "b.db", "--workers", 0)[0] == 0
    assert run(capsys, "sweep", "--help")[1].count("status") == 1
    assert run(capsys, "sweep", folder / "sweep.toml")[0] == 2  # no store


def test_stores_are_merged(folder, capsys):
    text = (folder / "sweep.toml").read_text()
    for name, seeds in (("low", "[0]"), ("high", "[1]")):
        (folder / f"{name}.toml").write_text(text.replace("{count = 2}", seeds))
        run(capsys, "sweep", folder / f"{name}.toml", "--store", folder / f"{name}.db", "--workers", 0)
    assert run(capsys, "sweep", "merge", folder / "low.db", folder / "high.db")[1].startswith("16 cells copied into")
    sweep = load_sweep(folder / "sweep.toml")
    assert len(sweep.table(folder / "low.db")) == 48


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("k = [4, 16]", "k = [4, 16]\nlambdas = [1]"), "no axis or setting 'lambdas'; it has tasks, schedules"),
        (("k = [4, 16]", ""), "must give k"),
        (("k = [4, 16]", "k = ["), "is not TOML"),
        (("increasing:0.5", "descending"), "there is no schedule 'descending'"),
        (("to = 10", "till = 10"), "scales must be a list, or have positive from, to, count"),
        (('file = "tasks.npz"', 'file = "none.npz"'), "there is no file"),
        (('file = "tasks.npz"', 'file = "tasks.npz"\ncolour = 1'), "no option 'colour'"),
        (('file = "tasks.npz"', ""), "must have either file or function"),
        (("my_tasks:gauss", "my_tasks:none"), "'gauss' cannot be found"),
        (("my_tasks:gauss", "my_tasks"), "must be 'module:name'"),
        (("d = 3", ""), "need an argument d"),
        (("d = 3", "d = 3\nseed = 1"), "tasks 'gauss' have seed=1 bound"),
        (("k = [4, 16]", 'k = [4, 16]\nbounds = "no"'), "bounds must be True or False, got 'no'"),
        (("count = 3}", "count = 2.5}"), "count of scales must be a whole number, got 2.5"),
        (("count = 2}", "count = 2.0}"), "count of seeds must be a whole number, got 2.0"),
        (("count = 2}", "count = true}"), "seeds must be a list, or have positive count"),
        (("to = 10", "to = inf"), "scales must be a list, or have positive from, to, count"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(folder, capsys, change, words):
    (folder / "sweep.toml").write_text(SWEEP.replace(*change))
    code, out, err = run(capsys, "sweep", folder / "sweep.toml", "--store", folder / "a.db")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert words in err
    assert not (folder / "a.db").exists()


def test_failed_cells_are_a_line_for_each_kind_of_error_and_exit_code_1(folder, capsys):
    (folder / "my_tasks.py").write_text(
        "def gauss(seed, d):\n    if seed:\n        raise OSError(f'no file {seed}.csv ' + 'x' * 300)\n    return 5"
    )
    text = SWEEP.replace("count = 2", "count = 4")
    (folder / "sweep.toml").write_text(text)
    code, out, err = run(capsys, "sweep", folder / "sweep.toml", "--store", folder / "a.db", "--workers", 0)
    assert (code, "done             16" in out, "failed           64" in out) == (1, True, True)
    first, second, last = err.splitlines()
    place = "tasks gauss, schedule none, ordering with-replacement, k 4, seed"
    assert first == f"OSError: no file 1.csv {'x' * 300} (48 cells, the first at {place} 1)"
    kind = "TypeError: gauss must return a TaskCollection or pairs (X, y), got int"
    assert second == f"{kind} (16 cells, the first at {place} 0)"
    assert last == "Error: 64 of 80 cells failed; once the cause is removed, --retry computes them again"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"cyclic"]', '"without-replacement"]'), "ordering 'without-replacement' on tasks 'mine' at k = 4: k must be"),
        (("seeds =", "record = [9]\nseeds ="), "record at k = 4: record must hold steps in 0..4, got 9"),
        (("seeds =", "average = 2\nseeds ="), "average=2 with ordering 'with-replacement' has an exact average_loss"),
    ],
)
def test_a_grid_that_cannot_work_is_rejected_before_it_starts(folder, capsys, change, message):
    (folder / "sweep.toml").write_text(SWEEP.replace(*change))
    code, out, err = run(capsys, "sweep", folder / "sweep.toml", "--store", folder / "a.db", "--workers", 0)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"this sweep cannot work: {message}" in err
    assert not (folder / "a.db").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "my_tasks cannot be imported: ZeroDivisionError: division by zero"),
        ("def gauss(", "my_tasks cannot be imported: SyntaxError"),
        ("raise SystemExit(4)", "my_tasks cannot be imported: SystemExit: 4"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_sentence(folder, capsys, text, words):
    (folder / "my_tasks.py").write_text(text)
    code, out, err = run(capsys, "sweep", folder / "sweep.toml", "--store", folder / "a.db")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err


def test_a_sweep_of_which_nothing_came_is_a_failure(folder, capsys):
    (folder / "my_tasks.py").write_text("def gauss(seed, d): raise OSError('away')")
    (folder / "sweep.toml").write_text(SWEEP.replace('[tasks.mine]\nfile = "tasks.npz"\n', ""))
    code, out, err = run(capsys, "sweep", folder / "sweep.toml", "--store", folder / "a.db", "--workers", 0)
    assert (code, "failed           32" in out) == (1, True)
    assert "32 of 32 cells failed" in err.splitlines()[-1]
    code, _, err = run(capsys, "sweep", "table", folder / "a.db")
    assert (code, "holds no results of this sweep (32 cells failed)" in err) == (1, True)


def test_other_refusals(folder, capsys, monkeypatch):
    monkeypatch.setattr(workers, "CONNECT", "1s")
    assert "there is no store" in run(capsys, "sweep", "status", folder / "none.db")[2]
    assert "must end in .csv or .parquet" in run(capsys, "sweep", "export", folder / "a.db", "--out", "a.txt")[2]
    words = [folder / "sweep.toml", "--store", folder / "a.db", "--workers", 0, "--time-limit", 5]
    assert "time_limit=5 ends worker processes, got n_workers=0" in run(capsys, "sweep", *words)[2]
    words = [folder / "sweep.toml", "--store", folder / "a.db", "--cluster", "tcp://127.0.0.1:9"]
    code, _, err = run(capsys, "sweep", *words)
    assert (code, "there is no dask scheduler at tcp://127.0.0.1:9" in err) == (1, True)
    assert not (folder / "a.db").exists()


@pytest.mark.parametrize("words", [["status"], ["table"], ["export", "--out", "a.csv"], ["merge"], ["run"]])
def test_a_damaged_store_is_one_sentence(folder, capsys, monkeypatch, words):
    monkeypatch.chdir(folder)
    assert run(capsys, "sweep", "sweep.toml", "--store", "a.db", "--workers", 0)[0] == 0
    content = bytearray((folder / "a.db").read_bytes())
    content[content.index(b"average_loss", 4096 * 3)] ^= 1
    (folder / "a.db").write_bytes(content)
    command, *rest = words
    more = {"merge": ["b.db", "a.db"], "run": ["sweep.toml", "--store", "a.db", "--workers", 0]}
    code, out, err = run(capsys, "sweep", command, *more.get(command, ["a.db"]), *rest)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("Error: a.db is damaged (")
    assert "restore a copy, or compute the sweep again into another store" in err


def test_ctrl_c_says_how_to_go_on(folder):
    (folder / "sweep.toml").write_text(SWEEP.replace("d = 3", "d = 3\nwait = 0.2").replace("count = 2", "count = 60"))
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path), "FORGETLESS_NUMBA": "never"}
    words = [sys.executable, "-m", "forgetless", "sweep", "sweep.toml", "--store", "a.db", "--workers", "1"]
    process = subprocess.Popen(words, cwd=folder, env=env, stderr=subprocess.PIPE, text=True, preexec_fn=listening)
    while not (folder / "a.db").exists() or not done(folder / "a.db"):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err.split("\n")[0]) == (130, "finished cells are in a.db; the same command resumes")


def done(path):
    try:
        with Store(path) as store:
            return store.finished()
    except fl.errors.StoreError:  # not yet made
        return set()

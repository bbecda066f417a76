"""``forgetless verify`` and ``show``, and ``describe_file`` behind them."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli

OLD = Path(__file__).parents[1] / "estimators" / "version2"


def run(capsys, *words):
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def saved(path, model, **options):
    rng = np.random.default_rng(0)
    for _ in range(4):
        model.partial_fit(rng.standard_normal((4, 3)), rng.standard_normal(4))
    model.save(path, **options)
    return path


@pytest.mark.parametrize(
    ("model", "options", "words", "rows"),
    [
        (fl.ContinualRidge(schedule="auto"), {}, "it goes on learning", 0),
        (fl.ContinualRidge(), {"state": "predict"}, "weights only: it predicts", 0),
        (fl.JointRidge(holdout=0.5, random_state=0), {}, "8 held-out rows, kept because of holdout=0.5", 8),
        (fl.ContinualRidge(holdout=0.5, random_state=0), {"state": "predict"}, "weights only", 0),
        (fl.ContinualRidge(schedule=lambda k, R: fl.Ridge(1.0), n_tasks=9), {}, "schedule could not be stored", 0),
    ],
)
def test_models_are_described(tmp_path, capsys, model, options, words, rows):
    path = saved(tmp_path / "m.npz", model, **options)
    report = fl.describe_file(path)
    assert report.ok
    assert (report.kind, report.version, report.hash, report.rows) == ("model", 6, "ok", rows)
    assert report.n_bytes == path.stat().st_size
    code, out, err = run(capsys, "verify", path)
    assert (code, out, err) == (0, repr(report) + "\n", "")
    assert f"{type(model).__name__} of 3 features, 4 tasks learned" in out
    assert words in out
    assert (f"holds {rows} rows of data; it is as private as they are" if rows else "holds no rows of data") in out
    code, out, err = run(capsys, "show", path)
    assert (code, err) == (0, "")
    assert repr(report) in out
    assert ("their mean squared error, with the first task" in out) == (not options)
    assert out.count("\n") > 6


def test_rows_in_files_of_version_2_are_told(capsys):
    report = fl.describe_file(OLD / "auto.npz")
    assert (report.ok, report.version, report.rows) == (True, 2, 16)
    assert "save it again to leave them out" in repr(report)
    assert [fl.describe_file(OLD / f"{name}.npz").rows for name in ("held", "sparse", "ridge")] == [4, 8, 0]


def test_other_kinds_are_described(tmp_path, capsys):
    fl.load_worst_collection("none", 64).save(tmp_path / "w.json")
    report = fl.describe_file(tmp_path / "w.json")
    assert (report.kind, report.version, report.hash, report.ok) == ("worst collection", 2, "ok", True)
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.ones(3), groups=[0, 0, 1])
    report = fl.describe_file(tmp_path / "t.npz")
    assert (report.kind, report.hash, report.rows) == ("tasks", "none", 3)
    assert "3 rows, 3 features, 2 tasks" in repr(report)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fl.find_worst_collection(fl.Ridge(1.0), 4, n_starts=3, checkpoint=tmp_path / "c", progress=stop)
    report = fl.describe_file(tmp_path / "c")
    assert (report.kind, report.version, report.hash) == ("checkpoint", 2, "ok")
    assert "search of 3 starts after 0 rounds" in repr(report)
    code, out, _ = run(capsys, "verify", tmp_path / "c", "--json")
    assert code == 0
    assert json.loads(out)["kind"] == "checkpoint"
    code, _, err = run(capsys, "show", tmp_path / "c")
    assert code == 1
    assert "no model to show" in err


def test_what_is_refused_is_told_and_fails(tmp_path, capsys):
    path = saved(tmp_path / "m.npz", fl.ContinualRidge())
    content = bytearray(path.read_bytes())
    content[content.find(b"state.coef") + 170] ^= 1  # among its numbers
    path.write_bytes(bytes(content))
    code, out, _ = run(capsys, "verify", path)
    assert code == 1
    assert out.startswith("m.npz: refused\n  m.npz is damaged or not a ")
    code, out, _ = run(capsys, "verify", path, "--json")
    assert code == 1
    assert json.loads(out)["ok"] is False
    for name, content, words in (
        ("a.csv", b"X,y\n", "no file that forgetless writes"),
        ("a.json", b"{}", "does not hold a worst collection"),
        ("empty", b"", "no file that forgetless writes"),
    ):
        (tmp_path / name).write_bytes(content)
        assert words in repr(fl.describe_file(tmp_path / name))
    np.savez(tmp_path / "other.npz", Z=np.eye(2))
    assert "none of forgetless" in fl.describe_file(tmp_path / "other.npz").problem
    assert run(capsys, "verify", tmp_path / "nothing")[0] == 1
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run(capsys, "verify", tmp_path / "pipe")
    assert code == 1
    assert "is a pipe, not a file" in err


def test_names_from_a_file_reach_the_terminal_without_their_control_codes(tmp_path, capsys):
    model = fl.ContinualRidge().partial_fit(np.eye(2), np.ones(2))
    model.feature_names_in_ = np.array(["\x1b[31mred\x07", "y" * 10_000], dtype=object)
    model.save(tmp_path / "m.npz")
    code, out, _ = run(capsys, "show", tmp_path / "m.npz")
    assert code == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", out)
    assert r"\x1b[31mred\x07" in out
    assert len(out) < 3000

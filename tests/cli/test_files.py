"""``forgetless show``: the content of a file of any kind."""

import json
import os

import numpy as np
import pytest

import forgetless as fl
from support.cli import run


def saved(path, model, **options):
    rng = np.random.default_rng(0)
    for _ in range(4):
        model.partial_fit(rng.standard_normal((4, 3)), rng.standard_normal(4))
    model.save(path, **options)
    return path


@pytest.mark.parametrize("options", [{}, {"state": "predict"}])
def test_models_are_shown(tmp_path, capsys, options):
    path = saved(tmp_path / "m.npz", fl.ContinualRidge(alpha=1.0), **options)
    code, out, err = run(capsys, "show", path)
    assert (code, err) == (0, "")
    assert out.startswith("model, written by forgetless ")
    assert "tasks learned: 4" in out
    assert ("their mean squared error, with the first task" in out) == (not options)
    assert out.count("\n") > 6
    code, out, _ = run(capsys, "show", path, "--json")
    assert code == 0
    assert json.loads(out)["n_tasks_seen_"] == 4


def test_damaged_and_other_files_fail(tmp_path, capsys):
    path = tmp_path / "t.fl"
    fl.TaskCollection([(np.eye(2), np.ones(2))]).save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    code, out, err = run(capsys, "show", path)
    assert (code, out) == (1, "")
    assert "t.fl is damaged or not a forgetless file: its content does not match its checksum" in err
    np.savez(tmp_path / "other.npz", Z=np.eye(2))
    for name, content in (("a.csv", b"X,y\n"), ("a.json", b"{}"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    for name in ("a.csv", "a.json", "empty", "other.npz", "pipe", "missing", "."):
        code, out, err = run(capsys, "show", tmp_path / name)
        assert (code, out) == (1, ""), name
        assert err.startswith("Error: "), name

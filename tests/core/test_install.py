"""Where a package is missing, one sentence says what to install, from a checkout as from an index."""

import subprocess
import sys

import numpy as np
import pytest

import forgetless as fl

TASKS = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [0.6])])


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pandas", "plot", lambda: fl.expect(TASKS, 1.0, 4).to_frame()),
        ("matplotlib.pyplot", "plot", lambda: fl.expect(TASKS, 1.0, 4, record="all").plot()),
    ],
    ids=["pandas", "matplotlib"],
)
def test_what_is_missing_is_named_with_its_cure(package, extra, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf"needs .*pip install '\.\[{extra}]' in a checkout .*'forgetless\[{extra}]'"
    ):
        call()


def test_the_command_names_what_it_lacks():
    code = "import sys; sys.modules['click'] = None; import forgetless.__main__ as m; m.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: the command line needs click; install it with: pip install '.[tables]' in a checkout"
    )


def test_numbers_need_none_of_them(monkeypatch):
    for package in ("pandas", "matplotlib", "flint"):
        monkeypatch.setitem(sys.modules, package, None)
    assert np.isfinite(fl.expect(TASKS, {"a": 1.0, "b": "increasing"}, 4).average_loss).all()
    assert "average_loss" in repr(fl.simulate(TASKS, 1.0, 4, seed=0))

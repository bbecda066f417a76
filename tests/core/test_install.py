"""What is missing: a package, which one sentence says how to install, or a folder for compiled code."""

import os
import subprocess
import sys

import numpy as np
import pytest

import forgetless as fl

TASKS = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [0.6])])


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_frame"), ("matplotlib.pyplot", "plot")])
def test_what_is_missing_is_named_with_its_cure(package, method, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"needs .*pip install '\.\[plot]' in a checkout .*'forgetless\[plot]'"):
        getattr(fl.expect(TASKS, 1.0, 4, record="all"), method)()


def test_the_command_names_what_it_lacks():
    code = "import sys; sys.modules['click'] = None; import forgetless.__main__ as m; m.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the command line needs click; install it with: pip install '.[tables]' in a")


def test_numbers_need_none_of_them(monkeypatch):
    for package in ("pandas", "matplotlib", "flint"):
        monkeypatch.setitem(sys.modules, package, None)
    assert np.isfinite(fl.expect(TASKS, {"a": 1.0, "b": "increasing"}, 4).average_loss).all()
    assert "average_loss" in repr(fl.simulate(TASKS, 1.0, 4, seed=0))


# --- compiled code in its cache ---

SIMULATED = """
import warnings
import forgetless as fl
tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    trace = fl.simulate(tasks, fl.Ridge(1.0), 50, seed=0, n_trials=3, metrics="average_loss")
    again = fl.simulate(tasks, fl.Ridge(1.0), 50, seed=0, n_trials=3, metrics="average_loss")
print(f"{float(trace.average_loss[:, -1].mean()):.12g}")
print(*(str(each.message) for each in caught))
"""


def in_a_process_of_its_own(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "FORGETLESS_NUMBA": "always"}
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED], env=environment, capture_output=True, text=True, check=True
    )
    loss, warned = done.stdout.split("\n")[:2]
    return float(loss), warned


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder with compiled code, and the loss that it computes."""
    pytest.importorskip("numba")
    folder = tmp_path_factory.mktemp("cache")
    loss, warned = in_a_process_of_its_own(folder)
    assert not warned
    return folder, loss


@pytest.mark.long
def test_cached_code_is_used_again(cache):
    before = {path: path.stat().st_mtime_ns for path in cache[0].rglob("*.nb[ic]")}
    assert in_a_process_of_its_own(cache[0]) == (cache[1], "")
    assert {path: path.stat().st_mtime_ns for path in cache[0].rglob("*.nb[ic]")} == before


def test_a_cache_folder_that_cannot_be_written_does_not_fail_the_call(cache, tmp_path):
    (tmp_path / "file").write_text("in the way")
    loss, message = in_a_process_of_its_own(tmp_path / "file" / "cache")
    assert loss == pytest.approx(cache[1], rel=1e-9)
    assert not message

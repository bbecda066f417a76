"""Sweeps: every cell once, whatever is killed; results, errors and versions in the store."""

import contextlib
import functools
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import psutil  # which distributed needs, too
import pytest

import forgetless as fl
from forgetless.errors import StoreError
from support import cells
from support.campaigns import SEED


def double(x, by=2.0):
    return {"value": x * by}


def test_every_combination_is_a_row(tmp_path):
    rows = fl.sweeps.run(double, {"x": [1, 2], "by": [2.0, 0.5]}, tmp_path / "s.db", n_jobs=2)
    assert all(row["error"] is None and row["seconds"] >= 0 for row in rows)
    assert fl.sweeps.load(tmp_path / "s.db") == rows
    frame = rows.to_frame()
    assert list(frame.columns) == ["x", "by", "value", "error", "seconds", "version"]
    assert frame[["x", "by", "value"]].to_numpy().tolist() == [[1, 2, 2], [1, 0.5, 0.5], [2, 2, 4], [2, 0.5, 1]]


def test_a_list_of_arguments_and_closures(tmp_path):
    offset = 10

    def shifted(x):
        return x + offset

    rows = fl.sweeps.run(shifted, [{"x": 1}, {"x": 5}, {"x": 1}], tmp_path / "s.db", n_jobs=2)
    assert [(row["x"], row["result"]) for row in rows] == [(1, 11), (5, 15)]


def test_only_new_cells_are_computed(tmp_path):
    calls = []

    def noted(x):
        calls.append(x)
        if x == 2:
            raise ValueError("not yet" if calls.count(2) == 1 else "no")
        return np.float32(x)

    store = tmp_path / "s.db"
    rows = fl.sweeps.run(noted, {"x": [1, 2]}, store, n_jobs=1)
    assert [(row["result"], row["error"]) for row in rows] == [(1.0, None), (None, "ValueError: not yet")]
    rows = fl.sweeps.run(noted, {"x": [0, 1, 2]}, store, n_jobs=1)
    assert calls == [1, 2, 0, 2]  # what failed is computed again
    assert [(row["x"], row["error"]) for row in rows] == [(1, None), (2, "ValueError: no"), (0, None)]


def test_a_cell_is_known_by_its_arguments_in_any_order(tmp_path):
    for point in ({"x": 1, "by": 3.0}, {"by": 3.0, "x": 1}):
        rows = fl.sweeps.run(double, [point], tmp_path / "s.db", n_jobs=1)
    assert [row["value"] for row in rows] == [3.0]


def test_results_that_cannot_be_stored_are_errors(tmp_path):
    def result(kind):
        return {"set": {1}, "name": {"kind": 1}, "nan": np.array([np.nan, 1.0])}[kind]

    rows = fl.sweeps.run(result, {"kind": ["set", "name", "nan", "missing"]}, tmp_path / "s.db", n_jobs=1)
    errors = [row["error"] for row in rows]
    assert "set is not a JSON value" in errors[0]
    assert "must differ from those of arguments" in errors[1]
    assert errors[2] is None
    assert np.isnan(rows[2]["result"][0])
    assert errors[3] == "KeyError: 'missing'"


def test_a_changed_function_needs_a_new_version_unless_every_cell_failed(tmp_path):
    def failing(x):
        raise RuntimeError("not yet")

    def mended(x):
        return x

    def negated(x):
        return -x

    run = functools.partial(fl.sweeps.run, store=tmp_path / "s.db", n_jobs=1)
    assert run(failing, {"x": [1]})[0]["error"] == "RuntimeError: not yet"
    assert run(mended, {"x": [1]})[0]["result"] == 1
    with pytest.raises(StoreError, match="another function, or of other source code, under version=None"):
        run(negated, {"x": [2]})
    rows = run(negated, {"x": [1]}, version="2")
    assert [row["result"] for row in rows] == [-1]
    assert [(row["result"], row["version"]) for row in fl.sweeps.load(tmp_path / "s.db")] == [(1, None), (-1, "2")]
    with pytest.raises(StoreError, match="version='2'"):
        run(mended, {"x": [1]}, version="2")


def test_a_function_without_source_needs_a_version(tmp_path):
    half = functools.partial(double, by=0.5)
    with pytest.raises(TypeError, match="pass version="):
        fl.sweeps.run(half, {"x": [1]}, tmp_path / "s.db", n_jobs=1)
    rows = fl.sweeps.run(half, {"x": [1]}, tmp_path / "s.db", n_jobs=1, version="half")
    assert rows[0]["value"] == 0.5


BAD_GRIDS = [({"x": 3}, "must be a list of values, got 3"), ({"x": "abc"}, "must be a list of values, got 'abc'")]
BAD_GRIDS += [(["x"], "a list of dicts, got 'x' in it"), ([1], "a list of dicts, got 1 in it")]
BAD_GRIDS += [({"x": [value]}, "must be JSON values") for value in (np.arange(2), float("nan"))]


@pytest.mark.parametrize(("grid", "message"), [*BAD_GRIDS, ([{"seconds": 1}], "may not be called")])
def test_bad_grids(tmp_path, grid, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fl.sweeps.run(double, grid, tmp_path / "s.db", n_jobs=1)


def test_files_that_are_no_store(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and long enough to be seen as none" * 20)
    other = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE cell (name TEXT)")
    for store in (path, other, tmp_path / "missing.db"):
        with pytest.raises(StoreError, match="store"):
            fl.sweeps.load(store)
    with pytest.raises(StoreError, match="give another name"):
        fl.sweeps.run(double, {"x": [1]}, path, n_jobs=1)
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("cluster", [contextlib.nullcontext, cells.cluster], ids=["here", "cluster"])
def test_a_cell_that_kills_its_worker_is_recorded(tmp_path, cluster):
    with cluster():
        rows = fl.sweeps.run(cells.fatal, {"x": list(range(8))}, tmp_path / "s.db", n_jobs=2)
    assert [row["result"] for row in rows] == [0, 1, 2, None, None, 5, 6, 7]
    assert rows[3]["error"].startswith("its worker process died again and again")
    assert rows[3]["seconds"] == 0
    assert rows[4]["error"] == "SystemExit: given up"


def test_two_drivers_on_one_store(tmp_path):
    store = tmp_path / "s.db"
    drivers = [started(store, "loky", 3) for _ in range(2)]
    assert [driver.wait() for driver in drivers] == [0, 0]
    assert cells.without_seconds(fl.sweeps.load(store)) == undisturbed(tmp_path, 3)


@pytest.mark.parametrize("engine", ["loky", "dask"])
@pytest.mark.parametrize(("n_seeds", "n_kills"), [(8, 2), pytest.param(50, 40, marks=pytest.mark.long)])
def test_killed_drivers_and_workers(tmp_path, engine, n_seeds, n_kills):
    """In turn; with two results at least between two kills, so that chance does not look like a cell that kills."""
    rng, store = np.random.default_rng(SEED if n_kills > 2 else 0), tmp_path / "store.db"
    driver = started(store, engine, n_seeds)
    try:
        for number in range(n_kills):
            wait_for(store, computed(store) + int(rng.integers(2, 4)), driver)
            workers = workers_of(driver)
            if number % 2 and workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    workers[rng.integers(len(workers))].kill()
            else:
                stop(driver)
                driver = started(store, engine, n_seeds)
        assert driver.wait() == 0
    finally:
        stop(driver)
    assert cells.without_seconds(fl.sweeps.load(store)) == undisturbed(tmp_path, n_seeds)


def started(store, engine, n_seeds):
    """Return a driver in a process of its own, with its workers in a group of its own."""
    command = [sys.executable, "-m", "support.cells", str(store), engine, str(n_seeds)]
    tests = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def stop(driver):
    """Kill a driver and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def undisturbed(folder, n_seeds):
    """Return the rows of a sweep that nothing happens to."""
    with joblib.parallel_config("threading"):
        return cells.without_seconds(fl.sweeps.run(cells.slow, cells.grid(n_seeds), folder / "calm.db", n_jobs=8))


def workers_of(driver):
    """Return the processes of a driver that compute cells, and do not look after others; none if one has just ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(driver.pid).children(recursive=True)
        return [each for each in family if re.search("popen_loky|spawn_main", str(each.as_dict(["cmdline"])))]
    return []


def computed(store):
    """Return the number of cells that the store has."""
    try:
        return len(fl.sweeps.load(store))
    except StoreError:
        return 0


def wait_for(store, count, driver):
    """Wait until a store has so many cells, or its driver has ended, which on a busy machine may come first."""
    while computed(store) < count and driver.poll() is None:
        time.sleep(0.01)

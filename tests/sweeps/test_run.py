"""Running a sweep: numbers like those of single calls, the same on every engine, failures, resuming, interruption."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import forgetless as fl
from forgetless.sweeps import run as runs
from forgetless.sweeps import workers
from forgetless.sweeps.store import Store
from support import sweeping
from support.processes import alive, descendants, listening
from support.sweeping import SCHEDULES, Unloadable, Unpicklable, broken, fatal, gauss, small


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


ORDERINGS = {"with": fl.WithReplacement(), "cyclic": fl.Cyclic(), "without": fl.RandomReshuffling()}


def test_numbers_are_those_of_single_calls(path):
    scales, metrics = [0.1, 1.0], ("average_loss", "seen_loss", "drift", "worst_case")
    sweep = small(scales=scales, orderings=ORDERINGS, metrics=metrics, seeds=[0, 1], record=[2, 4])
    columns = sweep.run(path, n_workers=0).columns
    assert len(columns["k"]) == 2 * 2 * 3 * 5 * 2
    for i in range(len(columns["k"])):
        tasks = fl.TaskCollection(gauss(columns["seed"][i]))
        k, scale = columns["k"][i], columns["scale"][i]
        filter_ = fl.schedules.resolve(SCHEDULES[columns["schedule"][i]], k, tasks.radius)
        filter_ = filter_ if scale is None else filter_.scaled(scale)
        options = {"ordering": ORDERINGS[columns["ordering"][i]], "record": [columns["step"][i]]}
        alone = fl.expect(tasks, filter_, k, metrics=metrics[:3], **options)
        for name in metrics[:3]:
            assert columns[name][i] == pytest.approx(getattr(alone, name)[0], rel=1e-9, abs=1e-13)
        worst = fl.worst_case(tasks, filter_, k, **options)
        assert columns["worst_case"][i] == pytest.approx(float(np.ravel(worst.loss)[0]), rel=1e-9, abs=1e-13)


def test_bounds_are_those_of_a_certificate(path):
    columns = small(bounds=True, seeds=[0], k=[8]).run(path, n_workers=0).columns
    for i, name in enumerate(columns["schedule"]):
        found = fl.compare_bounds(fl.TaskCollection(gauss(0)), SCHEDULES[name], 8)
        upper = [b.value for b in found.bounds if b.applies and (b.kind, b.quantity) == ("upper", "average_loss")]
        assert columns["average_loss.upper"][i] == pytest.approx(min(upper), rel=1e-12)
        assert columns["average_loss.upper"][i] >= columns["average_loss"][i]


def test_processes_give_the_bits_of_one_process(path, tmp_path):
    sweep = small(scales=[0.1, 1.0], n_trials=4, metrics=("average_loss", "drift"))
    told = []
    here = sweep.run(path, n_workers=0)
    spread = sweep.run(tmp_path / "other.db", n_workers=2, progress=lambda *words: told.append(words))
    assert here.columns == spread.columns
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[-1][:2] == (30, 30)


def test_a_schedule_added_later_changes_nobody_and_computes_itself_only(path):
    first = small(schedules={"up": SCHEDULES["up"]}, n_trials=4).run(path, n_workers=0)
    ran = []
    whole = small(n_trials=4).run(path, n_workers=0, progress=lambda *words: ran.append(words))
    assert whole.where(schedule="up").columns == first.columns
    assert ran[0][0] > 6
    assert len(whole) == 18


def test_a_complete_sweep_starts_nothing(path):
    small().run(path, n_workers=0)
    told = []
    small().run(path, n_workers=2, progress=lambda *words: told.append(words))
    assert told == []


def test_failed_cells_are_recorded_and_do_not_stop_the_rest(path):
    sweep = small(tasks={"broken": broken, "gauss": gauss}, seeds=range(4))
    table = sweep.run(path, n_workers=0)
    assert len(table) == 24 + 12
    assert table.facts == ("12 cells failed",)
    failed = sweep.failures(path)
    assert set(failed.columns["error"]) == {"ValueError: no tasks for odd seeds"}
    assert set(failed.columns["seed"]) == {1, 3}


def test_one_bad_schedule_does_not_take_the_others_with_it(path):
    sweep = small(schedules={**SCHEDULES, "far": fl.GradientDescent(2, 1e6)}, seeds=[0])
    assert len(sweep.run(path, n_workers=0)) == 6
    assert set(sweep.failures(path).columns["schedule"]) == {"far"}


def test_failed_cells_are_tried_again_only_if_told(path, tmp_path, monkeypatch):
    calls = []

    def flaky(seed):
        calls.append(seed)
        if not (tmp_path / "fixed").exists():
            raise OSError("the disk is away")
        return gauss(seed)

    sweep = small(tasks={"flaky": flaky}, schedules="none", k=4)
    assert len(sweep.run(path, n_workers=0)) == 0
    first = len(calls)
    sweep.run(path, n_workers=0)
    assert len(calls) == first
    assert len(sweep.run(path, n_workers=0, retry=True)) == 0  # it fails again, and the sweep ends
    assert len(calls) == 2 * first
    (tmp_path / "fixed").touch()
    assert len(sweep.run(path, n_workers=0, retry=True)) == 3
    assert len(sweep.failures(path)) == 0


def test_a_cell_that_kills_its_workers_fails_alone(path, monkeypatch):
    monkeypatch.setattr(runs, "ATTEMPTS", 1)
    sweep = small(tasks={"fatal": fatal}, k=4)
    assert len(sweep.run(path, n_workers=2)) == 6
    failed = sweep.failures(path)
    assert set(failed.columns["seed"]) == {1}
    assert "1 worker processes ended over it (exit code SIGKILL(-9))" in failed.columns["error"][0]


def test_what_cannot_travel_is_named(path):
    with pytest.raises(
        TypeError, match=r"^tasks 'a' cannot be sent to worker processes \(this one does not travel\); .*n_workers=0$"
    ):
        small(tasks={"a": Unpicklable()}).run(path)
    assert not path.exists()
    assert len(small(tasks={"a": Unpicklable()}).run(path, n_workers=0)) == 18
    with pytest.raises(fl.errors.StoreError, match=r"cannot be loaded in a worker process .*no such module"):
        small(tasks={"b": Unloadable()}).run(path, n_workers=1)


def test_workers_that_do_not_start_are_given_up(path, monkeypatch):
    monkeypatch.setattr(runs, "STARTS", 2)
    monkeypatch.setattr(workers, "initialize", os._exit)
    with pytest.raises(fl.errors.StoreError, match="2 worker processes ended while they started"):
        small().run(path, n_workers=1)


def test_functions_of_a_session_travel(path):
    """Lambdas and functions typed into a notebook or an unguarded script, which is not run again by workers."""
    code = f"""
import forgetless as fl
from support.sweeping import gauss
def mine(seed): return gauss(seed, noise=0.1)
print("once")
sweep = fl.sweeps.Sweep({{"mine": mine, "lambda": lambda seed: gauss(seed)}}, "none", k=4)
print(len(sweep.run({str(path)!r}, n_workers=1)))
"""
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (done.stdout, done.stderr) == ("once\n2\n", "")


def test_completeness_is_read_from_the_store(path, monkeypatch):
    """An engine that silently loses a batch does not make the sweep complete."""
    real = runs.Driver.run
    monkeypatch.setattr(runs.Driver, "run", lambda driver, batches: real(driver, batches[: max(1, len(batches) - 1)]))
    assert len(small().run(path, n_workers=2)) == 18
    monkeypatch.setattr(runs.Driver, "run", lambda driver, batches: (each for each in ()))
    with pytest.raises(fl.errors.StoreError, match=r"9 of 27 cells are missing .* none of them could be computed"):
        small(k=[4, 16, 64]).run(path, n_workers=1)


def test_a_sweep_whose_cells_cannot_all_be_kept_is_never_complete(path, monkeypatch):
    from forgetless.sweeps import grid

    real = grid.text_digest
    monkeypatch.setattr(grid, "text_digest", lambda text: real(text[:60]))  # without the schedule
    with pytest.raises(fl.errors.StoreError, match=r"cells are missing .* none of them could be computed"):
        small().run(path, n_workers=0)


def test_ctrl_c_keeps_what_is_done_ends_the_workers_and_goes_on(path):
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    words = [sys.executable, "-P", "-m", "support.sweeping", str(path), "200", "local"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=listening
    )
    assert process.stdout.readline().startswith("committed")
    workers = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert "complete" not in out
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert len(workers) >= 2  # with loky's resource trackers
    until = time.monotonic() + 120  # only a hang is an error
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    with Store(path) as store:
        assert 0 < len(store.finished()) < len(sweeping.slow(200))
    assert not path.with_name("results.db.lock").exists()

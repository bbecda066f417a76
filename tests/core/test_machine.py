"""Guards of memory and time: what the machine leaves, and what is refused or warned of before it is tried."""

import itertools
import os
import resource
import subprocess
import sys
import warnings

import pytest

import forgetless as fl
from forgetless._core import environment as machine
from forgetless._core.validate import check_memory, readable
from forgetless.reporting import progress

GiB = 2**30
TASKS = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])


@pytest.fixture
def system(tmp_path):
    """A /proc and a /sys/fs/cgroup of our own, with 16 GiB free and no limits."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    write(proc / "meminfo", f"MemTotal: 99 kB\nMemAvailable: {16 * GiB // 1024} kB\n")
    write(proc / "self" / "cgroup", "")
    groups.mkdir()
    return proc, groups


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_free_ram_without_limits(system):
    assert machine.free_memory(*system) == 16 * GiB


def test_the_tightest_group_counts_whatever_its_level(system):
    proc, groups = system
    write(proc / "self" / "cgroup", "0::/a/b\n")
    for name, most, now in (("a", 4 * GiB, 1 * GiB), ("a/b", "max", 5)):
        write(groups / name / "memory.max", f"{most}\n")
        write(groups / name / "memory.current", f"{now}\n")
    assert machine.free_memory(proc, groups) == 3 * GiB
    write(groups / "a" / "memory.stat", f"anon 7\ninactive_file {GiB // 2}\n")
    assert machine.free_memory(proc, groups) == 3 * GiB + GiB // 2
    write(groups / "a" / "memory.current", f"{5 * GiB}\n")
    assert machine.free_memory(proc, groups) == 0


@pytest.mark.parametrize("place", ["memory/docker/x", "memory"])
def test_groups_of_the_first_kind_also_where_a_container_hides_their_names(system, place):
    proc, groups = system
    write(proc / "self" / "cgroup", "9:name=systemd:/\n4:memory:/docker/x\n1:cpu:/docker/x\n")
    write(groups / place / "memory.limit_in_bytes", f"{2 * GiB}\n")
    write(groups / place / "memory.usage_in_bytes", f"{GiB}\n")
    assert machine.free_memory(proc, groups) == GiB


def test_a_system_that_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf_names", {})
    assert machine.free_memory(tmp_path / "none", tmp_path / "none") == machine.UNKNOWN


def test_own_limits(system):
    proc, groups = system
    page = os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    write(proc / "self" / "statm", f"{GiB // page} 0 0 0 0 {GiB // page} 0")
    most = 2**45 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        assert machine.free_memory(proc, groups) == 16 * GiB
        write(proc / "self" / "statm", f"{(most - 3 * GiB) // page} 0 0 0 0 0 0")
        assert machine.free_memory(proc, groups) == 3 * GiB
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_refusal_says_how_much_and_what_to_do(monkeypatch):
    monkeypatch.setattr("forgetless._core.validate.free_memory", lambda: 4 * GiB)
    check_memory(3 * GiB / 8, "this", "do less")
    with pytest.raises(MemoryError, match=r"^this needs 3\.01 GiB, of which 3 GiB may be used here; do less$"):
        check_memory(3.01 * GiB / 8, "this", "do less")
    with pytest.raises(MemoryError, match="needs"):
        check_memory(float("nan"), "this", "do less")
    assert [readable(n) for n in (12, 2048, 3.5 * 2**20, 44703 * GiB)] == ["12 bytes", "2 KiB", "3.5 MiB", "44,703 GiB"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: fl.expect(TASKS, fl.schedules.increasing(), 10**8), "a schedule of 100,000,000 strengths"),
        (lambda: fl.expect(TASKS, fl.schedules.end_ramp(), 10**8), "a schedule of 100,000,000 strengths"),
        (lambda: fl.expect(TASKS, fl.schedules.increasing_budget(2), 10**8), "a schedule of"),
        (lambda: fl.expect(TASKS, fl.schedules.unregularized_first(fl.Ridge(1.0)), 10**8), "a schedule of"),
        (lambda: fl.compare_bounds(TASKS, fl.schedules.increasing(), 10**8), "a schedule of"),
        (lambda: fl.advise(TASKS, 10**8), "a schedule of"),
        (lambda: fl.expect(TASKS, fl.Ridge(1.0), 10**8, record="all"), "a curve of 100,000,000 steps"),
        (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 10, n_trials=10**8), "the state of 100,000,000 trials"),
        (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 10**4, n_trials=10**5, record="all"), "metrics of 100,000"),
        (
            lambda: fl.simulate(TASKS, fl.Ridge(1.0), 10**4, n_trials=10**4, record="all", metrics="average_loss"),
            "keep_weights=True for 10,000 trials at 10,000 recorded steps",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch, call, what):
    monkeypatch.setattr("forgetless._core.validate.free_memory", lambda: GiB)
    with pytest.raises(MemoryError, match=what):
        call()


LIMITED = """
import resource, sys
import forgetless as fl
tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
fl.expect(tasks, fl.schedules.increasing(), 1000)
words = open("/proc/self/statm").read().split()
resource.setrlimit(resource.RLIMIT_AS, (int(words[0]) * resource.getpagesize() + 2**29,) * 2)
for k in (10**6, 3 * 10**6, 10**7, 10**8, 10**10):
    try:
        fl.expect(tasks, fl.schedules.increasing(), k, metrics="average_loss", record=[1])
        print("done", k)
    except MemoryError as error:
        assert "may be used here" in str(error), error
        print("refused", k)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_under_a_limit_refuses_and_lives():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    words = done.stdout.split()
    assert words[0] == "done"
    assert words[-2:] == ["refused", str(10**10)]


def _set_clock(monkeypatch, seconds):
    clock = iter(seconds)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(progress, "PATIENCE", 600.0)


def test_long_work_is_warned_of_once_and_early(monkeypatch):
    _set_clock(monkeypatch, [0.0, 0.5, 1.0, 3.0, 4.0])
    told = []
    tell = progress.with_eta_warning(lambda *words: told.append(words), "do less")
    tell(0, 10**9, "steps")  # nothing is known yet
    tell(1000, 10**9, "steps")
    with pytest.warns(RuntimeWarning, match=r"^1,000,000,000 steps will take about 23 days more; do less$"):
        tell(2000, 10**9, "steps")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell(3000, 10**9, "steps")
    assert told == [(n, 10**9, "steps") for n in (0, 1000, 2000, 3000)]


@pytest.mark.parametrize(("left", "words"), [(700, "12 minutes"), (3e4, "8 hours"), (1e10, "317 years")])
def test_durations_error_text(left, words):
    assert progress.duration(left) == words


def test_short_work_is_not_warned_of(monkeypatch):
    """However long loading and compiling took before its first report."""
    _set_clock(monkeypatch, [0.0, 19.0, 22.0, 100.0])
    tell = progress.with_eta_warning(progress.silent, "do less")
    tell(5, 1000, "steps")
    tell(10, 1000, "steps")
    tell(11, 1000, "steps")


def test_work_that_is_slow_from_its_first_report_on_is_warned_of(monkeypatch):
    _set_clock(monkeypatch, [0.0, 21.0])
    with pytest.warns(RuntimeWarning, match="will take about 70 minutes more"):
        progress.with_eta_warning(progress.silent, "do less")(5, 1000, "steps")


@pytest.mark.long
def test_engines_look_at_the_clock(monkeypatch):
    monkeypatch.setattr(progress, "_SAMPLE", 0.0)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    for call in (
        lambda: fl.simulate(TASKS, fl.Ridge(1.0), 40_000),
        lambda: fl.expect(TASKS, fl.Ridge(1.0), 40_000, metrics="seen_loss"),
        lambda: fl.expect(TASKS, fl.Ridge(1.0), 10, ordering=fl.RandomReshuffling()),
        lambda: fl.expect(TASKS, fl.Ridge(1.0), 40_000, ordering=fl.Cyclic()),
    ):
        with pytest.warns(RuntimeWarning, match="minutes more"):
            call()


def test_tests_do_not_depend_on_the_speed_of_the_machine(monkeypatch):
    """On a machine a thousand times slower no engine warns within the test suite."""
    clock = itertools.count(0.0, 1000.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.expect(TASKS, fl.Ridge(1.0), 10, ordering=fl.RandomReshuffling())

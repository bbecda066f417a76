"""Tasks, traces, expectations and comparisons in files: what is read is what was written."""

import json
import pickle

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from forgetless.io import records
from forgetless.io.document import read
from forgetless.tables import read_tasks
from support.collections import random_pairs

TASKS = fl.TaskCollection(random_pairs(np.random.default_rng(3), d=3))
NAMED = {"λ = 2": 2.0, "rising": "increasing:0.5"}


def results():
    """One of every kind, with its class."""
    yield "tasks", TASKS
    yield "empty task", fl.TaskCollection([(np.eye(2), np.ones((2, 2))), (np.zeros((0, 2)), np.zeros((0, 2)))])
    yield "trace", fl.simulate(TASKS, 2.0, 9, n_trials=3, seed=None, metrics=fl.metrics.ALL_METRICS)
    yield "traces", fl.simulate(TASKS, NAMED, 9, n_trials=2, seed=4, record=[0, 9], keep_weights=False)
    yield "expectation", fl.expect(TASKS, 2.0, 9, metrics=fl.metrics.METRICS, record="all", start=np.ones(3))
    yield "expectations", fl.expect(TASKS, [1.0, lambda k, radius: fl.Ridge(radius)], 9, ordering="cyclic")
    yield "comparison", fl.compare_bounds(TASKS, "increasing", 9)


RESULTS = dict(results())


@pytest.fixture(params=RESULTS)
def saved(request, tmp_path):
    result, path = RESULTS[request.param], tmp_path / "result.fl"
    result.save(path, note="stored for \x1b[2J later")
    return result, path


def same(one, other):
    if isinstance(one, fl.TaskCollection):
        assert len(one) == len(other)
        for (X, y), (X2, y2) in zip(one, other, strict=True):
            np.testing.assert_array_equal(X, X2)
            np.testing.assert_array_equal(y, y2)
        assert one.digest == other.digest
    elif isinstance(one, fl.results.Trace | fl.results.Expectation):
        assert one.labels == other.labels
        np.testing.assert_array_equal(one.steps, other.steps)
        assert list(one.values) == list(other.values) or set(one.values) == set(other.values)
        for name, value in one.values.items():
            np.testing.assert_array_equal(value, other.values[name])
        if isinstance(one, fl.results.Trace):
            np.testing.assert_array_equal(one.weights, other.weights) if one.weights is not None else None
            assert (one.weights is None) == (other.weights is None)
        else:
            assert (one.method, one.errors) == (other.method, other.errors)
    else:
        assert one == other


def test_what_is_read_is_what_was_written(saved):
    result, path = saved
    loaded = fl.load(path)
    assert type(loaded) is type(result)
    same(result, loaded)
    if not isinstance(result, fl.TaskCollection):
        assert loaded.provenance == json.loads(json.dumps(result.provenance))
        assert loaded.provenance["tasks_sha256"] == TASKS.digest
        again = path.with_name("again")
        loaded.save(again)
        same(result, fl.load(again))
    same(result, fl.load(path, mmap=True))


def test_the_provenance_gives_the_numbers_again():
    result = RESULTS["trace"]
    origin = result.provenance
    seed = np.random.SeedSequence(origin["seed"]["entropy"])
    schedule = eval(origin["schedule"], {"fl": fl})
    again = fl.simulate(TASKS, schedule, origin["k"], n_trials=origin["n_trials"], seed=seed)
    np.testing.assert_allclose(again.average_loss, result.average_loss, rtol=1e-12)
    assert RESULTS["traces"].provenance["seed"] == 4
    assert RESULTS["traces"].provenance["schedule"]["rising"] == "fl.schedules.increasing(scale=0.5)"
    assert RESULTS["expectation"].provenance["start"] == [1.0, 1.0, 1.0]
    assert pickle.loads(pickle.dumps(RESULTS["expectation"])).provenance == RESULTS["expectation"].provenance
    long = fl.expect(TASKS, fl.schedules.from_coefficients(np.arange(3000.0)), 3000).provenance["schedule"]
    assert len(long) < 400


def test_show_prints_kind_provenance_and_summary(saved, capsys):
    result, path = saved
    kinds = {"TaskCollection": "tasks", "BoundComparison": "bound-comparison"}
    kind = kinds.get(type(result).__name__, type(result).__name__.lower())
    assert cli.app.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{kind}, version 1 of the format, {path.stat().st_size:,} bytes\ncreated 20")
    assert r"note: stored for \x1b[2J later" in shown
    assert "\x1b" not in shown
    assert repr(result).splitlines()[0] in shown
    assert cli.app.main(["show", str(path), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about["kind"], about["version"]) == (kind, 1)
    assert about["provenance"] == read(path).provenance


def test_tasks_in_a_file_are_read_by_commands_too(tmp_path):
    TASKS.save(tmp_path / "tasks.fl")
    same(TASKS, read_tasks(tmp_path / "tasks.fl"))
    RESULTS["trace"].save(tmp_path / "trace.fl")
    with pytest.raises(fl.errors.FileError, match=r"trace\.fl holds 'trace', not 'tasks'"):
        read_tasks(tmp_path / "trace.fl")


def test_tasks_are_memory_mapped(tmp_path):
    TASKS.save(tmp_path / "tasks.fl")
    first = fl.load(tmp_path / "tasks.fl", mmap=True)[0].X
    assert not first.flags.writeable
    assert fl.load(tmp_path / "tasks.fl")[0].X.flags.writeable


def test_every_flipped_bit_is_detected(saved):
    _, path = saved
    content = path.read_bytes()
    for at in np.linspace(0, len(content) - 1, 100).astype(int):
        damaged = bytearray(content)
        damaged[at] ^= 4
        path.write_bytes(bytes(damaged))
        with pytest.raises(fl.errors.FileError, match=r"result\.fl is damaged"):
            fl.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(fl.errors.FileError):
        fl.load(path)


def test_records_reject_values_of_other_types():
    plain = records.to_plain(RESULTS["comparison"], left_out=("origin",))
    for change, message in (
        ({"k": "9"}, r"BoundComparison\.k holds a str"),
        ({"k": True}, r"BoundComparison\.k holds a bool"),
        ({"extra": 1}, r"BoundComparison\.extra does not belong there"),
        ({"bounds": [3]}, "BoundCheck must be an object"),
        ({"errors": {"average_loss": "much"}}, r"BoundComparison\.errors holds a str"),
    ):
        with pytest.raises(ValueError, match=message):
            records.from_plain(fl.results.BoundComparison, {**plain, **change}, left_out=("origin",))
    del plain["k"]
    with pytest.raises(ValueError, match=r"BoundComparison\.k is missing"):
        records.from_plain(fl.results.BoundComparison, plain, left_out=("origin",))

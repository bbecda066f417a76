"""Tasks, traces, expectations, certificates and advice in files: what is read is what was written, or is refused."""

import json
import pickle

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from forgetless.files import load_result
from forgetless.io import records
from forgetless.io.archive import pack
from forgetless.tables import load_tasks
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
    yield "certificate", fl.compare_bounds(TASKS, "increasing", 9)
    yield "advice", fl.advise(TASKS, 9, also={"mine": lambda k, radius: fl.Ridge(radius)})


FOUND = dict(results())


@pytest.fixture(params=FOUND)
def saved(request, tmp_path):
    found = FOUND[request.param]
    path = tmp_path / f"result.{'json' if request.param in ('certificate', 'advice') else 'npz'}"
    found.save(path, note="kept for \x1b[2J later")
    return found, path


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
    elif isinstance(one, fl.results.Advice):
        assert (one.claims, one.curves, one.why, one.horizon) == (other.claims, other.curves, other.why, other.horizon)
        for mine, its in zip(one.options, other.options, strict=True):
            assert (mine.loss, mine.flat, mine.error) == (its.loss, its.flat, its.error)
            here, there = (fl.expect(TASKS, each.schedule, 9).average_loss[0] for each in (mine, its))
            assert here == there
    else:
        assert one == other


def test_what_is_read_is_what_was_written(saved):
    found, path = saved
    loaded = type(found).load(path)
    same(found, loaded)
    if not isinstance(found, fl.TaskCollection):
        assert loaded.provenance == json.loads(json.dumps(found.provenance))
        assert loaded.provenance["tasks_sha256"] == TASKS.digest
        again = path.with_name("again")
        loaded.save(again)
        same(found, type(found).load(again))
    same(found, load_result(path))


def test_the_provenance_gives_the_numbers_again():
    found = FOUND["trace"]
    made = found.provenance
    seed = np.random.SeedSequence(made["seed"]["entropy"])
    schedule = eval(made["schedule"], {"fl": fl})
    again = fl.simulate(TASKS, schedule, made["k"], n_trials=made["n_trials"], seed=seed)
    np.testing.assert_allclose(again.average_loss, found.average_loss, rtol=1e-12)
    assert FOUND["traces"].provenance["seed"] == 4
    assert FOUND["traces"].provenance["schedule"]["rising"] == "fl.schedules.increasing(scale=0.5)"
    assert FOUND["expectation"].provenance["start"] == [1.0, 1.0, 1.0]
    assert pickle.loads(pickle.dumps(FOUND["expectation"])).provenance == FOUND["expectation"].provenance
    long = fl.expect(TASKS, fl.schedules.from_coefficients(np.arange(3000.0)), 3000).provenance["schedule"]
    assert len(long) < 400


def test_files_say_what_they_are(saved):
    found, path = saved
    report = fl.describe_file(path)
    assert report.ok
    assert report.kind == ("tasks" if isinstance(found, fl.TaskCollection) else type(found).__name__.lower())
    assert (report.version, report.hash) == (1, "ok")
    assert report.rows == (sum(len(X) for X, _ in found) if isinstance(found, fl.TaskCollection) else 0)
    assert r"note: kept for \x1b[2J later" in report.facts
    assert any("made by" in fact for fact in report.facts)


def test_commands_show_them(saved, capsys):
    found, path = saved
    assert cli.app.main(["verify", str(path)]) == 0
    assert cli.app.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert repr(type(found).load(path)).splitlines()[0] in shown


def test_tasks_in_a_file_are_read_by_commands_too(tmp_path):
    TASKS.save(tmp_path / "tasks.npz")
    same(TASKS, load_tasks(tmp_path / "tasks.npz"))


def test_the_wrong_kind_is_refused_by_name(tmp_path):
    path = tmp_path / "r.npz"
    FOUND["trace"].save(path)
    with pytest.raises(fl.errors.FileError, match=r"r\.npz holds Trace, not Expectation; use fl\.Trace\.load"):
        fl.results.Expectation.load(path)
    with pytest.raises(fl.errors.FileError, match=r"r\.npz is not a forgetless tasks"):
        fl.TaskCollection.load(path)
    FOUND["advice"].save(path)
    with pytest.raises(fl.errors.FileError, match=r"r\.npz is not a forgetless certificate"):
        fl.results.BoundComparison.load(path)


def test_a_file_from_the_future_is_named(tmp_path):
    path = tmp_path / "r.npz"
    path.write_bytes(pack({"format": "forgetless-result", "version": 9, "kind": "Trace"}, {}))
    with pytest.raises(fl.errors.FileError, match="format version 9, this forgetless reads 1; upgrade forgetless"):
        fl.results.Trace.load(path)


def test_damage_is_noticed_anywhere(saved):
    """One bit in any of a hundred places: refused, unless it is where neither numbers nor words are kept."""
    found, path = saved
    whole = path.read_bytes()
    refused = 0
    for at in np.linspace(0, len(whole) - 1, 100).astype(int):
        broken = bytearray(whole)
        broken[at] ^= 4
        path.write_bytes(bytes(broken))
        try:
            same(found, type(found).load(path))
        except fl.errors.FileError:
            refused += 1
    assert refused > 60
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(fl.errors.FileError):
        type(found).load(path)


def test_records_refuse_what_their_fields_do_not_say():
    plain = records.to_plain(FOUND["certificate"], other=repr, left_out=("made",))
    for change, said in (
        ({"k": "9"}, r"BoundComparison\.k holds a str"),
        ({"k": True}, r"BoundComparison\.k holds a bool"),
        ({"extra": 1}, r"BoundComparison\.extra does not belong there"),
        ({"bounds": [3]}, "BoundCheck must be an object"),
        ({"errors": {"average_loss": "much"}}, r"BoundComparison\.errors holds a str"),
    ):
        with pytest.raises(ValueError, match=said):
            records.from_plain(fl.results.BoundComparison, {**plain, **change}, other=eval, left_out=("made",))
    del plain["k"]
    with pytest.raises(ValueError, match=r"BoundComparison\.k is missing"):
        records.from_plain(fl.results.BoundComparison, plain, other=eval, left_out=("made",))

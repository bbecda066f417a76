"""Worst collections on disk: interrupted searches, saved files, what is shipped, and the command."""

import importlib
import json

import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from forgetless.guarantees import _minimize
from forgetless.io import read, write
from forgetless.schedules.names import from_plain, to_plain
from support import literal, registry

s = fl.schedules

SCHEDULES = {
    "none": fl.Projection(),
    "fixed": s.fixed(),
    "increasing": s.increasing(),
    "budget": s.increasing_budget(2),
}


@pytest.fixture(scope="module")
def small():
    return {
        name: fl.find_worst_collection(schedule, 10, n_features=3, n_tasks=4, n_starts=4, n_rounds=40)
        for name, schedule in SCHEDULES.items()
    }


# Checkpoints ------------------------------------------------------------------------------------------------------

SEARCH = {"schedule": s.increasing(), "k": 10, "n_features": 3, "n_tasks": 4, "n_starts": 5, "n_rounds": 60}


def stop_at(round_):
    def progress(done, total, what):
        if done == round_:
            raise KeyboardInterrupt

    return progress


def same(a, b):
    return a.value == b.value and np.array_equal(a.rows, b.rows) and np.array_equal(a.counts, b.counts)


def test_a_resumed_search_ends_as_one_never_stopped(tmp_path):
    path, whole = tmp_path / "state", fl.find_worst_collection(**SEARCH)
    for round_ in (3, 17):
        with pytest.raises(KeyboardInterrupt):
            fl.find_worst_collection(**SEARCH, checkpoint=path, resume=True, progress=stop_at(round_))
        assert [file.name for file in tmp_path.iterdir()] == ["state"]
    seen = []
    resumed = fl.find_worst_collection(**SEARCH, checkpoint=path, resume=True, progress=lambda *told: seen.append(told))
    assert seen[0][:2] == (18, 60)  # finished rounds are not computed again
    best = [float(what.removeprefix("rounds, best k·loss ")) for _, _, what in seen]
    assert best == sorted(best)
    assert best[-1] == pytest.approx(resumed.value, rel=2e-4)
    assert same(resumed, whole)
    assert not path.exists()


def test_an_interruption_in_the_middle_of_a_round_loses_only_that_round(tmp_path, monkeypatch):
    path, whole = tmp_path / "state", fl.find_worst_collection(**SEARCH)
    left = [9]
    evaluate = _minimize._evaluate

    def interrupted(*arguments):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    monkeypatch.setattr(_minimize, "_evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fl.find_worst_collection(**SEARCH, checkpoint=path)
    assert same(fl.find_worst_collection(**SEARCH, checkpoint=path, resume=True), whole)


def test_checkpoints_are_written_on_the_way(tmp_path, monkeypatch):
    # The function hides the module of the same name.
    monkeypatch.setattr(importlib.import_module("forgetless.guarantees.search"), "_SAVE_EVERY", 0.0)
    sizes = []
    path = tmp_path / "state"
    fl.find_worst_collection(
        **SEARCH,
        checkpoint=path,
        progress=lambda *told: sizes.append(path.exists() and path.stat().st_size),
    )
    assert sizes[0] is False
    assert all(sizes[1:])


def test_checkpoints_are_not_lost_or_mixed_up(tmp_path):
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        fl.find_worst_collection(**SEARCH, checkpoint=path, progress=stop_at(2))
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError, match=r"there is no folder .* for the checkpoint"):
        fl.find_worst_collection(**SEARCH, checkpoint=tmp_path / "no" / "state")
    with pytest.raises(FileExistsError, match="continue it with resume=True, or remove it"):
        fl.find_worst_collection(**SEARCH, checkpoint=path)
    for change in (
        {"seed": 1},
        {"k": 11},
        {"schedule": s.increasing(2.0)},
        {"n_starts": 6},
        {"n_features": 2},
        {"rank": 2},
    ):
        with pytest.raises(ValueError, match="checkpoint of another search; give the same arguments"):
            fl.find_worst_collection(**{**SEARCH, **change}, checkpoint=path, resume=True)
    assert path.read_bytes() == before
    for content in (b"", before[:200], b"hello"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="state is damaged or not a forgetless file"):
            fl.find_worst_collection(**SEARCH, checkpoint=path, resume=True)
    fl.load_worst_collection("none", 64).save(path)
    with pytest.raises(fl.errors.FileError, match="state holds 'worst-collection', not 'checkpoint'"):
        fl.find_worst_collection(**SEARCH, checkpoint=path, resume=True)


# Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [*registry.SCHEDULES, *registry.FILTERS], ids=registry.name)
def test_schedules_survive_a_file(schedule):
    k = schedule.horizon or 12 if isinstance(schedule, fl.Filter) else 12
    back = from_plain(json.loads(json.dumps(to_plain(schedule, k))))
    assert s.resolve(back, k, 1.0) == s.resolve(schedule, k, 1.0)


def test_a_schedule_around_a_function_is_resolved():
    back = from_plain(to_plain(s.unregularized_first(registry.linear), 5))
    assert back == fl.Ridge([0.0, 2.0, 3.0, 4.0, 5.0])


def test_save_and_load(small, tmp_path):
    for name, found in small.items():
        found.save(tmp_path / name)
        back = fl.load(tmp_path / name)
        assert same(back, found)
        assert (back.k, back.command, back.schedule) == (found.k, found.command, found.schedule)
        assert repr(back) == repr(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(small)


def rows_of(change):
    return lambda header, arrays: (header, {**arrays, "rows": np.asarray(change(arrays["rows"]))})


def counts_of(change):
    return lambda header, arrays: (header, {**arrays, "counts": np.asarray(change(arrays["counts"]))})


def header_of(**changes):
    return lambda header, arrays: ({**header, **changes}, arrays)


DAMAGE = [
    (lambda header, arrays: (header, {"rows": arrays["rows"]}), "counts is missing"),
    (lambda header, arrays: (header, {"counts": arrays["counts"]}), "rows is missing"),
    (lambda header, arrays: ({}, arrays), "KeyError: 'k'"),
    (lambda header, arrays: ({**header, "value": header["value"] * (1 + 1e-8)}, arrays), "some number was changed"),
    (counts_of(lambda counts: [counts[0] + 1, *counts[1:]]), "some number was changed"),
    (counts_of(lambda counts: counts[1:]), "counts has the shape"),
    (counts_of(lambda counts: counts + 0.5), "counts has the dtype float64"),
    (counts_of(lambda counts: counts > 0), "counts has the dtype bool"),
    (counts_of(lambda counts: 0 * counts), "counts is below 1"),
    (counts_of(lambda counts: 0 * counts + 10**9), "counts is above 100000"),
    (counts_of(lambda counts: 0 * counts + 10**5), "counts must have a sum of at most 100000"),
    (rows_of(lambda rows: np.nan * rows), "rows is not finite"),
    (rows_of(lambda rows: rows[0]), "one row or table per task"),
    (rows_of(lambda rows: 0 * rows), "must have norm 1, got 0"),
    (rows_of(lambda rows: [rows[0][::-1], *rows[1:]]), "some number was changed"),
    (rows_of(lambda rows: rows[None, None]), "one row or table per task"),
    (rows_of(lambda rows: np.tile(np.eye(1, 30_000), (len(rows), 1))), "too many to be checked"),
    (header_of(k="16"), "k must be an integer"),
    (header_of(k=10**9), "k must be at most"),
    (header_of(value=10**400), "value"),
    (header_of(value=-1.0), "value must be positive"),
    (header_of(schedule={"kind": "Falling"}), "must name one of Projection, Ridge"),
    (header_of(schedule=3), "must name one of Projection, Ridge"),
    (header_of(schedule={"kind": "Ridge", "strength": 1.0}), "wrong parameters"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGE)
def test_forged_files_are_rejected(change, message, small, tmp_path):
    path = tmp_path / "worst.fl"
    small["increasing"].save(path)
    document = read(path)
    header, arrays = change(dict(document.header), dict(document.arrays))
    write(path, document.kind, header, arrays)
    with pytest.raises(fl.errors.FileError, match=f"worst.fl is damaged or not a forgetless file: .*{message}"):
        fl.load(path)


def test_folders_and_missing_folders_are_rejected(small, tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        small["none"].save(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        small["none"].save(tmp_path / "no" / "x.fl")


# What is shipped --------------------------------------------------------------------------------------------------

REFERENCE = {
    ("none", 64): 0.2126,
    ("none", 256): 0.2133,
    ("fixed", 64): 0.445,
    ("fixed", 256): 0.573,
    ("increasing", 64): 0.952,
    ("increasing", 256): 0.979,
}


@pytest.mark.parametrize(("name", "k"), REFERENCE)
def test_shipped_collections_have_their_values(name, k):
    """By a plain loop over d × d matrices, and not below the values known before."""
    found = fl.load_worst_collection(name, k)
    filter_ = s.resolve(SCHEDULES[name], k, 1.0)
    p, rows = found.probabilities, found.rows
    V = (rows.T * p) @ rows
    for t in range(k, 0, -1):
        columns = [literal.step_of(filter_)] * len(rows)
        maps = [
            np.stack([step(e, row[None], np.zeros(1), t) for e in np.eye(rows.shape[1])], axis=1)
            for step, row in zip(columns, rows, strict=True)
        ]
        V = sum(weight * L.T @ V @ L for weight, L in zip(p, maps, strict=True))
    assert 0.5 * k * np.linalg.eigvalsh(V)[-1] == pytest.approx(found.value, rel=1e-9)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(1.0, abs=1e-12)
    assert round(found.value, 4 if name == "none" else 3) >= REFERENCE[name, k]
    assert found.command.startswith(f"forgetless lab find-worst-collection --schedule {name} --k {k} ")
    assert rows.shape[1] <= 6
    assert len(rows) <= 8
    for constant in found.constants:
        assert constant.value >= found.value if constant.kind == "upper" else constant.value <= found.value


@pytest.mark.long
@pytest.mark.parametrize("name", ["none", "fixed", "increasing"])
def test_recorded_commands_find_what_is_shipped(name, tmp_path):
    shipped = fl.load_worst_collection(name, 64)
    assert cli.main([*shipped.command.split()[1:], "--out", str(tmp_path / "found.fl")]) == 0
    assert fl.load(tmp_path / "found.fl").value >= shipped.value * (1 - 1e-4)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of fixed-256, .*, got 'rising' and 64; search for others"):
        fl.load_worst_collection("rising", 64)
    with pytest.raises(ValueError, match="got 'fixed' and 65"):
        fl.load_worst_collection("fixed", 65)


# The command ------------------------------------------------------------------------------------------------------

WORDS = [
    "lab",
    "find-worst-collection",
    "--k",
    "10",
    "--features",
    "3",
    "--tasks",
    "4",
    "--starts",
    "5",
    "--rounds",
    "60",
]


def run(capsys, *words):
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_finds_prints_and_saves(tmp_path, capsys):
    code, out, err = run(capsys, *WORDS, "--out", tmp_path / "found.fl")
    assert (code, err) == (0, "")
    found = fl.load(tmp_path / "found.fl")
    expected = fl.find_worst_collection(**SEARCH)
    assert same(found, expected)
    assert found.command == "forgetless lab find-worst-collection --schedule increasing" + " ".join(
        ["", *WORDS[2:8], "--rank", "1", *WORDS[8:], "--kind", "mixed", "--seed", "0"]
    )
    assert out == repr(found) + "\n"
    code, out, _ = run(capsys, *WORDS, "--json")
    plain = json.loads(out)
    assert code == 0
    assert plain["constants"][-1]["kind"] == "lower"
    assert (plain["counts"], plain["rows"]) == (expected.counts.tolist(), expected.rows.tolist())
    assert [path.name for path in tmp_path.iterdir()] == ["found.fl"]


def test_an_interrupted_command_can_be_resumed(tmp_path, capsys, monkeypatch):
    out = tmp_path / "found.fl"
    with monkeypatch.context() as patch:
        search = fl.find_worst_collection
        patch.setattr(fl, "find_worst_collection", lambda *a, **b: search(*a, **{**b, "progress": stop_at(5)}))
        code, _, err = run(capsys, *WORDS, "--out", out)
    assert code == 130
    assert "interrupted" in err
    assert "--resume" in err
    assert [path.name for path in tmp_path.iterdir()] == ["found.fl.checkpoint"]
    code, _, err = run(capsys, *WORDS, "--out", out)
    assert code == 1
    assert "continue it with resume=True" in err
    assert run(capsys, *WORDS, "--out", out, "--resume")[0] == 0
    assert same(fl.load(out), fl.find_worst_collection(**SEARCH))
    assert [path.name for path in tmp_path.iterdir()] == ["found.fl"]


def test_wrong_use_of_the_command(tmp_path, capsys):
    assert run(capsys, *WORDS, "--resume")[0] == 2
    code, _, err = run(capsys, *WORDS, "--out", tmp_path / "no" / "x.json")
    assert code == 1
    assert "there is no folder" in err
    code, _, err = run(capsys, *WORDS, "--schedule", "rising")
    assert code == 2
    assert run(capsys, "lab", "find-worst-collection", "--k", "2", "--schedule", "fixed")[0] == 1

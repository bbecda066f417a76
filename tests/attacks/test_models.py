"""Forged models with a checksum that agrees: every array, number and header is validated."""

import numpy as np
import pytest

import forgetless as fl
from attacks.documents import forged
from attacks.models import MODELS, distortions, outcome_of, written
from forgetless.io.document import read
from support.campaigns import SEED, seed_for


@pytest.mark.parametrize(
    "name", ["predict", "memory", *(pytest.param(name, marks=pytest.mark.long) for name in MODELS)]
)
def test_every_array_of_a_model_is_validated_even_if_the_checksum_agrees(stored, tmp_path, name, campaign):
    path, outcomes = written(tmp_path / "m.fl", stored[name]), {}
    arrays = read(path).arrays
    for array, value in arrays.items():
        changes = [{other: value for other, value in arrays.items() if other != array}]
        changes += [{**arrays, array: new} for new in distortions(value)]
        changes.append({**arrays, array + ".more": np.zeros(2)})
        for changed in changes:
            forged(written(path, stored[name]), arrays=changed)
            outcome = outcome_of(path)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["rejected"] > 0.4 * sum(outcomes.values())
    campaign(f"{name}: {sum(outcomes.values())} forged files: {outcomes}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_rejected(stored, tmp_path, value):
    path, seen = tmp_path / "m.fl", set()
    for content in stored.values():
        arrays = read(written(path, content)).arrays
        for name, array in arrays.items():
            # Some columns of a history are not known for every task; nothing is computed from them.
            if array.dtype.kind != "f" or not array.size or (name.startswith("history.") and "preq" not in name):
                continue
            wrong = array.copy()
            wrong.reshape(-1)[-1] = value
            forged(written(path, content), arrays={**arrays, name: wrong})
            with pytest.raises(fl.errors.FileError, match=r"is not finite|is below"):
                fl.load(path)
            seen.add(name)
    assert seen >= {"coef", "intercept", "radius", "class_counts", "iterate.weights", "units.mean"}
    assert seen >= {
        f"memory.{name}" for name in ("gram", "moment", "inverse", "energy", "vectors", "norms", "diagonal")
    }
    statistics = {f"memory.statistics.{name}" for name in ("weights", "mean", "gradient", "rest")}
    trackers = {f"memory.trackers.{name}" for name in ("weights", "inverses")}
    assert seen >= {"ranges", "memory.shares", "memory.recent.weights", "inverse_strength", *statistics, *trackers}


HEADERS = [
    {"class": "advise"},
    {"class": 3},
    {"class": ["ContinualRidge"]},
    {"class": "ContinualGD"},
    {"parameters": []},
    {"parameters": {"alpha": "one"}},
    {"parameters": {"alpha": [1.0]}},
    {"parameters": {"alpha": -1.0}},
    {"parameters": {"fit_intercept": None}},
    {"parameters": {"fit_intercept": False}},
    {"parameters": {"self": 1}},
    {"parameters": {"__class__": 1}},
    {"parameters": {"memory": 3}},
    {"parameters": {"memory": {"kind": "LowRankMemory", "rank": -1}}},
    {"parameters": {"memory": {"kind": "LowRankMemory", "ranks": 1}}},
    {"parameters": {"memory": {"kind": "Auto"}}},
    {"parameters": {"average": 2}},
    {"parameters": {"standardize": True}},
    {"parameters": {"schedule": {"kind": "os.system"}}},
    {"parameters": {"schedule": {"kind": "Auto", "objective": "past"}}},
    {"parameters": {"schedule": {"kind": "Ridge", "coefficient": "x"}}},
    {"parameters": {"schedule": {"kind": "Ridge", "coefficient": [[1.0]]}}},
    {"parameters": {"schedule": "no-such"}},
    {"state": "predict"},
    {"state": None},
    {"feature_names": ["a", 3, "c"]},
    {"feature_names": ["a"]},
]


@pytest.mark.parametrize("change", HEADERS, ids=str)
def test_headers_are_validated(stored, tmp_path, change):
    path = written(tmp_path / "m.fl", stored["ridge"])
    header = read(path).header
    if isinstance(change.get("parameters"), dict):
        change = {"parameters": {**header["parameters"], **change["parameters"]}}
    forged(path, header={**header, **change})
    with pytest.raises(fl.errors.FileError, match=r"m\.fl"):
        fl.load(path)


@pytest.mark.parametrize("tries", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_random_arrays_with_a_valid_checksum_do_no_harm(stored, tmp_path, tries, campaign):
    """Several arrays of a model replaced at random, and the checksum computed again."""
    rng, counts, path = np.random.default_rng(seed_for(tries)), {}, tmp_path / "m.fl"
    names = list(stored)
    for number in range(tries):
        arrays = dict(read(written(path, stored[names[number % len(names)]])).arrays)
        for _ in range(int(rng.integers(1, 4))):
            name = list(arrays)[int(rng.integers(len(arrays)))]
            with np.errstate(all="ignore"):
                choice = list(distortions(arrays[name]))
            arrays[name] = choice[int(rng.integers(len(choice)))]
            if arrays[name].size and rng.random() < 0.5 and arrays[name].dtype.kind in "iuf":
                flat = arrays[name].reshape(-1).copy()
                flat.view(np.uint8)[int(rng.integers(flat.nbytes))] ^= 1 << int(rng.integers(8))
                arrays[name] = flat.reshape(arrays[name].shape)
        forged(path, arrays=arrays)
        outcome = outcome_of(path)
        counts[outcome] = counts.get(outcome, 0) + 1
    assert counts["rejected"] > tries / 3
    campaign(f"seed {SEED}: {tries} forged model files: {counts}, 0 crashes")


DATES = np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]").tolist()


@pytest.mark.parametrize("labels", [[1.0, 2.0], [False, True], ["v", "ü"], [3, 7], DATES], ids=str)
def test_labels_of_all_kinds_come_back(tmp_path, labels):
    model = fl.ContinualRidgeClassifier().fit(np.eye(2), np.array(labels, dtype="M8[D]" if labels is DATES else None))
    model.save(tmp_path / "m.fl")
    back = fl.load(tmp_path / "m.fl")
    assert back.predict(np.eye(2)).tolist() == labels
    assert back.classes_.dtype == model.classes_.dtype

"""Forged models and checkpoints under a good hash: every array, number and header is checked."""

from dataclasses import replace

import numpy as np
import pytest

import forgetless as fl
from attacks.archives import distortions, opened, resealed
from attacks.models import MODELS, meet, tasks, written
from forgetless.io import archive as reader
from forgetless.io.document import read, write
from support.campaigns import SEED, seed_for


@pytest.mark.parametrize(
    "name", ["predict", "sparse", *(pytest.param(name, marks=pytest.mark.long) for name in MODELS)]
)
def test_every_array_of_a_model_is_checked_even_if_the_hash_was_made_anew(stored, tmp_path, name, campaign):
    kind, content = stored[name]
    path, outcomes = tmp_path / "m.npz", {}
    header, arrays = opened(content)
    for array, value in arrays.items():
        changes = [{other: value for other, value in arrays.items() if other != array}]
        changes += [{**arrays, array: new} for new in distortions(value)]
        changes.append({**arrays, array + ".more": np.zeros(2)})
        for changed in changes:
            path.write_bytes(reader.pack(header, changed))
            outcome = meet(path, kind)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["refused"] > 80
    campaign(f"{name}: {sum(outcomes.values())} forged files: {outcomes}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(stored, tmp_path, value):
    path, seen = tmp_path / "m.npz", set()
    for kind, content in stored.values():
        header, arrays = opened(content)
        for name, array in arrays.items():
            # Of a history some columns are not known for every task; nothing is computed from them.
            if array.dtype.kind != "f" or not array.size or (name.startswith("state.history.") and "preq" not in name):
                continue
            wrong = array.copy()
            wrong.reshape(-1)[-1] = value
            path.write_bytes(reader.pack(header, {**arrays, name: wrong}))
            with pytest.raises(fl.errors.FileError, match=r"is not finite|is below"):
                kind.load(path)
            seen.add(name)
    assert seen >= {
        f"state.{name}" for name in ("coef", "intercept", "radius", "holdout.X", "holdout.data", "holdout.y")
    }
    assert seen >= {f"state.memory.{name}" for name in ("gram_", "moment_", "inverse_", "energy_")}


def test_held_out_rows_must_be_there_and_belong_to_tasks(stored, tmp_path):
    path = tmp_path / "m.npz"
    kind, content = stored["held"]
    header, arrays = opened(content)
    counts = arrays["state.holdout.counts"]
    assert counts.tolist() == [2, 2, 2, 2]
    without = {name: array for name, array in arrays.items() if ".holdout." not in name}
    for changed, words in (
        (without, "which its held-out rows contradict"),
        ({**arrays, "state.holdout.counts": np.array([4, 0, 2, 2])}, "holdout.counts is below 1"),
        ({**arrays, "state.holdout.tasks": np.array([0, 1, 2, 4])}, "holdout.tasks is above 3"),
        ({**arrays, "state.holdout.counts": np.array([2, 2, 2, 3])}, "holdout.y has the shape"),
    ):
        path.write_bytes(reader.pack(header, changed))
        with pytest.raises(fl.errors.FileError, match=words):
            kind.load(path)


HEADERS = [
    {"class": "advise"},
    {"class": 3},
    {"class": ["ContinualRidge"]},
    {"parameters": []},
    {"parameters": {"alpha": "one"}},
    {"parameters": {"alpha": [1.0]}},
    {"parameters": {"alpha": -1.0}},
    {"parameters": {"fit_intercept": None}},
    {"parameters": {"self": 1}},
    {"parameters": {"__class__": 1}},
    {"parameters": {"history_size": -5}},
    {"parameters": {"schedule": {"kind": "os.system"}}},
    {"parameters": {"schedule": {"kind": "Ridge", "coefficient": float("nan")}}},
    {"parameters": {"schedule": {"kind": "Ridge", "coefficient": [[1.0]]}}},
    {"parameters": {"schedule": "no-such"}},
    {"state": "predict"},
    {"version": True},
    {"version": "3"},
    {"format": None},
]


@pytest.mark.parametrize("change", HEADERS, ids=str)
def test_headers_are_checked(stored, tmp_path, change):
    kind, content = stored["ridge"]
    path = tmp_path / "m.npz"

    def changed(header, arrays):
        if "parameters" in change and isinstance(change["parameters"], dict):
            return {**header, "parameters": {**header["parameters"], **change["parameters"]}}, arrays
        return {**header, **change}, arrays

    path.write_bytes(resealed(content, changed))
    with pytest.raises(fl.errors.FileError, match=r"m\.npz"):
        kind.load(path)


def test_a_header_nested_without_end_is_refused(stored, tmp_path):
    kind, content = stored["ridge"]
    path = tmp_path / "m.npz"
    deep = b'{"format": ' * 100_000
    with np.load(written(path, content)) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["header"] = np.frombuffer(deep, dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(fl.errors.FileError, match="not a forgetless model"):
        kind.load(path)


def test_every_array_of_a_checkpoint_is_validated_even_if_the_checksum_agrees(tmp_path):
    path, calls = tmp_path / "c.fl", 0

    def stop(*_):
        raise KeyboardInterrupt

    search = {"schedule": fl.Ridge(1.0), "k": 4, "n_starts": 2, "n_tasks": 3, "n_features": 2, "n_rounds": 2}
    with pytest.raises(KeyboardInterrupt):
        fl.find_worst_collection(**search, checkpoint=path, progress=stop)
    assert repr(fl.load(path)) == "search of 2 starts after 0 rounds; resume it with checkpoint=path, resume=True"
    document = read(path)
    for name, value in document.arrays.items():
        for wrong in (value[None], value.reshape(-1)[:0], value.astype(bool), -1 - value.astype(int)):
            write(path, replace(document, arrays={**document.arrays, name: wrong}))
            with pytest.raises(fl.errors.FileError, match=r"c\.fl is damaged"):
                fl.find_worst_collection(**search, checkpoint=path, resume=True)
            calls += 1
        others = {other: value for other, value in document.arrays.items() if other != name}
        write(path, replace(document, arrays=others))
        with pytest.raises(fl.errors.FileError, match="is missing"):
            fl.load(path)
    for key in (None, 3, "x", "[1, 2, 3, -4]", '[1, 2, 3, "a"]', "[" * 9000):
        write(path, replace(document, header={"key": key}))
        with pytest.raises(fl.errors.FileError, match=r"c\.fl is damaged"):
            fl.load(path)
    assert calls == 12


@pytest.mark.parametrize("tries", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_random_arrays_under_a_good_hash_do_no_harm(stored, tmp_path, tries, campaign):
    """Several arrays of a model replaced at random, then sealed anew."""
    rng, counts, path = np.random.default_rng(seed_for(tries)), {}, tmp_path / "m.npz"
    names = list(stored)
    for number in range(tries):
        kind, content = stored[names[number % len(names)]]

        def change(header, arrays):
            for _ in range(int(rng.integers(1, 4))):
                name = list(arrays)[int(rng.integers(len(arrays)))]
                with np.errstate(all="ignore"):
                    choice = list(distortions(arrays[name]))
                arrays[name] = choice[int(rng.integers(len(choice)))]
                if arrays[name].size and rng.random() < 0.5 and arrays[name].dtype.kind in "iuf":
                    flat = arrays[name].reshape(-1).copy()
                    flat.view(np.uint8)[int(rng.integers(flat.nbytes))] ^= 1 << int(rng.integers(8))
                    arrays[name] = flat.reshape(arrays[name].shape)

        path.write_bytes(resealed(content, change))
        outcome = meet(path, kind)
        counts[outcome] = counts.get(outcome, 0) + 1
    assert counts["refused"] > tries / 3
    campaign(f"seed {SEED}: {tries} forged model files: {counts}, 0 crashes")


def test_numbers_of_another_byte_order_are_read(stored, tmp_path):
    kind, content = stored["ridge"]
    path = written(tmp_path / "m.npz", content)
    coef = kind.load(path).coef_
    swapped = resealed(content, lambda h, a: (h, {n: v.astype(v.dtype.newbyteorder("S")) for n, v in a.items()}))
    back = kind.load(written(path, swapped))
    assert back.coef_.tolist() == coef.tolist()
    assert back.coef_.dtype == np.float64
    back.partial_fit(*tasks(3)[0])


DATES = np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]").tolist()


@pytest.mark.parametrize("labels", [[1.0, 2.0], [False, True], ["v", "ü"], [3, 7], DATES], ids=str)
def test_labels_of_all_kinds_come_back(tmp_path, labels):
    model = fl.ContinualRidgeClassifier().fit(np.eye(2), np.array(labels, dtype="M8[D]" if labels is DATES else None))
    model.save(tmp_path / "m.npz")
    back = fl.ContinualRidgeClassifier.load(tmp_path / "m.npz")
    assert back.predict(np.eye(2)).tolist() == labels
    assert back.classes_.dtype == model.classes_.dtype

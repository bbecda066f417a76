"""Damaged files: names, dtypes, shapes and values are all under the hash, and flipped bits are noticed."""

import numpy as np
import pytest

import forgetless as fl
from attacks.models import written
from forgetless.io import archive as reader
from support.campaigns import SEED, seed_for


def test_names_dtypes_shapes_and_values_are_all_under_the_hash(stored, tmp_path):
    """Each change leaves the bytes of all others as they were."""
    _, content = stored["joint"]
    path = written(tmp_path / "m.npz", content)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    gram, coef = arrays["state.memory.gram_"], arrays["state.coef"]
    others = {name: array for name, array in arrays.items() if name != "state.memory.gram_"}
    changes = {
        "value": {**arrays, "state.memory.gram_": np.nextafter(gram, np.inf)},
        "one bit": {**arrays, "state.coef": np.concatenate([coef[:-1], np.nextafter(coef[-1:], 9)])},
        "name": {**others, "state.memory.gram": gram},
        "dtype": {**arrays, "state.memory.gram_": gram.view(np.int64)},
        "shape": {**arrays, "state.memory.gram_": gram.reshape(2, 8)},
        "order of the sides": {**arrays, "state.memory.gram_": np.asfortranarray(gram + np.arange(4.0))},
        "missing": others,
        "more": {**arrays, "state.memory.more": np.zeros(0)},
        "header": {**arrays, "header": np.append(arrays["header"], np.uint8(32))},
        "no hash": {name: array for name, array in arrays.items() if name != "sha256"},
    }
    for what, changed in changes.items():
        np.savez(path, **changed)
        with pytest.raises(fl.errors.FileError, match="do not match their hash"):
            pytest.fail(f"{what}: {fl.JointRidge.load(path)}")
    np.savez(path, **dict(reversed(arrays.items())))  # the order of the members says nothing
    assert fl.JointRidge.load(path).gram_.tolist() == gram.tolist()


def test_digests_are_those_of_the_definition(stored, tmp_path):
    import hashlib

    a, b = np.arange(6.0).reshape(2, 3), np.array("ü")
    text = b"a|<f8|(2, 3)|" + a.tobytes() + b"b|<U1|()|" + "ü".encode("utf-32-le")
    assert reader.digest({"b": b, "a": a}) == hashlib.sha256(text).digest()
    assert reader.digest({"a": np.asfortranarray(a), "b": b}) == hashlib.sha256(text).digest()


@pytest.mark.parametrize("tries", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_or_the_same(stored, tmp_path, tries, campaign):
    rng, counts = np.random.default_rng(seed_for(tries)), {}
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    names = list(stored)
    known = {}
    for number in range(tries):
        name = names[number % len(names)]
        kind, content = stored[name]
        broken = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            broken[int(rng.integers(len(broken)))] ^= 1 << int(rng.integers(8))
        if number % 10 == 9:
            broken = broken[: int(rng.integers(len(broken)))]
        bad.write_bytes(bytes(broken))
        try:
            model = kind.load(bad)
        except fl.errors.FileError:
            counts["refused"] = counts.get("refused", 0) + 1
            continue
        if name not in known:
            good.write_bytes(content)
            known[name] = kind.load(good)
        np.testing.assert_array_equal(model.coef_, known[name].coef_)
        assert repr(model) == repr(known[name])
        counts["loaded the same"] = counts.get("loaded the same", 0) + 1
    assert counts["refused"] > tries / 2
    campaign(f"seed {SEED}: {tries} damaged model files: {counts}, 0 loaded otherwise")


@pytest.mark.parametrize("tries", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_damaged_worst_collections_are_refused_or_the_same(tmp_path, tries, campaign):
    rng, counts = np.random.default_rng(seed_for(tries)), {"refused": 0, "loaded the same": 0}
    known = fl.load_worst_collection("none", 64)
    path = tmp_path / "w.fl"
    known.save(path)
    content = path.read_bytes()
    for _ in range(tries):
        broken = bytearray(content)
        broken[int(rng.integers(len(broken)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        try:
            found = fl.load(path)
        except fl.errors.FileError:
            counts["refused"] += 1
            continue
        assert found.to_dict() == known.to_dict()
        counts["loaded the same"] += 1
    assert counts["refused"] > 0.95 * tries
    campaign(f"seed {SEED}: {tries} bits flipped in a worst collection: {counts}, 0 loaded otherwise")

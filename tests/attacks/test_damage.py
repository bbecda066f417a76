"""Damaged files of models and worst collections: flipped bits are noticed."""

import numpy as np
import pytest

import forgetless as fl
from support.campaigns import SEED, seed_for


@pytest.mark.parametrize("tries", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_or_the_same(stored, tmp_path, tries, campaign):
    rng, counts = np.random.default_rng(seed_for(tries)), {}
    good, bad = tmp_path / "good.fl", tmp_path / "bad.fl"
    names = list(stored)
    originals = {}
    for number in range(tries):
        name = names[number % len(names)]
        content = stored[name]
        broken = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            broken[int(rng.integers(len(broken)))] ^= 1 << int(rng.integers(8))
        if number % 10 == 9:
            broken = broken[: int(rng.integers(len(broken)))]
        bad.write_bytes(bytes(broken))
        try:
            model = fl.load(bad)
        except fl.errors.FileError:
            counts["refused"] = counts.get("refused", 0) + 1
            continue
        if name not in originals:
            good.write_bytes(content)
            originals[name] = fl.load(good)
        np.testing.assert_array_equal(model.coef_, originals[name].coef_)
        assert repr(model) == repr(originals[name])
        counts["loaded the same"] = counts.get("loaded the same", 0) + 1
    assert counts["refused"] > tries / 2
    campaign(f"seed {SEED}: {tries} damaged model files: {counts}, 0 loaded otherwise")

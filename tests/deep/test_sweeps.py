"""Sweeps whose tasks are tensors: computed where they lie, with the numbers of NumPy."""

import functools

import numpy as np
import pytest
import torch

from support.deep.tensors import tensors
from support.sweeping import small


@pytest.mark.parametrize("n_workers", [0, 1])
def test_tensors_give_the_numbers_of_numpy(tmp_path, n_workers):
    options = {
        "scales": [0.1, 1.0],
        "metrics": ("average_loss", "seen_loss"),
        "orderings": ["with-replacement", "cyclic"],
    }
    ours = small(tasks={"gauss": tensors}, **options).run(tmp_path / "a.db", n_workers=n_workers).columns
    theirs = small(**options).run(tmp_path / "b.db", n_workers=0).columns
    assert ours["schedule"] == theirs["schedule"]
    for name in ("average_loss", "seen_loss"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-14)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU was found; run this on a machine with one")
def test_batches_are_computed_on_a_gpu(tmp_path):
    ours = small(tasks={"gauss": functools.partial(tensors, device="cuda")}).run(tmp_path / "a.db", n_workers=0).columns
    theirs = small().run(tmp_path / "b.db", n_workers=0).columns
    np.testing.assert_allclose(ours["average_loss"], theirs["average_loss"], rtol=1e-9)

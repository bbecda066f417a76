"""The streams of text: what they refuse, and adapters. test_protocol.py runs them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from deep import language, transformer
from deep.methods import METHODS
from deep.training import Run

HOW = replace(language.TOY, width=8, batch=4, steps=4, pretraining=3, importance_samples=3)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    size = language.N_TRAIN + 2 * language.N_EVAL
    letters = rng.integers(97, 103, (7, size), dtype=np.uint8) + 5 * np.arange(7, dtype=np.uint8)[:, None]
    path = tmp_path_factory.mktemp("text") / "text.npz"
    np.savez(path, names=np.arange(7), text=letters)
    return path


def stream_of(file, rank):
    spec = language.LanguageSpec(n_tasks=3, k=3, rank=rank, lr=0.01)
    return language.problem("x", spec, HOW, file, "cpu").make([3, 8])


def test_too_few_domains_raise(file):
    with pytest.raises(ValueError, match="has 7 domains, x needs 20"):
        language.problem("x", language.LanguageSpec(), HOW, file, "cpu")
    metric = Run(METHODS["SI linear"], 1.0, 0)
    with pytest.raises(ValueError, match="metric must be identity or fisher here"):
        language.train(stream_of(file, 0), [metric], part="val")


def test_adapters_leave_the_network_unchanged(file):
    stream = stream_of(file, 2)
    x = stream.evaluation("val", torch.tensor([4, 5]))
    whole = transformer.losses(stream.weights, x, HOW.heads)
    added = transformer.adapters(stream.weights, 2, 0)
    assert torch.equal(transformer.losses({**stream.weights, **added}, x, HOW.heads), whole)

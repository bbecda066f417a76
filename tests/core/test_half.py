"""Half precision converted by compiled code: NumPy's bits."""

import os
import subprocess
import sys

import numpy as np
import pytest

from forgetless._core import half


@pytest.fixture
def numba_always(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("FORGETLESS_NUMBA", "always")


def test_every_half_up_to_one_comes_back(numba_always):
    bits = np.arange(2**16, dtype=np.uint16)
    numbers = bits.view(np.float16)
    with np.errstate(invalid="ignore"):
        numbers = numbers[np.abs(numbers) <= 1.0]
    single = half.to_single(numbers)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, numbers.astype(np.float32))
    np.testing.assert_array_equal(half.to_half(single), numbers)


def test_rounding_is_numpys(numba_always, rng):
    for scale in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
        values = (scale * rng.uniform(-1, 1, (70, 90))).astype(np.float32)
        np.testing.assert_array_equal(half.to_half(values), values.astype(np.float16))
    between = np.linspace(0, 1, 2**14 + 1, dtype=np.float32)  # ties among them
    np.testing.assert_array_equal(half.to_half(between), between.astype(np.float16))


def test_without_numba_it_is_numpy(monkeypatch, rng):
    monkeypatch.setenv("FORGETLESS_NUMBA", "never")
    values = rng.uniform(-1, 1, (70, 90)).astype(np.float32)
    np.testing.assert_array_equal(half.to_half(values), values.astype(np.float16))
    np.testing.assert_array_equal(half.to_single(half.to_half(values)), values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("numba", ["always", "never"])
def test_products_read_what_is_stored(monkeypatch, rng, numba):
    pytest.importorskip("numba")
    monkeypatch.setenv("FORGETLESS_NUMBA", numba)
    rows = (rng.uniform(-1, 1, (40, 230)) * 10.0 ** rng.uniform(-7, 0, (40, 230))).astype(np.float16)
    x, y = rng.standard_normal((2, 230)).astype(np.float32)
    weights, wide = rng.standard_normal(40).astype(np.float32), rows.astype(np.float64)
    for found, want in zip(half.products(rows, x, y), (wide @ x, wide @ y), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, want, atol=1e-5)
    np.testing.assert_allclose(half.combined(weights, rows), weights @ wide, atol=1e-5)
    np.testing.assert_array_equal(half.combined(weights[:0], rows[:0]), np.zeros(230))


SCRIPT = """
import numpy as np
from forgetless._core import _half_numba as made, half
bits = np.arange(2**16, dtype=np.uint16)
numbers = bits.view(np.float16)
numbers = numbers[np.abs(numbers) <= 1.0]
assert made.single is made._single_by_bits
single = half.to_single(numbers)
assert np.array_equal(single, numbers.astype(np.float32)) and np.array_equal(half.to_half(single), numbers)
values = np.random.default_rng(0).uniform(-1, 1, 10**4).astype(np.float32)
assert np.array_equal(half.to_half(values), values.astype(np.float16))
"""


def test_a_processor_without_the_instruction_moves_bits(tmp_path):
    pytest.importorskip("numba")
    asked = {"FORGETLESS_NUMBA": "always", "NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(words, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_numba_every_half_is_numpys(monkeypatch):
    monkeypatch.setenv("FORGETLESS_NUMBA", "never")
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    np.testing.assert_array_equal(half.to_single(numbers), numbers.astype(np.float32))

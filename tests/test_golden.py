"""Numbers that a user sees stay as they are: see golden/values.py."""

import os
import subprocess
import sys

import pytest

from golden import values


@pytest.fixture(scope="module")
def reference():
    return values.read(values.PATH)


def test_numbers_are_those_of_the_golden_file(reference):
    assert values.differences(reference, values.computed()) == {}


def test_a_changed_number_is_noticed(reference):
    name = "ridge/alpha"
    changed = [value * (1 + 1e-11) for value in reference[name]]
    assert list(values.differences(reference, {**reference, name: changed})) == [name]
    assert list(values.differences(reference, {**reference, "ridge/new": [1.0]})) == ["ridge/new"]


def test_numbers_without_numba_are_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "golden.values"],
        cwd=values.PATH.parents[1],
        env={**os.environ, "FORGETLESS_NUMBA": "never"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr

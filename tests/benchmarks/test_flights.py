"""The comparison of learners on the flights, on a sample of its data."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "flights.py"


@pytest.mark.long
def test_runs():
    done = subprocess.run([sys.executable, SCRIPT, "--fraction", "0.02"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_fraction_that_leaves_too_few_rows_is_rejected():
    done = subprocess.run([sys.executable, SCRIPT, "--fraction", "0.001"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--fraction must be between" in done.stderr

"""Every example script runs unchanged, the longest on a sample of its data, and prints something."""

import subprocess
import sys
from pathlib import Path

import pytest

ARGUMENTS = {"flights.py": ["--fraction", "0.02"]}
LONG = {"certificate.py", "flights.py", "which_lambda.py"}
ELSEWHERE = {"avalanche_stream.py"}  # needs Avalanche, and is run by make test-avalanche
EXAMPLES = [
    script for script in sorted((Path(__file__).parents[1] / "examples").glob("*.py")) if script.name not in ELSEWHERE
]


@pytest.mark.parametrize(
    "script",
    [pytest.param(script, marks=[pytest.mark.long] if script.name in LONG else []) for script in EXAMPLES],
    ids=lambda script: script.name,
)
def test_runs(script, tmp_path):
    command = [sys.executable, script, *ARGUMENTS.get(script.name, [])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_flights_refuses_a_share_that_leaves_too_few():
    script = Path(__file__).parents[1] / "examples" / "flights.py"
    done = subprocess.run([sys.executable, script, "--fraction", "0.001"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--fraction must be between" in done.stderr

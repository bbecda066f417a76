"""Every example script runs unchanged and prints something."""

import subprocess
import sys
from pathlib import Path

import pytest

LONG = {"compare_bounds.py", "which_lambda.py"}
ELSEWHERE = {"avalanche_stream.py", "lora_tasks.py", "trl_tasks.py"}  # need a trainer, and are run by its own target
TORCH = {"linearized.py"}
EXAMPLES = [
    script for script in sorted((Path(__file__).parents[1] / "examples").glob("*.py")) if script.name not in ELSEWHERE
]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            script, marks=[pytest.mark.long] * (script.name in LONG) + [pytest.mark.torch] * (script.name in TORCH)
        )
        for script in EXAMPLES
    ],
    ids=lambda script: script.name,
)
def test_runs(script, tmp_path):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

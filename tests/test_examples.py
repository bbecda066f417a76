"""Every example script runs unchanged and prints something."""

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = {"avalanche_stream.py", "lora_tasks.py", "trl_tasks.py"}  # need a trainer, and are run by its own target
MARKS = {
    "compare_bounds.py": pytest.mark.long,
    "which_lambda.py": pytest.mark.long,
    "linearized.py": pytest.mark.torch,
}
EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted({script.name for script in EXAMPLES.glob("*.py")} - ELSEWHERE)


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in NAMES])
def test_runs(name, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

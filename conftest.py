"""What needs torch, a trainer or a browser as a whole: marked here, and left out where they are
missing.
"""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
DEEP = [ROOT / folder for folder in ("src/forgetless/torch", "tests/deep", "tests/support/deep")]
DEEP += [ROOT / f"tests/benchmarks/test_{name}.py" for name in ("benchmark", "digits", "protocol")]

TRAINERS = ("avalanche", "lightning", "transformers")
"""Packages with an environment of their own; each has one file of tests."""

BROWSER = ROOT / "tests/explorer/browser"

collect_ignore = [] if importlib.util.find_spec("torch") else [str(folder) for folder in DEEP]
collect_ignore += [
    f"{ROOT}/tests/deep/test_{trainer}.py"
    for trainer in TRAINERS
    if not importlib.util.find_spec(trainer)
]
collect_ignore += [] if importlib.util.find_spec("playwright") else [str(BROWSER)]


def pytest_collection_modifyitems(items):
    """Mark them."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in DEEP):
            item.add_marker(pytest.mark.torch)
        if item.path.is_relative_to(BROWSER):
            item.add_marker(pytest.mark.browser)

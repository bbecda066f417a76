"""What stands beside the library uses its public names, and few others."""

import ast
from pathlib import Path

RESEARCH = Path(__file__).parents[1] / "research"

PUBLIC = {"forgetless", "forgetless.errors"}

PRIVATE = {
    "two_class": {"forgetless._progress.track"},
}
"""Other names of the library that a part of research imports. These sets may only shrink."""


def imported(part):
    """Yield the names that a part imports from modules of the library that are not public."""
    for path in sorted((RESEARCH / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.split(".")[0] == "forgetless" and module not in PUBLIC:
                yield from (f"{module}.{alias.name}" for alias in node.names)


def test_private_names_are_listed():
    for part, names in PRIVATE.items():
        assert set(imported(part)) == names

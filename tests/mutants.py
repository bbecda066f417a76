"""Does a test fail when one token of the library is changed? ``python tests/mutants.py --part filters``.

Each mutant changes one operator, comparison, number or truth value of a copy of ``src`` and runs the tests of its part
(``tests/PART*``, the module's doctests, and the golden numbers). Survivors are printed: each is a missing test, or a
change that computes the same.
"""

import argparse
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "forgetless"
SECONDS = 300

SWAPPED = {"+": "-", "-": "+", "*": "/", "/": "*", "==": "!=", "!=": "==", "and": "or", "or": "and"}
SWAPPED |= {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "True": "False", "False": "True"}

FOLDERS = {"torch": ["deep"], "tables": ["tables", "cli"], "metrics": ["lab"], "kernels": ["lab"]}
"""Where the tests of a part are, if not in a folder or in files of its name."""


def mutants(path):
    """Yield (number of the line, the line, the line with one token changed) for one module."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        new = f"({token.string} + 1)" if token.type == tokenize.NUMBER else SWAPPED.get(token.string)
        after = token.line[token.end[1] :]
        is_mark = token.string in ("*", "/") and not after.startswith(" ")  # of parameters
        if new and not is_mark:
            yield token.start[0] - 1, token.line, token.line[: token.start[1]] + new + after


def survives(module, row, changed, folder):
    """Return whether all tests of a module's part pass with a line changed."""
    shutil.rmtree(folder / "src", ignore_errors=True)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / "src" / "forgetless" / module
    lines = target.read_text().splitlines(keepends=True)
    target.write_text("".join([*lines[:row], changed, *lines[row + 1 :]]))
    part = module.parts[0].removesuffix(".py").strip("_")
    tests = [ROOT / "tests" / folder for folder in FOLDERS.get(part, [part])]
    if not tests[0].is_dir():
        tests = sorted(ROOT.glob(f"tests/test_{part}*.py"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "-m",
        "not long and not browser",
    ]
    command += [*map(str, tests), "tests/test_golden.py", str(target)]
    environment = {**os.environ, "PYTHONPATH": f"{folder}/src:{ROOT}/tests", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main():
    """Draw mutants, run their tests and print which survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="", help="first folder or module below src/forgetless")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    modules = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
    modules = [module for module in modules if module.parts[0].startswith(options.part)]
    changes = [(module, *change) for module in modules for change in mutants(SOURCE / module)]
    drawn = random.Random(options.seed).sample(changes, min(options.count, len(changes)))
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        for module, row, line, changed in drawn:
            if survives(module, row, changed, Path(folder)):
                alive += 1
                print(f"survives: {module}:{row + 1}: {line.strip()} → {changed.strip()}", flush=True)
    print(f"{len(drawn) - alive} of {len(drawn)} mutants detected")


if __name__ == "__main__":
    main()

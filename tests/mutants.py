"""Does a test fail when one token of the library is changed? ``python tests/mutants.py --part filters``.

Each mutant changes one operator, comparison, number or truth value in a copy of this tree. First all short tests run
once, and coverage notes which of them run which line. A mutant then gets the tests that run its line and, if these
pass, all of its part: lines also run in other processes, on import, or compiled. Survivors are printed: each is a
missing test, or a change that computes the same. Mutants of ``forgetless.torch`` need torch, and are left out without.

Some lines have no wrong number: a threshold between two ways to one result, the start of a search, room for rounding.
They carry a comment ``# no mutant: why``, on the line or above it. ``--marked`` draws these alone, and all should live.
"""

import argparse
import importlib.util
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
SOURCE = Path("src/forgetless")
SECONDS = 900
MARK = "# no mutant: "
TORCH = importlib.util.find_spec("torch") is not None
SHORT = "not long and not browser" if TORCH else "not long and not browser and not torch"

SWAPPED = {"+": "-", "-": "+", "*": "/", "/": "*", "==": "!=", "!=": "==", "and": "or", "or": "and"}
SWAPPED |= {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "True": "False", "False": "True"}

PLACES = {"torch": ["deep", "benchmarks"], "tables": ["tables", "cli"], "running": ["core"], "io": ["io", "estimators"]}
PLACES |= dict.fromkeys(("metrics", "kernels", "linalg"), ("lab", "test_tasks.py", "test_equation.py"))
PLACES |= dict.fromkeys(("plots", "table", "text"), ("test_shown.py", "test_site.py", "reproduce"))
PLACES |= {"validate": ["test_bad_input.py", "test_equation.py", "lab/test_inputs.py", "estimators"]}
"""Where the tests of a part are, if not in a folder or in files of its name."""


def mutants(path, marked):
    """Yield (number of the line from 0, the line, the line with one token changed) for one module."""
    rows = ["", *path.read_text().splitlines(), ""]
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        new = f"({token.string} + 1)" if token.type == tokenize.NUMBER else SWAPPED.get(token.string)
        after = token.line[token.end[1] :]
        is_mark = token.string in ("*", "/") and not after.startswith(" ")  # of parameters
        # zip(…, strict=True) is there for defects of this package, which no input of a test can make.
        is_guard = token.line[: token.start[1]].endswith("strict=")
        row = token.start[0]
        is_marked = MARK in rows[row] or rows[row - 1].strip().startswith(MARK)
        if new and not is_mark and not is_guard and is_marked == marked:
            yield row - 1, token.line, token.line[: token.start[1]] + new + after


def passes(folder, *arguments):
    """Return whether tests of the copy pass; those that do not end fail."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", SHORT]
    variables = {"PYTHONPATH": f"{folder}/src:{folder}/tests", "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def tests_by_line(folder):
    """Run all tests, and return the names of those that run a line, by file and number of the line from 1."""
    if not passes(folder, "-n", "2", "--dist", "worksteal", "--cov", "--cov-context=test", "--cov-report="):
        sys.exit("tests fail without any change")
    from coverage import CoverageData  # pytest looks at this file, too, where there is none

    data = CoverageData(str(folder / ".coverage"))
    data.read()
    return {path: data.contexts_by_lineno(path) for path in data.measured_files()}


def survives(folder, tests, module, row, changed):
    """Return whether all tests of a line and of its part pass with the line changed."""
    target = folder / SOURCE / module
    text = target.read_text()
    lines = text.splitlines(keepends=True)
    names = {name.rsplit("|", 1)[0] for name in tests.get(str(target), {}).get(row + 1, []) if name}
    (folder / "tests.txt").write_text("\n".join(sorted(names)))
    part = module.parts[0].removesuffix(".py").strip("_")
    places = [folder / "tests" / place for place in PLACES.get(part, [part])]
    if not places[0].exists():
        places = sorted(folder.glob(f"tests/test_{part}*.py"))
    target.write_text("".join([*lines[:row], changed, *lines[row + 1 :]]))
    try:
        if names and not passes(folder, "@tests.txt"):
            return False
        return passes(folder, "-n", "2", *map(str, places), "tests/test_golden.py", str(target))
    finally:
        target.write_text(text)


def main():
    """Draw mutants, run their tests and print which survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="", help="first folder or module below src/forgetless")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--marked", action="store_true", help="only lines that say why they need none")
    options = parser.parse_args()
    modules = [path.relative_to(ROOT / SOURCE) for path in sorted((ROOT / SOURCE).rglob("*.py"))]
    modules = [module for module in modules if module.parts[0].startswith(options.part)]
    if not TORCH:
        modules = [module for module in modules if module.parts[0] != "torch"]
    changes = [(module, *change) for module in modules for change in mutants(ROOT / SOURCE / module, options.marked)]
    drawn = random.Random(options.seed).sample(changes, min(options.count, len(changes)))
    alive = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "tree"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__"))
        tests = tests_by_line(folder)
        for module, row, line, changed in drawn:
            if survives(folder, tests, module, row, changed):
                alive += 1
                print(f"survives: {module}:{row + 1}: {line.strip()} → {changed.strip()}", flush=True)
    print(f"{len(drawn) - alive} of {len(drawn)} mutants detected")


if __name__ == "__main__":
    main()

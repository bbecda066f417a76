"""Does a test fail when one token of the library is changed? ``python tests/mutants.py --part filters``.

Each mutant changes one operator, comparison, number or truth value of a copy of ``src`` and runs the tests of its part
(``tests/PART*``, the module's doctests, and the golden numbers). Survivors are printed: each is a missing test, or a
change that computes the same.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "forgetless"

SWAPPED = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.And: "or",
    ast.Or: "and",
}
SYMBOLS = {"Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
SYMBOLS |= {"Eq": "==", "NotEq": "!=", "And": "and", "Or": "or"}
SECONDS = 300


def mutants(path):
    """Yield (position in bytes, old text, new text) of every change of one module."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            new = str(not node.value) if isinstance(node.value, bool) else f"({node.value!r} + 1)"
            yield first, text[first:last], new.encode()
            continue
        if isinstance(node, ast.BinOp):
            operator, left, right = node.op, node.left, node.right
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            operator, left, right = node.ops[0], node.left, node.comparators[0]
        elif isinstance(node, ast.BoolOp):
            operator, left, right = node.op, node.values[0], node.values[1]
        else:
            continue
        if type(operator) in SWAPPED:
            old = SYMBOLS[type(operator).__name__].encode()
            first = starts[left.end_lineno - 1] + left.end_col_offset
            last = starts[right.lineno - 1] + right.col_offset
            between = text[first:last]
            if between.count(old) == 1:
                yield first + between.index(old), old, SWAPPED[type(operator)].encode()


def survives(module, change, folder):
    """Return whether all tests of a module's part pass with the change."""
    position, old, new = change
    shutil.rmtree(folder / "src", ignore_errors=True)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / "src" / "forgetless" / module
    text = target.read_bytes()
    target.write_bytes(text[:position] + new + text[position + len(old) :])
    part = module.parts[0].removesuffix(".py").strip("_")
    tests = [ROOT / "tests" / part] if (ROOT / "tests" / part).is_dir() else sorted(ROOT.glob(f"tests/test_{part}*.py"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider"]
    command += ["-m", "not long and not torch and not browser", *map(str, tests), "tests/test_golden.py", str(target)]
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
    modules = [module for module in modules if module.parts[0].startswith(options.part) and module.parts[0] != "torch"]
    changes = [(module, change) for module in modules for change in mutants(SOURCE / module)]
    drawn = random.Random(options.seed).sample(changes, min(options.count, len(changes)))
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        for module, change in drawn:
            if survives(module, change, Path(folder)):
                alive += 1
                line = (SOURCE / module).read_bytes()[: change[0]].count(b"\n") + 1
                print(f"survives: {module}:{line}: {change[1].decode()} → {change[2].decode()}", flush=True)
    print(f"{len(drawn) - alive} of {len(drawn)} mutants detected")


if __name__ == "__main__":
    main()

"""Mutation testing of the numerical core: change one token of the source, and see whether a test notices.

    make mutants                                   # a sample of every module of the core: about an hour on two cores
    make mutants ARGS="--only theory/bounds --count 30 --seed 7"

A mutant is one operator, number or comparison changed. Its tests are the module's own examples and those of ``CORE``,
the quickest first and as many as fit into ``PATIENCE``; it is killed when one of them fails or all take ten times as
long. Survivors that no test can kill, since they compute the same, are listed in ``equivalent.txt`` with
the reason. The run fails if fewer than 90 % of the others are killed.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mutation.core import CORE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forgetless"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
SECONDS = ROOT / "build" / "mutation"
"""How long each test takes, noted once; a folder to remove when tests have changed much."""

PATIENCE = 20.0
"""Seconds of tests for one mutant; more for compiled loops, which are compiled anew."""

OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
NAMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "True": "False", "False": "True"}

UNTESTED = {"frozen", "eq", "repr", "strict", "stacklevel", "slots", "kw_only", "copy", "overwrite_a", "clean", "nogil"}
"""Arguments that guard against our own mistakes, are for readers, or save time; changing one changes no number."""

CHOICES = {"cheapest", "compiled_steps", "_choose", "_operations", "_parts", "_passes_promised", "assembly"}
"""Functions that only choose between ways to the same numbers by time or memory; tests compare the ways themselves."""


@dataclass(frozen=True)
class Mutant:
    """One token of a module replaced by another."""

    module: str
    start: int
    end: int
    old: str
    new: str
    line: int
    text: str
    which: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}  {self.text}  [{self.change}]"

    @property
    def change(self) -> str:
        """The change in words, with its number where a line allows it several times."""
        return f"{self.old} → {self.new}" + (f" #{self.which}" if self.which > 1 else "")

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others when lines move: module, the line itself, the change."""
        return self.module, self.text, self.change

    def applied(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.start] + self.new + source[self.end :]


class Finder(ast.NodeVisitor):
    """Collects the tokens of a module that can be changed; words for people and types are left alone."""

    def __init__(self, module: str, source: str) -> None:
        self.module, self.source, self.found = module, source, []
        self.lines = source.splitlines(keepends=True)
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        self.starts = starts

    def place(self, line: int, column: int) -> int:
        """Return the index of a position that ast gives in bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def add(self, start: int, old: str, new: str) -> None:
        line = self.source.count("\n", 0, start) + 1
        assert self.source[start : start + len(old)] == old, (self.module, line, old)
        text = self.lines[line - 1].strip()
        self.found.append(Mutant(self.module, start, start + len(old), old, new, line, text, 1))

    def between(self, left: ast.expr, right: ast.expr, operator: ast.AST) -> None:
        if type(operator) not in OPERATORS:
            return
        old, new = OPERATORS[type(operator)]
        first, last = self.place(left.end_lineno, left.end_col_offset), self.place(right.lineno, right.col_offset)
        at = self.source.find(old, first, last)
        if at >= 0:
            self.add(at, old, new)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right, operator in zip([node.left, *node.comparators], node.comparators, node.ops, strict=False):
            self.between(left, right, operator)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start = self.place(node.lineno, node.col_offset)
        if isinstance(node.op, ast.USub) and self.source[start] == "-":
            self.add(start, "-", "+")
        if isinstance(node.op, ast.Not):
            self.add(start, "not", "True and")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start = self.place(node.lineno, node.col_offset)
        text = self.source[start : self.place(node.end_lineno, node.end_col_offset)]
        if isinstance(node.value, bool):
            self.add(start, text, NAMES[text])
        elif isinstance(node.value, int):
            self.add(start, text, str(node.value + 1))
        elif isinstance(node.value, float):
            self.add(start, text, repr(2 * node.value) if node.value else "1.0")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in NAMES:
            end = self.place(node.end_lineno, node.end_col_offset)
            self.add(end - len(node.attr), node.attr, NAMES[node.attr])
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in NAMES:
            self.add(self.place(node.lineno, node.col_offset), node.id, NAMES[node.id])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in CHOICES:
            return
        for each in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body, *node.decorator_list]:
            self.visit(each)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return  # never run
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in UNTESTED:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not (isinstance(node.func, ast.Name) and node.func.id == "check_memory"):
            self.generic_visit(node)  # an estimate of memory is right within a factor or two, and changes no number

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages are words."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Our own invariants are not behaviour."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words too."""


def mutants(module: str) -> list[Mutant]:
    """Return all mutants of a module."""
    source = (SOURCE / module).read_text()
    finder = Finder(module, source)
    finder.visit(ast.parse(source))
    counts: Counter[tuple[int, str, str]] = Counter()
    found = []
    for mutant in sorted(finder.found, key=lambda each: each.start):
        counts[place := (mutant.line, mutant.old, mutant.new)] += 1
        found.append(replace(mutant, which=counts[place]))
    return found


def chosen(only: list[str], count: int, seed: int) -> list[Mutant]:
    """Return a random choice of mutants, of every module in proportion to what it has, at least three."""
    found = {module: mutants(module) for module in CORE if not only or any(part in module for part in only)}
    total = sum(map(len, found.values()))
    picked: list[Mutant] = []
    for module, available in found.items():
        share = min(len(available), max(3, round(count * len(available) / total)))
        picked += random.Random(f"{seed} {module}").sample(available, share)
    return picked


class Workshop:
    """A copy of source and tests, the one to be changed and the other to be run; the tree itself may go on changing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source = folder, folder / "src"
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.source), str(Path(__file__).parent)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }

    def pytest(self, paths: list[Path], limit: float | None = None, **settings: object) -> str | None:
        """Run tests, and return None if they pass, else their output, or that they took longer than the limit."""
        words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "quickest"]
        command = [sys.executable, "-m", "pytest", *words, "-m", "not long and not torch", *map(str, paths)]
        environment = {**self.environment, **{f"MUTATION_{name}": str(value) for name, value in settings.items()}}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return "too long"
        return done.stdout.decode() if done.returncode else None

    def note_seconds(self, test: str) -> None:
        """Note how long each test of a file or folder takes, where that is not known."""
        if not noted(test).exists():
            failure = self.pytest([self.folder / "tests" / test], NOTE=noted(test))
            assert failure is None, f"{test} fails as it is:\n{failure}"

    def passes(self, module: str) -> bool:
        """Return whether the quickest tests of a module pass."""
        tests, patience = CORE[module], PATIENCE * (3 if "numba" in module else 1)
        known = os.pathsep.join(str(noted(test)) for test in tests)
        paths = [*(self.folder / "tests" / test for test in tests), self.source / "forgetless" / module]
        return self.pytest(paths, 10 * patience, KNOWN=known, PATIENCE=patience) is None

    def survives(self, mutant: Mutant) -> bool:
        """Return whether no test notices a mutant."""
        path = self.source / "forgetless" / mutant.module
        whole = path.read_text()
        path.write_text(mutant.applied(whole))
        try:
            return self.passes(mutant.module)
        finally:
            path.write_text(whole)


def noted(test: str) -> Path:
    """Return the file of the seconds of a file or folder of tests."""
    return SECONDS / f"{test.replace('/', '.')}.json"


def equivalents() -> set[tuple[str, str, str]]:
    """Return the mutants that compute the same as the source."""
    lines = [line.split(" || ") for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#")]
    return {(module, text, change) for module, text, change, _ in lines}


def alike(mutant: Mutant, known: set[tuple[str, str, str]]) -> bool:
    """Return whether a mutant is known to compute the same; ``*`` stands for every change of a line."""
    return mutant.key in known or (*mutant.key[:2], "*") in known


def main() -> int:
    """Run the mutants and print what became of them."""
    parser = argparse.ArgumentParser(description="mutation testing of the numerical core")
    parser.add_argument("--only", action="append", default=[], help="parts of names of modules")
    parser.add_argument("--count", type=int, default=200, help="mutants in all, about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    known = equivalents()
    picked = chosen(options.only, options.count, options.seed)
    queue = [mutant for mutant in picked if not alike(mutant, known)]
    same = Counter(mutant.module for mutant in picked if alike(mutant, known))
    modules = list(dict.fromkeys(mutant.module for mutant in queue))
    everything = [mutant for module in CORE for mutant in mutants(module)]
    for stale in sorted(
        known - {(*mutant.key[:2], change) for mutant in everything for change in (mutant.change, "*")}
    ):
        print("no longer in the source:", " || ".join(stale))
    with tempfile.TemporaryDirectory() as folder:
        shops: SimpleQueue[Workshop] = SimpleQueue()
        for number in range(options.workers):
            shops.put(Workshop(Path(folder, str(number))))

        def at_work(job: Callable[[Workshop], Any]) -> Any:
            shop = shops.get()
            try:
                return job(shop)
            finally:
                shops.put(shop)

        def measure(test: str) -> None:
            at_work(lambda shop: shop.note_seconds(test))

        def check(module: str) -> None:
            assert at_work(lambda shop: shop.passes(module)), f"the tests of {module} fail as they are"

        def tried(mutant: Mutant) -> tuple[Mutant, bool]:
            survived = at_work(lambda shop: shop.survives(mutant))
            print(f"{'SURVIVED' if survived else 'killed  '}  {mutant}", flush=True)
            return mutant, survived

        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(measure, dict.fromkeys(test for module in modules for test in CORE[module])))
            list(pool.map(check, {CORE[module]: module for module in modules}.values()))
            outcome = list(pool.map(tried, queue))
    survivors = [mutant for mutant, survived in outcome if survived]
    print(f"\n{'module':<32}{'tried':>6}{'killed':>8}{'equivalent':>12}")
    for module in modules:
        all_here = [survived for mutant, survived in outcome if mutant.module == module]
        print(f"{module:<32}{len(all_here):>6}{all_here.count(False):>8}{same[module]:>12}")
    killed = len(outcome) - len(survivors)
    share = killed / max(1, len(outcome))
    print(
        f"\n{killed} of {len(outcome)} killed, {100 * share:.1f} %; {same.total()} more are known to compute the same"
    )
    for mutant in survivors:
        print(f"survived: {mutant}")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())

"""Mutants of the source: one operator, number, comparison or condition changed; and samples of them."""

import ast
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from mutation.core import CORE, GROUPS

SOURCE = Path(__file__).parents[2] / "src" / "forgetless"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")

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
        """The change, with its number where a line allows it several times."""
        return f"{self.old} → {self.new}" + (f" #{self.which}" if self.which > 1 else "")

    @property
    def key(self) -> tuple[str, str, str]:
        """Module, text of the line and change, which stay the same when lines move."""
        return self.module, self.text, self.change

    def applied(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.start] + self.new + source[self.end :]


class Finder(ast.NodeVisitor):
    """Collects the tokens of a module that can be changed; messages and types are left alone."""

    def __init__(self, module: str, source: str) -> None:
        self.module, self.source, self.mutants = module, source, []
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
        self.mutants.append(Mutant(self.module, start, start + len(old), old, new, line, text, 1))

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
        """Messages are not behaviour."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Our own invariants are not behaviour."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text too."""


def mutants(module: str) -> list[Mutant]:
    """Return all mutants of a module."""
    source = (SOURCE / module).read_text()
    finder = Finder(module, source)
    finder.visit(ast.parse(source))
    counts: Counter[tuple[int, str, str]] = Counter()
    numbered = []
    for mutant in sorted(finder.mutants, key=lambda each: each.start):
        counts[place := (mutant.line, mutant.old, mutant.new)] += 1
        numbered.append(replace(mutant, which=counts[place]))
    return numbered


def sample(group: str, count: int, seed: int) -> list[Mutant]:
    """Return a random choice of the mutants of a group: of every module in proportion to its number, at least two."""
    available = {module: mutants(module) for module in GROUPS[group]}
    total = sum(map(len, available.values()))
    picked: list[Mutant] = []
    for module, candidates in available.items():
        share = min(len(candidates), max(2, round(count * len(candidates) / total)))
        picked += random.Random(f"{seed} {module}").sample(candidates, share)
    return list({mutant.key: mutant for mutant in picked}.values())


def equivalents() -> set[tuple[str, str, str]]:
    """Return the keys of the mutants that compute the same as the source."""
    lines = [line.split(" || ") for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#")]
    return {(module, text, change) for module, text, change, _ in lines}


def is_equivalent(mutant: Mutant, keys: set[tuple[str, str, str]]) -> bool:
    """Return whether a mutant is listed as equivalent; ``*`` stands for every change of a line."""
    return mutant.key in keys or (*mutant.key[:2], "*") in keys


def outdated(keys: set[tuple[str, str, str]]) -> list[str]:
    """Return the lines of ``equivalent.txt`` that match no mutant of the source any more."""
    everything = [mutant for module in CORE for mutant in mutants(module)]
    present = {(*mutant.key[:2], change) for mutant in everything for change in (mutant.change, "*")}
    return [" || ".join(key) for key in sorted(keys - present)]

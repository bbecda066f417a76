"""Size and density of the library, part by part: what tests/test_size.py holds to its ceilings.

``python -m support.size`` (from ``tests``) prints the table; ``--write`` lowers the ceilings in
``tests/size.json`` to what is there now. It never raises one. The library is finished at 120,000 tokens in 90 modules.

tokens         tokens of code: names, operators, numbers and strings that are no docstrings
code lines     lines with at least one such token
docstrings     lines of docstrings per code line
comments       comments per code line
"""

import argparse
import ast
import io
import json
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CEILINGS = ROOT / "tests" / "size.json"
COUNTED = {"src": ROOT / "src" / "forgetless", "papers": ROOT / "papers", "research": ROOT / "research"}
LABORATORY = {"tasks", "filters.py", "schedules", "orderings", "metrics.py", "equation.py", "_kernels.py", "lab"}
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass
class Size:
    """What a part has."""

    tokens: int = 0
    modules: int = 0
    code: int = 0
    docstrings: int = 0
    comments: int = 0

    def __add__(self, other):
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Size(*(one + another for one, another in pairs))

    def rounded(self):
        """Return tokens, modules, tokens per code line, docstring lines and comments per code line."""
        lines = max(1, self.code)
        return {
            "tokens": self.tokens,
            "modules": self.modules,
            "tokens per line": round(self.tokens / lines, 2),
            "docstrings": round(self.docstrings / lines, 2),
            "comments": round(self.comments / lines, 3),
        }


def docstring_lines(tree):
    """Return the lines of all strings that stand alone as a statement."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def tokens_of(text):
    """Yield the tokens of a module; an f-string, which is several from Python 3.12 on, is one in every version."""
    begun = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            begun.append(token.start)
        elif kind == "FSTRING_END":
            start = begun.pop()
            if not begun:
                yield token._replace(type=tokenize.STRING, start=start)
        elif not begun:
            yield token


def size_of(path):
    """Return the size of one module."""
    text = path.read_text()
    docstrings = docstring_lines(ast.parse(text))
    code, tokens, comments = set(), 0, 0
    for token in tokens_of(text):
        if token.type == tokenize.COMMENT:
            comments += 1
        elif token.type not in LAYOUT and token.start[0] not in docstrings:
            tokens += 1
            code.update(range(token.start[0], token.end[0] + 1))
    return Size(tokens, 1, len(code), len(docstrings), comments)


def parts():
    """Return the size of every part: folders, the laboratory with its modules, ``base`` for the other modules at the
    top, ``papers``, ``research``, and ``src`` in all.
    """
    found = defaultdict(Size)
    for name, folder in COUNTED.items():
        for path in sorted(folder.rglob("*.py")):
            if "tests" in path.parts[len(ROOT.parts) + 1 :]:
                continue
            size = size_of(path)
            found[name] += size
            if name == "src":
                first = path.relative_to(folder).parts[0]
                part = "laboratory" if first in LABORATORY else "base" if first.endswith(".py") else first
                found[part] += size
    return {name: size.rounded() for name, size in sorted(found.items())}


def better(name, now, before):
    """Return the stricter of two values of a part: shares of explanations grow, everything else shrinks."""
    return max(now, before) if name in ("docstrings", "comments") else min(now, before)


def main():
    """Print the table, or lower the ceilings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    now = parts()
    if options.write:
        before = json.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}
        lowered = {
            part: {name: better(name, value, before.get(part, sizes)[name]) for name, value in sizes.items()}
            for part, sizes in now.items()
        }
        lines = [f"{json.dumps(part)}: {json.dumps(sizes)}" for part, sizes in lowered.items()]
        CEILINGS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for part, sizes in now.items():
        print(f"{part:<16}" + "".join(f"{value:>12}  {name}" for name, value in sizes.items()))


if __name__ == "__main__":
    main()

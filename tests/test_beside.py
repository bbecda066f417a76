"""What stands beside the library, papers/ and research/: the library does not know it, and what it needs of it."""

import ast
from pathlib import Path

import forgetless as fl

ROOT = Path(__file__).parents[1]

# Names that papers/ and research/ import from inside the library. The list may only shrink.
PRIVATE = """
_running.one_blas_thread _running.track _table.Noted _table.Table _validate
lab.check_contraction orderings.OrderingLike orderings.as_ordering
theory.bounds.Constant theory.bounds.constants theory.majorants.INFLATION theory.majorants.Mesh
theory.majorants.PER_DECADE theory.majorants.half_supremum theory.majorants.rising
theory.majorants.seen_split theory.steps.EIGENVALUES theory.steps.ROUNDED theory.steps.Steps
theory.steps.budgets_of theory.steps.coefficients_of theory.steps.in_units
theory.steps.ridge_price theory.steps.ridge_share theory.steps.steps_of theory.upper.UpperBound
"""


def imported(folder):
    """Yield (module, name) of every import below a folder, tests left out."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if "tests" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield from ((node.module, alias.name) for alias in node.names)
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)


def test_the_library_imports_neither_papers_nor_research():
    assert not {module for module, _ in imported("src") if module.split(".")[0] in ("papers", "research")}


def is_public(module, name):
    """Whether a name is one of those that ``forgetless`` or one of its public modules exports."""
    if module == "forgetless":
        return name in fl.__all__ or not name
    part = module.removeprefix("forgetless.")
    return part in fl.__all__ and name in getattr(fl, part).__all__


def test_private_names_that_papers_and_research_import():
    pairs = {*imported("papers"), *imported("research")}
    inside = {(module, name) for module, name in pairs if module.split(".")[0] == "forgetless"}
    private = {f"{module}.{name}".removeprefix("forgetless.") for module, name in inside if not is_public(module, name)}
    assert private == set(PRIVATE.split())

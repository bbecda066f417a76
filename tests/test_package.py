"""The package as a whole: what importing it costs, what it exports, which way its parts import."""

import ast
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import forgetless as fl

ROOT = Path(__file__).parents[1]
SOURCE = Path(fl.__file__).parent

# Lower lines first: a part imports only from lines above it, and parts of one line do not know each other.
LAYERS = [
    {"errors", "_running", "_text", "_validate"},
    {"_linalg", "_table"},
    {"io", "sweeps"},
    {"tasks", "filters", "orderings", "plots"},
    {"schedules", "metrics"},
    {"equation"},
    {"_kernels"},
    {"lab"},
    {"theory", "estimators", "torch"},
    {"advice", "reproduce", "tables"},
    {"explorer", "ensembles"},
    {"cli"},
    {"__main__"},
]
LEVEL = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}


def imported(folder):
    """Yield (path, module, name) of every import below a folder, tests left out; a whole module has no name."""
    for path in sorted(folder.rglob("*.py")):
        if "tests" in path.relative_to(folder).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name, "") for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: imports name the whole path"
                yield from ((path, node.module, alias.name) for alias in node.names)


def imports():
    """Yield (importing module, imported module), as tuples of names below ``forgetless``."""
    for path, module, name in imported(SOURCE):
        top, *base = module.split(".")
        assert top not in ("papers", "research"), f"{path} imports what stands beside the library"
        if top == "forgetless":
            inside = SOURCE.joinpath(*base, name)
            is_module = name and (inside.is_dir() or inside.with_suffix(".py").exists())
            yield path.relative_to(SOURCE).with_suffix("").parts, (*base, name) if is_module else tuple(base)


def test_every_part_has_a_layer_as_listed_on_the_page():
    parts = {module.name for module in pkgutil.iter_modules([str(SOURCE)])}
    assert parts == set(LEVEL), "give a new part its line in LAYERS"
    page = (ROOT / "docs/architecture.md").read_text()
    listed = re.findall(r"^ +\d+  ([\w, ]+)$", page, re.MULTILINE)
    assert [set(line.split(", ")) for line in listed] == LAYERS


def test_parts_import_downwards_only_and_underscored_modules_stay_in_their_folder():
    for here, there in imports():
        if here != ("__init__",) and there and here[0] != there[0]:
            assert LEVEL[there[0]] < LEVEL[here[0]], f"{'.'.join(here)} imports {'.'.join(there)}"
        if not there:  # ``import forgetless``: every name of the package, so only the top may ask for it
            assert here[0] == "cli", f"{'.'.join(here)} imports the whole package"
        for depth, name in enumerate(there):
            if name.startswith("_"):
                assert here[:depth] == there[:depth], f"{'.'.join(here)} imports {'.'.join(there)}"


DEEP = {"equation", "schedules", "filters", "plots", "errors", "_running", "_text", "_validate"}


def test_the_deep_part_stands_alone():
    """It uses the equation, schedules, filters and what is below them, and only the command line uses it."""
    for here, there in imports():
        if here[0] == "torch" and there and there[0] != "torch":
            assert there[0] in DEEP, f"{'.'.join(here)} imports {'.'.join(there)}"
        if there and there[0] == "torch":
            assert here[0] in {"torch", "cli"}, f"{'.'.join(here)} imports forgetless.torch"


def test_without_torch_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import forgetless.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: forgetless.torch needs PyTorch, which is not installed here; install the version it is tested "
        "with: python -m pip install torch==2.13.0"
    )


def test_no_exported_name_hides_a_module():
    for module in pkgutil.walk_packages([str(SOURCE)], "forgetless."):
        parent, _, name = module.name.rpartition(".")
        if module.name.startswith("forgetless.torch") and not importlib.util.find_spec("torch"):
            continue
        __import__(module.name)
        assert getattr(sys.modules[parent], name) is sys.modules[module.name], module.name


def test_import_is_light():
    code = "import sys, forgetless; print(' '.join(sorted(sys.modules)))"
    # Coverage would measure the process, and stores what it sees by sqlite3.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stdout.split()
    heavy = {"sklearn", "numba", "matplotlib", "pandas", "scipy", "torch", "dask", "distributed", "sqlite3"}
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_everything_exported_exists_and_is_documented():
    for name in fl.__all__:
        assert getattr(fl, name).__doc__, name
    assert (SOURCE / "py.typed").exists()


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


def is_public(module, name):
    """Whether a name is one of those that ``forgetless`` or one of its public modules exports."""
    if module == "forgetless":
        return name in fl.__all__ or not name
    part = module.removeprefix("forgetless.")
    return part in fl.__all__ and name in getattr(fl, part).__all__


def test_private_names_that_papers_and_research_import():
    used = {(module, name) for folder in ("papers", "research") for _, module, name in imported(ROOT / folder)}
    inside = {(module, name) for module, name in used if module.split(".")[0] == "forgetless"}
    private = {f"{module}.{name}".removeprefix("forgetless.") for module, name in inside if not is_public(module, name)}
    assert private == set(PRIVATE.split())

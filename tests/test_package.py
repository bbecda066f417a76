"""The package as a whole: what importing it costs, what it exports, which way its modules import."""

import ast
import subprocess
import sys
from pathlib import Path

import forgetless as fl

SOURCE = Path(fl.__file__).parent

# Lower layers first: a module imports only from layers above it in this list.
LAYERS = [
    {"_accelerate", "_ascent", "_checks", "_arrays", "_files", "_threads"},
    {"_linalg", "_rows", "filters", "orderings"},
    {"_adversary", "_auto", "_krylov", "_history", "tasks", "schedules"},
    {"_copies", "_costs", "_direct", "_scaling", "_spec", "_strength"},
    {"persistence", "step", "metrics", "results", "moments", "two_tasks"},
    {"_runs", "_compiled", "_compiled_moments", "_powers", "_subsets", "surrogates", "descent", "constructions"},
    {"_independent", "hypotheses"},
    {"_compiled_subsets", "simulate"},
    {"expect", "bounds"},
    {"worst_case", "gradients", "_reduced"},
    {"_validation", "certify", "datasets", "reproduce", "_losses"},
    {"_blocks", "found", "streams", "_html"},
    {"_streaming"},
    {"_continual", "baselines"},
    {"estimators"},
    {"plots", "_scan", "_sketch"},
    {"report", "stream_report", "worst_collection", "advice"},
    {"_reasons"},
    {"_compare"},
    {"advise"},
    {"optimal"},
    {"_cli_shared"},
    {"_cli_search", "_cli_streams", "_cli_tasks"},
    {"cli"},
    {"_entry"},
    {"__main__"},
]


def test_import_is_light():
    code = "import sys, forgetless; print(' '.join(sorted(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"sklearn", "numba", "matplotlib", "pandas", "scipy", "torch"}
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_modules_import_downwards_only():
    level = {name: depth for depth, names in enumerate(LAYERS) for name in names}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert modules == set(level), "list a new module in LAYERS"
    for name in modules:
        for node in ast.walk(ast.parse((SOURCE / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("forgetless"):
                names = [node.module.partition(".")[2]] if "." in node.module else [alias.name for alias in node.names]
                for other in names:
                    assert level[other] < level[name], f"{name} imports {other}"


def test_everything_exported_exists_and_is_documented():
    for name in fl.__all__:
        assert getattr(fl, name).__doc__, name
    assert (SOURCE / "py.typed").exists()

"""Mutation testing: change one token of the source, and see whether a test fails.

    make mutants                                     # 45 of each group; 300 with --patience 8 took an hour on one core
    make mutants ARGS="--group sweeps --seed 26 --log results/sweeps.txt"     # resumes where the log ends
    make mutants ARGS="--group sweeps --seed 26 --log results/sweeps.txt --again --patience 60"    # its survivors again

A mutant is one operator, number, comparison or condition changed. Its tests are the module's own examples and those of
``GROUPS``, the quickest first and as many as fit into the patience; it is killed when one of them fails or when they
take many times as long. Survivors that no test can kill, since they compute the same, are listed in ``equivalent.txt``
with the reason. The run fails if fewer than 90 % of the others are killed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutation.core import CORE, GROUPS
from mutation.mutants import Mutant, equivalents, is_equivalent, outdated, sample

ROOT = Path(__file__).parents[2]
SECONDS = ROOT / "build" / "mutation"
"""How long each test takes, measured once; a folder to remove when tests have changed much."""

PATIENCE = 20.0
"""Seconds of tests for one mutant; three times as many for compiled loops, which are compiled again."""


class Workspace:
    """A copy of source and tests to be changed and run; the tree itself may be edited meanwhile."""

    def __init__(self, folder: Path, patience: float, libraries: list[str]) -> None:
        self.folder, self.source, self.patience = folder, folder / "src", patience
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, folder)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.source), str(Path(__file__).parent)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SCIPY_ARRAY_API": "1",  # as in conftest.py
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        server = [sys.executable, "-P", str(Path(__file__).with_name("server.py")), *libraries]
        self.server = subprocess.Popen(
            server, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def pytest(self, paths: list[Path], limit: int | None = None, **settings: object) -> str | None:
        """Run tests within a limit of processor seconds; return None if they pass, else their output or the limit."""
        output = self.folder / "output.txt"
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "quickest"]
        request = {
            "arguments": [*options, "-m", "not long and not browser", *map(str, paths)],
            "environment": {f"MUTATION_{name}": str(value) for name, value in settings.items()},
            "limit": limit,
            "output": str(output),
        }
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        code = self.server.stdout.readline().strip()
        assert code, "the server has ended"
        return None if code == "0" else f"exit code {code}\n{output.read_text(errors='replace')}"

    def close(self) -> None:
        """End the server."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()

    def measure(self, test: str) -> None:
        """Measure how long each test of a file or folder takes, if that has not been done yet."""
        if not measured(test).exists():
            failure = self.pytest([self.folder / "tests" / test], NOTE=measured(test))
            assert failure is None, f"{test} fails as it is:\n{failure}"

    def check_examples(self, modules: list[str]) -> None:
        """Check that the examples of the modules pass before anything is changed."""
        failure = self.pytest([self.source / "forgetless" / module for module in modules])
        assert failure is None or "no tests" in failure, f"examples fail as they are:\n{failure}"

    def survives(self, mutant: Mutant) -> bool:
        """Return whether the quickest tests of its module pass with a mutant."""
        path = self.source / "forgetless" / mutant.module
        whole = path.read_text()
        path.write_text(mutant.applied(whole))
        tests, patience = CORE[mutant.module], self.patience * (3 if "numba" in mutant.module else 1)
        paths = [*(self.folder / "tests" / test for test in tests), path]
        known = os.pathsep.join(str(measured(test)) for test in tests)
        try:
            return self.pytest(paths, int(60 + 5 * patience), KNOWN=known, PATIENCE=patience) is None
        finally:
            path.write_text(whole)


def measured(test: str) -> Path:
    """Return the file of the seconds of a file or folder of tests."""
    return SECONDS / f"{test.replace('/', '.')}.json"


def outcomes(log: Path | None) -> dict[tuple[str, ...], bool]:
    """Return whether each mutant of a log survived, by its key; the last line about a mutant decides."""
    if log is None or not log.exists():
        return {}
    lines = [tuple(line.split(" || ")) for line in log.read_text().splitlines()]
    return {key: state == "survived" for state, *key in lines for key in [tuple(key)]}


def report(queue: list[Mutant], survived: dict[tuple[str, ...], bool], equivalent: Counter[str]) -> int:
    """Print the counts of every group and the survivors; return the exit code."""
    tried = [mutant for mutant in queue if mutant.key in survived]
    print(f"\n{'group':<16}{'tried':>6}{'killed':>8}{'equivalent':>12}")
    for group, modules in GROUPS.items():
        own = [survived[mutant.key] for mutant in tried if mutant.module in modules]
        if own:
            print(f"{group:<16}{len(own):>6}{own.count(False):>8}{sum(equivalent[each] for each in modules):>12}")
    killed = sum(not survived[mutant.key] for mutant in tried)
    share = killed / max(1, len(tried))
    print(f"\n{killed} of {len(tried)} killed, {100 * share:.1f} %; {equivalent.total()} more compute the same")
    for mutant in tried:
        if survived[mutant.key]:
            print(f"survived: {mutant}")
    return 0 if share >= 0.9 else 1


def main() -> int:
    """Run the mutants and print which are killed."""
    parser = argparse.ArgumentParser(description="mutation testing of the modules that compute")
    parser.add_argument("--group", action="append", choices=list(GROUPS), help="all if none is named")
    parser.add_argument("--only", action="append", default=[], help="parts of names of modules, of the sample")
    parser.add_argument("--count", type=int, default=45, help="mutants of each group, about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds of tests for one mutant")
    parser.add_argument("--log", type=Path, help="a file of outcomes; mutants in it are not tried again")
    parser.add_argument("--again", action="store_true", help="try the survivors of the log again")
    options = parser.parse_args()
    keys, survived = equivalents(), outcomes(options.log)
    picked = [mutant for group in options.group or GROUPS for mutant in sample(group, options.count, options.seed)]
    picked = [mutant for mutant in picked if not options.only or any(part in mutant.module for part in options.only)]
    sampled = [mutant for mutant in picked if not is_equivalent(mutant, keys)]
    equivalent = Counter(mutant.module for mutant in picked if is_equivalent(mutant, keys))
    for line in outdated(keys):
        print("no longer in the source:", line)
    queue = [mutant for mutant in sampled if mutant.key not in survived or (options.again and survived[mutant.key])]
    modules = list(dict.fromkeys(mutant.module for mutant in queue))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        spaces: SimpleQueue[Workspace] = SimpleQueue()
        for number in range(options.workers):
            libraries = ["torch"] if any(module.startswith("torch/") for module in modules) else []
            spaces.put(Workspace(Path(folder, str(number)), options.patience, libraries))

        def attempt(mutant: Mutant) -> None:
            space = spaces.get()
            for test in CORE[mutant.module]:
                space.measure(test)
            survived[mutant.key] = space.survives(mutant)
            spaces.put(space)
            line = " || ".join(["survived" if survived[mutant.key] else "killed", *mutant.key])
            print(line, flush=True)
            if options.log is not None:
                with options.log.open("a") as file:
                    file.write(line + "\n")

        if modules:
            space = spaces.get()
            space.check_examples(modules)
            spaces.put(space)
        list(pool.map(attempt, queue))
        while not spaces.empty():
            spaces.get().close()
    return report(sampled, survived, equivalent)


if __name__ == "__main__":
    sys.exit(main())

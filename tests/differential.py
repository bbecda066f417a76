"""Do the old commit and the working tree give the same numbers on fresh random inputs?

``python tests/differential.py [--seed N] [--cases N]``: installs commit 64d79a6 into an environment
of its own under ``build/differential`` the first time, makes random cases from the seed, which is
printed, and compares the answers of both at the tolerances of the golden numbers. The exit code is
1 and the case is printed where they disagree. Cases and calls are in ``support/differential``.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

from golden.compare import difference, tolerance
from support.differential import cases as random_cases

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "differential"
COMMIT = "64d79a6ae568b32e5f5760730c36bb659b3754d1"
CASES = 360


def environment():
    """Return the Python of the old commit, installed if it is not there yet."""
    source = FOLDER / "source"
    python = FOLDER / "venv" / "bin" / "python"
    done = FOLDER / "installed"
    if done.exists():
        return python
    if git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode:
        sys.exit(f"commit {COMMIT[:7]} is not in this clone; get it with git fetch --unshallow")
    print(f"installing commit {COMMIT[:7]} into {FOLDER}: one to three minutes, once", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    source.mkdir(parents=True)
    archive = git("archive", COMMIT).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER / "venv")], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["--no-deps"]
    requirements = str(source / "requirements-dev.txt")
    subprocess.run([*install, "--require-hashes", "--requirement", requirements], check=True)
    subprocess.run([*install, "--no-build-isolation", "--editable", str(source)], check=True)
    done.touch()
    return python


def git(*arguments):
    """Return what git answered in this repository."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)


def start_worker(python, side, source, cases):
    """Return a process that answers the cases with the library in ``source``."""
    variables = {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # Cases in a file, answers in another one: neither process waits for a full pipe.
    given = FOLDER / f"cases-{side}.json"
    given.write_text(json.dumps(cases))
    with given.open() as stdin, (FOLDER / f"answers-{side}.json").open("w") as stdout:
        return subprocess.Popen(
            [str(python), str(Path(__file__).resolve()), "--worker", side],
            stdin=stdin,
            stdout=stdout,
            env={**os.environ, **variables},
        )


def work(side):
    """Read cases from standard input, and write the answers to standard output."""
    warnings.simplefilter("ignore")  # the cases are meant to be unusual
    # Imported here: it imports the library, which only the workers need.
    from support.differential.calls import answer

    json.dump([answer(case, side) for case in json.load(sys.stdin)], sys.stdout)


def answers(cases):
    """Return the answers of the old commit and of the working tree, computed at the same time."""
    workers = {
        "old": start_worker(environment(), "old", FOLDER / "source" / "src", cases),
        "new": start_worker(sys.executable, "new", ROOT / "src", cases),
    }
    failed = [side for side, worker in workers.items() if worker.wait()]
    if failed:
        sys.exit(f"the worker of the {' and the '.join(failed)} code failed")
    return [json.loads((FOLDER / f"answers-{side}.json").read_text()) for side in workers]


def disagreements(old, new):
    """Return texts about the numbers of one case that differ, and the largest difference."""
    if isinstance(old, str) or isinstance(new, str):
        return [f"old: {old}\n  new: {new}"], 0.0
    unit = old.get("unit", [0.0])[0]
    texts = []
    largest = 0.0
    for name in sorted({*old, *new}):
        apart = difference(old.get(name, []), new.get(name, []), unit)
        # Both searches stop at scales of four digits, and may stop at different ones.
        allowed = 1e-4 if name.startswith("advise") else tolerance(name)
        if apart > allowed and better(name, old, new):
            continue
        largest = max(largest, apart)
        if apart > allowed:
            texts.append(f"{name}: {apart:.1e}\n    old {old.get(name)}\n    new {new.get(name)}")
    return texts, largest


def better(name, old, new):
    """Return whether an optimizer has found a schedule with a smaller loss; both are evaluated exactly."""
    return name.startswith("optimal_schedule") and np.all(np.less(new[name], old[name]))


def main():
    """Compare, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="of the cases; a new one if left out")
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many, {CASES} if left out")
    parser.add_argument("--worker", choices=("old", "new"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker)
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    cases = random_cases.cases(seed, arguments.cases)
    failed = 0
    parked = 0
    compared = 0
    largest = 0.0
    for case, old, new in zip(cases, *answers(cases), strict=True):
        if new is None:
            parked += 1
            continue
        texts, apart = disagreements(old, new)
        if texts:
            failed += 1
            print(json.dumps(case, ensure_ascii=False), *(text[:400] for text in texts), sep="\n  ")
            continue
        compared += sum(map(len, old.values()))
        largest = max(largest, apart)
    agreed = len(cases) - failed - parked
    print(f"{compared:,} numbers of {agreed} cases agree; largest difference {largest:.0e}")
    if parked:
        print(f"parked cases, which the working tree does not answer: {parked}")
    if failed:
        print(f"cases that disagree: {failed}; --seed {seed} --cases {arguments.cases} repeats them")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

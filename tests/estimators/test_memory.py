"""Memory that runs out at the n-th allocation: a model is that of before or of after the task, and a file is whole."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("_testcapi", reason="only CPython's own test module can refuse an allocation")

# In a process of its own, one child for each n: where memory runs out inside a library, that library may end it.
CAMPAIGN = """
import os, pickle, sys
import _testcapi
import numpy as np
import forgetless as fl
from pathlib import Path

kind, folder, step = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
tasks = [(rng.standard_normal((4, 3)), rng.standard_normal(4)) for _ in range(3)]
row = rng.standard_normal((1, 3)), rng.standard_normal(1)
model = {
    "row": fl.ContinualRidge(fit_intercept=True),
    "rows": fl.ContinualRidge(memory=2, schedule="increasing", n_tasks=99),
    "auto": fl.ContinualRidge(schedule="auto"),
    "joint": fl.JointRidge(),
    "save": fl.ContinualRidge(fit_intercept=True),
    "load": fl.ContinualRidge(fit_intercept=True),
}[kind]
for X, y in tasks:
    model.partial_fit(X, y)
model.partial_fit(*row)
path = folder / "m.fl"
model.save(path)
old = path.read_bytes()
X, y = row if kind == "row" else tasks[0]
act = {"save": lambda: model.save(path), "load": lambda: fl.load(path)}.get(
    kind, lambda: model.partial_fit(X, y)
)


def shown(model):
    values = (model.coef_, model.intercept_, model.n_tasks_seen_, model.prequential_mse_, *model.history_.values())
    return [np.asarray(value).tobytes() for value in values]


after = pickle.loads(pickle.dumps(model))
after.partial_fit(*row) if kind in ("save", "load") else after.partial_fit(X, y)
before, after = shown(model), shown(after)
if kind in ("save", "load"):
    after = before
    act()
outcomes = {0: 0, 1: 0, 5: 0, "ended by a library": 0}
n, quiet = 1, 0
while quiet < 20:
    child = os.fork()
    if child == 0:
        code = 3
        try:
            _testcapi.set_nomemory(n, n + 1)
            act()
            _testcapi.remove_mem_hooks()
            code = 1
        except MemoryError:
            _testcapi.remove_mem_hooks()
            code = 0
        except Exception:
            _testcapi.remove_mem_hooks()
            code = 5  # Python and libraries report some refusals as something else
        try:
            found = shown(model)
            assert found in (before, after), "a mixture"
            model.partial_fit(*row)
            if kind == "save":
                assert fl.load(path).coef_.tobytes() == np.frombuffer(before[0]).tobytes()
                model.save(path)
                assert sorted(p.name for p in folder.iterdir()) == ["m.fl"], "leftovers"
        except BaseException as error:
            print(n, repr(error), file=sys.stderr)
            code = 4
        os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (3, 4):
        raise SystemExit(f"allocation {n}: code {code}")
    outcomes[code if code in outcomes else "ended by a library"] += 1
    quiet = quiet + 1 if code == 1 else 0
    if kind == "save" and path.read_bytes() != old:
        path.write_bytes(old)
    n += step
words = {0: "MemoryError", 1: "done", 5: "another error"}
print({words.get(code, code): count for code, count in outcomes.items()})
"""


KINDS = ["row", "rows", "auto", "joint", "save", "load"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "step"), [("rows", 61), *(pytest.param(kind, 1, marks=pytest.mark.long) for kind in KINDS)]
)
def test_memory_that_runs_out_changes_nothing(tmp_path, kind, step, campaign):
    command = [sys.executable, "-c", textwrap.dedent(CAMPAIGN), kind, str(tmp_path), str(step)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    campaign(f"{kind}: memory refused at every {step}. allocation: {done.stdout.strip()}")

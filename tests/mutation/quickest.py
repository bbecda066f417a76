"""A pytest plugin that measures the tests, or runs the quickest first, as many as fit into a limit.

``MUTATION_NOTE`` is the file for the seconds; ``MUTATION_KNOWN`` are such files, ``MUTATION_PATIENCE`` the limit. A
mutant that some test kills is thus killed early, and a survivor takes no longer than the limit. The seconds are the
processor's, so that as many tests are run on a busy machine as on an idle one.
"""

import json
import os
from itertools import accumulate
from pathlib import Path

import pytest

seconds: dict[str, float] = {}


def pytest_collection_modifyitems(config, items):
    files = os.environ.get("MUTATION_KNOWN")
    if files is None:
        return
    previous = {}
    for file in files.split(os.pathsep):
        previous |= json.loads(Path(file).read_text())
    items.sort(key=lambda item: previous.get(item.nodeid, 0.0))  # new tests and the examples of the module come first
    spent = accumulate(previous.get(item.nodeid, 0.0) for item in items)
    n_tests = sum(total <= float(os.environ["MUTATION_PATIENCE"]) for total in spent)
    config.hook.pytest_deselected(items=items[n_tests:])
    items[:] = items[:n_tests]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = sum(os.times()[:4])  # this process and its children
    result = yield
    seconds[item.nodeid] = sum(os.times()[:4]) - before
    return result


def pytest_sessionfinish(exitstatus):
    if "MUTATION_NOTE" in os.environ and exitstatus == 0:
        file = Path(os.environ["MUTATION_NOTE"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(seconds, indent=0))

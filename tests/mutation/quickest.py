"""A pytest plugin: notes how long each test takes, or runs the quickest first, as many as there is patience for.

``MUTATION_NOTE`` is the file for the seconds; ``MUTATION_KNOWN`` are such files, ``MUTATION_PATIENCE`` seconds in all.
A mutant that a test notices is thus noticed early, and one that no test notices takes no longer than that. The seconds
are the processor's, so that on a busy machine as many tests are run as on an idle one.
"""

import json
import os
from itertools import accumulate
from pathlib import Path

import pytest

noted: dict[str, float] = {}


def name_of(nodeid):
    return nodeid.rpartition("/")[2]


def pytest_collection_modifyitems(config, items):
    files = os.environ.get("MUTATION_KNOWN")
    if files is None:
        return
    known = {}
    for file in files.split(os.pathsep):
        known |= json.loads(Path(file).read_text())
    items.sort(key=lambda item: known.get(name_of(item.nodeid), 0.0))  # the examples of the module are not timed
    spent = accumulate(known.get(name_of(item.nodeid), 0.0) for item in items)
    fits = sum(seconds <= float(os.environ["MUTATION_PATIENCE"]) for seconds in spent)
    config.hook.pytest_deselected(items=items[fits:])
    items[:] = items[:fits]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = sum(os.times()[:4])  # ours and our children's
    result = yield
    name = name_of(item.nodeid)
    noted[name] = noted.get(name, 0.0) + sum(os.times()[:4]) - before
    return result


def pytest_sessionfinish(exitstatus):
    if "MUTATION_NOTE" in os.environ and exitstatus == 0:
        file = Path(os.environ["MUTATION_NOTE"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(noted, indent=0))

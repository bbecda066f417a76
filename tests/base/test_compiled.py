"""When compiled modules are loaded, and how their work is spread over threads."""

import os
import threading
import warnings

import pytest

from forgetless._base import compiled


def test_a_loaded_module_is_always_used_and_work_adds_up_to_loading_one(monkeypatch):
    monkeypatch.setattr(compiled, "_spent", 0.0)
    assert compiled.worth_loading("engines.problem", 1e-9)
    assert not compiled.worth_loading("engines.never_loaded", 0.4 * compiled.LOADING)
    assert not compiled.worth_loading("engines.never_loaded", 0.4 * compiled.LOADING)
    assert compiled.worth_loading("engines.never_loaded", 0.4 * compiled.LOADING)
    monkeypatch.setattr(compiled, "_spent", 0.0)
    assert compiled.worth_loading("engines.never_loaded", 1.1 * compiled.LOADING)


@pytest.mark.parametrize(("n_items", "chunk", "threads"), [(10, 5, 2), (11, 3, 4), (1, 1, 2), (7, 7, 1)])
def test_every_item_is_worked_on_once(n_items, chunk, threads):
    counts = [0] * n_items

    def work(first, last):
        for i in range(first, last):
            counts[i] += 1

    compiled.spread(work, n_items, chunk, threads)
    assert counts == [1] * n_items


def test_errors_of_any_part_reach_the_caller_after_all_have_ended():
    ended = []

    def work(first, last):
        if first in (0, 2):
            raise ValueError(f"part {first}")
        ended.append(first)

    with pytest.raises(ValueError, match="part"):
        compiled.spread(work, 4, 1, 2)
    compiled.spread(lambda first, last: ended.append(-1), 1, 1, 1)
    assert ended[-1] == -1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own():
    compiled.spread(lambda first, last: None, 4, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:  # pragma: no cover - the child
        seen = []
        compiled.spread(lambda first, last: seen.append(threading.current_thread().name), 4, 1, 2)
        os._exit(0 if len(seen) == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(("given", "expected"), [("always", True), ("never", False)])
def test_the_environment_fixes_the_choice(given, expected, monkeypatch):
    monkeypatch.setenv("FORGETLESS_NUMBA", given)
    assert compiled.worth_loading("engines.problem", 1e-9) is expected
    assert compiled.worth_loading("engines.never_loaded", 1e9) is expected


def test_parts_may_spread_work_themselves():
    done = []

    def work(first, last):
        compiled.spread(lambda a, b: done.append((a, b)), 4, 1, 2)

    compiled.spread(work, 4, 1, 2)
    assert sum(b - a for a, b in done) == 16

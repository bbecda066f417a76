"""The bar of long loops, on a terminal made by rich's rules and without one."""

import contextlib
import functools
import io
import itertools
import time

import pytest

import forgetless as fl

TASKS = [([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0]), ([[1.0, 1.0]], [2.0])]


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _every_step_takes_more_than_two_seconds(monkeypatch):
    monkeypatch.setattr(time, "monotonic", functools.partial(next, itertools.count(step=2.01)))
    monkeypatch.setenv("TERM", "xterm")


def shown(screen, tasks=TASKS):
    """Return what a loop over tasks writes to standard error."""
    with contextlib.redirect_stderr(screen):
        fl.evaluate_stream(fl.ContinualRidge(), tasks)
    return screen.getvalue()


def test_a_bar_names_what_it_counts_where_somebody_looks_and_it_takes_long(monkeypatch):
    text = shown(Terminal())
    assert "learning tasks" in text
    assert "%" in text
    assert "learning tasks" in shown(Terminal(), TASKS[:1])
    assert shown(io.StringIO()) == ""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    assert shown(Terminal()) == ""


def test_bars_can_be_switched_off():
    fl.progress(False)
    try:
        assert shown(Terminal()) == ""
    finally:
        fl.progress(True)
    assert shown(Terminal()) != ""


def test_an_error_in_the_loop_takes_the_bar_away():
    def interrupted():
        yield from TASKS
        raise KeyError("stop")

    with pytest.raises(KeyError):
        shown(Terminal(), interrupted())
    assert "learning tasks" in shown(Terminal())

"""The bar of forgetless._running, on a terminal made by rich's rules and without one."""

import contextlib
import io

import pytest

import forgetless as fl
from forgetless import _running


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def bars_at_once(monkeypatch):
    monkeypatch.setattr(_running, "DELAY", -1.0)
    monkeypatch.setenv("TERM", "xterm")


def shown(function, screen):
    """Return what a function writes to standard error."""
    with contextlib.redirect_stderr(screen):
        function()
    return screen.getvalue()


def five_steps():
    assert list(_running.track(range(5), "steps")) == [0, 1, 2, 3, 4]


def test_a_bar_names_what_it_counts_where_somebody_looks_and_it_takes_long(monkeypatch):
    text = shown(five_steps, Terminal())
    assert "steps" in text
    assert "%" in text
    assert shown(five_steps, io.StringIO()) == ""
    monkeypatch.setattr(_running, "DELAY", 1e9)
    assert shown(five_steps, Terminal()) == ""


def test_bars_can_be_switched_off():
    fl.progress(False)
    try:
        assert shown(five_steps, Terminal()) == ""
    finally:
        fl.progress(True)
    assert shown(five_steps, Terminal()) != ""


def test_an_error_in_the_loop_takes_the_bar_away():
    def interrupted():
        for _ in _running.track(range(3), "steps"):
            raise KeyError("stop")

    with pytest.raises(KeyError):
        shown(interrupted, Terminal())
    assert "steps" in shown(five_steps, Terminal())

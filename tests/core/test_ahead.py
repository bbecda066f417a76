"""What is made in a thread of its own: the same items, its errors, and an end when nobody wants more."""

import sys
import threading
import time

import pytest

from forgetless.tables import prefetch as ahead
from forgetless.tables.prefetch import Ahead


def test_items_come_in_their_order_and_only_so_many_wait(monkeypatch):
    monkeypatch.setattr(ahead, "BYTES", 30)
    made = []

    def items():
        for i in range(20):
            made.append(i)
            yield i

    with Ahead(items(), lambda item: 10) as found:
        deadline = time.monotonic() + 10
        while len(made) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert made == [0, 1, 2, 3]  # three wait, and the next is in hand
        assert list(found) == list(range(20))


def test_an_item_larger_than_all_that_may_wait_passes(monkeypatch):
    monkeypatch.setattr(ahead, "BYTES", 30)
    with Ahead((i for i in range(5)), lambda item: 1000) as found:
        assert list(found) == list(range(5))


@pytest.mark.parametrize("error", [ValueError("bad row"), KeyboardInterrupt("stop"), MemoryError("too large")])
def test_an_error_comes_where_its_item_would(error):
    def items():
        yield 1
        raise error

    with Ahead(items(), lambda item: 1) as found:
        assert next(found) == 1
        with pytest.raises(type(error), match=str(error)):
            next(found)
        with pytest.raises(StopIteration):
            next(found)


def test_the_generator_is_closed_by_its_own_thread_when_nobody_wants_more(monkeypatch):
    monkeypatch.setattr(ahead, "BYTES", 1)
    closed = []

    def items():
        try:
            while True:
                yield 1
        finally:
            closed.append(threading.current_thread().name)

    with Ahead(items(), lambda item: 1) as found:
        assert next(found) == 1
    assert closed == ["forgetless-ahead"]
    assert "forgetless-ahead" not in [thread.name for thread in threading.enumerate()]


def test_the_interpreter_is_left_as_it_was():
    before = sys.getswitchinterval()
    with Ahead((i for i in range(3)), lambda item: 8) as items:
        assert sys.getswitchinterval() < before
        assert list(items) == [0, 1, 2]
    assert sys.getswitchinterval() == before

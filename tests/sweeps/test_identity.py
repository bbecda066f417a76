"""What tells values on an axis apart, where their names and lines do not."""

import functools
import re

import numpy as np
import pytest

from forgetless.sweeps.identity import content, digest
from support.sweeping import gauss, small


def told(value):
    return digest(content(value))


def test_lambdas_on_one_line_are_told_apart():
    one, two = lambda seed: gauss(seed, noise=1.0), lambda seed: gauss(seed, noise=2.0)
    assert told(one) != told(two)
    three, four = lambda seed: [gauss(seed) for _ in range(1)], lambda seed: [gauss(seed + 1) for _ in range(1)]
    assert told(three) != told(four)


def typed(text):
    space = {}
    exec(text, space)
    return told(space["f"])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("def f(s): return [x + 1 for x in s]", "def f(s): return [x + 2 for x in s]"),
        ("def f(s): return lambda: g(s)", "def f(s): return lambda: h(s)"),
        ("def f(a, *, b): return 1", "def f(b, *, a): return 1"),
        ("class f:\n def __call__(self, seed): return 1", "class f:\n def __call__(self, seed): return 2"),
        ("def f(s): return s in {'a', 'b'}", "def f(s): return s in {'a', 'c'}"),
    ],
)
def test_what_is_inside_a_compiled_function_counts(one, two):
    assert typed(one) == typed(one) != typed(two)


def wrapped(with_noise):
    def decorate(function):
        if with_noise:

            @functools.wraps(function)
            def call(seed):
                return function(seed, noise=1.0)
        else:

            @functools.wraps(function)
            def call(seed):
                return function(seed)

        return call

    return decorate(gauss)


def test_a_function_that_wraps_another_is_not_the_other():
    assert len({told(wrapped(True)), told(wrapped(False)), told(gauss)}) == 3


def test_functions_that_refer_to_themselves_and_to_modules_have_a_content():
    def made(base):
        def down(seed):
            return down(seed - 1) if seed > base else np.arange(seed)

        return down

    assert told(made(1)) == told(made(1)) != told(made(2))

    def with_module(module):
        return lambda seed: module.arange(seed)

    assert told(with_module(np)) != told(with_module(re))
    ring = [1]
    ring.append(ring)
    assert told(ring) != told([1, [1]])

    def early():
        def inner():
            return later

        found = told(inner)
        later = 1
        return found, told(inner), later

    before, after, _ = early()
    assert before != after


def test_what_is_too_deep_is_one_sentence():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(TypeError, match=r"^tasks 'a' has no content that identifies it: .*recursion"):
        small(tasks={"a": functools.partial(gauss, d=deep)})


@pytest.mark.parametrize(
    "changes",
    [
        {"schedules": {"a": "increasing", "b": "increasing"}},
        {"tasks": {"a": gauss, "b": gauss}},
        {"orderings": {"a": "cyclic", "b": "cyclic"}},
    ],
)
def test_one_value_under_two_names_is_refused(changes):
    (axis,) = changes
    with pytest.raises(ValueError, match=f"^{axis} 'a' and 'b' have the same content; leave one of them out$"):
        small(**changes)

"""What tells values on an axis apart, where their names and lines do not."""

import functools
import importlib.util
import re
import sys
from collections import namedtuple

import numpy as np
import pytest

from forgetless.errors import StoreError
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
        ("def f(s, a=1): return a", "def f(s, a=2): return a"),
        ("def f(s, *, a=1): return a", "def f(s, *, a=2): return a"),
        ("class f:\n a = 1", "class f:\n a = 2"),
        ("class g:\n a = 1\nclass f(g): pass", "class g:\n a = 2\nclass f(g): pass"),
    ],
)
def test_what_is_inside_a_compiled_function_counts(one, two):
    assert typed(one) == typed(one) != typed(two)


OWN = """
import functools
import helpers
import numpy as np

FACTOR = 1.0
CONFIGURED = dict(power=1)["power"]

class Oldest:
    def value(self):
        return 1.0

class Base(Oldest):
    power = CONFIGURED

    @property
    def doubled(self):
        return 2 * self.value()

    @staticmethod
    def root(x):
        return np.sqrt(x)

    @functools.cached_property
    def cached(self):
        return 3.0

class Schedule(Base):
    __slots__ = ("slot",)

    def __init__(self, slot=1.0):
        self.slot = slot

    def __call__(self, k, radius):
        return self.doubled, self.cached, self.root(k)

def strength(x):
    return inner(x)

def inner(x):
    return x + 5.0

def default():
    return 4.0

def tasks(seed, noise=0.5, *, rank=2, draw=default):
    from helpers import late
    return [strength(seed) * FACTOR, helpers.offset(seed), late(seed), draw()]
"""

HELPERS = """
def offset(x):
    return x + 6.0

def late(x):
    return x + 7.0
"""


def loaded(folder, own, helpers):
    """The names of a module of the user's, with another beside it, as after an edit and a restart."""
    spaces = {}
    for name, text in (("helpers", helpers), ("own", own)):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text)
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        spaces[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(spaces[name])
    return spaces["own"]


EDITS = {
    "class Schedule": [
        ("return 1.0", "return 1.5"),  # a method of the parent of the parent
        ("power=1", "power=2"),  # a class attribute, whose line stays the same
        ("2 * self", "3 * self"),  # a property
        ("np.sqrt(x)", "np.cbrt(x)"),  # a static method
        ("return 3.0", "return 3.5"),  # a cached property
        ("slot=1.0", "slot=1.5"),  # the default of an argument, in a slot
    ],
    "def tasks": [
        ("noise=0.5", "noise=0.6"),
        ("return 4.0", "return 4.5"),  # a function that is a default
        ("FACTOR = 1.0", "FACTOR = 2.0"),  # a global
        ("x + 5.0", "x + 5.5"),  # a function that a function calls
        ("x + 6.0", "x + 6.5"),  # a function of a module that it uses
        ("x + 7.0", "x + 7.5"),  # a function that it imports when it is called
    ],
}


@pytest.mark.parametrize(("thing", "edit"), [(thing, edit) for thing, edits in EDITS.items() for edit in edits])
def test_an_edit_of_what_a_value_depends_on_changes_its_key(tmp_path, monkeypatch, thing, edit):
    for name in ("own", "helpers"):
        monkeypatch.setitem(sys.modules, name, None)

    def key(folder, own, helpers):
        module = loaded(tmp_path / folder, own, helpers)
        return told(module.Schedule() if thing == "class Schedule" else module.tasks)

    before = key("a", OWN, HELPERS)
    assert key("b", OWN, HELPERS) == before  # elsewhere, the same
    assert (edit[0] in OWN) != (edit[0] in HELPERS)
    assert key("c", OWN.replace(*edit), HELPERS.replace(*edit)) != before


def test_a_cached_value_does_not_change_a_key(tmp_path, monkeypatch):
    for name in ("own", "helpers"):
        monkeypatch.setitem(sys.modules, name, None)
    schedule = loaded(tmp_path, OWN, HELPERS).Schedule()
    before = told(schedule)
    assert (schedule.cached, told(schedule)) == (3.0, before)
    schedule.slot = 2.0
    assert told(schedule) != before


def test_a_store_refuses_a_schedule_whose_parent_was_edited(tmp_path, monkeypatch):
    text = """
import forgetless as fl
class Base:
    def strength(self):
        return 0.1
class Mine(Base):
    def __call__(self, k, radius):
        return fl.Ridge(self.strength())
"""
    monkeypatch.setitem(sys.modules, "own", None)
    monkeypatch.setitem(sys.modules, "helpers", None)
    store = tmp_path / "results.db"
    before = small(schedules={"mine": loaded(tmp_path / "a", text, "").Mine()}, k=4, seeds=[0])
    before.run(store, n_workers=0)
    edited = small(schedules={"mine": loaded(tmp_path / "b", text.replace("0.1", "10.0"), "").Mine()}, k=4, seeds=[0])
    assert len(edited.table(store)) == 0
    with pytest.raises(StoreError, match="another schedule 'mine', with another content"):
        edited.run(store, n_workers=0)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (lambda seed: RNG.normal(size=3), "<lambda> uses RNG: Generator has no readable content"),
        (functools.partial(gauss, d=RNG), "Generator has no readable content; use an array, a function or a plain"),
        (RNG.standard_normal, "Generator has no readable content"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tasks, reason):
    with pytest.raises(TypeError, match=f"^tasks 'a' has no content that identifies it: .*{reason}"):
        small(tasks={"a": tasks})


def test_values_of_subclasses_are_not_those_of_their_parents():
    class Named(float):
        def __call__(self, k, radius):
            return None

    Pair = namedtuple("Pair", "a b")
    one, two = Named(1.0), Named(1.0)
    two.note = "another"
    assert len({told(each) for each in (1.0, one, two, (1, 2), Pair(1, 2), Pair(2, 1))}) == 6


def test_installed_code_is_identified_by_its_version(monkeypatch):
    assert content(np.linalg.norm) == {"name": "norm", "module": "numpy.linalg", "version": f"numpy {np.__version__}"}
    assert content(np) == {"module": "numpy", "version": f"numpy {np.__version__}"}
    assert content(functools.reduce)["version"] == "python {}.{}".format(*sys.version_info)
    assert told(functools.lru_cache(gauss)) != told(functools.lru_cache(wrapped(True)))


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

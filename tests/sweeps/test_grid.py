"""A sweep as data: its cells, their keys, and what they do and do not depend on."""

import functools
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl
from forgetless.sweeps.evaluate import evaluate, seed_of
from forgetless.sweeps.identity import content, digest
from support.sweeping import SCHEDULES, broken, gauss, small

TASKS = fl.TaskCollection(gauss(0))


def cells(sweep):
    return {(b.tasks, b.seed, b.ordering, b.k, m.schedule, m.scale): m.key for b in sweep.batches for m in b.members}


def test_cells_are_the_product_of_the_axes_without_what_makes_no_difference():
    sweep = small(scales=[0.1, 1.0], orderings=["cyclic", "random-reshuffling"])
    assert len(sweep) == 1 * 3 * 2 * 2 * (1 + 2 + 2) == len(cells(sweep)) == len(sweep.keys)
    fixed = small(tasks=TASKS)
    assert len(fixed) == 2 * 3  # exact, on given tasks: no seed
    assert {seed for _, seed, *_ in cells(fixed)} == {None}
    assert len(small(tasks=TASKS, n_trials=5)) == 3 * 2 * 3
    assert repr(sweep) == "Sweep(60 cells: 3 schedule, 2 ordering, 2 scale, 2 k, 3 seed)"


WHOLE = cells(small(k=range(1, 51), seeds=range(51)))


@given(
    st.lists(st.sampled_from(sorted(SCHEDULES)), min_size=1, unique=True),
    st.lists(st.integers(1, 50), min_size=1, unique=True),
    st.lists(st.integers(0, 50), min_size=1, unique=True),
)
def test_a_cell_has_the_same_key_in_every_sweep_that_has_it(schedules, k, seeds):
    part = cells(small(schedules={name: SCHEDULES[name] for name in schedules}, k=k, seeds=seeds))
    assert part.items() <= WHOLE.items()


def other_gauss(seed):
    return gauss(seed)


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": {"gauss": functools.partial(gauss, d=5)}},
        {"tasks": {"gauss": other_gauss}},
        {"tasks": {"gauss": TASKS}},
        {"metrics": "seen_loss"},
        {"n_trials": 7},
        {"average": 2},
        {"record": "all"},
        {"bounds": True},
        {"schedules": {name: fl.Ridge(0.31 + i) for i, name in enumerate(SCHEDULES)}},
        {"orderings": {"with-replacement": fl.Cyclic()}},
        {"scales": [2.0], "schedules": {"up": SCHEDULES["up"], "ridge": SCHEDULES["ridge"]}},
        {"k": [5, 17]},
        {"seeds": [3, 4]},
    ],
)
def test_another_content_is_another_cell(changes):
    assert not small().keys & small(**changes).keys


def test_the_version_is_part_of_every_cell(monkeypatch):
    before = small().keys
    monkeypatch.setattr(fl, "__version__", "9.9")
    assert not before & small().keys


def test_keys_are_the_same_in_another_process():
    code = "from support.sweeping import small; print(sorted(small(scales=[0.3]).keys)[0])"
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": "", "PYTHONHASHSEED": "7"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert found.strip() == sorted(small(scales=[0.3]).keys)[0]


class Own:
    def __init__(self, strength):
        self.strength = strength

    def __call__(self, k, radius):
        return fl.Ridge(self.strength)


def test_content_tells_values_apart():
    def made(a):
        return lambda seed: gauss(seed, noise=a)

    values = [
        *(None, True, 1, 1.5, "1", [1], {"a": 1}, {1, 2}),
        *(np.arange(3), np.arange(3.0), np.zeros((0, 2)), np.zeros((2, 0)), np.float32),
        *(gauss, broken, made(1), made(2), functools.partial(gauss, d=2), functools.partial(gauss, d=3), len),
        *(Own(1), Own(2), Own(1).__call__, fl.theory.constructions.unseen_task),
        *(
            fl.Cyclic(),
            fl.FixedOrder([1, 0]),
            fl.FixedOrder([0, 1]),
            fl.WithReplacement([0.5, 0.5]),
            fl.WithReplacement(),
        ),
        *(fl.Ridge(1.0), fl.Ridge([1.0, 2.0]), fl.schedules.increasing(), TASKS, fl.TaskCollection(gauss(1))),
    ]
    assert len({digest(content(value)) for value in values}) == len(values)
    assert content(np.float64(1.5)) == 1.5
    assert digest(content(fl.TaskCollection(gauss(0)))) == digest(content(TASKS))
    for nothing in (iter([]), np.array([object()]), 1j):
        with pytest.raises(TypeError):
            content(nothing)


def test_a_function_typed_into_a_session_is_known_by_its_code():
    def typed(text):
        space = {}
        exec(text, space)
        return digest(content(space["f"]))

    assert typed("def f(seed): return seed + 1") == typed("def f(seed): return seed + 1")
    assert (
        len(
            {
                typed("def f(seed): return seed + 1"),
                typed("def f(seed): return seed + 2"),
                typed("def f(seed): return g(seed)"),
            }
        )
        == 3
    )


def test_all_schedules_meet_the_same_orders_and_nothing_else_does():
    sweep = small(n_trials=3, orderings=["with-replacement", "random-reshuffling"])
    tasks, laws = sweep.axes["tasks"]["gauss"], sweep.axes["ordering"]
    states = {tuple(seed_of(tasks, laws[b.ordering], b).generate_state(2)) for b in sweep.batches}
    assert len(states) == len(sweep.batches) == 12
    batch = next(b for b in sweep.batches if (b.seed, b.k, b.ordering) == (1, 16, "random-reshuffling"))
    orders = {
        "ordering": fl.RandomReshuffling(),
        "n_trials": 3,
        "seed": seed_of(tasks, laws["random-reshuffling"], batch),
    }
    trace = fl.simulate(fl.TaskCollection(gauss(1)), fl.Ridge(0.3), 16, record="last", **orders)
    alone = small(schedules={"ridge": SCHEDULES["ridge"]}, n_trials=3, orderings="random-reshuffling", seeds=[1], k=16)
    (outcome,) = evaluate(alone, alone.batches[0])
    (row,) = outcome.rows
    assert row.value == pytest.approx(trace.average_loss.mean(), rel=1e-12)
    assert row.standard_error == pytest.approx(trace.average_loss.std(ddof=1) / np.sqrt(3), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"lambdas": [1]}, TypeError, "unexpected keyword argument 'lambdas'"),
        ({"tasks": {}}, ValueError, "tasks must hold at least one value"),
        ({"tasks": {"a": 3}}, TypeError, "tasks 'a' must be a TaskCollection or a function"),
        ({"tasks": lambda seed, d: gauss(seed, d)}, TypeError, "need an argument d.*functools.partial"),
        (
            {"tasks": {"a": functools.partial(gauss, d=iter([]))}},
            TypeError,
            "tasks 'a' has no content",
        ),
        ({"schedules": {"a": None}}, TypeError, "schedules 'a': schedule must be a schedule, a filter, a name"),
        ({"schedules": ["increasing", "increasing"]}, ValueError, "two values called 'increasing'"),
        ({"schedules": "descending"}, ValueError, "there is no schedule 'descending'"),
        (
            {"orderings": "sorted"},
            ValueError,
            "orderings 'sorted': there is no ordering 'sorted'; use one of with-replacement",
        ),
        ({"orderings": {"a": 3}}, TypeError, "orderings 'a': ordering must be an Ordering"),
        ({"k": []}, ValueError, "k must hold at least one number"),
        ({"k": 0}, ValueError, "k must be at least 1"),
        ({"k": 2.5}, TypeError, "k must be an integer"),
        ({"seeds": [-1]}, ValueError, "seeds must be at least 0"),
        ({"scales": []}, ValueError, "scales must hold at least one number"),
        ({"scales": [0.0]}, ValueError, "scales must be positive"),
        ({"metrics": "accuracy"}, ValueError, "metrics must be some of"),
        ({"metrics": "worst_case", "n_trials": 3}, ValueError, "metrics must be some of"),
        ({"n_trials": 0}, ValueError, "n_trials must be at least 1"),
        ({"record": "first"}, ValueError, "record must be"),
        ({"bounds": True, "average": 2}, ValueError, "bounds=True needs average=None, got average=2: .* last iterate"),
        ({"bounds": "no"}, TypeError, "bounds must be True or False, got 'no'"),
        ({"seeds": [1, 2**63]}, ValueError, r"seeds must be below 2\*\*63, got 9223372036854775808"),
        ({"k": 2**63}, ValueError, r"k must be below 2\*\*63"),
        ({"tasks": {"\ud800": gauss}}, ValueError, "give it a name that can be printed"),
        ({"tasks": {"a": functools.partial(gauss, seed=3)}}, TypeError, "tasks 'a' have seed=3 bound.* leave it free"),
        ({"tasks": {"a": lambda seed, /: gauss(seed)}}, TypeError, "tasks 'a' take seed, not seed and k by name"),
        ({"tasks": {"a": lambda **all: gauss(**all)}}, TypeError, r"tasks 'a' take \*\*all, not seed and k by name"),
        ({"tasks": {"a": lambda *all: gauss(*all)}}, TypeError, r"tasks 'a' take \*all, not seed and k by name"),
        ({"tasks": {"a": max}}, TypeError, "tasks 'a' have no signature with seed and k"),
    ],
)
def test_bad_axes_are_refused(changes, error, words):
    with pytest.raises(error, match=words) as caught:
        small(**changes)
    assert not re.search(r"\n", str(caught.value))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedules": {"four": fl.Ridge([1.0] * 4)}}, "schedule 'four' at k = 16: schedule gives 4 steps but k is 16"),
        ({"tasks": {"mine": TASKS}, "schedules": {"gd": fl.GradientDescent(1, 1e3)}}, "schedule 'gd' on tasks 'mine'"),
        (
            {"tasks": {"mine": TASKS}, "schedules": {"gd": fl.GradientDescent(1, 1e-3)}, "scales": [1e-6, 1.0]},
            "schedule 'gd' on tasks 'mine' at k = 4: schedule makes the error grow",
        ),
        ({"tasks": {"mine": TASKS}, "orderings": {"two": fl.FixedOrder([0, 1])}}, "ordering 'two' on tasks 'mine'"),
        ({"record": [4, 16]}, "record at k = 4: record must hold steps in 0..4, got 16"),
        ({"average": 2, "metrics": ("average_loss", "drift")}, "average=2 with ordering 'with-replacement'"),
    ],
)
def test_cells_that_cannot_work_are_rejected_before_the_start(tmp_path, changes, message):
    sweep = small(**changes)
    with pytest.raises(ValueError, match=f"^this sweep cannot work: {message}"):
        sweep.run(tmp_path / "results.db", n_workers=0)
    assert not list(tmp_path.iterdir())


def test_keys_are_24_hexadecimal_digits():
    assert all(re.fullmatch("[0-9a-f]{24}", key) for key in small().keys)


def test_a_list_of_pairs_is_one_collection():
    sweep, named = small(tasks=gauss(0)), small(tasks={"tasks": TASKS})
    assert list(sweep.axes["tasks"]) == ["tasks"]
    assert sweep.keys == named.keys


def test_the_first_step_and_the_largest_seed_are_allowed():
    sweep = small(record=[0, 4], seeds=[2**63 - 1])
    assert (sweep.record, sweep.seeds) == ([0, 4], (2**63 - 1,))


def test_a_description_names_what_is_computed_once():
    """Tasks that do not depend on the seed, and schedules that no scale changes."""
    mixed = {"fixed": TASKS, "drawn": gauss}
    schedules = {"exact": fl.Projection(), "ridge": fl.Ridge(1.0)}
    once = small(tasks=mixed, schedules=schedules, scales=[0.5, 1.0]).description()["once"]
    assert once == {"seed": ["fixed"], "scale": ["exact"]}
    once = small(tasks=mixed, schedules=schedules, n_trials=3).description()["once"]
    assert once == {"seed": [], "scale": ["exact", "ridge"]}


def test_functions_of_the_user_are_not_called_before_the_start(tmp_path):
    def schedule(k, radius):
        raise RuntimeError("called")

    small(schedules={"own": schedule}, average=2, orderings="cyclic", metrics="drift").check_cells()

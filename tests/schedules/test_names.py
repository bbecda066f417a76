"""The registry of schedules: names, code and files of every kind, each read back."""

import inspect
import operator
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from forgetless.schedules import exchangeable, names, presets, tracking
from support.registry import FILTERS, SCHEDULES, linear, name

KNOWN = [each for each in (*SCHEDULES, *FILTERS) if each is not linear]


def test_every_preset_has_an_entry():
    homes = (presets, exchangeable, tracking)
    members = [kind for home in homes for _, kind in inspect.getmembers(home, inspect.isclass)]
    kinds = {kind for kind in members if kind.__module__ in [home.__name__ for home in homes]} - {tracking.MeanFactor}
    filters = {fl.Projection, fl.Ridge, fl.GradientDescent, fl.Stages, fl.filters.PerTask}
    assert kinds == {entry.kind for entry in names.REGISTRY} - filters
    for entry in names.REGISTRY:
        home = fl if issubclass(entry.kind, fl.Filter) else fl.schedules
        assert operator.attrgetter(entry.code)(home) is entry.kind


@pytest.mark.parametrize("schedule", KNOWN, ids=name)
def test_code_and_plain_data_give_the_schedule_back(schedule):
    assert eval(names.code(schedule), {"fl": fl, "array": np.array}) == schedule
    assert names.from_plain(names.describe(schedule)) == schedule
    assert names.title_of(schedule)


@pytest.mark.parametrize("entry", [each for each in names.REGISTRY if each.name], ids=lambda entry: entry.name)
def test_names_are_understood_everywhere(entry, rng):
    text = {"ridge": "ridge:0.5", "steady": "steady:0.5"}.get(entry.name, entry.name)
    schedule = names.named(text, n_tasks=3)
    assert type(schedule) is entry.kind
    assert entry.name in names.usage()
    assert f"`{entry.usage}`" in (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    if entry.proportional:
        one, three = (fl.schedules.resolve(schedule, 8, radius) for radius in (1.0, 3.0))
        np.testing.assert_allclose(three.strength(), 9.0 * np.asarray(one.strength()), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("increasing:13/3", fl.schedules.increasing()),
        ("increasing: 0.5", fl.schedules.increasing(0.5)),
        ("end-ramp:1/4", fl.schedules.end_ramp(0.25)),
        ("end-ramp:1/4,2e-1", fl.schedules.end_ramp(0.25, 0.2)),
        ("increasing-budget:3,1", fl.schedules.increasing_budget(3, 1.0)),
        ("cyclic:7", fl.schedules.cyclic(7)),
        ("cyclic", fl.schedules.cyclic(4)),
        ("minimax:1/2", fl.schedules.minimax(eta=0.5)),
        ("minimax:1,0.1,per-task", fl.schedules.minimax(noise=0.1, per_task=True)),
        ("minimax-budget:5,0.5", fl.schedules.minimax_budget(5, eta=0.5)),
        ("steady:0.5,0.1", fl.schedules.steady(0.5, 0.1)),
        ("none", fl.Projection()),
    ],
)
def test_arguments_follow_a_colon(text, expected):
    assert names.named(text, n_tasks=4) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rising", "use auto, none, "),
        ("none:1", "there is no schedule 'none:1'"),
        ("fixed:1,2", "there is no schedule"),
        ("ridge", "needs coefficient: ridge:COEFFICIENT"),
        ("ridge:", "must be a number, got ''"),
        ("increasing-budget:1.5", "n_steps of 'increasing-budget' must be a whole number, got '1.5'"),
        ("minimax:1,0,other", "per_task of 'minimax' must be 'per-task' or left out, got 'other'"),
        ("increasing:1/0", "must be a number, got '1/0'"),
        ("ridge:1e400", "coefficient must be nonnegative and finite, got inf"),
        ("ridge:1e999999999", "coefficient must be nonnegative and finite, got inf"),
        ("ridge:1" + "0" * 400 + "/3", "must be a number"),
        ("increasing:-1", "scale must be nonnegative"),
        ("end-ramp:2", "length must lie in"),
    ],
)
def test_mistakes_name_what_is_allowed(text, said):
    with pytest.raises(ValueError, match=said):
        names.named(text, "auto")


def test_schedules_of_the_users_have_no_code():
    assert names.code(linear) is None
    assert names.code(fl.schedules.unregularized_first(linear)) is None
    assert names.entry_of(linear) is None
    assert not names.is_proportional(linear)

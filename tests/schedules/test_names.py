"""Schedules as text and as plain data, each read back."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.schedules import names
from support.registry import FILTERS, SCHEDULES, linear, name

KNOWN = [each for each in (*SCHEDULES, *FILTERS) if each is not linear]


@pytest.mark.parametrize("schedule", KNOWN, ids=name)
def test_plain_data_give_the_schedule_back(schedule):
    assert names.from_plain(names.describe(schedule)) == schedule


def test_schedules_of_users_have_no_name():
    with pytest.raises(TypeError, match="function has no name in a file"):
        names.describe(linear)
    with pytest.raises(ValueError, match="schedule must name one of Projection"):
        names.from_plain({"kind": "Linear"})
    with pytest.raises(ValueError, match="Ridge has the wrong parameters"):
        names.from_plain({"kind": "Ridge", "strength": 1.0})


@pytest.mark.parametrize("text", names.NAMES)
def test_every_name_is_understood(text):
    full = {"ridge": "ridge:0.5", "steady": "steady:0.5"}.get(text, text)
    schedule = fl.schedules.from_name(full, n_tasks=3)
    assert type(schedule) is names.NAMES[text]
    assert text in names.usage()
    if text in names.PROPORTIONAL:
        one, three = (fl.schedules.resolve(schedule, 8, radius) for radius in (1.0, 3.0))
        np.testing.assert_allclose(three.strength(), 9.0 * np.asarray(one.strength()), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("increasing:13/3", fl.schedules.increasing()),
        ("increasing: 0.5", fl.schedules.increasing(0.5)),
        ("end_ramp:1/4,2e-1", fl.schedules.end_ramp(0.25, 0.2)),
        ("increasing-budget:3,1", fl.schedules.increasing_budget(3, 1.0)),
        ("cyclic:7", fl.schedules.cyclic(7)),
        ("cyclic", fl.schedules.cyclic(4)),
        ("minimax-budget:5,0.5", fl.schedules.minimax_budget(5, eta=0.5)),
        ("steady:0.5,0.1", fl.schedules.steady(0.5, 0.1)),
        ("none", fl.Projection()),
    ],
)
def test_numbers_follow_a_colon(text, expected):
    assert fl.schedules.from_name(text, n_tasks=4) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("incresing", "did you mean 'increasing'"),
        ("zigzag", "there is no schedule 'zigzag'; use none, ridge:COEFFICIENT, fixed"),
        ("none:1", "schedule 'none:1' is not one of"),
        ("ridge", "missing 1 required positional argument: 'coefficient'"),
        ("increasing-budget:1.5", "n_steps"),
        ("increasing:1/0", r"increasing\[:SCALE\]"),
        ("ridge:1e400", "schedule 'ridge:1e400' is not one of"),
        ("increasing:-1", "scale must be nonnegative"),
        ("end-ramp:2", "length must lie in"),
    ],
)
def test_mistakes_name_what_is_allowed(text, said):
    with pytest.raises(ValueError, match=said):
        fl.schedules.from_name(text)

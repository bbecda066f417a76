"""What ``--schedule`` understands: a name and numbers."""

import click
import pytest

import forgetless as fl
from forgetless.cli.laboratory import SCHEDULES, schedule_of, usage

s = fl.schedules


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_name_is_understood_and_shown(name):
    schedule = schedule_of("ridge:0.5" if name == "ridge" else name, n_tasks=3)
    assert isinstance(schedule(8, 1.0) if isinstance(schedule, s.Named) else schedule, fl.Filter)
    assert name in usage()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("increasing:13/3", s.increasing()),
        ("increasing: 0.5", s.increasing(0.5)),
        ("end_ramp:1/4,2e-1", s.end_ramp(0.25, 0.2)),
        ("increasing-budget:3,1", s.increasing_budget(3, 1.0)),
        ("cyclic:7", s.cyclic(7)),
        ("cyclic", s.cyclic(4)),
        ("minimax-budget:5,0.5", s.minimax_budget(5, eta=0.5)),
        ("ridge:2", fl.Ridge(2.0)),
        ("none", fl.Projection()),
    ],
)
def test_numbers_follow_a_colon(text, expected):
    assert schedule_of(text, n_tasks=4) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("incresing", "did you mean 'increasing'"),
        ("zigzag", "schedule 'zigzag' is not one of none, ridge:COEFFICIENT, fixed"),
        ("none:1", "schedule 'none:1' is not one of"),
        ("ridge", "missing 1 required positional argument: 'coefficient'"),
        ("increasing-budget:1.5", "n_steps"),
        ("increasing:1/0", r"increasing\[:SCALE\]"),
        ("increasing:1,2", "too many positional arguments"),
        ("ridge:1e400", "schedule 'ridge:1e400' is not one of"),
        ("increasing:-1", "scale must be nonnegative"),
        ("end-ramp:2", "length must lie in"),
        ("cyclic", "missing a required argument: 'n_tasks'"),
        ("fixed:x", "Invalid literal"),
    ],
)
def test_mistakes_name_what_is_allowed(text, said):
    with pytest.raises(click.BadParameter, match=said):
        schedule_of(text)


def test_optional_numbers_are_in_brackets():
    for part in ("increasing[:SCALE]", "minimax-budget[:N_STEPS[,ETA[,NOISE]]]", "cyclic:N_TASKS"):
        assert part in usage()

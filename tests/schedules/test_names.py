"""Schedules by name and arguments: made, compared, printed, pickled, and written to files with a model."""

import copy
import pickle

import numpy as np
import pytest

import forgetless as fl
from support.registry import FILTERS, SCHEDULES, linear, name

s = fl.schedules
NAMED = [each for each in SCHEDULES if isinstance(each, s.Named)]
NAMES = ["fixed", "increasing", "fixed_budget", "increasing_budget", "minimax", "minimax_budget", "cyclic", "end_ramp"]


STEADY = s.steady(fl.ensembles.Gaussian(10, 3), noise=0.5, walk=0.1)


@pytest.mark.parametrize("schedule", NAMED, ids=repr)
def test_its_code_its_pickle_and_its_copy_are_equal(schedule):
    again = eval(repr(schedule), {**vars(s), "Ridge": fl.Ridge, "Projection": fl.Projection})
    for other in (again, pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule)):
        assert other == schedule
        assert hash(other) == hash(schedule)
        assert other(9, 2.0) == schedule(9, 2.0)
    assert pickle.loads(pickle.dumps(STEADY))(7, 1.0) == STEADY(7, 1.0)  # with its tasks


def test_arguments_make_the_difference():
    assert s.increasing() == s.increasing(13 / 3) == s.increasing(scale=np.float64(13 / 3))
    assert s.increasing() != s.increasing(1.0)
    assert s.minimax() != s.minimax_budget()
    assert s.increasing_budget((1, 2)) == s.increasing_budget(np.array([1, 2]))
    assert s.from_coefficients([1, 2]) == s.from_coefficients((1.0, 2.0)) != s.from_coefficients([1, 3])
    assert repr(s.increasing_budget(np.int8(3), np.float32(0.5))) == "increasing_budget(n_steps=3, scale=0.5)"


STORED = [each for each in SCHEDULES if each is not linear] + FILTERS + [s.constant(filter_) for filter_ in FILTERS]


@pytest.mark.parametrize("schedule", STORED, ids=name)
def test_files_give_the_schedule_back(schedule, tmp_path):
    """As the parameter of a model that was written to a file."""
    k = getattr(schedule, "horizon", None) or (101 if schedule in SCHEDULES else 3)
    budget = isinstance(s.resolve(schedule, k, 1.0), fl.GradientDescent)
    model = fl.ContinualGD(schedule=schedule) if budget else fl.ContinualRidge(schedule=schedule)
    model.set_params(n_tasks=k, radius=1.0).partial_fit(np.eye(3), np.ones(3)).save(tmp_path / "model")
    assert fl.load(tmp_path / "model").schedule == schedule


@pytest.mark.parametrize("text", NAMES)
def test_a_name_stands_for_the_defaults(text):
    made = getattr(s, text)(*([3] if text == "cyclic" else []))
    for spelling in (text, text.replace("_", "-")):
        assert s.resolve(spelling, 8, 3.0, n_tasks=3) == made(8, 3.0)
    one, three = (made(8, radius) for radius in (1.0, 3.0))
    np.testing.assert_allclose(three.strength(), 9.0 * np.asarray(one.strength()), rtol=1e-12)
    assert s.resolve("none", 4, 1.0) == fl.Projection()

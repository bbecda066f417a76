"""Schedules: strengths by their formulas and by hand; made by name, compared, printed, pickled, written to files."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl
from support.checks import check_frozen
from support.registry import FILTERS, SCHEDULES, linear, name

s = fl.schedules
NAMED = [each for each in SCHEDULES if isinstance(each, s.Named)]
NAMES = ["fixed", "increasing", "fixed_budget", "increasing_budget", "minimax", "minimax_budget", "cyclic", "end_ramp"]
STEADY = s.steady(fl.ensembles.Gaussian(10, 3), noise=0.5, walk=0.1)


@pytest.mark.parametrize(
    ("schedule", "k", "expected"),
    [
        (s.fixed(), 3, math.log(3) - 1),
        (s.cyclic(1), 2, 2 * math.sqrt(math.log(2))),
        (s.cyclic(4), 5, 8 * math.sqrt(math.log(1.25))),
        (s.cyclic(3), 30, 6 * math.sqrt(math.log(10))),
        (s.increasing(), 1, [13 / 3]),
        (s.increasing(), 3, [13 / 3, 52 / 9, 26 / 3]),
        (s.increasing(scale=0.0), 2, [0.0, 0.0]),
        (s.end_ramp(), 40, [0.0] * 35 + [1.0, 2.0, 3.0, 4.0, 5.0]),
        (s.end_ramp(), 3, [0.0, 0.0, 1.0]),
        (s.end_ramp(length=1.0, scale=3.0), 3, [3.0, 6.0, 9.0]),
        (s.end_ramp(length=0.5, scale=0.0), 2, [0.0, 0.0]),
    ],
    ids=repr,
)
def test_coefficients_by_hand(schedule, k, expected):
    """Defaults and the least k of every preset, at R = 1, and with R² in front."""
    assert np.shape(schedule(k, 1.0).coefficient) == np.shape(expected)
    np.testing.assert_allclose(schedule(k, 1.0).coefficient, expected, rtol=1e-14)
    np.testing.assert_allclose(schedule(k, 3.0).coefficient, 9 * np.array(expected), rtol=1e-14)


def test_step_sizes_by_hand():
    assert s.fixed_budget()(3, 1.0).n_steps == 1
    assert s.fixed_budget()(3, 1.0).step_size == pytest.approx(1 / math.log(3), rel=1e-14)
    assert s.increasing_budget()(2, 2.0).n_steps.tolist() == [1, 1]
    np.testing.assert_allclose(s.increasing_budget()(2, 2.0).step_size, np.array([3, 2]) / 13 / 4, rtol=1e-14)
    np.testing.assert_allclose(s.increasing_budget((1, 2), scale=2)(2, 1.0).step_size, [1 / 2, 1 / 6], rtol=1e-14)
    assert s.increasing_budget(scale=1 + 1e-9)(2, 1.0).step_size[0] < 1
    assert s.increasing_budget()(2, 0.0).step_size[0] == pytest.approx(3 / 13)
    assert s.fixed_budget()(3, 0.0).step_size == pytest.approx(1 / math.log(3), rel=1e-14)


@given(st.integers(1, 300), st.floats(1e-3, 1e3), st.floats(0.05, 1.0), st.integers(1, 9))
def test_the_factor_at_the_radius_decays_linearly_to_zero(k, radius, eta, n_steps):
    """κ_t = η(k+1−t)/(k+1) for explicit L2 and for every budget of steps."""
    expected = eta * np.arange(k, 0, -1) / (k + 1)
    for schedule in (s.minimax(eta), s.minimax_budget(n_steps, eta)):
        np.testing.assert_allclose(schedule(k, radius).table(radius**2), expected, rtol=1e-10)


def test_strengths_without_rounding():
    """λ_t = R²t/(k+1−t), also where 1/κ − 1 would lose digits; strengths increase."""
    t = np.arange(1, 10_001)
    np.testing.assert_allclose(s.minimax()(10_000, 3.0).coefficient, 9 * t / (10_001 - t), rtol=1e-15)
    assert (np.diff(s.minimax(0.5)(50, 1.0).coefficient) > 0).all()


@pytest.mark.parametrize("kind", [s.minimax, s.minimax_budget])
def test_noise_divides_eta(kind):
    """η/(1 + σ√(k + 1)) with σ = 0.3 and k = 24."""
    noisy, plain = (kind(**options)(24, 2.0) for options in ({"eta": 0.8, "noise": 0.3}, {"eta": 0.8 / 2.5}))
    np.testing.assert_allclose(noisy.table(4.0), plain.table(4.0), rtol=1e-14)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        *((kind, {"eta": 0}, "eta must be positive and finite, got 0") for kind in (s.minimax, s.minimax_budget)),
        (s.minimax, {"eta": 1.01}, r"eta must lie in \(0, 1\], got 1.01; 1 is for labels"),
        (s.minimax_budget, {"noise": -1}, "noise must be nonnegative"),
        (s.increasing_budget, {"scale": 0.0}, "scale must be positive"),
        (s.end_ramp, {"length": 1.0 + 1e-9}, "length must lie in"),
        (s.end_ramp, {"length": 0.0}, "length must be positive"),
        (s.steady, {"tasks": fl.ensembles.Gaussian(5, 2), "noise": 0.3, "distance": 0.0}, "distance must be positive"),
    ],
)
def test_arguments_out_of_range_are_refused(kind, options, said):
    with pytest.raises(ValueError, match=said):
        kind(**options)


@pytest.mark.parametrize("schedule", NAMED, ids=repr)
def test_its_code_its_pickle_and_its_copy_are_equal(schedule):
    check_frozen(schedule)
    again = eval(repr(schedule), {**vars(s), "Ridge": fl.Ridge, "Projection": fl.Projection})
    for other in (again, pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule)):
        assert {other} == {schedule}  # equal, with equal hashes
        assert other(9, 2.0) == schedule(9, 2.0)
    assert pickle.loads(pickle.dumps(STEADY))(7, 1.0) == STEADY(7, 1.0)  # with its tasks


def test_arguments_make_the_difference():
    """Their types do not: small integers do not overflow."""
    for kind in (s.cyclic, s.fixed_budget):
        assert kind(np.uint8(200))(1000, 1.0) == kind(200)(1000, 1.0)
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

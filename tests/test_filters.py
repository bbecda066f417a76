import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl
from support.registry import FILTERS

mpmath.mp.dps = 700  # 1 − (1 − 1e-300) must not vanish


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
def test_shares_are_shares(filter_):
    xi = np.linspace(0, 5, 41)
    share = filter_(xi)
    assert share.shape == (*(() if filter_.horizon is None else (filter_.horizon,)), 41)
    assert ((share >= 0) & (share <= 1)).all()
    assert (share[..., 0] == 0).all()
    np.testing.assert_allclose(filter_.learned(np.sqrt(xi)), share, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(filter_.kept(np.sqrt(xi)), 1 - share, atol=1e-14)


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
def test_slope_is_the_derivative_at_zero(filter_):
    slope, xi = np.asarray(filter_.slope()), 1e-9
    difference = np.asarray(filter_(xi)) / xi
    finite = np.isfinite(slope)
    np.testing.assert_allclose(difference[finite], slope[finite], rtol=1e-6)
    assert (difference[~finite] == 1 / xi).all()


@pytest.mark.parametrize("filter_", [f for f in FILTERS if f.horizon], ids=repr)
def test_at_picks_steps(filter_):
    xi = np.array([0.3, 2.0])
    for t in range(filter_.horizon):
        np.testing.assert_array_equal(filter_.at(t)(xi), filter_(xi)[t])
    np.testing.assert_array_equal(filter_.at(slice(1, 3))(xi), filter_(xi)[1:3])


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
def test_filters_compare_and_hash_by_value(filter_):
    import copy
    import pickle

    for twin in (copy.deepcopy(filter_), pickle.loads(pickle.dumps(filter_))):
        assert twin == filter_
        assert hash(twin) == hash(filter_)
    assert filter_ != fl.Ridge(123.0)


@given(st.floats(-150, 150), st.floats(-300, 300))
def test_ridge_at_extremes(log_s, log_coefficient):
    s, coefficient = 10.0**log_s, 10.0**log_coefficient
    xi, lam = mpmath.mpf(s) ** 2, mpmath.mpf(coefficient)
    exact_share, exact_kept = xi / (xi + lam), lam / (xi + lam)
    filter_ = fl.Ridge(coefficient)
    assert abs(filter_.learned(s) - exact_share) <= 4e-16 * 4 * exact_share + 1e-307
    assert abs(filter_.kept(s) - exact_kept) <= 4e-16 * 4 * exact_kept + 1e-307


@pytest.mark.parametrize("n_steps", [1, 2, 1000, 10**6])
@pytest.mark.parametrize(
    ("s", "u"),  # where the step size u/s² is a float
    [
        (s, u)
        for s in (1e-150, 1.0, 1e150)
        for u in (1e-300, 1e-12, 1e-6, 0.5, 1 - 1e-12, 1.0, 1.7)
        if u / s**2 > 1e-307
    ],
)
def test_gradient_descent_at_extremes(u, n_steps, s):
    filter_ = fl.GradientDescent(n_steps, u / s**2)
    product = mpmath.mpf(filter_.step_size) * mpmath.mpf(s) ** 2
    kept = (1 - product) ** n_steps
    # The product γs² carries a relative rounding of a few eps, which (1 − γs²)^N magnifies by N·u/(1 − u).
    slack = 1e-15 * (1 + n_steps * u / abs(1 - u) if u != 1 else 1)
    assert abs(filter_.learned(s) - (1 - kept)) <= slack * abs(1 - kept)
    if s == 1.0:
        assert abs(filter_(s * s) - (1 - kept)) <= slack * abs(1 - kept)
    if u < 1:
        assert abs(filter_.kept(s) - kept) <= 10 * slack * kept + 1e-307


def test_value_at_radius_is_the_one_number_of_the_bounds():
    assert fl.Ridge(3.0).value_at_radius(1.0) == 0.25
    assert fl.Projection().value_at_radius(2.0) == 1.0
    np.testing.assert_allclose(fl.Ridge(np.array([1.0, 3.0])).value_at_radius(1.0), [0.5, 0.25])


def test_a_filter_of_three_lines_works_everywhere(rng):
    from dataclasses import dataclass

    @dataclass(frozen=True, eq=False)
    class GradientFlow(fl.Filter):
        time: float

        def share(self, eigenvalues):
            return -np.expm1(-self.time * eigenvalues)

    X = rng.standard_normal((3, 5))
    tasks = fl.TaskCollection([(X, X @ np.ones(5)), (2 * X[:1], [1.0])])
    varying = GradientFlow(np.linspace(0.1, 1.0, 10))
    trace = fl.simulate(tasks, varying, k=10, ordering=fl.Cyclic(), record="all")
    w = np.zeros(5)
    for t in range(10):
        w = fl.step(w, tasks[t % 2], GradientFlow(varying.time[t]))
    np.testing.assert_allclose(trace.weights[0, -1], w, rtol=1e-12)
    with pytest.raises(TypeError, match="slope"):
        varying.slope()

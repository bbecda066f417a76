import dataclasses

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl
from forgetless.filters.base import _Scaled
from support.registry import FILTERS

mpmath.mp.dps = 700  # 1 − (1 − 1e-300) must not vanish


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
    assert abs(filter_.factors_of_singular(s) - exact_share) <= 4e-16 * 4 * exact_share + 1e-307
    assert abs(filter_.residual_factors(s) - exact_kept) <= 4e-16 * 4 * exact_kept + 1e-307


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
    assert abs(filter_.factors_of_singular(s) - (1 - kept)) <= slack * abs(1 - kept)
    if s == 1.0:
        assert abs(filter_.factors(s * s) - (1 - kept)) <= slack * abs(1 - kept)
    if u < 1:
        assert abs(filter_.residual_factors(s) - kept) <= 10 * slack * kept + 1e-307


XI = np.array([0.02, 0.3, 1.0, 4.0])


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
@pytest.mark.parametrize("factor", [1.0, 0.04, 9.0])
def test_scaled_filters_do_to_scaled_rows_what_the_filter_does(filter_, factor):
    scaled = filter_.scaled(factor)
    np.testing.assert_allclose(scaled.factors(factor * XI), filter_.factors(XI), rtol=1e-12)
    np.testing.assert_allclose(scaled.strength(), factor * np.asarray(filter_.strength()), rtol=1e-12)
    general = _Scaled(filter_, factor)
    for mine, theirs in ((scaled, general), (scaled.scaled(2.0), general.scaled(2.0))):
        np.testing.assert_allclose(mine.factors(XI), theirs.factors(XI), rtol=1e-12)
        np.testing.assert_allclose(
            mine.factors_of_singular(np.sqrt(XI)), theirs.factors_of_singular(np.sqrt(XI)), rtol=1e-12
        )
        np.testing.assert_allclose(mine.residual_factors(np.sqrt(XI)), theirs.residual_factors(np.sqrt(XI)), rtol=1e-9)
        np.testing.assert_allclose(mine.derivative(XI), theirs.derivative(XI), rtol=1e-12)
        np.testing.assert_allclose(mine.slope(), theirs.slope(), rtol=1e-12)
        assert mine.is_projection == theirs.is_projection
        if mine.horizon:
            np.testing.assert_allclose(mine.at(1).factors(XI), theirs.at(1).factors(XI), rtol=1e-12)


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
def test_defaults_for_other_filters_agree_with_closed_forms(filter_):
    slope = np.asarray(fl.Filter.slope(filter_))
    np.testing.assert_allclose(slope, filter_.slope(), rtol=1e-9)
    np.testing.assert_allclose(fl.Filter.strength(filter_), filter_.strength(), rtol=1e-9)
    column = filter_._for(XI)
    np.testing.assert_allclose(fl.Filter.formula_derivative(column, XI), filter_.derivative(XI), rtol=1e-8, atol=1e-10)
    found, expected = fl.Filter.formula_gradients(column, np.sqrt(XI)), filter_.parameter_derivatives(np.sqrt(XI))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)


def test_what_a_filter_says_of_itself():
    assert fl.Ridge(0.0).is_projection
    assert fl.Projection().is_projection
    assert not fl.Ridge(np.array([0.0, 1.0])).is_projection
    assert not fl.GradientDescent(3, 0.1).is_projection
    assert fl.Ridge(2.0).explicit
    assert fl.Projection().explicit
    assert not fl.GradientDescent(3, 0.1).explicit
    assert fl.GradientDescent(3, 0.1).within_theory(3.0)
    assert not fl.GradientDescent(3, 0.1).within_theory(3.5)  # γR² ≥ 1


@dataclasses.dataclass(frozen=True, eq=False)
class OwnRidge(fl.Filter):
    """A user's own filter, known by its share alone; it happens to be ridge, so that every number is known."""

    pull: float

    def formula(self, eigenvalues):
        return eigenvalues / (eigenvalues + self.pull)


@pytest.fixture
def tasks(rng):
    pairs = [(X, X @ np.arange(5.0) + 0.1 * rng.standard_normal(len(X))) for X in rng.standard_normal((4, 3, 5))]
    return fl.TaskCollection(pairs)


def own_and_known():
    values = np.linspace(0.5, 3.0, 12)
    return [(OwnRidge(0.7), fl.Ridge(0.7)), (OwnRidge(values), fl.Ridge(values))]


@pytest.mark.parametrize(("own", "known"), own_and_known(), ids=["constant", "varying"])
@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling(), fl.Cyclic()], ids=repr)
def test_an_own_filter_in_every_engine(own, known, ordering, tasks):
    options = {"ordering": ordering}
    one, two = (fl.simulate(tasks, f, 12, n_trials=5, seed=1, **options) for f in (own, known))
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-10)
    np.testing.assert_allclose(one.forgetting, two.forgetting, rtol=1e-8, atol=1e-12)
    one, two = (fl.expect(tasks, f, 12, metrics=fl.metrics.METRICS, **options) for f in (own, known))
    for metric in fl.metrics.METRICS:
        np.testing.assert_allclose(getattr(one, metric), getattr(two, metric), rtol=1e-10)
    one, two = (fl.worst_case(tasks, f, 12, **options) for f in (own, known))
    assert one.loss == pytest.approx(two.loss, rel=1e-10)


@pytest.mark.parametrize(("own", "known"), own_and_known(), ids=["constant", "varying"])
def test_an_own_filter_has_a_gradient_and_bounds(own, known, tasks):
    one, two = (fl.loss_gradient(tasks, f, 12) for f in (own, known))
    assert one.loss == pytest.approx(two.loss, rel=1e-10)
    np.testing.assert_allclose(one.parameters["pull"], two.coefficient, rtol=1e-6, atol=1e-9)
    with pytest.raises(AttributeError, match="pull"):
        _ = one.coefficient
    one, two = (fl.compare_bounds(tasks, f, 12) for f in (own, known))
    assert (one.average_loss, one.seen_loss, one.worst_case) == pytest.approx(
        (two.average_loss, two.seen_loss, two.worst_case), rel=1e-10
    )


@pytest.mark.parametrize(("own", "known"), own_and_known(), ids=["constant", "varying"])
def test_an_own_filter_in_a_stream(own, known, tasks):
    models = [fl.ContinualRidge(schedule=f) for f in (own, known)]
    for model in models:
        for task in tasks:
            model.partial_fit(task.X, task.y)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-8)
    np.testing.assert_allclose(models[0].history_["strength"], models[1].history_["strength"], rtol=1e-9)


def test_gradients_by_step_sizes(tasks):
    sizes = np.linspace(0.2, 0.6, 8) / tasks.radius**2

    def loss(values):
        return float(fl.expect(tasks, fl.GradientDescent(3, values), 8).average_loss[0])

    found = fl.loss_gradient(tasks, fl.GradientDescent(3, sizes), 8)
    h = 1e-6 * sizes
    expected = [(loss(sizes + h * e) - loss(sizes - h * e)) / (2 * h @ e) for e in np.eye(8)]
    assert found.loss == pytest.approx(loss(sizes), rel=1e-12)
    np.testing.assert_allclose(found.parameters["step_size"], expected, rtol=1e-6)


def test_a_projection_has_no_gradient(tasks):
    with pytest.raises(TypeError, match="parameter"):
        fl.loss_gradient(tasks, fl.Projection(), 3)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 1e3, 1e5])
def test_derivatives_of_an_own_filter_at_zero_know_no_units(scale, rng):
    pairs = [(scale * X, scale * X @ np.ones(5)) for X in rng.standard_normal((4, 3, 5))]
    tasks = fl.TaskCollection(pairs)
    found = fl.loss_gradient(tasks, OwnRidge(0.0), 3).parameters["pull"]
    np.testing.assert_allclose(found, fl.loss_gradient(tasks, fl.Ridge(0.0), 3).coefficient, rtol=1e-5)


def test_fields_that_are_no_numbers_have_no_derivative(tasks):
    @dataclasses.dataclass(frozen=True, eq=False)
    class Named(OwnRidge):
        label: str = "mine"
        cap: float | None = None

    assert list(fl.loss_gradient(tasks, Named(0.5), 3).parameters) == ["pull"]


def test_equal_filters_have_equal_hashes():
    assert OwnRidge(1) == OwnRidge(1.0)
    assert hash(OwnRidge(1)) == hash(OwnRidge(1.0))
    assert fl.Ridge(0.0) == fl.Ridge(-0.0)
    assert hash(fl.Ridge(0.0)) == hash(fl.Ridge(-0.0))


def test_the_slope_of_a_filter_that_overflows_far_away_is_silent():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Powers(fl.Filter):
        size: float

        def formula(self, eigenvalues):
            return 1 - (1 - self.size * eigenvalues) ** 50

    assert Powers(0.01).strength() == pytest.approx(2.0, rel=1e-8)  # warnings are errors here


def test_no_theorem_speaks_of_an_own_filter_unless_it_says_so():
    class Half(fl.Filter):
        horizon = None

        def formula(self, eigenvalues):
            return 0.5 * np.minimum(eigenvalues, 1.0)

    assert not Half().within_theory(1.0)
    assert fl.Ridge(1.0).within_theory(1.0)

import copy
import dataclasses
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forgetless as fl
from support.checks import check_frozen
from support.filters import OwnRidge
from support.registry import FILTERS
from support.streams import learned

mpmath.mp.dps = 350  # 1 − (1 − 1e-300) must not vanish


@given(st.floats(-60, 60), st.floats(-120, 120))
def test_ridge_at_extremes(log_s, log_coefficient):
    xi, coefficient = 100.0**log_s, 10.0**log_coefficient
    total = mpmath.mpf(xi) + mpmath.mpf(coefficient)
    filter_ = fl.Ridge(coefficient)
    assert abs(filter_.factors(xi) - xi / total) <= 2e-15 * xi / total
    assert abs(filter_.remaining(xi) - coefficient / total) <= 2e-15 * coefficient / total


@pytest.mark.parametrize("n_steps", [1, 2, 1000, 10**6])
@pytest.mark.parametrize("u", [1e-300, 1e-12, 1e-6, 0.5, 1 - 1e-12, 1.0, 1.7])
def test_gradient_descent_at_extremes(u, n_steps):
    filter_ = fl.GradientDescent(n_steps, u / 3)
    kept = (1 - mpmath.mpf(filter_.step_size) * 3) ** n_steps
    # The product γξ carries a relative rounding of a few eps, which (1 − γξ)^N magnifies by N·u/(1 − u).
    slack = 1e-15 * (1 + n_steps * u / abs(1 - u) if u != 1 else 1)
    assert abs(filter_.factors(3.0) - (1 - kept)) <= slack * abs(1 - kept)
    if u != 1:  # where the product is 1 up to rounding, nothing is left that could be compared
        assert abs(filter_.remaining(3.0) - kept) <= 10 * slack * abs(kept) + 1e-307


XI = np.array([0.02, 0.3, 1.0, 4.0])


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
@pytest.mark.parametrize("factor", [1.0, 0.04, 9.0])
def test_scaled_filters_do_to_scaled_rows_what_the_filter_does(filter_, factor):
    for scaled in (filter_.scaled(factor), fl.Filter.scaled(filter_, factor)):
        assert scaled.horizon == filter_.horizon
        np.testing.assert_allclose(scaled.table(factor * XI), filter_.table(XI), rtol=1e-12)
        np.testing.assert_allclose(scaled.strength(), factor * np.asarray(filter_.strength()), rtol=1e-12)
        np.testing.assert_allclose(scaled[1:].table(factor * XI), filter_[1:].table(XI), rtol=1e-12)


def test_steps_and_tables():
    filter_ = fl.GradientDescent(np.array([1, 2, 3]), 0.1)
    assert filter_.horizon == 3
    assert filter_[1] == fl.GradientDescent(2, 0.1)
    assert filter_[1:] == fl.GradientDescent(np.array([2, 3]), 0.1)
    assert filter_.table(XI).shape == (3, 4)
    assert filter_.table(1.0).shape == (3,)
    assert filter_.table(np.ones((2, 4))).shape == (3, 2, 4)
    assert fl.Ridge(2.0)[7] == fl.Ridge(2.0)
    assert fl.Ridge(2.0).table(XI).shape == (1, 4)
    assert filter_.parameters.keys() == {"n_steps", "step_size"}


@pytest.fixture
def tasks(rng):
    pairs = [(X, X @ np.arange(5.0) + 0.1 * rng.standard_normal(len(X))) for X in rng.standard_normal((4, 3, 5))]
    return fl.TaskCollection(pairs)


@pytest.mark.parametrize("strength", [0.7, np.linspace(0.5, 3.0, 12)], ids=["constant", "varying"])
@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling(), fl.Cyclic()], ids=repr)
def test_an_own_filter_in_every_engine(strength, ordering, tasks):
    calls = [
        lambda f: fl.simulate(tasks, f, 12, ordering=ordering, n_trials=5, seed=1, metrics=("forgetting", "weights")),
        lambda f: fl.expect(tasks, f, 12, ordering=ordering, metrics=fl.metrics.METRICS),
        lambda f: fl.worst_case(tasks, f, 12, ordering=ordering),
    ]
    for call in calls:
        one, two = call(OwnRidge(strength)), call(fl.Ridge(strength))
        for name, values in two.values.items():
            np.testing.assert_allclose(np.abs(one.values[name]), np.abs(values), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("strength", [0.7, np.linspace(0.5, 3.0, 12)], ids=["constant", "varying"])
def test_an_own_filter_has_a_gradient_bounds_and_learns_a_stream(strength, tasks):
    filters = OwnRidge(strength), fl.Ridge(strength)
    one, two = (fl.loss_gradient(tasks, f, 12) for f in filters)
    assert one.loss == pytest.approx(two.loss, rel=1e-10)
    np.testing.assert_allclose(one.parameters["pull"], two.coefficient, rtol=1e-6, atol=1e-9)
    with pytest.raises(AttributeError, match="pull"):
        _ = one.coefficient
    one, two = (fl.compare_bounds(tasks, f, 12) for f in filters)
    for name in ("average_loss", "seen_loss", "worst_case"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-10)
    models = [learned(fl.ContinualRidge(schedule=f), tasks) for f in filters]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-8)
    assert models[0].alpha_ == pytest.approx(models[1].alpha_, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 1e3, 1e5])
def test_derivatives_of_an_own_filter_at_zero_know_no_units(scale, rng):
    tasks = fl.TaskCollection([(scale * X, scale * X @ np.ones(5)) for X in rng.standard_normal((4, 3, 5))])
    found = fl.loss_gradient(tasks, OwnRidge(0.0), 3).parameters["pull"]
    np.testing.assert_allclose(found, fl.loss_gradient(tasks, fl.Ridge(0.0), 3).coefficient, rtol=1e-5)


def test_fields_that_are_no_numbers_have_no_derivative(tasks):
    @dataclasses.dataclass(frozen=True, eq=False)
    class Named(OwnRidge):
        label: str = "mine"
        cap: float | None = None

    assert list(fl.loss_gradient(tasks, Named(0.5), 3).parameters) == ["pull"]
    with pytest.raises(TypeError, match="parameter"):
        fl.loss_gradient(tasks, fl.Projection(), 3)


@dataclasses.dataclass(frozen=True, eq=False)
class Powers(fl.Filter):
    size: float

    def factors(self, eigenvalues):
        return 1 - (1 - self.size * eigenvalues) ** 50


@dataclasses.dataclass(frozen=True, eq=False)
class Real(fl.Filter):
    size: float

    def factors(self, eigenvalues):
        return np.minimum(1.0, self.size * np.abs(eigenvalues))


def test_strengths_of_own_filters():
    assert Powers(0.01).strength() == pytest.approx(2.0, rel=1e-12)  # in spite of cancellation
    assert OwnRidge(0.0).strength() == 0.0
    np.testing.assert_allclose(OwnRidge(np.array([0.0, 3.0])).strength(), [0.0, 3.0])
    with pytest.raises(TypeError, match=r"Real\.factors must accept complex numbers"):
        Real(0.5).strength()


@pytest.mark.parametrize("filter_", [*FILTERS, OwnRidge(1)], ids=repr)
def test_filters_compare_and_hash_by_value(filter_):
    check_frozen(filter_)
    for twin in (copy.deepcopy(filter_), pickle.loads(pickle.dumps(filter_)), filter_.scaled(1.0)):
        assert {twin} == {filter_}  # equal, with equal hashes
    assert filter_ != fl.Ridge(123.0)
    assert {fl.Ridge(0.0)} == {fl.Ridge(-0.0)}


def test_theorems_of_the_paper_are_about_its_filters_only():
    tasks = fl.theory.constructions.two_tasks(0.5)
    known = fl.schedules.increasing()(9, tasks.radius)
    own, paper = (fl.compare_bounds(tasks, each, 9).bounds for each in (OwnRidge(known.coefficient), known))
    assert {check.name for check in own if check.applies} < {check.name for check in paper if check.applies}


def test_an_own_filter_must_be_a_dataclass():
    class Bare(fl.Filter):
        def factors(self, eigenvalues):
            return 0.5 * eigenvalues

    with pytest.raises(TypeError, match="Bare must be a dataclass"):
        Bare().table(XI)

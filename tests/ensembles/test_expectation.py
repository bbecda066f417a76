"""Exact expectations over fresh tasks: published formulas, invariances, and simulation."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special

import forgetless as fl
from forgetless.ensembles import Gaussian, Rotated, teachers
from forgetless.ensembles.spectra import wishart
from support.checks import check_frozen

METRICS = ("average_loss", "next_loss", "distance")


SPREAD = np.random.default_rng(5).standard_normal((4, 6)) * np.array([3.0, 2.0, 1.0, 0.5, 0.2, 0.1])
GIVEN = np.random.default_rng(0).standard_normal((4, 6))
CASES = {
    "ridge": (Gaussian(12, 5, 0.5, teachers.one(2**0.5)), 6, fl.Ridge(3.0)),
    "rising": (Gaussian(12, 5, 0.5, teachers.exchangeable(2**0.5, 0.5)), 6, fl.Ridge(np.linspace(1, 20, 6))),
    "budget": (Gaussian(12, 12, 0.3, teachers.walk(2**0.5, 0.3**0.5)), 5, fl.GradientDescent(4, 0.02)),
    "many rows": (Gaussian(8, 20, 0.7, teachers.walk(1.0, 0.5)), 5, fl.Ridge(10.0)),
    "projection": (Gaussian(30, 9, 0.2, teachers.exchangeable()), 7, fl.Projection()),
    "one row": (Gaussian(7, 1, 0.4), 9, fl.Ridge(2.0)),
    "one feature": (Gaussian(1, 3, 0.4, teachers.exchangeable(turns=[1, 1, 1, 1, 2, 2, 2, 2, 2])), 9, fl.Ridge(2.0)),
    "recurring": (Gaussian(7, 3, 0.4, teachers.exchangeable(1.0, 0.2, turns=[1, 2, 3])), 9, fl.Ridge(2.0)),
    "unregularized first": (Gaussian(9, 4, 0.4), 5, fl.Ridge([0.0, 2.0, 2.0, 2.0, 2.0])),
    "rotated": (Rotated(SPREAD, 0.5, teachers.given(GIVEN[:3], GIVEN[3])), 6, fl.Ridge(0.7)),
    "rotated, solved": (Rotated(SPREAD, 0.5, teachers.walk(1.0, 0.3)), 6, fl.Projection()),
}


@pytest.mark.parametrize("n_trials", [4000, pytest.param(150_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", CASES)
def test_means_of_simulated_runs(case, n_trials):
    ensemble, k, filter_ = CASES[case]
    options = {"metrics": METRICS, "record": [1, 2, k]}
    exact = ensemble.expect(filter_, k, **options)
    trace = ensemble.simulate(filter_, k, n_trials=n_trials, seed=1, **options)
    for name in METRICS:
        apart = np.abs(trace.means(name) - exact.values[name])
        assert np.all(apart < 4 * trace.standard_errors(name) + 1e-9 * exact.values[name] + 1e-12), name


def published_generalization(n, p, T, sigma, W):
    """Lin et al. (2023), Theorem 4.1: the mean of ‖w_T − w_i‖² over teachers, as in the code of Banayeeanzade et al."""
    D = ((W[:, None] - W[None]) ** 2).sum(-1)
    if p + 1 <= n:
        return D[-1].mean() + p * sigma**2 / (n - p - 1)
    r = 1 - n / p
    start, noise = r**T / T * (W**2).sum(), p * sigma**2 / (p - n - 1) * (1 - r**T)
    return start + n / p * np.sum(r ** np.arange(T)[::-1] @ D) / T + noise


def published_forgetting(n, p, T, sigma, W):
    """The same theorem: the mean increase of ‖w − w_i‖² since task i < T (n < p)."""
    D, r = ((W[:, None] - W[None]) ** 2).sum(-1), 1 - n / p
    total = 0.0
    for i in range(1, T):
        total += (r**T - r**i) * (W[i - 1] ** 2).sum() + p * sigma**2 / (p - n - 1) * (r**i - r**T)
        j = np.arange(i + 1, T + 1)
        total += (1 - r) * (r ** (T - i) - r ** (j - i) + r ** (T - j)) @ D[i - 1, i:]
    return total / (T - 1)


def test_defaults():
    assert teachers.exchangeable().distances(2).tolist() == [[0, 1, 1], [1, 0, 2], [1, 2, 0]]
    assert teachers.exchangeable(turns=[1, 2]).distances(3).tolist() == [[0, 1, 1], [1, 0, 2], [1, 2, 0]]
    assert teachers.given([[3.0, 4.0]]).distances(2).tolist() == [[0, 25], [25, 0]]
    assert teachers.given([[3.0, 4.0]], start=[3.0, 0.0]).distances(2).tolist() == [[0, 16], [16, 0]]
    assert teachers.walk().distances(2)[0].tolist() == [0, 1, 1]
    rotated, law = Rotated([[2.0]]), "teachers=Exchangeable(norm=1.0, similarity=0.0, turns=(1,))"
    assert repr(rotated) == f"Rotated(noise=0.0, {law}, n_rows=1, n_features=1)"
    for value in (teachers.one(), teachers.walk()):
        check_frozen(value)
    for each in (rotated, rotated.spectrum, Gaussian(2, 2), teachers.given([[1.0]])):
        check_frozen(each, by_value=False)
    with pytest.raises(ValueError, match="rare tasks"):
        Gaussian(5, 2).expect(fl.GradientDescent(40, 0.2), 2)
    assert rotated.expect("none", 1, metrics="distance").distance.tolist() == [0.0]


def test_lin_2023():
    rng = np.random.default_rng(3)
    for _ in range(80):
        p, T, sigma = int(rng.integers(3, 200)), int(rng.integers(2, 15)), rng.random()
        n = int(rng.choice([n for n in range(1, 200) if abs(n - p) >= 2]))
        W = rng.standard_normal((T, p))
        ensemble = Gaussian(p, n, sigma, teachers.given(W))
        errors = ensemble.expect("none", T, metrics="task_distances", record="all").task_distances
        assert errors[-1].mean() == pytest.approx(published_generalization(n, p, T, sigma, W), rel=1e-14 * T)
        if n < p:
            forgetting = np.mean(errors[-1, :-1] - np.diagonal(errors)[:-1])
            expected = published_forgetting(n, p, T, sigma, W)
            assert forgetting == pytest.approx(expected, abs=1e-12 * np.max(errors))


def test_a_task_of_orthonormal_rows_has_the_spectrum_of_a_projection():
    result = Rotated(np.eye(8)[:2]).expect(fl.Ridge(3.0), 4, metrics="distance", record="all")
    shrunk = 1 - 2 / 8 + 2 / 8 * (3 / 4) ** 2
    assert result.distance == pytest.approx(shrunk ** np.arange(1, 5), rel=1e-13)


@dataclass(frozen=True, eq=False)
class Relaxed(fl.Filter):
    """A projection of which a step takes a part: it jumps at 0, to less or more than 1."""

    part: float

    def factors(self, eigenvalues):
        return self.part * (eigenvalues != 0)


@pytest.mark.parametrize("part", [0.5, 1.0, 1.5])
def test_relaxed_projections_bring_a_part_of_the_noise(part):
    exact = Gaussian(12, 5, noise=1.0).expect(Relaxed(part), 1, metrics="distance").distance[0]
    # Five directions of twelve, each with the part 1/12 of the square norm 1, and E Σ1/ξ = 5/(12 − 5 − 1).
    assert exact == pytest.approx(7 / 12 + 5 / 12 * (1 - part) ** 2 + part**2 * 5 / 6, rel=1e-9)


def test_square_tasks_with_noise_solved_exactly_have_no_finite_mean():
    for n in (4, 5, 6):
        result = Gaussian(5, n, 0.3).expect("none", 4, metrics=METRICS, record="all")
        assert np.isinf(result.distance).all()
        assert np.isinf(result.average_loss).all()
        assert np.isfinite(Gaussian(5, n).expect("none", 4).average_loss).all()


def test_small_errors_are_not_lost_by_cancellation():
    strength, ensemble = 1e-8, Gaussian(3, 10)
    xi = ensemble.spectrum.singular_values**2
    expected = ensemble.spectrum.sum((strength / (xi + strength)) ** 2) / 3
    result = ensemble.expect(strength, 1, metrics="distance").distance[0]
    assert result == pytest.approx(expected, rel=1e-12)
    assert result > 1e-18
    walking = Gaussian(5, 3, 0.0, teachers.walk(1e6, 1e-3))
    assert walking.expect("none", 200, metrics="distance").distance[0] == pytest.approx(1e-6 * 2 / 3, rel=1e-6)


def test_several_schedules_and_steps_are_those_of_single_calls():
    ensemble = Gaussian(10, 4, 0.3, teachers.walk(1.0, 0.2))
    several = ensemble.expect({"a": 1.0, "b": "increasing"}, 6, metrics=METRICS, record="all")
    for label, schedule in (("a", 1.0), ("b", "increasing")):
        for step in (0, 3, 6):
            alone = ensemble.expect(schedule, 6, metrics=METRICS, record=[step])
            for name in METRICS:
                value = several.sel(schedule=label).values[name][step - 1] if step else alone.values[name][0]
                assert np.array_equal(alone.values[name][0], value, equal_nan=True)


def test_before_the_first_task():
    ensemble = Gaussian(10, 4, 0.5, teachers.walk(2.0, 0.2))
    result = ensemble.expect(1.0, 3, metrics=METRICS, record=[0])
    assert result.distance == pytest.approx([4.0])
    assert result.errors["distance"] == pytest.approx(1.6e-14, abs=0)
    assert result.next_loss == pytest.approx([0.5 * 4 * (4.0 + 0.25)])


def test_per_task_metrics_average_to_the_others():
    ensemble = Gaussian(10, 4, 0.3, teachers.exchangeable(turns=[1, 2, 3]))
    names = (*METRICS, "task_losses", "task_distances")
    result = ensemble.expect(2.0, 7, metrics=names)
    trace = ensemble.simulate(2.0, 7, n_trials=4000, seed=0, metrics=names, record="last")
    assert result.task_losses[0].mean() == pytest.approx(float(result.average_loss[0]), rel=1e-12)
    for name in ("task_losses", "task_distances"):
        apart = np.abs(trace.means(name) - result.values[name])
        assert np.all(apart < 4 * trace.standard_errors(name) + 1e-12)


SIZES = [(1, 1), (2, 3), (2, 4), (3, 3), (5, 20), (20, 5), (20, 20), (49, 100), (100, 100), (30, 400), (400, 600)]


@pytest.mark.parametrize("size", SIZES)
def test_moments_with_closed_forms(size):
    (n, d), spectrum = size, wishart(*size)
    x = spectrum.singular_values**2
    assert spectrum.sum(np.ones_like(x)) == pytest.approx(min(n, d), rel=1e-10)
    assert spectrum.sum(x) == pytest.approx(n * d, rel=1e-10)
    assert spectrum.sum(x * x) == pytest.approx(n * d * (n + d + 1), rel=1e-10)
    if abs(n - d) >= 2:
        assert spectrum.sum(1 / x) == pytest.approx(spectrum.mean_inverse, rel=1e-10)
    else:
        assert spectrum.mean_inverse == np.inf


@pytest.mark.parametrize("strength", [1e-14, 1e-8, 1e-3, 1.0, 1e4])
def test_weak_regularization_of_one_entry(strength):
    """E ξ/(ξ + λ) of one squared standard normal is 1 − √(πλ/2) exp(λ/2) erfc(√(λ/2))."""
    spectrum = wishart(1, 1)
    x = spectrum.singular_values**2
    left = np.sqrt(np.pi * strength / 2) * special.erfcx(np.sqrt(strength / 2))
    assert spectrum.sum(strength / (x + strength)) == pytest.approx(left, rel=1e-9)

"""Constants for every k: the proof runs, each inequality they rest on, and the losses they bound."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

import forgetless as fl
from forgetless.theory.bounds import Constant, constants
from research.proofs import constants as proofs
from research.proofs import horizons_numba as _horizons_numba
from research.proofs import induction as _induction
from research.proofs import unregularized
from research.proofs.__main__ import main

FIRST, *_, LAST = constants
IDS = [constant.name for constant in constants]


def rates(constant, s):
    """b, c and K in floats, written again."""
    y = np.asarray(s) / float(constant.scale)
    if constant.scheme == "one step":
        return y, y**2, y**2 * float(constant.scale)
    kappa, m = y / (1 + y), (1 + y / (1 + y)) / 2
    q = y**2 / (1 + 2 * m * (1 + y))  # of Theorem 1
    K = (y**2 / 2 + 2 * y - np.log1p(y) - kappa) * float(constant.scale) / 2
    return kappa + q * (2 * m - 1) / 2, kappa**2 + q * m**2, K


def step(constant, s, rho, f, alpha, alone=False):
    """A step of the comparison in the base H̄, its last term bounded by the chord of the square."""
    y = s / float(constant.scale)
    kappa = y if constant.scheme == "one step" else y / (1 + y)
    m = (1 + kappa) / 2
    q = 0.0 if constant.scheme == "one step" or alone else y**2 / (1 + 2 * m * (1 + y))
    kept = np.maximum(0, (1 - kappa * rho) ** 2 - q * (2 * m - 1) * rho)
    return kept * f + alpha * rho * (kappa**2 * (1 - rho) + q * m**2)


def schedule_of(constant):
    def schedule(k, R):
        s = np.arange(k + 1, 1, -1) / (k + 1) / float(constant.scale)
        return fl.Ridge(R**2 / s) if constant.scheme == "explicit" else fl.GradientDescent(np.ones(k, int), s / R**2)

    return schedule


# The runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_constant_is_proved():
    """A little above that of the catalogue, so that the induction may begin early."""
    proof = proofs.prove(dataclasses.replace(LAST, value=Fraction("0.4")), _induction.LEAST)
    assert proof.holds
    assert proof.worst == 2  # one step of size 1/R²: sup ρ(1−ρ)(2−ρ) = 2/(3√3)
    assert 2 / 27**0.5 <= proof.small <= 2 / 27**0.5 * (1 + 5e-4)
    assert "proved" in proofs.table([proof]).text()


def test_a_constant_below_the_limit_of_the_recursion_is_not():
    found = _induction.induction(dataclasses.replace(FIRST, value=Fraction("1.03")), _induction.LEAST)
    assert not found.holds
    assert found.middle > 1.005
    assert found.profile[0] < 0.38  # near 1/e, the value without noise
    with pytest.raises(ValueError, match="n must be at least 800, got 799"):
        _induction.induction(FIRST, 799)
    for constant, scale in ((FIRST, Fraction(1, 3)), (LAST, Fraction(2, 3))):
        with pytest.raises(ValueError, match="the scale must be at least"):
            _induction.induction(dataclasses.replace(constant, scale=scale), 800)


@pytest.mark.long
@pytest.mark.parametrize("constant", constants, ids=IDS)
def test_every_constant_is_proved(constant):
    assert proofs.prove(constant).holds


@pytest.mark.parametrize("constant", constants, ids=IDS)
def test_the_compiled_recursion_is_an_upper_bound_of_its_formula(constant):
    """Without chords and inflation, on a fine grid."""
    rho = np.linspace(0, 1, 4001)
    nodes = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 200)])
    for n in (2, 3, 9, 40):
        f = rho
        for i in range(2, n + 1):
            f = step(constant, i / n, rho, f, f.max(), alone=n == 2)
        bound = _horizons_numba.sup_over_two(n, float(1 / constant.scale), constant.scheme == "explicit", nodes)
        assert f.max() / 2 * (1 - 1e-6) <= bound <= f.max() / 2 * (1 + 2e-3)


# What they rest on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", constants, ids=IDS)
def test_sums_and_integrals_compare_as_the_proof_says(constant):
    n = 2200
    i = np.arange(0, n + 1)
    b, c, K = rates(constant, i / n)
    sums = 2 * np.concatenate([[0.0, 0.0], np.cumsum(b[2:])])
    assert np.all(sums[4:] >= n * K[4:])
    assert np.all(sums[2:] <= n * K[2:] + b[2:])
    d0 = float(1 / constant.scale) * (1.125 if constant.scheme == "explicit" else 1.0)
    d = c[40:] / K[40:]  # smaller ones are all cancellation in K
    assert np.all(np.diff(d) <= 1e-9)
    assert np.all(d <= d0 * (1 + 1e-9))
    factor = (i[3:] / (i[3:] - 1)) ** 2
    bound = np.where(i[3:] <= 40, d0, np.concatenate([np.full(37, d0), d]))
    assert np.all(c[3:] / sums[2:-1] <= factor * bound / n * (1 + 1e-9))
    j = np.arange(10, n)
    share = (2 * i[3:] - 1) / (i[3:] - 1) ** 2
    total = np.concatenate([[0, 0, 0], np.cumsum(share)])
    assert np.all(total[j // 2] <= 2 * np.log(j))
    assert np.all(total[(9 * j) // 10] <= 2 * np.log(j))
    assert np.all(share[j // 2 + 1 - 3] <= 5 / j)
    assert np.all(c[1:] <= 2 * b[1:])
    assert np.all((c[1:] / step_share(constant, i[1:] / n)) ** 2 <= 4)
    assert np.all(np.diff(c[1:] / b[1:]) >= 0)


def step_share(constant, s):
    y = s / float(constant.scale)
    return y if constant.scheme == "one step" else y / (1 + y)


def test_the_chord_bounds_the_square_of_the_step(rng):
    """Formula (3) of the proof against (2) of Theorem 1, at random places."""
    y, rho, f, alpha = rng.uniform(0, 2, 500), rng.uniform(0, 1, 500), rng.uniform(0, 1, 500), 1.0
    kappa = y / (1 + y)
    m = (1 + kappa) / 2
    q = y**2 / (1 + 2 * m * (1 + y))
    u = 1 - (1 - f / alpha) * (1 - kappa * rho)
    exact = (1 - kappa * rho) ** 2 * f + alpha * kappa**2 * rho * (1 - rho) + q * rho * alpha * (u - m) ** 2
    one = dataclasses.replace(FIRST, scale=Fraction(1))
    bound = np.array([step(one, *each, alpha) for each in zip(y, rho, f, strict=True)])
    assert np.all(exact <= bound + 1e-12)
    b = rates(one, y)[0]
    assert np.all(np.maximum(0, (1 - kappa * rho) ** 2 - q * kappa * rho) <= np.exp(-2 * b * rho) + 1e-12)


def test_the_mean_elasticity_of_half_the_scale_is_large_enough():
    """(M), for every j at the first n of the induction."""
    constant, n = constants[3], proofs.FROM
    y = np.arange(2, n + 1) / n / float(constant.scale)
    b, elasticity = rates(constant, y * float(constant.scale))[0], 1 - 2 * y / ((1 + y) * (2 + y))
    means = np.cumsum(b * elasticity) / np.cumsum(b)
    assert constant.scale == Fraction(1, 2)
    assert np.all(elasticity[1:] <= means[:-1])
    assert elasticity[y <= 2**0.5].min() < elasticity[-1]  # it does rise at the end


@pytest.mark.parametrize("constant", constants, ids=IDS)
def test_what_falls_in_the_horizon_does(constant):
    j, found = 60, []
    for n in (60.0, 75.5, 200.0, 4000.0):
        b, c, _ = rates(constant, np.arange(2, j + 1) / n)
        K = 2 * np.cumsum(b)
        found.append((c, c[1:] / K[:-1], K / K[-1]))
    for earlier, later in itertools.pairwise(found):
        for before, after in zip(earlier, later, strict=True):
            assert np.all(after <= before * (1 + 1e-12))


@pytest.mark.long
def test_balls_agree_with_floats_and_profiles_bound_the_recursion():
    """The claim of the induction at one n > N₀, by the recursion in floats."""
    n, value = 1000, Fraction("0.46")
    constant = dataclasses.replace(constants[2], value=value)
    found = _induction.induction(constant, _induction.LEAST)
    assert found.holds
    ball = _induction.Rates.of(constant)
    for s in (0.1, 1.0):
        mine = [float(each(_induction.arb(s))) for each in (ball.b, ball.c, ball.K)]
        np.testing.assert_allclose(mine, rates(constant, s), rtol=1e-12)
    assert found.profile[-1] == pytest.approx(2 * float(value) * rates(constant, 1.0)[2])
    rho = np.concatenate([[0.0], np.geomspace(0.05 / n, 1.0, 2000)])
    f, total, alpha = rho, 0.0, 1.0
    for i in range(2, n + 1):
        b = rates(constant, i / n)[0]
        f = step(constant, i / n, rho, f, alpha)
        total, alpha = total + 2 * b, float(f.max())
        assert alpha <= min(1.0, found.profile[int(np.ceil(i * _induction.PIECES / n)) - 1] / total)


# What they are about ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("constant", [FIRST, LAST], ids=[FIRST.name, LAST.name])
def test_what_is_checked_in_balls_is_what_the_proof_asks_for(constant):
    """(a), (b) and the tail of docs/proofs.md in floats, written again: balls are above them, by little."""
    n, P, cells, X = _induction.LEAST, _induction.PIECES, _induction._CELLS, 60.0
    found = _induction.induction(constant, n)
    A, eta = np.array(found.profile), 1 / float(constant.scale)
    d0 = eta * (9 / 8 if constant.scheme == "explicit" else 1.0)

    rho = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 3000)])
    g, K, alpha, first = np.ones_like(rho), 0.0, 1.0, 0.0
    for i in range(2, n + 1):
        b, c, _ = rates(constant, i / n)
        g, K = np.exp(-2 * b * rho) * g + alpha * c, K + 2 * b
        claimed = A[int(np.ceil(i * P / n - 1e-9)) - 1] / K
        if claimed < 1:
            first = max(first, (rho * g)[rho * K <= X].max() / claimed)
        alpha = min(1.0, claimed)
    assert first * (1 - 1e-5) <= found.first <= first * 1.002

    def late(s):
        b, c, _ = rates(constant, s)
        y = s * eta
        return max(c / (2 * b), (c / (y / (1 + y) if constant.scheme == "explicit" else y)) ** 2 / 4)

    x, middle, tail = np.concatenate([np.linspace(0.02, 4.0, 200), np.geomspace(4.0, X, 60)]), 0.0, 0.0
    for p in range(1, P + 1):
        sigma, s = p / P, np.linspace(0, p / P, 4 * p * cells + 1)
        left = np.minimum(np.floor(0.5 * (s[1:] + s[:-1]) * P * cells), p * cells - 1)  # the cell of each small one
        d = np.full(len(left), d0)
        inside = left >= _induction._FLAT
        _, c, level = rates(constant, left[inside] / (P * cells))
        d[inside] = c / level
        V = rates(constant, s)[2] / rates(constant, sigma)[2]
        weight = d * A[(left // cells).astype(int)] * np.diff(s)
        decay = np.exp(-x[:, None] * (1 - V))
        I = (0.5 * (decay[:, 1:] + decay[:, :-1])) @ weight  # noqa: E741 - the letter of the proof
        b, _, top = rates(constant, sigma)
        j = sigma * n
        half = 1 - rates(constant, sigma / 2)[2] / top
        E = (1 + 5 / j) * (I + d0 * A[p - 1] / n) + 2 * d0 * A[p - 1] * np.log(j) / n * np.exp(-x * half)
        E *= np.exp(x * b / (n * top))
        sides = x * np.exp(-x) + rates(constant, 2 / n)[1] * x + x * E
        middle = max(middle, sides.max() / A[p - 1])
        least = np.sqrt(X * n / eta) - 1
        rate = 1 - rates(constant, 0.9 * sigma)[2] / top - 1 / least
        early = rates(constant, 2 / n)[1] + A[p - 1] * d0 * (0.9 * sigma + 2 * np.log(n) / n)
        ends = A[p - 1] * late(sigma) * (1 + 1 / least) / (0.9 - 1 / least) ** 2
        tail = max(tail, (ends + X * np.exp(-rate * X) * early + X * np.exp(-X)) / A[p - 1])
    assert middle * (1 - 1e-5) <= found.middle <= middle * 1.002
    assert found.tail == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("constant", constants, ids=IDS)
def test_no_collection_is_above_the_constants(constant, rng):
    """Random collections of all ranks, and the rare tasks that come close to the first constant."""
    schedule, bound = schedule_of(constant), fl.theory.catalogue[constant.name]
    for number in range(12):
        d, k = int(rng.integers(1, 5)), int(rng.choice([1, 2, 5, 30]))
        X = [rng.standard_normal((int(rng.integers(1, d + 1)), d)) * rng.uniform(0.3, 2) for _ in range(4)]
        tasks = fl.TaskCollection([(each, each @ np.ones(d)) for each in X])
        if number == 0:
            tasks, k = fl.theory.constructions.rare_tasks(64), 64
        comparison = fl.compare_bounds(tasks, schedule, k, bounds=[bound])
        check = comparison.bounds[0]
        assert check.applies, check.reason
        assert check.published >= comparison.worst_case
        assert number or constant.scale < 4 or check.published < 1.3 * comparison.worst_case


@pytest.mark.parametrize("constant", constants, ids=IDS)
def test_only_their_own_schedules_have_the_constants(constant):
    tasks, k = fl.theory.constructions.two_tasks(1.0), 6
    one, scale = constant.scheme == "one step", float(constant.scale)
    others = [schedule_of(other) for other in constants if other is not constant]
    others += [fl.Projection(), fl.Ridge(1.0), fl.schedules.increasing(scale * (1 + 1e-8))]
    others += [fl.schedules.increasing_budget(2, scale)] if scale > 0.5 else []
    for schedule in others:
        assert fl.theory.catalogue[constant.name].failures(fl_setting(tasks, schedule, k))
    own = schedule_of(constant)
    assert not fl.theory.catalogue[constant.name].failures(fl_setting(tasks, own, k))
    reasons = fl.theory.catalogue[constant.name].failures(fl_setting(tasks, own, k, fl.RandomReshuffling()))
    (reason,) = reasons
    assert "drawn uniformly with replacement" in reason.reason
    assert one or fl.theory.catalogue[constant.name].failures(fl_setting(tasks, fl.schedules.increasing_budget(16), k))


def fl_setting(tasks, schedule, k, ordering=None):
    from forgetless.lab import Problem
    from forgetless.theory.compare import setting_of

    return setting_of(Problem.of(tasks, schedule, k, ordering, "last"))


# The command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holds", [True, False])
def test_the_command_says_whether_all_hold(holds, monkeypatch, capsys):
    def prove(constant: Constant) -> proofs.Proof:
        return proofs.Proof(constant, 0.9, 0.99 if holds or constant is FIRST else 1.0, 0.5, 0.3, 2, 1.0)

    monkeypatch.setattr(proofs, "prove", prove)
    monkeypatch.setattr(unregularized, "CLAIMS", unregularized.CLAIMS[:1])  # its own tests prove the others
    assert main() == (0 if holds else 1)
    out = capsys.readouterr().out
    assert out.count("proved") == (len(constants) if holds else 1)
    assert out.count("FAILS") == (0 if holds else len(constants) - 1)

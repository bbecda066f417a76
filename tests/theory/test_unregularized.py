"""Theorems U and F and Proposition J: no regularization and every fixed strength have O(1/k)."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import forgetless as fl
from support.one_filter import right_side

CATALOGUE = fl.theory.catalogue


def constants(filter_, steps):
    return np.array([fl.upper_bound(filter_, int(k)).constant for k in steps])


def test_where_two_methods_have_a_bound_the_smaller_one_is_taken():
    """A strong filter for few steps has the smaller majorant; no regularization never does."""
    assert "Theorem 2" in fl.upper_bound(fl.Ridge(9.0), 16).why
    assert "Theorem F" in fl.upper_bound(fl.Ridge(9.0), 1024).why
    for k in (1, 3, 30):
        assert "Theorem F" in fl.upper_bound(fl.Projection(), k).why
    varying = fl.upper_bound(fl.GradientDescent(1, np.linspace(1.0, 0.5, 9)), 9)
    assert "Theorem 3" in varying.why


SHARP = {0.4: 0.3395, 0.5: 0.3041, 0.6: 0.2862, 0.7: 0.2797, 0.8: 0.2822, 0.9: 0.2933}


@pytest.mark.parametrize("kappa", [0.01, *SHARP, 1.0, 1.3, 1.9])
def test_closed_forms_are_above_the_recursion(kappa):
    """The constants for every k, and the table of sharp values over κ."""
    found = constants(fl.GradientDescent(1, kappa), [1, 2, 5, 30, 300])
    assert np.all(found < CATALOGUE["one filter, every k"].at(1, kappa=kappa))
    if kappa in SHARP:
        assert SHARP[kappa] - 2e-3 < found.max() <= SHARP[kappa]
    if kappa == 1.0:
        assert np.all(found < CATALOGUE["unregularized, every k"].at(1))


@pytest.mark.parametrize("kappa", [Fraction(1), Fraction(6, 5), Fraction(3, 2)])
def test_the_maximum_is_enclosed(kappa):
    """F_k in rationals at 400 points, with the constants that were returned: below b_k, and near it at best."""
    returned = constants(fl.GradientDescent(1, float(kappa)), range(1, 13))
    b = [Fraction(0)] + [2 * kappa * Fraction(float(c)) for c in returned]
    points = [kappa * Fraction(i, 400) for i in range(1, 401)]
    for k in range(1, 13):
        largest = max(right_side(e, kappa, k, b) for e in points)
        assert largest <= b[k] <= largest * Fraction(2001, 2000)


# --- jump chains ---


@pytest.mark.parametrize(("levels", "k", "epsilon", "ratio", "reached"), [
    (4, 10**3, 0.1, 0.2, 0.2095),
    (6, 10**6, 0.15, 0.1, 0.2150),
])  # fmt: skip
def test_jump_chains_with_whole_dimensions_reach(levels, k, epsilon, ratio, reached):
    chain = fl.theory.constructions.jump_chain(levels, k, epsilon=epsilon, ratio=ratio)
    found = k * chain.claim(fl.Projection(), k)
    assert found == pytest.approx(reached, abs=6e-5)
    assert all(type(each) is int and each >= 1 for each in chain.dimensions)
    if k <= 1000:
        assert found < fl.upper_bound(fl.Projection(), k).constant


def test_the_limit_is_below_the_upper_bound():
    """The sum of the first n rates' densities rises with n, as it does on the page."""
    limits = [fl.theory.constructions.jump_chain_limit(n) for n in range(1, 9)]
    assert limits == sorted(limits)
    assert limits[-1] == pytest.approx(0.225755, abs=1e-6)
    stated = float(CATALOGUE["unregularized, jump chains"].rate.split("/k")[0])
    assert 0 <= limits[-1] - stated < 1e-4


def tasks_of(chain):
    """Return all tasks of a chain, labelled by the first direction of level 0, and how they are drawn."""
    first = np.concatenate([[0], np.cumsum(chain.dimensions)])
    rows, probabilities = [], []
    for i, p in enumerate(chain.probabilities):
        choices = itertools.product(range(first[i], first[i + 1]), range(first[i + 1], first[i + 2]), (1, -1))
        for a, b, sign in choices:
            row = np.zeros(first[-1])
            row[a], row[b] = sign * np.sqrt(chain.epsilon), np.sqrt(1 - chain.epsilon)
            rows.append(row)
            probabilities.append(p / (2 * chain.dimensions[i] * chain.dimensions[i + 1]))
    return fl.TaskCollection([(row[None], row[:1]) for row in rows]), fl.WithReplacement(probabilities)


@pytest.mark.parametrize("schedule", [fl.Ridge(0), fl.Ridge(1), fl.schedules.increasing(), fl.GradientDescent(1, 1.4)])
def test_claims_of_jump_chains_are_exact_losses(schedule):
    """n + 1 numbers against the second moments of all tasks."""
    made = fl.theory.constructions
    chain = made.JumpChain((0.2, 0.3, 0.5), (2, 3, 2, 4), 0.3)
    tasks, ordering = tasks_of(chain)
    assert tasks.radius == pytest.approx(1.0)
    assert np.linalg.norm(tasks.teacher()) == pytest.approx(1.0)
    for k in (1, 12):
        found = fl.expect(tasks, schedule, k, ordering=ordering, metrics="next_loss").next_loss[0]
        assert chain.claim(schedule, k) == pytest.approx(found, rel=1e-11)

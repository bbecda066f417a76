"""Stated errors of worst cases, of starts that solve a task and of many steps, against 60 digits."""

import mpmath
import numpy as np
import pytest

import forgetless as fl
from support import many_digits
from support.weak import collection, filter_for


@pytest.mark.parametrize("ordering", [fl.Cyclic(), fl.WithReplacement(), fl.RandomReshuffling()], ids=repr)
def test_errors_are_finite_where_the_start_solves_a_task(ordering):
    tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[0.6, 0.8]], [1.0])])
    found = fl.expect(tasks, fl.Ridge(1.0), 3, ordering=ordering, metrics=("average_loss", "seen_loss", "drift"))
    assert all(0.0 <= error < 1e-10 for error in found.errors.values())


@pytest.mark.parametrize(
    "number", [*range(30), 209, *(pytest.param(each, marks=pytest.mark.long) for each in range(1000, 1600))]
)
def test_worst_cases_state_their_error(number):
    """A direction of 1e-9 that is hardly learned, and one that decays: in number 209 with one between the axes."""
    rng = np.random.default_rng([47, number])
    pairs, _ = collection(rng)
    pairs = [(X, np.zeros(len(X))) for X, _ in pairs]
    tasks, k = fl.TaskCollection(pairs), int(rng.integers(1, 30))
    if tasks.ranks.tolist() != [len(X) for X, _ in pairs]:
        return
    filter_ = filter_for(rng, pairs, k)
    truth = many_digits.worst_loss(pairs, filter_, k)
    found = fl.worst_case(tasks, filter_, k)
    loss, error = found.worst_case[0], found.errors["worst_case"]
    assert error >= 1 or abs(loss - truth) <= error * max(loss, truth) + 1e-300, (number, loss, truth, error)


@pytest.mark.parametrize(("strength", "second"), [(1e5, 3.0), (1e6, 1.3), (1e6, 1.0)])
@pytest.mark.parametrize("k", [60_000, 10**6])
@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling()], ids=repr)
def test_many_steps_have_errors(k, ordering, strength, second):
    """One weight, slow filters, contradictory tasks: errors of some thousand steps are followed, the others summed."""
    tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[0.5]], [0.5 * second])])
    found = fl.expect(tasks, fl.Ridge(strength), k, ordering=ordering, record=[10, 7001, k])
    with mpmath.workdps(60):
        kept = [1 - mpmath.mpf(x) ** 2 / (mpmath.mpf(x) ** 2 + mpmath.mpf(strength)) for x in (1.0, 0.5)]
        targets = [mpmath.mpf(1), 2 * mpmath.mpf(0.5 * second)]
        epochs = isinstance(ordering, fl.RandomReshuffling)
        truths = [moments_after(kept, targets, step, epochs) for step in (10, 7001, k)]
        for value, truth in zip(found.average_loss, truths, strict=True):
            assert abs(mpmath.mpf(float(value)) - truth) <= found.errors["average_loss"] * truth
    assert found.errors["average_loss"] < 1e-6


def moments_after(kept, targets, step, epochs):
    """The average loss of w ← a w + (1 − a) t after some steps: E w and E w² by powers of a 3 × 3 matrix."""

    def affine(a, t):
        b = (1 - a) * t
        return mpmath.matrix([[a * a, 2 * a * b, b * b], [0, a, b], [0, 0, 1]])

    first, second = (affine(a, t) for a, t in zip(kept, targets, strict=True))
    half = (first + second) / 2
    if epochs:
        whole = (first * second + second * first) / 2
        total = whole ** (step // 2)
        if step % 2:
            total = half * total
    else:
        total = half**step
    square, mean, _ = total * mpmath.matrix([0, 0, 1])
    sizes = [mpmath.mpf(1), mpmath.mpf(0.25)]
    losses = [s * (square - 2 * t * mean + t * t) / 2 for s, t in zip(sizes, targets, strict=True)]
    return sum(losses) / 2


def test_a_loss_among_the_smallest_floats_has_no_certain_digit():
    """Its error over it overflows, without a warning."""
    rng = np.random.default_rng(0)
    w = 1e4 * rng.standard_normal(4)
    tasks = fl.TaskCollection([(X := rng.standard_normal((3, 4)), X @ w) for _ in range(3)])
    found = fl.expect(tasks, "none", 1200, record="all")
    assert (found.average_loss > 0).any()
    assert found.average_loss[-1] < 1e-320
    assert found.errors["average_loss"] == 1

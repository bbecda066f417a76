"""Stated errors of averaged iterates against sixty digits."""

import mpmath
import numpy as np
import pytest

import forgetless as fl
from support import many_digits
from support.agreement import METRICS
from support.weak import affine_step, agrees, collection, filter_for, law_for, linear_step, mean_step


def check_averages(number):
    """The stated errors of averages, for all orderings: short runs one by one, and draws over many steps."""
    rng = np.random.default_rng([67, number])
    pairs, start = collection(rng)
    tasks, r = fl.TaskCollection(pairs), [0, 1.5, 2][number % 3]
    if tasks.ranks != [len(X) for X, _ in pairs]:
        return []
    ordering, k, orders = law_for(rng, len(pairs), int(rng.integers(1, 5)))
    filter_ = filter_for(rng, pairs, k)
    truths = many_digits.expected(pairs, filter_, orders, start, r)
    names = METRICS if isinstance(ordering, fl.Cyclic) else ("average_loss",)
    found = fl.expect(tasks, filter_, k, ordering=ordering, start=start, average=r, metrics=names)
    for name in names:
        assert agrees(found, name, truths[name]), (number, name, found.values[name], truths[name], found.errors)
    k = int(rng.choice([10, 25]))
    filter_, p = filter_for(rng, pairs, k), rng.dirichlet(np.ones(len(pairs)))
    p = fl.WithReplacement(p).law(len(pairs), k).probabilities
    truth = averages_in_many_digits(pairs, filter_, p, start, k, r)
    long = fl.expect(tasks, filter_, k, ordering=fl.WithReplacement(p), start=start, average=r)
    assert agrees(long, "average_loss", truth), (number, long.average_loss, truth, long.errors)
    ratios = []
    for each, exact in ((found, truths["average_loss"]), (long, truth)):
        true = abs(float(each.average_loss[0]) - exact) / abs(exact or 1)
        ratios.append(each.errors["average_loss"] / max(float(true), 1e-16))
    return ratios


def averages_in_many_digits(pairs, filter_, probabilities, start, k, r):
    """The average loss of the average of k draws, from the moments of (w, 1) and (w̄, 1) together."""
    with mpmath.workdps(many_digits.DIGITS):
        d, total = pairs[0][0].shape[1], mpmath.mpf(0)
        columns = np.asarray(start, float).reshape(d, -1)
        for c in range(columns.shape[1]):
            u = many_digits.matrix([[x] for x in [*columns[:, c], 1.0] * 2])
            S, maps, weight = many_digits.times(u, many_digits.transposed(u)), [], mpmath.mpf(0)
            for t in range(k):
                if t == 0 or filter_.horizon is not None:
                    maps = [affine_step(filter_.at(t), X, np.reshape(y, (len(X), -1))[:, c]) for X, y in pairs]
                part = mpmath.mpf(t + 1) ** mpmath.mpf(r)
                weight += part
                gain, new = part / weight, many_digits.matrix(np.zeros((2 * d + 2, 2 * d + 2)))
                for p, A in zip(probabilities, maps, strict=True):
                    kept = [[(1 - gain) * (i == j) for j in range(d + 1)] for i in range(d + 1)]
                    both = [[*row, *[0] * (d + 1)] for row in A]
                    both += [[*[gain * x for x in row], *own] for row, own in zip(A, kept, strict=True)]
                    moved = many_digits.times(many_digits.times(both, S), many_digits.transposed(both))
                    new = many_digits.plus(new, moved, mpmath.mpf(float(p)))
                S = new
            for X, y in pairs:
                for row, label in zip(X, np.reshape(y, (len(X), -1))[:, c], strict=True):
                    line = many_digits.matrix([[*[0.0] * (d + 1), *row, -label]])
                    total += many_digits.times(many_digits.times(line, S), many_digits.transposed(line))[0][0]
        return total / 2 / len(pairs)


@pytest.mark.parametrize("batch", range(1))
def test_stated_errors_of_averages_bound_the_true_ones(batch):
    ratios = [ratio for number in range(6 * batch, 6 * batch + 6) for ratio in check_averages(number)]
    assert np.median(ratios) < 30_000  # useful: some thousand times the true error


@pytest.mark.long
@pytest.mark.parametrize("batch", range(10))
def test_stated_errors_of_averages_campaign(batch):
    for number in range(1000 + 60 * batch, 1060 + 60 * batch):
        check_averages(number)


def test_errors_of_averages_decay_with_them():
    """After many steps the average is a tiny part of the start, and its error of it."""
    pairs = [(np.array([[1.0, 0.0]]), np.array([1.0])), (np.array([[0.6, 0.8]]), np.array([0.2]))]
    k = 100
    truth = averages_in_many_digits(pairs, fl.Ridge(0.5), [0.5, 0.5], np.zeros(2), k, 2)
    found = fl.expect(fl.TaskCollection(pairs), fl.Ridge(0.5), k, average=2)
    assert truth < 1e-6
    assert abs(float(found.average_loss[0] / truth) - 1) <= found.error < 1e-8


@pytest.mark.parametrize("number", range(6))
def test_worst_cases_of_averages_state_their_error(number):
    """Against the sum of all pairs of iterates in 60 digits, carried backwards from each."""
    rng = np.random.default_rng([53, number])
    pairs, _ = collection(rng)
    pairs = [(X, np.zeros(len(X))) for X, _ in pairs]
    tasks, k, r = fl.TaskCollection(pairs), int(rng.integers(1, 7)), [0, 2][number % 2]
    if tasks.ranks != [len(X) for X, _ in pairs]:
        return
    filter_, d = filter_for(rng, pairs, k), tasks.n_features
    with mpmath.workdps(many_digits.DIGITS):
        weights = [mpmath.mpf(t) ** r for t in range(1, k + 1)]
        omega = [mpmath.mpf(0), *(w / mpmath.fsum(weights) for w in weights)]
        H = many_digits.matrix(np.zeros((d, d)))
        for X, _ in pairs:
            A = many_digits.matrix(X)
            H = many_digits.plus(H, many_digits.times(many_digits.transposed(A), A), mpmath.mpf(1) / len(pairs))
        # E zᵢᵀ H zⱼ for i ≤ j: the mean maps of steps i + 1..j make a form of zᵢ, which goes back to the start.
        total = many_digits.matrix(np.zeros((d, d)))
        for i in range(1, k + 1):
            form = [[omega[i] ** 2 * x for x in row] for row in H]
            for j in range(k, i, -1):
                later = [[2 * omega[i] * omega[j] * x for x in row] for row in H]
                for t in range(j - 1, i - 1, -1):
                    later = many_digits.times(later, mean_step(filter_, pairs, t, d))
                form = many_digits.plus(form, later)
            form = [[(form[a][b] + form[b][a]) / 2 for b in range(d)] for a in range(d)]
            for t in range(i - 1, -1, -1):
                new = many_digits.matrix(np.zeros((d, d)))
                for A in linear_step(filter_, pairs, t, d):
                    moved = many_digits.times(many_digits.times(many_digits.transposed(A), form), A)
                    new = many_digits.plus(new, moved, mpmath.mpf(1) / len(pairs))
                form = new
            total = many_digits.plus(total, form)
        truth = max(mpmath.eigsy(mpmath.matrix(total), eigvals_only=True)) / 2
    found = fl.worst_case(tasks, filter_, k, average=r)
    assert found.error >= 1 or abs(found.loss - truth) <= found.error * max(found.loss, truth) + 1e-300, truth

"""Digits: exact expectations and their stated errors against the literal algorithm in 60 digits."""

import mpmath
import numpy as np
import pytest

import forgetless as fl
from support import literal, many_digits
from support.agreement import METRICS
from support.weak import affine_step, agrees, collection, filter_for, law_for

WEAK = [([[1, 0.7]], [1.0]), ([[3e-9, -1e-8]], [1.0])]


def check(number):
    rng = np.random.default_rng([31, number])
    pairs, start = collection(rng)
    k = int(rng.integers(1, 5))
    ordering, k, orders = law_for(rng, len(pairs), k)
    filter_, tasks = filter_for(rng, pairs, k), fl.TaskCollection(pairs).shifted(start)
    if tasks.ranks.tolist() != [len(X) for X, _ in pairs]:
        return []  # a singular value below rounding of its own task is none
    truth = many_digits.expected(pairs, filter_, orders, start)
    ratios = []
    for names in (("average_loss",), METRICS):
        found = fl.expect(tasks, filter_, k, ordering=ordering, metrics=names)
        for name in names:
            assert agrees(found, name, truth[name]), (number, name, found.values[name], truth[name], found.errors)
            assert name == "forgetting" or found.values[name][0] >= 0
        true = abs(float(found.average_loss[0]) - truth["average_loss"]) / abs(truth["average_loss"] or 1)
        ratios.append(found.errors["average_loss"] / max(float(true), 1e-16))
    return ratios


@pytest.mark.parametrize("batch", range(4))
def test_stated_errors_bound_the_true_ones(batch):
    """All metrics, orderings and filters, spectra from 1 to 1e-12, all starts, one and two targets."""
    ratios = [ratio for number in range(60 * batch, 60 * batch + 60) for ratio in check(number)]
    assert np.median(ratios) < 3000  # useful: a few hundred times the true error


@pytest.mark.long
@pytest.mark.parametrize("batch", range(20))
def test_stated_errors_bound_the_true_ones_campaign(batch):
    for number in range(1000 + 300 * batch, 1300 + 300 * batch):
        check(number)


def moments_in_many_digits(pairs, filter_, probabilities, start, k):
    """The average loss after k draws, from E[(w, 1)(w, 1)ᵀ] of every target: for k beyond enumeration."""
    with mpmath.workdps(many_digits.DIGITS):
        d, total = pairs[0][0].shape[1], mpmath.mpf(0)
        columns = np.asarray(start, float).reshape(d, -1)
        for c in range(columns.shape[1]):
            rows = [
                [*row, -label]
                for X, y in pairs
                for row, label in zip(X, np.reshape(y, (len(X), -1))[:, c], strict=True)
            ]
            u = many_digits.matrix([[x] for x in [*columns[:, c], 1.0]])
            S, maps = many_digits.times(u, many_digits.transposed(u)), {}
            for t in range(k):
                if t == 0 or filter_.horizon is not None:
                    maps = [affine_step(filter_[t], X, np.reshape(y, (len(X), -1))[:, c]) for X, y in pairs]
                new = many_digits.matrix(np.zeros((d + 1, d + 1)))
                for p, A in zip(probabilities, maps, strict=True):
                    moved = many_digits.times(many_digits.times(A, S), many_digits.transposed(A))
                    new = many_digits.plus(new, moved, mpmath.mpf(float(p)))
                S = new
            for row in many_digits.matrix(rows):
                total += many_digits.times(many_digits.times([row], S), [[x] for x in row])[0][0]
        return total / 2 / len(pairs)


def check_many_steps(number):
    rng = np.random.default_rng([37, number])
    pairs, start = collection(rng)
    k = int(rng.choice([10, 40, 100]))
    tasks = fl.TaskCollection(pairs).shifted(start)
    if tasks.ranks.tolist() != [len(X) for X, _ in pairs]:
        return
    filter_ = filter_for(rng, pairs, k)
    law = fl.WithReplacement(rng.dirichlet(np.ones(len(pairs))))
    truth = moments_in_many_digits(pairs, filter_, law.probabilities, start, k)
    for names in ("average_loss", ("average_loss", "task_losses")):  # by powers where they pay, and by steps
        found = fl.expect(tasks, filter_, k, ordering=law, metrics=names)
        assert agrees(found, "average_loss", truth), (number, found.average_loss, truth, max(found.errors.values()))
        if max(found.errors.values()) < 1e-3 and filter_.horizon is not None:
            slope = fl.loss_gradient(tasks, filter_, k, ordering=law)
            assert slope.loss == pytest.approx(float(truth), rel=10 * max(found.errors.values()))


@pytest.mark.parametrize("number", range(20))
def test_stated_errors_bound_the_true_ones_over_many_steps(number):
    check_many_steps(number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(1000, 1300))
def test_stated_errors_over_many_steps_campaign(number):
    check_many_steps(number)


@pytest.mark.parametrize("weak", [1e-9, 1e-6, 1e-8])
def test_weak_tasks_keep_their_digits(weak):
    """Around the joint solution, 1/weak away, terms of 1/weak² would cancel to a loss of 1."""
    pairs = [(np.array(WEAK[0][0]), np.array([1.0])), (weak * np.array([[0.3, -1.0]]), np.array([1.0]))]
    tasks, k = fl.TaskCollection(pairs), 4
    truth = many_digits.expected(pairs, fl.Ridge(1.0), literal.all_orderings(2, k), np.zeros(2))
    found = fl.expect(tasks, fl.Ridge(1.0), k, metrics=METRICS)
    for name in METRICS:
        assert found.values[name][0] == pytest.approx(float(truth[name]), rel=1e-12), name
    assert found.errors["average_loss"] < 1e-5
    varying = fl.Ridge([1.0] * k)
    slope = fl.loss_gradient(tasks, varying, k)
    assert slope.loss == pytest.approx(float(truth["average_loss"]), rel=1e-12)
    moved = fl.Ridge([1.0, 1.0, 1.0, 1.0 + 1e-6])
    change = many_digits.expected(pairs, moved, literal.all_orderings(2, k), np.zeros(2))["average_loss"]
    assert slope.coefficient[-1] == pytest.approx(float((change - truth["average_loss"]) * mpmath.mpf(1e6)), rel=1e-5)
    orders = [((0, 1), 0.5), ((1, 0), 0.5)]
    truth = many_digits.expected(pairs, fl.Ridge(1.0), orders, np.zeros(2))
    found = fl.expect(tasks, fl.Ridge(1.0), 2, ordering=fl.WithoutReplacement(), metrics=METRICS)
    for name in METRICS:
        assert found.values[name][0] == pytest.approx(float(truth[name]), rel=1e-12), name


def test_the_comparison_of_weak_tasks():
    comparison = fl.compare_bounds(fl.TaskCollection(WEAK), fl.Ridge(1.0), 4)
    assert comparison.average_loss == pytest.approx(0.278417076345994, rel=1e-13)


def test_near_duplicate_columns_of_noisy_tables(rng):
    """No loss may be below what no weights avoid."""
    X = rng.standard_normal((60, 4))
    X = np.concatenate([X, X[:, :1] + 1e-9 * rng.standard_normal((60, 1))], axis=1)
    y = X @ rng.standard_normal(5) + 3 * rng.standard_normal(60)
    tasks = fl.TaskCollection([(X[i : i + 3], y[i : i + 3]) for i in range(0, 60, 3)])
    least = 0.5 * np.sum((y - X @ np.linalg.lstsq(X, y)[0]) ** 2) / 20
    exact = fl.expect(tasks, fl.Ridge(5.0), 200)
    assert exact.average_loss[0] > least
    assert exact.errors["average_loss"] < 1e-6
    sampled = fl.simulate(tasks, fl.Ridge(5.0), 200, n_trials=4000, seed=1, record="last").average_loss[:, 0]
    assert exact.average_loss[0] == pytest.approx(sampled.mean(), abs=5 * sampled.std() / np.sqrt(4000))


FAR = [
    ([[6e-7, -1.6, 1e-4], [-6e-7, 0.3, -1e-5]], [1000.0, 1000.0]),
    ([[-8e-9, -0.008, 1.3e-6]], [1.0]),
]
"""Columns of very different sizes: powers of the operator as a matrix lose what single steps keep."""


@pytest.mark.parametrize("k", [2, 6, 9])
def test_steps_replace_powers_of_a_matrix_that_lose_digits(k):
    pairs = [(np.array(X), np.array(y)) for X, y in FAR]
    orders = literal.all_orderings(2, k, np.full(2, 0.5))
    truth = many_digits.expected(pairs, fl.Ridge(1.0), orders, np.zeros(3))["average_loss"]
    found = fl.expect(fl.TaskCollection(pairs), fl.Ridge(1.0), k)
    off = float(abs(mpmath.mpf(float(found.average_loss[0])) - truth) / truth)
    assert off <= max(found.errors.values()) < 1e-6


@pytest.mark.parametrize("size", [1.0, 1e5, 1e8])
@pytest.mark.parametrize("ordering", [fl.WithoutReplacement(), fl.Cyclic()])
def test_labels_that_no_weights_reach_are_counted(size, ordering):
    pairs = [(np.array([[4.0]]), np.array([-0.00067088])), (np.array([[-2.0], [2.0]]), np.array([size, size]))]
    orders = [([0, 1], 1.0)] if isinstance(ordering, fl.Cyclic) else literal.all_orderings(2, 2, replacement=False)
    truth = many_digits.expected(pairs, fl.Ridge(1.0), orders, np.zeros(1))
    found = fl.expect(fl.TaskCollection(pairs), fl.Ridge(1.0), 2, ordering=ordering, metrics=METRICS)
    for name in METRICS:
        off = float(abs(mpmath.mpf(float(found.values[name][0])) - truth[name]))
        assert off <= found.errors[name] * abs(float(found.values[name][0])) or truth[name] == 0, name


def test_nearly_parallel_tasks_are_rounded_relative_to_the_distance():
    pairs = [
        (np.array([[0.04, 8e-06, 2e-05]]), np.array([0.001])),
        (np.array([[-6e-05, -1e-08, -1.2e-07]]), np.array([0.001])),
    ]
    k = 8
    truth = many_digits.expected(pairs, fl.Ridge(0.01), literal.all_orderings(2, k, np.full(2, 0.5)), np.zeros(3))
    found = fl.expect(fl.TaskCollection(pairs), fl.Ridge(0.01), k, metrics=("average_loss", "task_losses"))
    exact = truth["average_loss"]
    assert float(abs(mpmath.mpf(float(found.average_loss[0])) - exact) / exact) <= max(found.errors.values()) < 1e-8


def test_a_comparison_says_where_no_digit_is_known():
    tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[0.5]], [0.5])])
    comparison = fl.compare_bounds(tasks, fl.schedules.increasing(), 2000)
    assert comparison.errors["seen_loss"] == 1.0
    assert "seen-task loss   not known to any digit" in repr(comparison)
    ordinary = fl.compare_bounds(tasks, fl.schedules.increasing(), 20)
    assert max(ordinary.errors.values()) < 1e-6
    assert "not known" not in repr(ordinary)


def check_averages(number):
    """The stated errors of averages, for all orderings: short runs one by one, and draws over many steps."""
    rng = np.random.default_rng([67, number])
    pairs, start = collection(rng)
    tasks, r = fl.TaskCollection(pairs).shifted(start), [0, 1.5, 2][number % 3]
    if tasks.ranks.tolist() != [len(X) for X, _ in pairs]:
        return []
    ordering, k, orders = law_for(rng, len(pairs), int(rng.integers(1, 5)))
    filter_ = filter_for(rng, pairs, k)
    truths = many_digits.expected(pairs, filter_, orders, start, r)
    names = METRICS if isinstance(ordering, fl.Cyclic) else ("average_loss",)
    found = fl.expect(tasks, filter_, k, ordering=ordering, average=r, metrics=names)
    for name in names:
        assert agrees(found, name, truths[name]), (number, name, found.values[name], truths[name], found.errors)
    k = int(rng.choice([10, 25]))
    filter_, p = filter_for(rng, pairs, k), rng.dirichlet(np.ones(len(pairs)))
    p = np.array(fl.WithReplacement(p).probabilities)
    truth = averages_in_many_digits(pairs, filter_, p, start, k, r)
    long = fl.expect(tasks, filter_, k, ordering=fl.WithReplacement(p), average=r)
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
                    maps = [affine_step(filter_[t], X, np.reshape(y, (len(X), -1))[:, c]) for X, y in pairs]
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


def test_stated_errors_of_averages_bound_the_true_ones():
    ratios = [ratio for number in range(3) for ratio in check_averages(number)]
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
    assert abs(float(found.average_loss[0] / truth) - 1) <= max(found.errors.values()) < 1e-8

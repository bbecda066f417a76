"""Stated errors of distances, of other tasks, of worst cases and of many steps, against 60 digits."""

import mpmath
import numpy as np
import pytest

import forgetless as fl
from support import literal, many_digits
from support.weak import affine_step, collection, filter_for


@pytest.mark.parametrize("ordering", [fl.Cyclic(), fl.WithReplacement(), fl.RandomReshuffling()], ids=repr)
def test_errors_are_finite_where_the_start_solves_a_task(ordering):
    tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[0.6, 0.8]], [1.0])])
    found = fl.expect(tasks, fl.Ridge(1.0), 3, ordering=ordering, metrics=("average_loss", "seen_loss", "drift"))
    assert all(0.0 <= error < 1e-10 for error in found.errors.values())


def weights_after(filter_, data, orders):
    """Yield the weights after every order, in many digits, and its probability."""
    d = len(data[0][0][0])
    for order, p in orders:
        w = many_digits.matrix(np.zeros((d, 1)))
        for m in order:
            w = many_digits.step_of(filter_, *data[m])(w)
        yield w, mpmath.mpf(p)


LAWS = (
    (fl.WithReplacement(), list(literal.all_orderings(3, 3))),
    (fl.WithoutReplacement(), list(literal.all_orderings(3, 3, replacement=False))),
    (fl.Cyclic(), [((0, 1, 2), 1.0)]),
)


@pytest.mark.parametrize("number", range(30))
def test_stated_error_of_the_distance(number):
    """For joint systems of any condition."""
    rng = np.random.default_rng([5, number])
    shrink = 10.0 ** rng.uniform(-5, 0)
    first, second = rng.standard_normal((2, 3))
    X = [first[None], (first + shrink * second)[None], rng.standard_normal((1, 3))]
    teacher = rng.standard_normal(3)
    ordering, orders = LAWS[number % 3]
    tasks = fl.TaskCollection([(each, each @ teacher) for each in X])
    exact = fl.expect(tasks, fl.Ridge(0.3), 3, ordering=ordering, metrics="distance")
    with mpmath.workdps(60):
        data = [(many_digits.matrix(each), many_digits.matrix(each @ teacher)) for each in X]
        stacked, labels = (mpmath.matrix([part[i][0] for part in data]) for i in range(2))
        solution = mpmath.lu_solve(stacked, labels)
        truth = mpmath.mpf(0)
        for w, p in weights_after(fl.Ridge(0.3), data, orders):
            truth += p * sum((w[i][0] - solution[i]) ** 2 for i in range(3))
        assert abs(exact.distance[0] - truth) <= exact.errors["distance"] * max(truth, exact.distance[0])
    assert exact.errors["distance"] < 1e-3 or shrink < 1e-3


@pytest.mark.parametrize("number", range(24))
def test_stated_error_on_other_tasks(number):
    """For tasks learned whose joint solution is far away; of a metric of the user, too."""
    rng = np.random.default_rng([8, number])
    shrink = 10.0 ** rng.uniform(-6, 0)
    rows = [rng.standard_normal((1, 3)), shrink * rng.standard_normal((1, 3)), rng.standard_normal((1, 3))]
    pairs = [(X, rng.standard_normal(1)) for X in rows]
    A, b = rng.standard_normal((2, 3)), rng.standard_normal(2)
    ordering, orders = LAWS[number % 3]
    own = fl.metrics.Metric("own", lambda now: now.square(A, b[:, None]), affine=True)
    metrics = (fl.metrics.loss_on(fl.TaskCollection([(A, b)])), own)
    exact = fl.expect(fl.TaskCollection(pairs), fl.Ridge(0.3), 3, ordering=ordering, metrics=metrics)
    with mpmath.workdps(60):
        data = [(many_digits.matrix(X), many_digits.matrix(y[:, None])) for X, y in (*pairs, (A, b))]
        X, y = data[3]
        truth = mpmath.mpf(0)
        for w, p in weights_after(fl.Ridge(0.3), data, orders):
            truth += p * many_digits.squares(many_digits.plus(many_digits.times(X, w), y, -1))
        for name, factor in (("loss_on", 2), ("own", 1)):
            value = factor * exact.values[name][0]
            assert abs(value - truth) <= exact.errors[name] * max(truth, value), name
            assert exact.errors[name] < 1e-9 or shrink < 1e-2


def worst_of(filter_, pairs, k):
    """The worst loss after k uniform draws, from the form carried backwards."""
    d, share = pairs[0][0].shape[1], mpmath.mpf(1) / len(pairs)
    V = many_digits.matrix(np.zeros((d, d)))
    for X, _ in pairs:
        A = many_digits.matrix(X)
        V = many_digits.plus(V, many_digits.times(many_digits.transposed(A), A), share)
    for t in reversed(range(k)):
        new = many_digits.matrix(np.zeros((d, d)))
        for X, y in pairs:
            A = [row[:d] for row in affine_step(filter_[t], X, y)[:d]]
            new = many_digits.plus(new, many_digits.times(many_digits.times(many_digits.transposed(A), V), A), share)
        V = new
    return max(mpmath.eigsy(mpmath.matrix(V), eigvals_only=True)) / 2


def check_worst_case(number):
    """A direction of 1e-9 that is hardly learned, and one that decays."""
    rng = np.random.default_rng([47, number])
    pairs, _ = collection(rng)
    pairs = [(X, np.zeros(len(X))) for X, _ in pairs]
    tasks, k = fl.TaskCollection(pairs), int(rng.integers(1, 30))
    if tasks.ranks.tolist() != [len(X) for X, _ in pairs]:
        return
    filter_ = filter_for(rng, pairs, k)
    with mpmath.workdps(many_digits.DIGITS):
        truth = worst_of(filter_, pairs, k)
    found = fl.worst_case(tasks, filter_, k)
    loss, error = found.worst_case[0], found.errors["worst_case"]
    assert error >= 1 or abs(loss - truth) <= error * max(loss, truth) + 1e-300, (number, loss, truth, error)


@pytest.mark.parametrize("number", range(30))
def test_worst_cases_state_their_error(number):
    check_worst_case(number)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(10))
def test_worst_cases_state_their_error_campaign(batch):
    for number in range(1000 + 60 * batch, 1060 + 60 * batch):
        check_worst_case(number)


@pytest.mark.parametrize("k", [60_000, 10**6])
@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling()], ids=repr)
def test_many_steps_have_errors(k, ordering):
    """Contradictory tasks, a slow filter: errors of some thousand steps are followed, the others summed by powers."""
    tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[0.5]], [1.5])])
    found = fl.expect(tasks, fl.Ridge(1e5), k, ordering=ordering, record=[10, 7001, k])
    with mpmath.workdps(60):
        kept = [1 - mpmath.mpf(x) ** 2 / (mpmath.mpf(x) ** 2 + 10**5) for x in (1.0, 0.5)]
        targets = [mpmath.mpf(1), mpmath.mpf(3)]
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

"""Stated errors of one feature, where every size in the bound is a number: the bound by hand, term by term."""

import itertools
import math

import numpy as np
import pytest

import forgetless as fl
from forgetless.engines.moments import moments_around_teacher

EPS, SAFETY = 2.0**-52, 8.0
ROWS = [np.array([1.0, 0.5]), np.array([0.3, -0.4, 0.2]), np.array([0.8])]
BY_STEPS = ("average_loss", "task_losses")  # whose second metric needs steps
START, TRUE = 0.7, -1.3
LAMBDAS = [0.5, 0.2, 0.9, 0.4]


def tasks_of(noise):
    rng = np.random.default_rng(3)
    return [(x, TRUE * x + noise * rng.standard_normal(len(x))) for x in ROWS]


def states(pairs, lambdas, orders):
    """Every order's weights after 0..k steps, and its probability."""
    for order, probability in orders:
        w, path = START, [START]
        for m, coefficient in zip(order, lambdas, strict=True):
            x, y = pairs[m]
            w += x @ (y - x * w) / (x @ x + coefficient)
            path.append(w)
        yield np.array(path), probability


def bound(pairs, lambdas, orders, visits, name, step, *, squared, value, dropped=0.0, decay=1.0):  # noqa: PLR0913
    """The stated error of a metric at one step: sizes at the start and there, the data, and their shift."""
    M = len(pairs)
    s = np.array([np.linalg.norm(x) for x, _ in pairs])
    labels = np.array([np.linalg.norm(y) for _, y in pairs])
    targets = np.array([x @ y / (x @ x) for x, y in pairs])
    center = sum(x @ y for x, y in pairs) / sum(x @ x for x, _ in pairs) if squared else START
    missing = targets - center
    missing = np.where(np.abs(missing) < 1e-14, 0.0, np.abs(missing))
    shares = np.array([max(x @ x / (x @ x + each) for each in lambdas) for x, _ in pairs])
    moments = np.array(
        [sum(p * (path[t] - center) ** 2 for path, p in states(pairs, lambdas, orders)) for t in (0, step)]
    )
    # Outputs are followed from the start, where the weights have not moved and 1 stands for what is missing.
    terms = np.sqrt(moments)[:, None] + missing[None, :]
    parts = np.full(M, 1 / M) if name == "average_loss" else visits
    size = [math.sqrt(sum(parts * (s * mu) ** 2)) for mu in terms]
    move = [math.sqrt(sum(parts * s**2) * sum(visits * (shares * mu) ** 2)) for mu in terms]
    largest = terms.max(axis=0)
    far = math.sqrt(moments[0] + (1.0 if missing.any() else 0.0)) if squared else 0.0
    reach = abs(START) + math.sqrt(sum((shares * largest) ** 2))
    unsure = EPS * (largest + far + np.abs(targets) + reach + labels / s) + dropped
    direct = math.sqrt(sum(parts * (EPS * (s * reach + labels + s * far) + s * dropped) ** 2))
    shift = math.sqrt(sum(parts * s**2)) * math.sqrt(sum((shares * unsure) ** 2))
    left = decay if name == "average_loss" else 1.0
    size, move = (math.sqrt(each[0] ** 2 * left + each[1] ** 2) for each in (size, move))
    if name in ("drift", "forgetting"):
        changed = EPS * (move if squared else size) + shift
        error = 2 * move * changed if name == "drift" else size * changed + (move + changed) * direct
        return SAFETY * (error + changed**2) * (step - 1 if squared else step)
    shift = direct + shift * math.sqrt(step)
    rounded = (size**2 + move**2 if squared else math.sqrt(value) * (size + move)) * math.sqrt(step)
    return SAFETY * (EPS * (rounded + 2 * value) + math.sqrt(2 * value) * shift + shift**2)


@pytest.mark.parametrize("name", ["average_loss", "seen_loss", "drift", "forgetting"])
@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["realizable", "noisy"])
@pytest.mark.parametrize("law", ["draws", "one order", "epochs"])
def test_the_bound_is_the_one_that_is_documented(law, noise, name):
    pairs, k, M = tasks_of(noise), 4, 3
    tasks = fl.TaskCollection([(x[:, None], y) for x, y in pairs])
    probabilities = np.array([0.5, 0.3, 0.2]) if law == "draws" else np.full(M, 1 / M)
    if law == "draws":
        ordering = fl.WithReplacement(probabilities)
        orders = [(each, np.prod(probabilities[list(each)])) for each in itertools.product(range(M), repeat=k)]
    elif law == "one order":
        ordering, orders = fl.FixedOrder([0, 2, 2, 1]), [((0, 2, 2, 1), 1.0)]
        probabilities = np.array([0.25, 0.25, 0.5])
    else:
        ordering = fl.RandomReshuffling()
        epochs = list(itertools.permutations(range(M)))
        orders = [((*a, *b)[:k], 1 / len(epochs) ** 2) for a in epochs for b in epochs]
    found = fl.expect(tasks, fl.Ridge(np.array(LAMBDAS)), k, ordering=ordering, metrics=(name,), start=[START])
    value = float(found.values[name][0])
    # What was taken for rounding of zero is itself rounding: of these digits there is no second computation.
    dropped = moments_around_teacher(tasks, np.array([START])).dropped
    assert np.all(dropped < 1e-15)
    sizes = {"squared": True, "dropped": dropped} if law != "one order" else {"squared": False}
    expected = bound(pairs, LAMBDAS, orders, probabilities, name, k, value=value, **sizes)
    assert found.errors[name] == pytest.approx(expected / abs(value), rel=1e-6, abs=0)


def test_what_is_left_of_early_errors_of_a_fixed_filter():
    pairs, probabilities = tasks_of(0.0), np.array([0.5, 0.3, 0.2])
    tasks = fl.TaskCollection([(x[:, None], y) for x, y in pairs])
    dropped = moments_around_teacher(tasks, np.array([START])).dropped
    for k in (2, 5):
        orders = [(each, np.prod(probabilities[list(each)])) for each in itertools.product(range(3), repeat=k)]
        shares = np.array([x @ x / (x @ x + 0.3) for x, _ in pairs])
        decay = min(1.0, k * (1 - sum(probabilities * shares * (2 - shares))) ** (k - 1))
        found = fl.expect(
            tasks, fl.Ridge(0.3), k, ordering=fl.WithReplacement(probabilities), start=[START], metrics=BY_STEPS
        )
        value = float(found.average_loss[0])
        sizes = {"squared": True, "dropped": dropped, "decay": decay}
        expected = bound(pairs, [0.3] * k, orders, probabilities, "average_loss", k, value=value, **sizes)
        assert found.errors["average_loss"] == pytest.approx(expected / value, rel=1e-6, abs=0)


@pytest.mark.parametrize("ordering", [fl.Cyclic(), fl.WithReplacement(), fl.RandomReshuffling()], ids=repr)
def test_errors_are_finite_where_the_start_solves_a_task(ordering):
    tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[0.6, 0.8]], [1.0])])
    found = fl.expect(tasks, fl.Ridge(1.0), 3, ordering=ordering, metrics=("average_loss", "seen_loss", "drift"))
    assert all(0.0 <= error < 1e-10 for error in found.errors.values())

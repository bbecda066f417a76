"""Comparisons of the engines with the literal algorithm, run or enumerated."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from forgetless.schedules import resolve
from support import literal

METRICS = ("average_loss", "seen_loss", "forgetting", "drift")
NAMES = (*METRICS, "distance", "task_losses", "task_forgetting", "task_drift")
"""What ``expected`` computes."""


def orders_of(ordering, M, k):
    """All orders of k steps with their probabilities."""
    if isinstance(ordering, fl.WithReplacement):
        return literal.all_orderings(M, k, ordering.probabilities)
    if isinstance(ordering, fl.RandomReshuffling):
        epochs = list(itertools.product(itertools.permutations(range(M)), repeat=-(-k // M)))
        return [(sum(each, ())[:k], 1 / len(epochs)) for each in epochs]
    if isinstance(ordering, fl.WithoutReplacement):
        return literal.all_orderings(M, k, replacement=False)
    return [(ordering.sample(M, k).tolist(), 1.0)]


LAWS = {
    "uniform": (fl.WithReplacement(), 4),
    "draws": (fl.WithReplacement([0.2, 0.3, 0.5]), 4),
    "part of an epoch": (fl.WithoutReplacement(), 2),
    "an epoch": (fl.WithoutReplacement(), 3),
    "reshuffled": (fl.RandomReshuffling(), 5),
    "cyclic": (fl.Cyclic(), 5),
    "one order": (fl.FixedOrder([2, 0, 2, 1]), 3),
}
"""Orderings of three tasks, and how many steps of each."""


class Gaussian:
    """A vector a + B g, g standard normal and shared by all vectors of a run."""

    def __init__(self, mean, factor):
        self.mean, self.factor = mean, factor

    def __sub__(self, other):
        return Gaussian(self.mean - other.mean, self.factor - other.factor)

    def seen_by(self, X, y):
        return Gaussian(X @ self.mean - y, X @ self.factor)

    @property
    def square(self):
        """E‖a + B g‖²."""
        return np.sum(self.mean**2) + np.sum(self.factor**2)


def path_of(pairs, filter_, order, start, noise, length):
    """The weights after every step and the walk of the teacher then, as functions of one vector of normals."""
    d, widths = len(start), [len(pairs[m][1]) for m in order]
    size = sum(widths) + d * len(order) if noise or length else 0
    w, walk = Gaussian(start, np.zeros((d, size))), Gaussian(np.zeros(d), np.zeros((d, size)))
    used, path, step = 0, [], literal.step_of(filter_)
    for t, m in enumerate(order, start=1):
        X, y = pairs[m]
        labels = np.zeros((len(y), size))
        if size:
            moved = walk.factor.copy()
            moved[:, used : used + d] += length * np.eye(d) if t > 1 else 0.0
            walk = Gaussian(walk.mean, moved)
            used += d
            labels = X @ moved
            labels[:, used : used + len(y)] += noise * np.eye(len(y))
            used += len(y)
        # The step is affine in (w, labels): its parts are applied to means and to all columns.
        w = Gaussian(step(w.mean, X, y, t), step(w.factor, X, labels, t))
        path.append((w, walk))
    return path


def averaged(path, r):
    """The same path with the averages of the weights so far, with weights t^r."""
    means = literal.averages(np.array([w.mean for w, _ in path]), r)
    factors = literal.averages(np.array([w.factor for w, _ in path]), r)
    return [(Gaussian(a, B), walk) for a, B, (_, walk) in zip(means, factors, path, strict=True)]


def of_one_target(pairs, filter_, orders, start, average, noise, length):
    """Expected metrics of one target over weighted orders, noise and walks."""
    M, d = len(pairs), len(start)
    teacher = start + fl.TaskCollection(pairs).shifted(start).teacher()
    totals = dict.fromkeys(NAMES[:5], 0.0)
    losses, degradation, moved, visits = np.zeros((4, M))
    for order, p in orders:
        path = path_of(pairs, filter_, order, start, noise, length)
        path = path if average is None else averaged(path, average)
        w, walk = path[-1]
        last = np.array([0.5 * (w - walk).seen_by(*pair).square for pair in pairs])
        then = np.array([0.5 * (v - at).seen_by(*pairs[m]).square for (v, at), m in zip(path, order, strict=True)])
        changes = [(w - v).seen_by(pairs[m][0], 0.0).square for (v, _), m in zip(path, order, strict=True)]
        gaps = last[list(order)] - then
        totals["average_loss"] += p * last.mean()
        totals["seen_loss"] += p * last[list(order)].mean()
        totals["forgetting"] += p * gaps.mean()
        totals["drift"] += p * np.mean(changes)
        totals["distance"] += p * (w - walk).seen_by(np.eye(d), teacher).square
        losses += p * last
        np.add.at(visits, list(order), p)
        np.add.at(degradation, list(order), p * gaps)
        np.add.at(moved, list(order), p * np.array(changes))
    with np.errstate(invalid="ignore"):
        return totals | {"task_losses": losses, "task_forgetting": degradation / visits, "task_drift": moved / visits}


def expected(pairs, filter_, orders, start, *, average=None, noise=0.0, walk=0.0):
    """Expected metrics over weighted orders, by running every one of them: the sum over targets."""
    columns = [np.reshape(y, (len(X), -1)) for X, y in pairs]
    starts, orders, total = np.reshape(start, (len(start), -1)), list(orders), None
    # The steps of a walk have the same variance in all entries of the teacher.
    length = walk / np.sqrt(starts.size)
    for c in range(starts.shape[1]):
        each = [(X, y[:, c]) for (X, _), y in zip(pairs, columns, strict=True)]
        part = of_one_target(each, filter_, orders, starts[:, c], average, noise, length)
        total = part if total is None else {name: total[name] + part[name] for name in total}
    return total


def expected_on(others, pairs, filter_, orders, start):
    """The expected mean loss on other tasks; ``others(order)`` returns the steps made and the pairs looked at."""
    total = 0.0
    for order, p in orders:
        steps, tasks = others(order)
        w = literal.run(pairs, steps, literal.step_of(filter_), start)[-1]
        total += p * np.mean([literal.loss(w, *pair) for pair in tasks])
    return total


def agree(found, truth, names=NAMES, rel=1e-11, slack=0.0):
    """Compare metrics after the last step; a cancelling one to the same digits as the losses it is made of."""
    slack = slack + 1e-14 * (truth["seen_loss"] + truth["average_loss"])
    for name in names:
        np.testing.assert_allclose(found.values[name][-1], truth[name], rtol=rel, atol=slack, err_msg=name)


def drawn_order(ordering, n_tasks, k, trial, seed):
    return ordering.sample(n_tasks, k, seed=seed, n_trials=trial + 1)[trial].astype(int)


def check_against_literal(pairs, schedule, ordering, k, rng, average=None):
    """Compare weights and metrics of three runs after every step with those of the literal algorithm."""
    tasks = fl.TaskCollection(pairs)
    start = rng.standard_normal(tasks.teacher().shape)
    options = {"record": "all", "metrics": (*METRICS, "weights"), "average": average}
    trace = fl.simulate(tasks.shifted(start), schedule, k, ordering=ordering, n_trials=3, seed=5, **options)
    filter_ = resolve(schedule, k, tasks.radius)
    for trial in range(3):
        order = drawn_order(ordering, len(pairs), k, trial, 5)
        path = literal.run(pairs, order, literal.step_of(filter_), start)
        path = path if average is None else literal.averages(path, average)
        np.testing.assert_allclose(start + trace.weights[trial], path, atol=1e-9 * np.abs(path).max())
        for t in range(1, k + 1):
            truth = literal.metrics(pairs, order[:t], path[:t])
            size = 1e-9 * max(abs(value) for value in truth.values()) + 1e-12
            for metric in METRICS:
                found = getattr(trace, metric)[trial, t - 1]
                assert found == pytest.approx(truth[metric], rel=1e-9, abs=size), metric

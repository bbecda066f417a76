"""Fresh label noise and a walking teacher: exact expectations against enumeration with Gaussian algebra, and runs."""

import mpmath
import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.collections import random_pairs

FAMILIES = [
    {"d": 3, "rows": (1, 2)},
    {"d": 3, "rows": (2, 4), "realizable": False},
    {"d": 3, "rows": (1, 2), "targets": 2, "realizable": False},
    {"d": 7, "rows": (1, 2)},  # features outside the span of all rows
    {"d": 4, "rows": (2, 3), "rank": 1},
]
PATH = ("seen_loss", "forgetting")
NAMES = ("average_loss", "next_loss", "distance", "task_losses", *PATH, "task_forgetting")


class Gaussian:
    """A vector a + B g of one target, g standard normal and shared by all vectors of a run."""

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
    size = sum(widths) + d * len(order)
    w, walk = Gaussian(start, np.zeros((d, size))), Gaussian(np.zeros(d), np.zeros((d, size)))
    used, path, step = 0, [], literal.step_of(filter_)
    for t, m in enumerate(order, start=1):
        X, y = pairs[m]
        if t > 1:
            moved = walk.factor.copy()
            moved[:, used : used + d] += length * np.eye(d)
            walk = Gaussian(walk.mean, moved)
        used += d
        labels = X @ walk.factor
        labels[:, used : used + len(y)] += noise * np.eye(len(y))
        used += len(y)
        # The step is affine in (w, labels): its parts are applied to means and to every column.
        mean = step(w.mean, X, y, t)
        columns = [step(w.factor[:, j], X, labels[:, j], t) for j in range(size)]
        w = Gaussian(mean, np.stack(columns, axis=1))
        path.append((w, walk))
    return path


def enumerated(pairs, filter_, orders, start, noise, length, probabilities):
    """Expected metrics of one target over all orders, noise and walks."""
    M, tasks = len(pairs), fl.TaskCollection(pairs).shifted(start)
    teacher, d = start + tasks.teacher(), len(start)
    totals = dict.fromkeys((*NAMES, "drift"), 0.0)
    visits, degradation = np.zeros((2, M))
    for order, p in orders:
        path = path_of(pairs, filter_, order, start, noise, length / np.sqrt(d))
        losses = np.array([[0.5 * (w - walk).seen_by(*pair).square for pair in pairs] for w, walk in path])
        last = losses[-1]
        gaps = np.array([last[m] - losses[t, m] for t, m in enumerate(order)])
        w, walk = path[-1]
        moved = [(w - v).seen_by(pairs[m][0], 0.0).square for (v, _), m in zip(path, order, strict=True)]
        totals["average_loss"] += p * last.mean()
        totals["next_loss"] += p * last @ probabilities
        totals["distance"] += p * (w - walk).seen_by(np.eye(d), teacher).square
        totals["task_losses"] += p * last
        totals["seen_loss"] += p * last[list(order)].mean()
        totals["forgetting"] += p * gaps.mean()
        totals["drift"] += p * np.mean(moved)
        np.add.at(visits, list(order), p)
        np.add.at(degradation, list(order), p * gaps)
    return totals | {"task_forgetting": degradation / visits}


def all_targets(pairs, filter_, orders, start, noise, walk, probabilities):
    """The sum over targets; the steps of a walk have the same variance in all entries of the teacher."""
    targets = start.reshape(len(start), -1).shape[1]
    columns = [[(X, y.reshape(len(y), -1)[:, c]) for X, y in pairs] for c in range(targets)]
    starts, total = start.reshape(len(start), -1).T, None
    for each, first in zip(columns, starts, strict=True):
        part = enumerated(each, filter_, orders, first, noise, walk / np.sqrt(targets), probabilities)
        total = part if total is None else {name: total[name] + part[name] for name in total}
    return total


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("noise", "walk"), [(0.3, 0.0), (0.0, 0.4), (0.5, 0.2)])
@pytest.mark.parametrize("probabilities", [[1 / 3] * 3, [0.2, 0.3, 0.5]])
def test_equal_to_enumeration(family, noise, walk, probabilities, rng):
    pairs = random_pairs(rng, M=3, **family)
    tasks = fl.TaskCollection(pairs)
    filters = [fl.Ridge(rng.uniform(0.1, 2.0, 3)), fl.GradientDescent(2, 0.3 / tasks.radius**2), fl.Projection()]
    start, filter_ = rng.standard_normal(tasks.teacher().shape), filters[int(rng.integers(3))]
    names = NAMES if walk else (*NAMES, "drift")
    ordering = fl.WithReplacement(probabilities)
    moved = fl.TaskCollection(tasks, noise=noise, walk=walk).shifted(start)
    exact = fl.expect(moved, filter_, 3, ordering=ordering, metrics=names)
    orders = list(literal.all_orderings(3, 3, probabilities))
    expected = all_targets(pairs, filter_, orders, start, noise, walk, np.array(probabilities))
    for name in names:
        np.testing.assert_allclose(exact.values[name][0], expected[name], rtol=1e-10, err_msg=name)
        assert exact.errors.get(name, 0.0) < 1e-8
    alone = fl.expect(moved, filter_, 3, ordering=ordering)
    assert alone.average_loss[0] == pytest.approx(expected["average_loss"], rel=1e-11)


def test_weak_tasks_far_from_their_joint_solution(rng):
    """Where terms cancel around the joint solution, the state consists of outputs."""
    pairs = [(np.array([[1, 0.7]]), np.array([1.0])), (np.array([[3e-5, -1e-4]]), np.array([1.0]))]
    tasks, filter_ = fl.TaskCollection(pairs, noise=0.1, walk=0.3), fl.Ridge(0.5)
    exact = fl.expect(tasks, filter_, 3, metrics=("average_loss", "seen_loss"))
    orders = list(literal.all_orderings(2, 3))
    expected = enumerated(pairs, filter_, orders, np.zeros(2), 0.1, 0.3, np.array([0.5, 0.5]))
    for name in ("average_loss", "seen_loss"):
        assert exact.values[name][0] == pytest.approx(expected[name], rel=1e-9)


@pytest.mark.parametrize("number", range(30))
def test_stated_errors_bound_the_true_ones(number):
    """Losses after draws of two weak rows, from their second moments in 60 digits."""
    rng = np.random.default_rng([9, number])
    rows = rng.standard_normal((2, 2)) * 10.0 ** rng.uniform(-6, 0, (2, 1))
    teacher, filter_ = rng.standard_normal(2), [fl.Projection(), fl.Ridge(1e-3)][number % 2]
    tasks = fl.TaskCollection([(row[None], [row @ teacher]) for row in rows], noise=0.3, walk=0.2)
    exact = fl.expect(tasks, filter_, 6)
    with mpmath.workdps(60):
        # The labels given are rounded: the solution is that of the floats.
        matrix = mpmath.matrix(rows.tolist())
        z = -mpmath.lu_solve(matrix, mpmath.matrix([float(row @ teacher) for row in rows]))
        S, eye = z * z.T, mpmath.eye(2)
        for t in range(6):
            S = S + (mpmath.mpf(0.2) ** 2 / 2) * eye if t else S
            total = mpmath.zeros(2)
            for i in range(2):
                x = matrix[i, :].T
                square = (x.T * x)[0]
                phi = 1 if number % 2 == 0 else square / (square + mpmath.mpf(1e-3))
                keep = eye - phi / square * x * x.T
                total += (keep * S * keep + (mpmath.mpf(0.3) * phi / square) ** 2 * x * x.T) / 2
            S = total
        truth = sum((matrix[i, :] * S * matrix[i, :].T)[0] for i in range(2)) / 4
        assert abs(exact.average_loss[0] - truth) <= exact.errors["average_loss"] * truth
    assert exact.errors["average_loss"] < 1e-7


@pytest.mark.parametrize("family", FAMILIES[:4])
@pytest.mark.parametrize("average", [None, 2])
def test_runs_follow_their_definition(family, average, rng):
    """With the noise of a run recovered from its weights nothing is left to explain: metrics of given weights."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, **family), noise=0.4)
    options = {"n_trials": 11, "seed": 3, "record": "all", "average": average}
    options["metrics"] = (*fl.metrics.METRICS, "distance", "weights")
    trace = fl.simulate(tasks, 0.7, 6, **options)
    np.testing.assert_allclose(trace.average_loss, fl.metrics.average_loss(tasks, trace.weights), rtol=1e-9)
    orders = fl.WithReplacement().sample(3, 6, seed=3, n_trials=11)
    for i in range(11):
        for name in ("forgetting", "drift"):
            expected = getattr(fl.metrics, name)(tasks, trace.weights[i], orders[i].astype(int))
            assert trace.values[name][i, -1] == pytest.approx(expected, rel=1e-8)
    few = fl.simulate(tasks, 0.7, 6, **{**options, "n_trials": 2})
    assert np.array_equal(few.weights, trace.weights[:2])
    tasks, options["metrics"] = fl.TaskCollection(tasks, noise=0.4, walk=0.1), "weights"
    again = fl.simulate(tasks, {"a": 0.7, "b": 0.7}, 6, **options)
    assert np.array_equal(again.sel(schedule="a").weights, again.sel(schedule="b").weights)


def compared(tasks, schedule, k, n_trials):
    """Standard scores of the means of runs against the exact expectations."""
    names = ("average_loss", "next_loss", "distance", "seen_loss", "forgetting")
    exact = fl.expect(tasks, schedule, k, metrics=names, record=[2, k])
    trace = fl.simulate(tasks, schedule, k, metrics=names, n_trials=n_trials, seed=11, record=[2, k])
    return {name: (trace.means(name) - exact.values[name]) / trace.standard_errors(name) for name in names}


@pytest.mark.parametrize("family", [FAMILIES[0], FAMILIES[2], FAMILIES[3]])
def test_means_of_runs_are_the_exact_ones(family, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4, **family), noise=0.3, walk=0.2)
    scores = compared(tasks, "increasing", 12, 3000)
    assert max(np.abs(each).max() for each in scores.values()) < 4


def test_weights_of_runs_follow_the_walk(rng):
    """One feature, each task solved exactly and no noise: the weights are the teacher, and the loss is 0."""
    tasks = fl.TaskCollection([([[1.0]], [3.0])], walk=0.5)
    options = {"n_trials": 500, "seed": 0, "record": "all", "metrics": ("average_loss", "weights")}
    trace = fl.simulate(tasks, "none", 40, **options)
    assert np.abs(trace.average_loss).max() < 1e-25
    np.testing.assert_allclose(trace.weights[:, 0, 0], 3.0, rtol=1e-12)  # the first task has the labels given
    steps = np.diff(trace.weights[:, :, 0], axis=1)
    assert np.mean(steps**2) == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("average", [None, 2])
def test_weights_that_do_not_move(average, rng):
    """Under huge regularization the weights stay where they are, wherever the teacher walks, and losses grow."""
    start, pairs = rng.standard_normal(7), random_pairs(rng, M=3, d=7, rows=(1, 2))
    tasks = fl.TaskCollection(pairs, walk=0.7).shifted(start)
    options = {"record": [0, 1, 2, 20], "metrics": ("average_loss", "distance", "weights")}
    trace = fl.simulate(tasks, 1e12, 20, n_trials=50, seed=1, average=average, **options)
    np.testing.assert_allclose(trace.weights, 0.0, atol=1e-8)
    exact = np.sum(tasks.teacher() ** 2) + 0.49 * np.array([0, 0, 1, 19])
    if average is None:
        found = fl.expect(tasks, 1e12, 20, **options).distance
        np.testing.assert_allclose(found, exact, rtol=1e-8)
    np.testing.assert_allclose(trace.distance[:, :2], np.broadcast_to(exact[:2], (50, 2)), rtol=1e-8)
    assert np.all(np.abs(trace.means("distance")[2:] - exact[2:]) < 4 * trace.standard_errors("distance")[2:])


def test_zero_noise_and_walk_change_no_bit(rng):
    for family in ({}, {"realizable": False, "targets": 2}):
        tasks = fl.TaskCollection(random_pairs(rng, **family))
        both = (tasks, fl.TaskCollection(tasks, noise=0, walk=0))
        plain, zero = (fl.expect(each, "increasing", 20, metrics=NAMES) for each in both)
        runs = [fl.simulate(each, 1.0, 9, n_trials=3, seed=2, metrics="weights") for each in both]
        assert all(np.array_equal(plain.values[name], zero.values[name]) for name in NAMES)
        assert np.array_equal(runs[0].weights, runs[1].weights)


PLAIN = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [0.0])])
WALKING = fl.TaskCollection(PLAIN, walk=1)
BAD = [
    (lambda: fl.TaskCollection(PLAIN, noise=-1), ValueError, "noise must be nonnegative"),
    (lambda: fl.TaskCollection(PLAIN, walk=np.nan), ValueError, "walk must be nonnegative and finite"),
    (lambda: fl.TaskCollection(PLAIN, noise="much"), TypeError, "noise must be a real number"),
    (lambda: fl.expect(WALKING, 1.0, 3, metrics="drift"), ValueError, "moves the labels"),
    (lambda: fl.simulate(WALKING, 1.0, 3, metrics="task_drift"), ValueError, "moves the labels"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_every_ordering_is_simulated(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3), noise=0.2, walk=0.1)
    for ordering in ("without-replacement", "cyclic", "random-reshuffling"):
        trace = fl.simulate(tasks, 1.0, 3, ordering=ordering, n_trials=4, seed=1)
        assert set(trace.values) == {"average_loss", "seen_loss", "forgetting"}
        assert np.isfinite(trace.average_loss).all()


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling(), fl.Cyclic()], ids=repr)
@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
def test_worst_cases_and_gradients_know_of_noise_and_walks(objective, ordering, rng):
    """The worst loss is that of its teacher, and derivatives are differences, in every ordering."""
    pairs = random_pairs(rng, M=3, d=4, rows=(1, 2))
    tasks = fl.TaskCollection(pairs, noise=0.3, walk=0.2)
    coefficients = rng.uniform(0.2, 3.0, 5)

    def loss(values):
        if objective == "worst_case":
            return fl.worst_case(tasks, fl.Ridge(values), 5, ordering=ordering).worst_case[0]
        return fl.expect(tasks, fl.Ridge(values), 5, ordering=ordering).average_loss[0]

    teacher = fl.worst_case(tasks, fl.Ridge(coefficients), 5, ordering=ordering).teacher[0]
    taught = fl.TaskCollection([(X, X @ teacher) for X, _ in pairs], noise=0.3, walk=0.2)
    exact = fl.expect(taught, fl.Ridge(coefficients), 5, ordering=ordering).average_loss[0]
    worst = fl.worst_case(tasks, fl.Ridge(coefficients), 5, ordering=ordering).worst_case[0]
    assert worst == pytest.approx(exact, rel=1e-11)
    found = fl.loss_gradient(tasks, fl.Ridge(coefficients), 5, ordering=ordering, objective=objective)
    assert found.loss == pytest.approx(loss(coefficients), rel=1e-11)
    for t in range(5):
        change = 1e-5 * coefficients[t] * np.eye(5)[t]
        difference = (loss(coefficients + change) - loss(coefficients - change)) / (2 * change[t])
        assert found.coefficient[t] == pytest.approx(difference, rel=1e-6, abs=1e-9 * found.loss)


@pytest.mark.parametrize("average", [None, 1])
def test_expected_weights_are_the_means_of_all_orders(average, rng):
    for family in FAMILIES:
        tasks = fl.TaskCollection(random_pairs(rng, M=3, **family), noise=0.4, walk=0.1)
        exact = fl.expect(tasks, 0.7, 3, metrics="weights", average=average, record=[1, 3])
        quiet = fl.TaskCollection(tasks)
        expected = 0.0
        for order, p in literal.all_orderings(3, 3):
            options = {"ordering": fl.FixedOrder(order), "average": average, "record": [1, 3]}
            expected = expected + p * fl.simulate(quiet, 0.7, 3, metrics="weights", **options).weights[0]
        np.testing.assert_allclose(exact.weights, expected, rtol=1e-10, atol=1e-12)


def test_bounds_are_for_labels_without_noise():
    for tasks in (WALKING, fl.TaskCollection(PLAIN, noise=0.5)):
        for call in (lambda t=tasks: fl.compare_bounds(t, 1.0, 3), lambda t=tasks: fl.oracle_bound(t, 3)):
            with pytest.raises(
                ValueError, match=r"for which there is no bound; leave both out: fl.TaskCollection\(tasks\)"
            ):
                call()

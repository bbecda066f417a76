"""The laboratory for labels: against literal loops, its own two backends, many digits; separability; bad input."""

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC

import forgetless as fl
from forgetless import losses
from forgetless.errors import NoExactLawError

NAMES = losses.TWO_CLASSES
EVERY = (*fl.metrics.METRICS, *fl.metrics.LABEL_METRICS, *fl.metrics.TASK_METRICS)


def labelled(rng, M, n, d, flipped=0.0):
    teacher, pairs = rng.standard_normal(d), []
    for _ in range(M):
        X = rng.standard_normal((n, d))
        y = np.where(X @ teacher > 0, 1.0, -1.0) * np.where(rng.random(n) < flipped, -1.0, 1.0)
        pairs.append((X, y))
    return fl.TaskCollection(pairs)


def literal_step(X, y, w, lam, loss):
    """One proximal step by SciPy, the hinge as a smooth problem with slacks."""
    if loss.name == "hinge":
        n, d = X.shape
        limits = [{"type": "ineq", "fun": lambda v: y * (X @ v[:d]) + v[d:] - 1}]
        bounds = [(None, None)] * d + [(0, None)] * n
        start = np.concatenate([w, np.maximum(1 - y * (X @ w), 0)])

        def cost(v):
            return v[d:].sum() + lam / 2 * np.sum((v[:d] - w) ** 2)

        options = {"ftol": 1e-15, "maxiter": 1000}
        return minimize(cost, start, method="SLSQP", constraints=limits, bounds=bounds, options=options).x[:d]

    def objective(v):
        gradient = lam * (v - w) + X.T @ loss.slope(X @ v, y)
        return loss.value(X @ v, y).sum() + lam / 2 * np.sum((v - w) ** 2), gradient

    return minimize(objective, w, jac=True, method="BFGS", options={"gtol": 1e-10}).x


def literal_metrics(tasks, loss, path, order):
    """Every metric of the last weights of a path, from its definition."""
    w, k = path[-1], len(order)
    value = [[loss.value(X @ v, y).sum() for X, y in tasks] for v in path]
    per_task = np.array(value[-1])
    drifts = [np.sum((tasks[m].X @ (w - path[t])) ** 2) for t, m in enumerate(order)]
    gains = [per_task[m] - value[t][m] for t, m in enumerate(order)]
    margins = [y * (X @ w) for X, y in tasks]

    def mean_by_task(values):
        own = [[v for v, each in zip(values, order, strict=True) if each == m] for m in range(len(tasks))]
        return np.array([np.mean(each) if each else np.nan for each in own])

    return {
        "average_loss": per_task.mean(),
        "seen_loss": np.mean(per_task[order]),
        "forgetting": np.sum(gains) / k,
        "drift": np.sum(drifts) / k,
        "error": np.mean([np.mean(m <= 0) for m in margins]),
        "max_violation": max(0.0, max((1 - m).max() for m in margins)),
        "task_losses": per_task,
        "task_forgetting": mean_by_task(gains),
        "task_drift": mean_by_task(drifts),
    }


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_metrics_are_those_of_a_literal_loop(rng, name):
    tasks, loss = labelled(rng, 4, 3, 5, flipped=0.2), losses.named(name)
    lam, k = np.array([2.0, 0.5, 3.0, 1.0, 4.0, 0.7]), 6
    order = fl.WithReplacement().sample(4, k, seed=3)
    start = 0.3 * rng.standard_normal(5)
    w, path = start, []
    for t in range(k):
        w = literal_step(*tasks[order[t]], w, lam[t], loss)
        path.append(w)
    for backend in ("array", "numba"):
        trace = fl.simulate(
            tasks, fl.Ridge(lam), k, seed=3, start=start, record="all", loss=name, metrics=EVERY, backend=backend
        )
        np.testing.assert_allclose(trace.weights[0], path, atol=1e-6)
        for t in range(1, k + 1):
            for metric, expected in literal_metrics(tasks, loss, trace.weights[0][:t], order[:t]).items():
                np.testing.assert_allclose(trace.values[metric][0, t - 1], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(6, 5, 20), (4, 30, 6), (5, 1, 4)])
def test_both_backends_agree(rng, name, shape):
    tasks = labelled(rng, *shape)
    for schedule in (fl.Ridge(0.3), fl.Ridge(1e-6), fl.Projection(), fl.Ridge(1e6)):
        for average in (None, 2.0):
            a, b = (
                fl.simulate(
                    tasks, schedule, 12, n_trials=3, seed=0, loss=name, average=average, backend=backend, metrics=EVERY
                )
                for backend in ("array", "numba")
            )
            np.testing.assert_allclose(a.weights, b.weights, atol=1e-9 * np.abs(a.weights).max())
            for metric in EVERY:
                np.testing.assert_allclose(a.values[metric], b.values[metric], rtol=1e-7, atol=1e-9)


def test_averages_are_weighted_means_of_the_iterates(rng):
    tasks = labelled(rng, 3, 2, 4)
    arguments = {"k": 9, "seed": 0, "record": "all", "loss": "squared_hinge"}
    w = fl.simulate(tasks, fl.Ridge(1.0), **arguments).weights[0]
    averages = fl.simulate(tasks, fl.Ridge(1.0), **arguments, average=2.0, start=np.zeros(4)).weights[0]
    weights = np.arange(1, 10) ** 2.0
    np.testing.assert_allclose(averages[-1], weights @ w / weights.sum(), rtol=1e-12)


def test_the_squared_loss_of_labels_is_simulated_as_before(rng):
    tasks = labelled(rng, 3, 2, 4)
    a, b = (fl.simulate(tasks, fl.Ridge(1.0), 5, seed=0, **loss) for loss in ({}, {"loss": "squared"}))
    np.testing.assert_array_equal(a.weights, b.weights)
    assert set(a.values) == set(fl.metrics.METRICS)
    with pytest.raises(ValueError, match="metrics must be some of average_loss"):
        fl.simulate(tasks, fl.Ridge(1.0), 5, metrics="error")


def test_schedules_are_scaled_by_the_smoothness(rng):
    tasks, k = labelled(rng, 4, 3, 5), 8
    t = np.arange(1, k + 1)
    square = tasks.radius**2
    scales = {"squared_hinge": square, "logistic": square / 4, "hinge": tasks.radius * np.sqrt(3) * np.sqrt(18) / 2.5}
    for name, scale in scales.items():
        loss = losses.Hinge(distance=2.5) if name == "hinge" else name
        by_name = fl.simulate(tasks, "increasing", k, seed=0, loss=loss).weights
        numbers = fl.Ridge(13 / 3 * scale * (k + 1) / (k - t + 2))
        np.testing.assert_allclose(by_name, fl.simulate(tasks, numbers, k, seed=0, loss=loss).weights, rtol=1e-9)


def test_trials_do_not_depend_on_their_number_and_schedules_share_orders(rng, tmp_path):
    tasks = labelled(rng, 5, 3, 4, flipped=0.1)
    few = fl.simulate(tasks, fl.Ridge(1.0), 20, n_trials=2, seed=1, loss="logistic")
    many = fl.simulate(tasks, {"a": fl.Ridge(1.0), "b": "increasing"}, 20, n_trials=9, seed=1, loss="logistic")
    np.testing.assert_allclose(many["a"].average_loss[:2], few.average_loss, rtol=1e-8)
    assert many.error.shape == (2, 9, len(few.steps))
    many.save(tmp_path / "trace.fl")
    loaded = fl.load(tmp_path / "trace.fl")
    for metric in ("error", "max_violation", "forgetting"):
        np.testing.assert_array_equal(loaded.values[metric], many.values[metric])


def test_tasks_without_rows_change_nothing(rng):
    tasks = labelled(rng, 3, 2, 4)
    more = fl.TaskCollection([*tasks, (np.zeros((0, 4)), np.zeros(0))])
    order = fl.FixedOrder([0, 3, 1, 3, 2])
    for backend in ("array", "numba"):
        a = fl.simulate(more, fl.Ridge(1.0), 5, ordering=order, loss="squared_hinge", backend=backend)
        b = fl.simulate(tasks, fl.Ridge(1.0), 3, ordering=fl.FixedOrder([0, 1, 2]), loss="squared_hinge")
        np.testing.assert_allclose(a.weights[0, -1], b.weights[0, -1], rtol=1e-12)
        assert a.average_loss[0, -1] == pytest.approx(0.75 * b.average_loss[0, -1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("average", [None, 1.0])
def test_a_single_order_is_exact(rng, name, average):
    """Expectation of a deterministic order: the values of one run, and bounds that contain the rounding of another."""
    tasks = labelled(rng, 4, 3, 6, flipped=0.1)
    arguments = {"k": 9, "ordering": "cyclic", "record": [0, 1, 4, 9], "loss": name, "average": average}
    e = fl.expect(tasks, fl.Ridge(0.8), metrics=fl.metrics.METRICS, **arguments)
    for backend in ("array", "numba"):
        trace = fl.simulate(tasks, fl.Ridge(0.8), n_trials=1, backend=backend, **arguments)
        for metric in fl.metrics.METRICS:
            np.testing.assert_allclose(e.values[metric], trace.values[metric][0], rtol=1e-8, atol=1e-13)
    assert e.method == "one order"
    assert 0 < e.errors["average_loss"] < 1e-9
    assert 0 < e.errors["drift"] < 1e-6


def test_stated_errors_of_a_single_order_hold_against_forty_digits(rng):
    """One-row tasks have a closed form (PA-II), which is repeated with 40 digits."""
    tasks, k = labelled(rng, 4, 1, 3), 12
    e = fl.expect(tasks, fl.Ridge(0.37), k, ordering="cyclic", loss="squared_hinge", metrics=fl.metrics.METRICS)
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(v)) * int(y[0]) for v in X[0]] for X, y in tasks]
        w, path = [mpmath.mpf(0)] * 3, []

        def margin(a, w):
            return mpmath.fsum(x * v for x, v in zip(a, w, strict=True))

        for t in range(k):
            a = rows[t % 4]
            step = max(1 - margin(a, w), 0) / (mpmath.fsum(x * x for x in a) + mpmath.mpf(0.37))
            w = [v + step * x for v, x in zip(w, a, strict=True)]
            path.append(w)
        loss = [max(1 - margin(a, w), 0) ** 2 / 2 for a in rows]
        then = [max(1 - margin(rows[t % 4], path[t]), 0) ** 2 / 2 for t in range(k)]
        gains = [loss[t % 4] - then[t] for t in range(k)]
        drifts = [(margin(rows[t % 4], w) - margin(rows[t % 4], path[t])) ** 2 for t in range(k)]
        exact = {"average_loss": mpmath.fsum(loss) / 4, "seen_loss": mpmath.fsum(loss) / 4}
        exact |= {"forgetting": mpmath.fsum(gains) / k, "drift": mpmath.fsum(drifts) / k}
    for metric, value in exact.items():
        assert abs(e.values[metric][0] - float(value)) <= e.errors[metric] * abs(float(value)) + 1e-17


VERBS = [
    lambda tasks, loss: fl.expect(tasks, fl.Ridge(1.0), 3, loss=loss),
    lambda tasks, loss: fl.expect(tasks, fl.Ridge(1.0), 2, ordering="without-replacement", loss=loss),
    lambda tasks, loss: fl.worst_case(tasks, fl.Ridge(1.0), 3, loss=loss),
    lambda tasks, loss: fl.loss_gradient(tasks, fl.Ridge(1.0), 3, loss=loss),
    lambda tasks, loss: fl.advise(tasks, 3, loss=loss),
]


@pytest.mark.parametrize("verb", VERBS, ids=range(len(VERBS)))
def test_verbs_that_need_affine_steps_name_simulate(rng, verb):
    with pytest.raises(NoExactLawError, match=r"needs affine steps.*use simulate\(..., loss='logistic'\)"):
        verb(labelled(rng, 3, 2, 4), "logistic")


def test_max_margin_is_that_of_a_support_vector_machine(rng):
    tasks = labelled(rng, 4, 3, 5)
    best = fl.max_margin(tasks)
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    assert best.is_separable
    assert (y * (X @ best.weights)).min() == pytest.approx(1.0, abs=1e-12)
    assert best.margin == pytest.approx((y * (X @ best.weights)).min() / np.linalg.norm(best.weights))
    # Rows and their mirror images: a machine with an intercept has none by symmetry.
    machine = SVC(kernel="linear", C=1e10, tol=1e-10).fit(np.vstack([X, -X]), np.append(y, -y))
    np.testing.assert_allclose(best.weights, machine.coef_[0], rtol=1e-4)
    start = rng.standard_normal(5)
    near = fl.max_margin(tasks, start)
    assert near.margin == best.margin
    assert np.linalg.norm(near.weights - start) <= np.linalg.norm(best.weights - start)
    assert (y * (X @ near.weights)).min() >= 1 - 1e-12


def test_tasks_that_contradict_each_other_are_not_separable_together():
    tasks = fl.TaskCollection([([[1.0, 2.0], [0.0, 1.0]], [1, -1]), ([[2.0, 0.0], [1.0, 2.0]], [1, -1])])
    best = fl.max_margin(tasks)
    assert (best.is_separable, best.margin, best.weights) == (False, 0.0, None)
    assert best.contradiction == ((0, 0), (1, 1))
    # Each of them has a margin, so that projections are defined.
    assert np.isfinite(fl.simulate(tasks, fl.Projection(), 4, seed=0, loss="hinge").average_loss).all()


E = np.eye(2)
GOOD = fl.TaskCollection([(E, [1, -1]), (2 * E, [1, -1])])
CONTRADICTION = np.array([[1.0, 0], [0, 1], [1, 1], [2, 1], [1, 2], [3, 1], [1, 3], [2, 3], [3, 2], [-1, -2]])
BAD = [
    (lambda: fl.TaskCollection([(E, [1, 1]), (E, [1, 1])]), {}, r"both labels −1 and \+1, got only \+1 in all tasks"),
    (lambda: fl.TaskCollection([(E, [1, -1]), (E, [2, -1])]), {}, r"y of task 1 must hold the labels .*got -1, 2"),
    (lambda: fl.TaskCollection([(E, [0, 1])]), {}, r"y of task 0 .* got 0, 1; use 2\*y − 1"),
    (lambda: fl.TaskCollection([(E, [[1], [-1]])]), {}, r"y must have shape \(n,\) for a loss of two classes, got 1"),
    (
        lambda: fl.TaskCollection([(E, [1, -1])] * 3 + [(CONTRADICTION, np.ones(10))]),
        {"schedule": fl.Projection()},
        "task 3 has no margin: rows 4 and 9 contradict each other; use a coefficient λ > 0",
    ),
    (lambda: GOOD, {"schedule": fl.Ridge(1e-17)}, r"must be 0 or at least 1e-16 β.*got 1e-17"),
    (
        lambda: GOOD,
        {"schedule": "increasing", "loss": "hinge"},
        r"schedule needs a distance; pass .*Hinge\(distance=D\)",
    ),
    (lambda: GOOD, {"schedule": fl.GradientDescent(2, 0.1)}, "schedule must give explicit regularization"),
    (lambda: GOOD, {"loss": "softmax"}, "for more than two classes use fl.step"),
    (lambda: GOOD, {"loss": "0-1"}, "loss must be one of squared, squared_hinge"),
    (lambda: GOOD, {"backend": "gpu"}, 'backend must be "auto"'),
    (lambda: GOOD, {"metrics": "accuracy"}, "metrics must be some of .*max_violation"),
]


@pytest.mark.parametrize(("make", "change", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named(make, change, message):
    arguments = {"schedule": fl.Ridge(1.0), "k": 4, "loss": "squared_hinge", "seed": np.random.default_rng(0)} | change
    tasks = make()
    before, state = tasks.digest, arguments["seed"].bit_generator.state
    with pytest.raises(ValueError, match=message):
        fl.simulate(tasks, **arguments)
    assert tasks.digest == before
    if "backend" not in change:
        assert arguments["seed"].bit_generator.state == state

"""Bounds for tasks with classes: by hand, against all orders enumerated, attained on orthonormal rows."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import forgetless as fl
from forgetless.engines.classification import MarginProblem
from forgetless.engines.problem import Problem
from forgetless.guarantees.labels import bounds_of, label_setting, standard_error
from forgetless.losses import named
from forgetless.theory.label_bounds import noise_factor

CATALOGUE = fl.theory.label_bounds.catalogue
s = fl.schedules

P = (200 / 201) ** 200
PINNED = {
    # name: the value at k = 200, R = 3, D = 2, and the numbers it needs
    "minimax, squared_hinge": (36 / (2 * 0.5 * 201), {"eta": 0.5}),
    "minimax, logistic": (36 / (8 * 0.5 * 201), {"eta": 0.5}),
    "minimax, softmax": (36 / (4 * 0.5 * 201), {"eta": 0.5}),
    "minimax, wrong rows": (36 / 201, {"eta": 1.0}),
    "oracle, squared_hinge": (0.7 * noise_factor(200, 0.5) + 36 / 201, {"eta": 0.5, "mean_loss": 0.7}),
    "oracle, logistic": (0.7 * noise_factor(200, 0.5) + 9 / 201, {"eta": 0.5, "mean_loss": 0.7}),
    "oracle, softmax": (0.7 * noise_factor(200, 0.5) + 18 / 201, {"eta": 0.5, "mean_loss": 0.7}),
    "increasing, hinge": (
        0.7 + 5.0 * 4 * 201 / (2 * 202**2) + 9 * 4 / 5.0 * 202 / 201,
        {"strength": 5.0, "n_rows": 4, "mean_loss": 0.7},
    ),
    "any algorithm, squared_hinge": (0.5 * P, {}),
    "any algorithm, squared_hinge, each row once": (0.5, {}),
    "any algorithm, logistic": (math.log(2) * P, {}),
    "any algorithm, logistic, each row once": (math.log(2), {}),
    "any algorithm, hinge": (P, {}),
    "any algorithm, hinge, each row once": (1.0, {}),
    "any algorithm, wrong rows": (0.5 * P, {}),
    "any algorithm, wrong rows, each row once": (0.5, {}),
}


def test_every_value_is_that_of_its_theorem():
    assert set(PINNED) == {bound.name for bound in CATALOGUE}
    for name, (value, extras) in PINNED.items():
        bound = CATALOGUE[name]
        assert bound.evaluate(200, 3.0, 2.0, **extras) == pytest.approx(value, rel=1e-12), name
        assert bound.constant_known
        assert (bound.min_k, bound.status) == (1, "derived")
        assert bound.kind == ("lower" if name.startswith("any") else "upper")
        assert bound.quantity == ("wrong_rows" if "wrong" in name else "next_loss")


def test_the_factor_of_noisy_labels():
    """(1 + Σ 1/(1 − κ_t))/((1 − η)(k + 1)), which tends to −ln(1 − η)/(η(1 − η))."""
    by_hand = (1 + 1 / (1 - 0.5 * 2 / 3) + 1 / (1 - 0.5 / 3)) / (0.5 * 3)
    assert noise_factor(2, 0.5) == pytest.approx(by_hand)
    assert noise_factor(10**5, 0.3) == pytest.approx(-math.log(0.7) / (0.3 * 0.7), rel=1e-4)


def collection(rng, noise=False, M=3, d=3, n=2):
    """Tasks with labels of both classes, of a teacher or at random."""
    teacher = rng.standard_normal(d)
    while True:
        rows = [rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-0.5, 0.5) for _ in range(M)]
        labels = [rng.choice([-1.0, 1.0], n) if noise else np.where(X @ teacher > 0, 1.0, -1.0) for X in rows]
        if len(np.unique(labels)) == 2:
            return fl.TaskCollection(list(zip(rows, labels, strict=True)))


def enumerated(tasks, coefficients, loss, ordering, start):
    """The exact expected loss on the next task, and its wrong rows, by all orders, step by step."""
    k, M = len(coefficients), tasks.n_tasks
    orders = itertools.product(range(M), repeat=k) if ordering == "with" else itertools.permutations(range(M), k)
    results = []
    for order in orders:
        w = start
        for m, coefficient in zip(order, coefficients, strict=True):
            w = fl.step(w, tasks[m], fl.Ridge(float(coefficient)), loss=loss)
        unseen = range(M) if ordering == "with" else [m for m in range(M) if m not in order]
        margins = [tasks[m].y * (tasks[m].X @ w) for m in unseen]
        results.append(
            [
                np.mean([named(loss).value(each, 1.0).sum() for each in margins]),
                np.mean([np.sum(each <= 0) for each in margins]),
            ]
        )
    return np.mean(results, axis=0)


ORDERINGS = {"with": "with-replacement", "without": "without-replacement"}


@pytest.mark.parametrize("ordering", ["with", "without"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
def test_bounds_hold_in_all_orders_enumerated(rng, loss, ordering):
    """Exact expectations never exceed them, separable or not, from the origin and elsewhere; and simulation agrees."""
    largest = 0.0
    for number in range(12):
        tasks = collection(rng, noise=number % 3 == 2)
        k, start = 2, rng.standard_normal(3) * (number % 2)
        eta, strength = float(rng.choice([0.3, 0.7, 1.0])), 10.0 ** rng.uniform(-1, 1)
        if loss == "hinge":
            coefficients = strength * (k + 1) / (k - np.arange(1, k + 1) + 2)
            filter_ = fl.Ridge(coefficients)
        else:
            beta = named(loss).smoothness(tasks.radius)
            coefficients = beta * ((k + 1) / (eta * np.arange(k, 0, -1)) - 1)
            filter_ = s.minimax() if eta == 1 else s.minimax(eta=eta)
        exact, wrong = enumerated(tasks, coefficients, loss, ordering, start)
        result = fl.compare_bounds(
            tasks, filter_, k, loss=loss, ordering=ORDERINGS[ordering], start=start, n_trials=400, seed=number
        )
        assert abs(result.next_loss - exact) <= 4.5 * result.next_loss * result.errors["next_loss"] + 1e-9
        assert abs(result.wrong_rows - wrong) <= 4.5 * max(result.wrong_rows * result.errors["wrong_rows"], 0.02)
        separable = fl.max_margin(tasks).is_separable
        applies = {check.name for check in result.bounds if check.applies}
        expected = {"hinge": {"increasing, hinge"}, "logistic": {"oracle, logistic"} if eta < 1 else set()}.get(loss)
        if expected is None:
            expected = {"minimax, squared_hinge", "minimax, wrong rows"} if separable else set()
            expected |= {"oracle, squared_hinge"} if eta < 1 else set()
        assert applies == expected
        for check in result.bounds:
            if check.applies:
                actual = wrong if check.quantity == "wrong_rows" else exact
                assert actual <= check.value * (1 + 1e-9), (number, check.name)
                largest = max(largest, actual / check.value)
    assert largest > 0.2


@pytest.mark.parametrize("ordering", ["with", "without"])
def test_softmax_stays_below_its_oracle_bound(rng, ordering):
    for number in range(6):
        tasks = [(rng.standard_normal((3, 2)), rng.integers(3, size=3)) for _ in range(3)]
        R = max(np.linalg.norm(X, 2) for X, _ in tasks)
        k, eta = 2, float(rng.choice([0.2, 0.6]))
        coefficients = R**2 / 2 * ((k + 1) / (eta * np.arange(k, 0, -1)) - 1)

        def mean_loss(W, among, tasks=tasks):
            return np.mean([fl.losses.Softmax().value(tasks[m][0] @ W, tasks[m][1]).sum() for m in among])

        losses = []
        orders = itertools.product(range(3), repeat=2) if ordering == "with" else itertools.permutations(range(3), 2)
        for order in orders:
            W = np.zeros((2, 3))
            for m, coefficient in zip(order, coefficients, strict=True):
                W = fl.step(W, tasks[m], fl.Ridge(float(coefficient)), loss="softmax")
            losses.append(mean_loss(W, range(3) if ordering == "with" else set(range(3)) - set(order)))
        for scale in (0.0, 0.3, 1.0):
            W = scale * rng.standard_normal((2, 3))
            bound = CATALOGUE["oracle, softmax"].evaluate(
                k, R, np.linalg.norm(W), eta=eta, mean_loss=mean_loss(W, range(3))
            )
            assert np.mean(losses) <= bound, number


@pytest.mark.parametrize("n", [2, 7])
def test_orthonormal_rows_attain_the_minimax_bounds(n):
    """The loss of a row that was never seen is ½ whatever the schedule, and the bound and the lower bound are ½ too."""
    tasks = fl.TaskCollection([(2.0 * e[None], [sign]) for e, sign in zip(np.eye(n), [1, -1] * n, strict=False)])
    result = fl.compare_bounds(tasks, "minimax", n - 1, loss="squared_hinge", ordering="without-replacement")
    values = {check.name: (check.value, check.ratio) for check in result.bounds if check.applies}
    assert values["minimax, squared_hinge"] == (pytest.approx(0.5), pytest.approx(1.0))
    assert values["any algorithm, squared_hinge, each row once"] == (0.5, pytest.approx(1.0))
    assert values["minimax, wrong rows"] == (pytest.approx(1.0), pytest.approx(1.0))
    assert values["any algorithm, wrong rows, each row once"] == (0.5, pytest.approx(2.0))
    margin = fl.max_margin(tasks).margin
    assert values["minimax, wrong rows"][0] == pytest.approx((tasks.radius / margin) ** 2 / n)
    for loss, at_zero in (("logistic", math.log(2)), ("hinge", 1.0)):
        lower = fl.compare_bounds(tasks, fl.Ridge(1.0), n - 1, loss=loss, ordering="without-replacement")
        assert lower.next_loss == pytest.approx(at_zero)
        assert lower.sharpest("lower", "next_loss").value == pytest.approx(at_zero)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
def test_any_schedule_is_above_the_lower_bound_with_replacement(loss):
    tasks = fl.TaskCollection([(e[None], [sign]) for e, sign in zip(np.eye(6), [1, -1] * 3, strict=True)])
    for coefficient in (0.0, 0.1, 3.0):
        schedule = fl.Ridge(coefficient) if coefficient else fl.Projection()
        result = fl.compare_bounds(tasks, schedule, 5, loss=loss, n_trials=3000)
        for check in result.bounds:
            if check.applies and check.kind == "lower":
                error = 4 * result.errors[check.quantity]
                assert check.ratio >= 1 - error, (loss, coefficient, check.name)


def test_the_hinge_has_at_most_root_two(rng):
    """√2·GD/√(k+1) for the increasing schedule scaled by G and D, where D reaches the nearest separator."""
    tasks = collection(rng, M=5, d=4)
    D, G = 1 / fl.max_margin(tasks).margin, tasks.radius * math.sqrt(2)
    for k in (1, 5, 40):
        result = fl.compare_bounds(tasks, s.increasing(scale=1), k, loss=fl.losses.Hinge(distance=D), n_trials=50)
        value = result.sharpest("upper", "next_loss").value
        assert result.next_loss <= value <= math.sqrt(2) * G * D / math.sqrt(k + 1)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
def test_the_comparator_is_the_best_one(rng, loss):
    tasks, start = collection(rng, noise=True), rng.standard_normal(3)
    problem = Problem.of(tasks, fl.Ridge(1.0), 3, None, "last")
    setting = label_setting(MarginProblem.of(problem, named(loss)), start)

    def right(w, C, a):
        mean = np.mean([named(loss).value(task.X @ w, task.y).sum() for task in tasks])
        return C * mean + a * np.sum((w - start) ** 2)

    for C, a in ((1.0, 0.5), (1.3, 0.01)):
        best = min(
            minimize(right, start + rng.standard_normal(3), (C, a), method="Nelder-Mead", options={"xatol": 1e-9}).fun
            for _ in range(3)
        )
        assert setting.least(C, a) == pytest.approx(best, rel=1e-5)
        assert setting.least(C, a) <= right(start, C, a)


def reasons(result):
    return {check.name: check.reason for check in result.bounds if not check.applies}


def test_reasons_why_bounds_do_not_apply(rng):
    tasks, noisy = collection(rng), collection(rng, noise=True)
    cyclic = reasons(fl.compare_bounds(tasks, "minimax", 3, loss="squared_hinge", ordering="cyclic"))
    assert "exchangeable order" in cyclic["minimax, squared_hinge"]
    fixed = reasons(fl.compare_bounds(tasks, fl.Ridge(1.0), 3, loss="squared_hinge", n_trials=2))
    assert "is not η(k+1−t)/(k+1)" in fixed["minimax, wrong rows"]
    assert "not k + 1 orthonormal rows" in fixed["any algorithm, squared_hinge"]
    assert "η is 1" in reasons(fl.compare_bounds(tasks, "minimax", 3, loss="logistic", n_trials=2))["oracle, logistic"]
    weighted = fl.WithReplacement([0.2, 0.3, 0.5])
    unequal = reasons(fl.compare_bounds(tasks, "minimax", 3, loss="squared_hinge", ordering=weighted, n_trials=2))
    assert "unequal probabilities" in unequal["minimax, squared_hinge"]
    increasing = fl.compare_bounds(tasks, fl.Ridge(2.0), 3, loss="hinge", n_trials=2)
    assert "do not increase as (k+1)/(k−t+2)" in reasons(increasing)["increasing, hinge"]
    contradicting = fl.TaskCollection([([[1.0, 0.0]], [1]), ([[1.0, 0.0]], [-1])])
    result = fl.compare_bounds(contradicting, "minimax", 1, loss="squared_hinge", ordering="without-replacement")
    assert "not separable" in reasons(result)["minimax, squared_hinge"]
    assert "not k + 1 orthonormal" in reasons(result)["any algorithm, squared_hinge, each row once"]
    assert result.distance == math.inf
    logistic = reasons(fl.compare_bounds(noisy, "minimax", 3, loss="logistic", n_trials=2))
    assert "no minimum on separable rows" in logistic["minimax, logistic"]


def test_a_single_order_is_exact_and_several_schedules_are_compared(rng):
    tasks = collection(rng)
    result = fl.compare_bounds(tasks, "minimax", 7, loss="squared_hinge", ordering="cyclic", n_trials=50)
    exact = fl.expect(tasks, "minimax", 7, ordering="cyclic", loss="squared_hinge", metrics="average_loss")
    assert result.average_loss == pytest.approx(float(exact.average_loss[0]))
    assert (result.n_trials, result.errors["average_loss"]) == (1, 0.0)
    assert "one order" in repr(result)
    both = fl.compare_bounds(tasks, {"a": "minimax", "b": 1.0}, 7, loss="squared_hinge", n_trials=20)
    assert both["a"].sharpest("upper", "next_loss") is not None
    assert both["b"].sharpest("upper", "next_loss") is None
    own = fl.compare_bounds(tasks, "minimax", 7, loss="squared_hinge", bounds=[CATALOGUE["minimax, wrong rows"]])
    assert [check.name for check in own.bounds] == ["minimax, wrong rows"]


def test_comparisons_are_printed_and_stored(rng, tmp_path):
    result = fl.compare_bounds(collection(rng), s.minimax(eta=0.5), 9, loss="squared_hinge", n_trials=30, seed=3)
    text = repr(result)
    assert "steps of the squared_hinge loss" in text
    assert "mean of 30 runs" in " ".join(text.split())
    assert "oracle, squared_hinge" in text
    assert "its wrong rows" in text
    result.save(tmp_path / "comparison.fl")
    assert fl.load(tmp_path / "comparison.fl") == result
    again = fl.compare_bounds(collection(np.random.default_rng(0)), "minimax", 5, loss="logistic", n_trials=5)
    assert again.wrong_rows is not None


def test_standard_errors(rng):
    assert standard_error(np.array([1.0, 2.0, 3.0])) == pytest.approx(1 / math.sqrt(3) / 2)
    assert standard_error(np.array([1.0, 3.0])) == pytest.approx(0.5)
    assert standard_error(np.array([1.0])) == standard_error(np.zeros(4)) == 0.0
    single = fl.compare_bounds(collection(rng), "minimax", 4, loss="squared_hinge", n_trials=1)
    assert single.errors["next_loss"] == 0.0


def test_bounds_of_a_loss():
    assert {bound.name for bound in bounds_of(named("hinge"))} == {
        "increasing, hinge",
        "any algorithm, hinge",
        "any algorithm, hinge, each row once",
    }
    assert "minimax, wrong rows" in {bound.name for bound in bounds_of(named("squared_hinge"))}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: fl.compare_bounds(t, "minimax", 3, loss="softmax"), ValueError, "loss must be one of squared"),
        (lambda t: fl.compare_bounds(t, "minimax", 3, loss="hinge"), ValueError, "a schedule needs a distance"),
        (lambda t: fl.compare_bounds(t, "minimax", 3, loss="logistic", n_trials=0), ValueError, "n_trials must be"),
        (lambda t: CATALOGUE["oracle, logistic"].evaluate(3, 1.0, 1.0, eta=1.0, mean_loss=1.0), ValueError, "eta must"),
        (lambda t: CATALOGUE["oracle, logistic"].evaluate(3, 1.0, 1.0), TypeError, "needs the numbers"),
        (
            lambda t: CATALOGUE["oracle, logistic"].evaluate(3, 1.0, 1.0, eta=0.5, mean_loss=-1.0),
            ValueError,
            "mean_loss must",
        ),
        (lambda t: CATALOGUE["any algorithm, hinge"].evaluate(0, 1.0, 1.0), ValueError, "k must be at least 1"),
    ],
)
def test_bad_input(rng, call, error, message):
    with pytest.raises(error, match=message):
        call(collection(rng))

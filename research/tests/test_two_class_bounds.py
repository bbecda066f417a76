"""Two classes: bounds against exact expectations over all orders, and what attains them."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import forgetless as fl
from research.tests.labels import collection
from research.two_class import (
    LOSSES,
    compare_bounds,
    hinge,
    max_margin,
    noise_factor,
    step,
)
from research.two_class.bounds import Setting
from research.two_class.laboratory import SignedRows

NAMES = list(LOSSES)


def test_the_factor_of_noisy_labels():
    """(1 + Σ 1/(1 − κ_t))/((1 − η)(k + 1)), which tends to −ln(1 − η)/(η(1 − η))."""
    by_hand = (1 + 1 / (1 - 0.5 * 2 / 3) + 1 / (1 - 0.5 / 3)) / (0.5 * 3)
    assert noise_factor(2, 0.5) == pytest.approx(by_hand)
    assert noise_factor(10**5, 0.3) == pytest.approx(-math.log(0.7) / (0.3 * 0.7), rel=1e-4)


def enumerated(tasks, coefficients, loss, ordering, start):
    """The exact expected loss on the next task, and its wrong rows, by all orders."""
    k = len(coefficients)
    M = tasks.n_tasks
    every = isinstance(ordering, fl.WithReplacement)
    orders = itertools.product(range(M), repeat=k) if every else itertools.permutations(range(M), k)
    results = []
    for order in orders:
        w = start
        for m, coefficient in zip(order, coefficients):
            w = step(w, tasks[m], fl.Ridge(float(coefficient)), loss)
        following = range(M) if every else set(range(M)) - set(order)
        margins = [tasks[m].y * (tasks[m].X @ w) for m in following]
        losses = np.mean([LOSSES[loss].value(each).sum() for each in margins])
        results.append([losses, np.mean([np.sum(each <= 0) for each in margins])])
    return np.mean(results, axis=0)


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.WithoutReplacement()], ids=repr)
@pytest.mark.parametrize("loss", NAMES)
def test_bounds_hold_in_all_orders_enumerated(rng, loss, ordering):
    """Exact expectations never exceed them, separable or not, from the origin and elsewhere."""
    largest = 0.0
    k = 2
    for number in range(12):
        tasks = collection(rng, noise=0.5 * (number % 3 == 2))
        start = rng.standard_normal(3) * (number % 2)
        eta = float(rng.choice([0.3, 0.7, 1.0]))
        if loss == "hinge":
            strength = 10.0 ** rng.uniform(-1, 1)
            coefficients = strength * (k + 1) / np.arange(k + 1, 1, -1)
            schedule = fl.Ridge(coefficients)
        else:
            beta = LOSSES[loss].smoothness(tasks.radius)
            coefficients = beta * ((k + 1) / (eta * np.arange(k, 0, -1)) - 1)
            schedule = fl.schedules.minimax(eta=eta)
        exact = enumerated(tasks, coefficients, loss, ordering, start)
        options = {"ordering": ordering, "start": start, "n_trials": 100, "seed": number}
        result = compare_bounds(tasks, schedule, k, loss=loss, **options)
        applies = {check.bound.name for check in result.checks if check.value is not None}
        separable = max_margin(tasks).weights is not None
        expected = {"increasing"} if loss == "hinge" else set()
        if loss == "squared_hinge" and separable:
            expected |= {"minimax", "minimax, wrong rows"}
        if loss != "hinge" and eta < 1:
            expected |= {"oracle"}
        assert applies == expected
        for value, name in zip(exact, ("next_loss", "wrong_rows")):
            error = max(result.errors[name], 0.02)
            assert abs(result.means[name] - value) <= 4.5 * error
            for bound in result.values("upper", name):
                assert value <= bound * (1 + 1e-9), (number, name)
                largest = max(largest, value / bound)
    assert largest > 0.2


@pytest.mark.parametrize("n", [2, 7])
def test_orthonormal_rows_attain_the_minimax_bounds(n):
    """The loss of a row that was never seen is ½ whatever the schedule, and so are the bounds."""
    signs = itertools.cycle([1, -1])
    tasks = fl.TaskCollection([(2.0 * e[None], [sign]) for e, sign in zip(np.eye(n), signs)])
    once = {"ordering": fl.WithoutReplacement(), "n_trials": 20}
    c = compare_bounds(tasks, fl.schedules.minimax(), n - 1, loss="squared_hinge", **once)
    assert c.means["next_loss"] == pytest.approx(0.5)
    assert c.values("upper", "next_loss") == [pytest.approx(0.5)]
    assert c.values("lower", "next_loss") == [0.5]
    wrong = (tasks.radius / max_margin(tasks).margin) ** 2 / n
    assert c.values("upper", "wrong_rows") == [pytest.approx(wrong)] == [pytest.approx(1.0)]
    assert c.values("lower", "wrong_rows") == [0.5]
    for loss, at_zero in (("logistic", math.log(2)), ("hinge", 1.0)):
        lower = compare_bounds(tasks, 1.0, n - 1, loss=loss, **once)
        assert lower.means["next_loss"] == pytest.approx(at_zero)
        assert lower.values("lower", "next_loss") == [pytest.approx(at_zero)]


@pytest.mark.parametrize("loss", NAMES)
def test_any_schedule_is_above_the_lower_bound_with_replacement(loss):
    tasks = fl.TaskCollection([(e[None], [(-1) ** i]) for i, e in enumerate(np.eye(6))])
    for schedule in (fl.Projection(), 0.1, 3.0):
        c = compare_bounds(tasks, schedule, 5, loss=loss, n_trials=400)
        for name in ("next_loss", "wrong_rows"):
            (lower,) = c.values("lower", name)
            assert c.means[name] >= lower - 4 * c.errors[name]


def test_the_hinge_has_at_most_root_two(rng):
    """√2·GD/√(k+1) for the increasing schedule scaled by G and D."""
    tasks = collection(rng, M=5, d=4)
    D = 1 / max_margin(tasks).margin
    G = tasks.radius * math.sqrt(2)
    for k in (1, 5, 40):
        c = compare_bounds(tasks, fl.schedules.increasing(scale=1), k, loss=hinge(D), n_trials=20)
        (value,) = c.values("upper", "next_loss")
        assert c.means["next_loss"] <= value <= math.sqrt(2) * G * D / math.sqrt(k + 1)


@pytest.mark.parametrize("loss", NAMES)
def test_the_comparator_is_the_best_one(rng, loss):
    tasks = collection(rng, noise=0.5)
    start = rng.standard_normal(3)
    setting = Setting(tasks, LOSSES[loss], np.ones(3), fl.WithReplacement(), start)
    A = SignedRows.of(tasks).A

    def right(w, C, a):
        return C * LOSSES[loss].value(A @ w).sum() / 3 + a * np.sum((w - start) ** 2)

    for C, a in ((1.0, 0.5), (1.3, 0.01)):
        options = {"method": "Nelder-Mead", "options": {"xatol": 1e-9}}
        firsts = start + rng.standard_normal((3, 3))
        best = min(minimize(right, first, (C, a), **options).fun for first in firsts)
        assert setting.least(C, a) == pytest.approx(best, rel=1e-5)
        assert setting.least(C, a) <= right(start, C, a)


def test_reasons_why_bounds_do_not_apply(rng):
    tasks = collection(rng)
    minimax = fl.schedules.minimax()

    def reason(name, schedule, loss, tasks=tasks, k=3, **options):
        c = compare_bounds(tasks, schedule, k, loss=loss, n_trials=2, **options)
        return next(check.reason for check in c.checks if check.bound.name == name)

    cyclic = {"ordering": fl.Cyclic()}
    weighted = {"ordering": fl.WithReplacement([0.2, 0.3, 0.5])}
    opposite = fl.TaskCollection([([[1.0, 0.0]], [1]), ([[1.0, 0.0]], [-1])])
    assert "not exchangeable" in reason("minimax", minimax, "squared_hinge", **cyclic)
    assert "not exchangeable" in reason("minimax", minimax, "squared_hinge", **weighted)
    assert "is not η(k+1−t)/(k+1)" in reason("minimax, wrong rows", 1.0, "squared_hinge")
    assert "not k + 1 orthonormal rows" in reason("any algorithm", 1.0, "hinge")
    assert "η is 1" in reason("oracle", minimax, "logistic")
    assert "do not increase" in reason("increasing", 2.0, "hinge")
    assert "not separable" in reason("minimax", minimax, "squared_hinge", tasks=opposite, k=1)


def test_the_page_prints_what_it_says(capsys):
    """Every program of README.md, in one session, and the text block after it."""
    page = (Path(__file__).parents[1] / "two_class" / "README.md").read_text()
    fences = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(fences) == page.count("```python")
    namespace = {}
    for code, printed in fences:
        exec(code, namespace)
        assert capsys.readouterr().out == printed

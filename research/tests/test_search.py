"""The search for worst collections: its gradient, its values and what it refuses."""

import itertools
import threading
import time

import numpy as np
import pytest
from scipy.optimize import minimize

import forgetless as fl
from research import WorstCollection, find_worst_collection
from research.worst.minimize import minimize_starts
from research.worst.objective import Adversary
from support import literal
from support.filters import Flow

s = fl.schedules


FILTERS = {
    "ridge": fl.Ridge(0.7),
    "ridge, varying": fl.Ridge(np.array([0.0, 0.3, 2.0, 5.0, 9.0])),
    "descent": fl.GradientDescent(3, 0.4),
    "descent, varying": fl.GradientDescent(np.array([1, 2, 3, 1, 5]), np.array([0.9, 0.4, 0.2, 1.5, 0.1])),
    "projection": fl.Projection(),
    "custom": Flow(0.8),
}


def random_collection(rng, M=4, d=3, B=2, rank=1):
    units = np.linalg.qr(rng.standard_normal((B, M, d, rank)))[0].swapaxes(2, 3)
    xi = rng.uniform(0.2, 0.95, (B, M, rank))
    xi[:, 0, 0] = 1.0
    return units, xi, rng.dirichlet(np.ones(M), B)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("free", "rank"), [(True, 1), (False, 1), (True, 2), (True, 3)])
def test_gradient_equals_finite_differences(name, free, rank, rng):
    d = 3 if rank < 3 else 4  # a projection onto a task of full rank would end everything
    adversary = Adversary(FILTERS[name], 5, 4, d, rank, free)
    x = adversary.pack(*random_collection(rng, d=d, rank=rank))
    n_free = 4 * rank * (d + 1)
    x[:, : 4 * rank * d] += 0.3 * rng.standard_normal((2, 4 * rank * d))  # rows of any length, not orthogonal
    units, eigenvalues, _ = adversary.unpack(x)
    assert np.abs(units @ units.swapaxes(2, 3) - np.eye(rank)).max() < 1e-12
    assert eigenvalues[:, 0, 0].tolist() == [1.0, 1.0]
    value, gradient = adversary(x)
    assert np.all(np.isfinite(value))
    h = 1e-6
    for i, change in enumerate(h * np.eye(x.shape[1])):
        difference = (adversary(x + change)[0] - adversary(x - change)[0]) / (2 * h)
        expected = 0.0 if i >= n_free and not free else difference
        np.testing.assert_allclose(gradient[:, i], expected, rtol=1e-6, atol=2e-9)
    parts = adversary.split(gradient)
    assert np.abs(parts[0]).max() > 1e-3
    assert np.abs(parts[1][:, 1:]).max() > (0 if name == "projection" else 1e-3)
    assert (np.abs(parts[2]).max() > 1e-3) == free


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("name", FILTERS)
def test_value_equals_worst_case_on_copies(name, rank, rng):
    """Probabilities n/N and the average they weigh are those of N equally likely tasks."""
    units, xi, _ = random_collection(rng, B=1, rank=rank)
    counts = np.array([3, 1, 4, 2])
    loss = Adversary(FILTERS[name], 5, 4, 3, rank).loss(units, xi, counts[None] / 10)[0]
    matrices = np.repeat(np.sqrt(xi[0])[..., None] * units[0], counts, axis=0)
    tasks = fl.TaskCollection([(X, np.zeros(rank)) for X in matrices])
    assert loss == pytest.approx(fl.worst_case(tasks, FILTERS[name], 5).worst_case[0], rel=1e-11)


def test_the_convention_is_that_of_the_constructions():
    """The claim of rare_tasks, whose frequent task is repeated, from three rows and probabilities."""
    k, tasks = 64, fl.theory.constructions.rare_tasks(64)
    rows = np.concatenate([task.X for task in tasks])[[0, 1, -1]]
    p = np.array([[1, 1, tasks.n_tasks - 2]]) / tasks.n_tasks
    filter_ = s.increasing()(k, 1.0)
    loss = Adversary(filter_, k, 3, 3).loss(rows[None, :, None], np.ones((1, 3, 1)), p)[0]
    assert k * loss == pytest.approx(k * tasks.claim(filter_, k), rel=1e-12)
    assert round(k * loss, 3) == 0.95


# Values -----------------------------------------------------------------------------------------------------------


def literal_value(filter_, k, theta, norm, p):
    """k·loss of two rows at an angle, by literal steps along every order."""
    rows = np.array([[1.0, 0.0], norm * np.array([np.cos(theta), np.sin(theta)])])
    weights, step = np.array([p, 1 - p]), literal.step_of(filter_)
    V, H = np.zeros((2, 2)), (rows.T * weights) @ rows
    for order in itertools.product(range(2), repeat=k):
        product = np.eye(2)
        for t, m in enumerate(order, start=1):
            X = rows[m : m + 1]
            product = np.stack([step(product[:, i], X, np.zeros(1), t) for i in range(2)], axis=1)
        V += np.prod(weights[list(order)]) * product.T @ H @ product
    return 0.5 * k * np.linalg.eigvalsh(V)[-1]


@pytest.mark.parametrize("filter_", [fl.Projection(), fl.Ridge([0.2, 1.0, 3.0]), fl.GradientDescent(2, 0.3)], ids=repr)
def test_two_tasks_against_brute_force(filter_):
    def loss(point):
        theta, norm, p = point
        inside = 0 < norm <= 1 and 0 < p < 1
        return -literal_value(filter_, 3, theta, norm, p) if inside else 0.0

    grid = [(t, n, p) for t in (0.3, 0.8, 1.2, np.pi / 2) for n in (0.5, 1.0) for p in (0.2, 0.5, 0.8)]
    best = sorted(grid, key=loss)[:3]
    brute = max(
        -minimize(loss, point, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}).fun for point in best
    )
    found = find_worst_collection(filter_, 3, n_features=2, n_tasks=2, n_starts=8)
    assert brute * (1 - 2e-4) <= found.value <= brute * (1 + 1e-6)


SMALL = {"none": fl.Projection(), "fixed": s.fixed(), "increasing": s.increasing(), "budget": s.increasing_budget(2)}


@pytest.fixture(scope="module")
def small():
    return {
        name: find_worst_collection(schedule, 16, n_features=3, n_tasks=4, n_starts=12, starts="random")
        for name, schedule in SMALL.items()
    }


@pytest.mark.parametrize("name", SMALL)
def test_random_starts_alone_beat_the_constructions(name, small):
    found = small[name]
    known = [
        fl.theory.constructions.rare_tasks(16, n_rare, w, c)
        for n_rare in (1, 2)
        for w in (2.0, 5.0)
        for c in (0.3, 0.6)
    ]
    known = [*known, fl.theory.constructions.unseen_task(16)]
    assert found.value > 16 * max(fl.worst_case(tasks, SMALL[name], 16).worst_case[0] for tasks in known)


@pytest.mark.parametrize("name", SMALL)
def test_what_is_found_is_a_collection_with_that_value(name, small):
    found = small[name]
    assert found.tasks.radius == pytest.approx(1.0, abs=1e-12)
    assert len(found.counts) <= found.tasks.n_tasks == found.counts.sum() <= max(256, 8 * found.k)
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)
    direct = fl.expect(found.tasks, SMALL[name], 16).average_loss[0]
    assert 16 * direct == pytest.approx(found.value, rel=1e-9)
    comparison = found.compare_bounds()
    assert comparison.average_loss == pytest.approx(found.loss, rel=1e-9)
    assert comparison.distance == pytest.approx(1.0, abs=1e-9)
    applying = [check for check in comparison.bounds if check.applies and check.quantity == "average_loss"]
    assert len(applying) > 2
    assert all(check.ratio >= 1 for check in applying)


def test_the_summary_says_what_matters(small):
    text = repr(small["increasing"])
    for part in ("k·loss/(R²D²) = 0.859", "WithReplacement", "⟨·, 1⟩", "seed=0", "increasing(scale=4.33"):
        assert part in text
    assert len(small["increasing"].gram) == len(small["increasing"].counts)


@pytest.mark.parametrize(("k", "n_features", "n_tasks"), [(1, 1, 1), (2, 1, 2), (4, 2, 1), (4, 5, 3)])
def test_smallest_sizes(k, n_features, n_tasks):
    found = find_worst_collection(fl.Ridge(1.0), k, n_features=n_features, n_tasks=n_tasks, n_starts=2, n_rounds=30)
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)
    assert found.rows.shape == (len(found.counts), n_features)
    if n_tasks == 1:  # the only task has norm 1: ½·k·(λ/(1 + λ))^{2k}
        assert found.value == pytest.approx(0.5 * k * 0.5 ** (2 * k), rel=1e-12)


def test_higher_ranks_are_worse_for_the_increasing_schedule():
    """At k = 8: 0.7626 with rank one, 0.7666 with two; nothing is above the constant for every k."""
    sizes = {"n_features": 5, "n_tasks": 5, "n_starts": 12}
    one, two = (find_worst_collection(s.increasing(), 8, rank=rank, **sizes) for rank in (1, 2))
    assert round(one.value, 4) == 0.7626
    assert 1.004 * one.value < two.value < 8 / 9 * 1.04
    assert one.rows.ndim == 2
    assert two.rows.shape == (len(two.counts), 2, 5)
    products = two.rows @ two.rows.swapaxes(1, 2)
    assert np.abs(products - products * np.eye(2)).max() < 1e-12
    assert set(two.tasks.ranks) == {2}
    assert two.evaluate() == pytest.approx(two.value, rel=1e-9)
    assert 8 * fl.expect(two.tasks, s.increasing(), 8).average_loss[0] == pytest.approx(two.value, rel=1e-9)
    assert len(two.gram) == 2 * len(two.counts)
    text = repr(two)
    assert "rank=2" in text
    assert "⟨·, 1⟩" not in text
    assert text.count("\n   1  ") == 2  # a line for each row of a task


def test_custom_filters_are_searched():
    found = find_worst_collection(Flow(0.8), 6, n_features=2, n_tasks=3, n_starts=4, n_rounds=60)
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)


def test_seeds_and_starts():
    arguments = {"n_features": 2, "n_tasks": 3, "n_starts": 4, "n_rounds": 20}
    first, again, other = (find_worst_collection(s.fixed(), 8, **arguments, seed=seed) for seed in (0, 0, 1))
    assert first.value == again.value
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    more = find_worst_collection(s.fixed(), 8, **{**arguments, "n_starts": 8}, seed=0)
    assert more.value >= first.value * (1 - 1e-4)
    rare = find_worst_collection(s.fixed(), 8, **arguments, starts="rare")
    assert "starts='rare'" in rare.command


def rosenbrock(x):
    gap = x[:, 1] - x[:, 0] ** 2
    slope = np.stack([-400 * x[:, 0] * gap - 2 * (1 - x[:, 0]), 200 * gap], axis=1)
    return 100 * gap**2 + (1 - x[:, 0]) ** 2, slope


def test_the_minimiser_follows_every_start_as_if_it_were_alone():
    starts = np.array([[-1.2, 1.0], [3.0, -2.0], [0.5, 0.5]])
    points, values = minimize_starts(rosenbrock, starts, 500)
    np.testing.assert_allclose(points, 1.0, atol=1e-4)
    assert (values < 1e-8).all()
    for b in range(3):
        alone, _ = minimize_starts(rosenbrock, starts[b : b + 1], 500)
        np.testing.assert_array_equal(alone[0], points[b])


def test_the_minimiser_ends_after_its_rounds_and_leaves_no_threads():
    before = threading.active_count()
    rounds = []

    def recorded(x):
        rounds.append(rosenbrock(x))
        return rounds[-1]

    _, values = minimize_starts(recorded, np.array([[-1.2, 1.0], [np.nan, 0.0]]), 5)
    assert len(rounds) == 6
    assert values[0] == min(each[0] for each, _ in rounds)
    assert np.isinf(values[1])  # it has no value
    until = time.monotonic() + 120  # only a hang is an error
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


# Bad input --------------------------------------------------------------------------------------------------------

BAD = [
    ({"k": 0}, ValueError, "k must be at least 1, got 0"),
    ({"k": 2.5}, TypeError, "k must be an integer"),
    ({"n_features": 0}, ValueError, "n_features must be at least 1, got 0"),
    ({"n_tasks": 0}, ValueError, "n_tasks must be at least 1, got 0; 3 to 8 are enough"),
    ({"rank": 0}, ValueError, "rank must be at least 1, got 0; 1 to 3 are enough"),
    ({"rank": 5}, ValueError, "rank must be at most n_features = 4, got 5"),
    ({"n_starts": 0}, ValueError, "n_starts must be at least 1"),
    ({"n_rounds": True}, TypeError, "n_rounds must be an integer"),
    ({"seed": None}, TypeError, "seed must be an integer of at least 0, got None"),
    ({"starts": "good"}, ValueError, 'starts must be "mixed", "random" or "rare", got \'good\''),
    ({"starts": "rare", "n_tasks": 2}, ValueError, 'and n_tasks ≥ 3, got 4 and 2; use starts="random"'),
    ({"schedule": None}, TypeError, "schedule must be a schedule, a filter, a name"),
    ({"schedule": s.fixed(), "k": 2}, ValueError, "k must be at least 3"),
    ({"schedule": fl.Ridge([1.0])}, ValueError, "gives 1 steps but k is 8"),
    ({"schedule": fl.GradientDescent(3, 2.5)}, ValueError, "makes the error grow"),
    ({"schedule": fl.Ridge(1.0), "k": 10**8}, MemoryError, "use fewer starts or a smaller k"),
    ({"schedule": fl.Projection(), "n_tasks": 1, "n_starts": 2}, ValueError, "the loss vanishes at all 2 starts"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=[repr(case[0]) for case in BAD])
def test_bad_input(change, kind, message):
    with pytest.raises(kind, match=message):
        find_worst_collection(**{"schedule": s.increasing(), "k": 8, **change})


@pytest.mark.parametrize("rank", [1, 2])
def test_the_gram_matrix_of_a_collection_is_that_of_its_rows(rng, rank):
    rows = rng.standard_normal((3, rank, 4))
    counts = np.array([1, 2, 1])
    collection = WorstCollection(rows[:, 0] if rank == 1 else rows, counts, fl.Ridge(1.0), 3, 0.1)
    flat = [row for task in rows for row in task]
    np.testing.assert_allclose(collection.gram, [[a @ b for b in flat] for a in flat], rtol=1e-12)
    np.testing.assert_array_equal(collection.probabilities, [0.25, 0.5, 0.25])

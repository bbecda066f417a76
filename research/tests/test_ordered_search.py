"""The search for worst collections in a cycle and in random epochs: gradients, values and errors."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from research import find_worst_collection
from research.worst.ordered_objective import OrderedAdversary
from support import literal
from support.filters import Flow

ORDERINGS = {"cyclic": 5, "without-replacement": 3, "random-reshuffling": 6}
FILTERS = {
    "ridge, varying": lambda k: fl.Ridge(np.linspace(0.1, 3.0, k)),
    "descent": lambda k: fl.GradientDescent(3, 0.4),
    "projection": lambda k: fl.Projection(),
    "custom": lambda k: Flow(0.8),
}


def adversary_for(ordering, filter_, rank=1, M=4, d=3):
    k = ORDERINGS[ordering]
    return OrderedAdversary(FILTERS[filter_](k), k, M, d, rank, ordering=fl.orderings.NAMES[ordering])


def random_point(adversary, rng, B=2):
    x = rng.standard_normal((B, adversary.n_variables))
    cut = adversary.n_tasks * adversary.rank * adversary.n_features
    x[:, cut:] = rng.uniform(0.2, 1.0, x[:, cut:].shape)
    return x


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize("rank", [1, 2])
def test_gradient_equals_finite_differences(ordering, filter_, rank, rng):
    adversary = adversary_for(ordering, filter_, rank)
    x = random_point(adversary, rng)
    value, gradient = adversary(x)
    assert np.isfinite(value).all()
    h = 1e-6
    for i, change in enumerate(h * np.eye(x.shape[1])[: -adversary.n_tasks]):
        difference = (adversary(x + change)[0] - adversary(x - change)[0]) / (2 * h)
        np.testing.assert_allclose(gradient[:, i], difference, rtol=1e-5, atol=1e-6)
    assert np.abs(gradient[:, : adversary.n_tasks * rank * 3]).max() > 1e-3
    assert (gradient[:, -adversary.n_tasks :] == 0).all()


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("rank", [1, 2])
def test_value_equals_worst_case_and_enumeration(ordering, rank, rng):
    adversary = adversary_for(ordering, "ridge, varying", rank)
    units, eigenvalues, p = adversary.unpack(random_point(adversary, rng, 1))
    loss = adversary.loss(units, eigenvalues, p)[0]
    matrices = np.sqrt(eigenvalues[0])[..., None] * units[0]
    tasks, k = fl.TaskCollection([(X, np.zeros(rank)) for X in matrices]), adversary.k
    assert loss == pytest.approx(fl.worst_case(tasks, adversary.filter, k, ordering=ordering).worst_case[0], rel=1e-11)
    epochs = list(itertools.permutations(range(4)))
    orders = {
        "cyclic": [[t % 4 for t in range(k)]],
        "without-replacement": [one[:k] for one in epochs],
        "random-reshuffling": [(*one, *two)[:k] for one in epochs for two in epochs],
    }[ordering]
    step, V = literal.step_of(adversary.filter), np.zeros((3, 3))
    H = sum(X.T @ X for X in matrices) / 4
    for order in orders:
        product = np.eye(3)
        for t, m in enumerate(order, start=1):
            product = np.stack([step(product[:, i], matrices[m], np.zeros(rank), t) for i in range(3)], axis=1)
        V += product.T @ H @ product / len(orders)
    assert loss == pytest.approx(0.5 * np.linalg.eigvalsh(V)[-1], rel=1e-10)


@pytest.fixture(scope="module")
def small():
    sizes = {"n_tasks": 4, "n_features": 3, "n_starts": 64, "n_rounds": 200}
    return {
        (name, schedule): find_worst_collection(schedule, k, ordering=name, **sizes)
        for name, k in ORDERINGS.items()
        for schedule in ("none", "increasing")
    }


def test_losses_are_those_of_worst_case(small):
    """The value is that of the collection, every task of it once, for its worst teacher."""
    for (name, schedule), worst in small.items():
        k, tasks = ORDERINGS[name], worst.tasks
        recomputed = fl.worst_case(tasks, schedule, k, ordering=name)
        assert k * recomputed.worst_case[0] / tasks.radius**2 == pytest.approx(worst.value, rel=1e-9)
        assert worst.evaluate() == pytest.approx(worst.value, rel=1e-9)
        assert worst.loss == pytest.approx(recomputed.worst_case[0], rel=1e-9)
        assert fl.expect(tasks, schedule, k, ordering=name).average_loss[0] == pytest.approx(worst.loss, rel=1e-9)
        assert worst.counts.tolist() == [1] * 4
        assert tasks.radius == pytest.approx(1, abs=1e-9)
        assert f"ordering={name!r}" in repr(worst)
        assert all(check.ratio >= 1 for check in worst.compare_bounds().bounds if check.applies and check.ratio)


def test_they_are_worse_than_random_collections_and_fans(small):
    """A fan of lines in the plane at angles 0, a, 2a, …, and tasks at random."""
    rng = np.random.default_rng(0)
    for (name, schedule), worst in small.items():
        k = ORDERINGS[name]
        fans = [np.array([[np.cos(i * a), np.sin(i * a)] for i in range(4)]) for a in np.linspace(0.05, 1.5, 30)]
        others = [X / np.linalg.norm(X, axis=1).max() for X in rng.standard_normal((30, 4, 3))]
        for rows in (*fans, *others):
            tasks = fl.TaskCollection([(row[None], [0.0]) for row in rows])
            assert k * fl.worst_case(tasks, schedule, k, ordering=name).worst_case[0] <= worst.value * (1 + 1e-6)


def test_two_tasks_in_turn():
    """Unregularized: the loss after k ≥ 2 steps is ¼ max c^(2k−2)(1 − c²), c being the cosine of their angle."""
    for k in (2, 5, 20):
        worst = find_worst_collection("none", k, ordering=fl.Cyclic(), n_tasks=2, n_features=2, n_starts=8)
        c = np.linspace(0, 1, 100_001)
        assert worst.loss == pytest.approx(0.25 * np.max(c ** (2 * k - 2) * (1 - c**2)), rel=1e-6)


def test_draws_with_replacement_are_as_before():
    arguments = {"n_features": 2, "n_tasks": 3, "n_starts": 4, "n_rounds": 20}
    plain = find_worst_collection("fixed", 8, **arguments)
    named = find_worst_collection("fixed", 8, ordering="with-replacement", **arguments)
    assert np.array_equal(plain.rows, named.rows)
    assert plain.command == named.command


@pytest.mark.parametrize(
    ("ordering", "message"),
    [
        (fl.WithReplacement([0.5, 0.5]), "probabilities are searched for"),
        (fl.FixedOrder([0, 1, 0, 1]), "ordering must be one of"),
    ],
)
def test_other_orderings_raise(ordering, message):
    with pytest.raises(ValueError, match=message):
        find_worst_collection("none", 4, n_tasks=2, ordering=ordering)


def test_sizes_that_are_not_possible():
    with pytest.raises(ValueError, match="k must be at most the number of tasks, 6"):
        find_worst_collection("none", 7, ordering="without-replacement")
    with pytest.raises(ValueError, match="n_tasks must be at most 12"):
        find_worst_collection("none", 7, n_tasks=13, ordering="random-reshuffling")

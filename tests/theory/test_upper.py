"""Upper bounds: never below an exact loss, as tight as they were derived to be, and what they refuse."""

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.campaigns import seed_for
from support.collections import random_pairs
from support.filters import Flow, Power

s = fl.schedules


@pytest.mark.parametrize(
    ("schedule", "k", "quantity", "constant"),
    [
        (s.increasing(0.25), 256, "average_loss", 0.3175),
        (s.increasing_budget(16), 64, "average_loss", 0.9153),
        (s.increasing(), 256, "seen_loss", 1.3080),
        (fl.Projection(), 1024, "seen_loss", 1.6053),
        (fl.GradientDescent(1, 1.2), 300, "average_loss", 0.4069),
        (fl.GradientDescent(1, 1.5), 300, "average_loss", 1.3333),
    ],
)
def test_constants_are_those_derived(schedule, k, quantity, constant):
    found = fl.upper_bound(schedule, k, quantity=quantity).constant
    assert found == pytest.approx(constant, abs=3e-4)


def exact_forms(X, filters, p):
    """Return the forms of the average loss and of the seen-task loss, literally."""
    d, k = X[0].shape[1], len(filters)
    H = np.array([x.T @ x for x in X])
    last, seen, own = np.einsum("m,mij->ij", p, H), np.zeros((d, d)), H.copy()
    for filter_ in filters[::-1]:
        K = np.eye(d) - literal.applied(filter_, H)
        step = lambda A, K=K: np.einsum("m,mij,jk,mkl->il", p, K, A, K)  # noqa: E731
        seen = step(seen) + np.einsum("m,mij,mjk,mkl->il", p, K, own, K) / k
        own, last = np.array([step(each) for each in own]), step(last)
    return last, seen


def random_schedule(rng, k):
    """Return a filter for k steps at R = 1."""
    decay = np.arange(k + 1, 1, -1) / (k + 1)
    gamma = np.minimum(1.0, rng.uniform(0.2, 4.0) * decay)
    n_steps = rng.integers(1, 6, k) if rng.random() < 0.5 else int(rng.integers(1, 6))
    choices = [
        fl.Ridge(10 ** rng.uniform(-1, 1) / decay),
        fl.Ridge(10 ** rng.uniform(-1, 1, k)),
        fl.GradientDescent(n_steps, gamma),
        fl.Ridge(10 ** rng.uniform(-1.5, 1.5)),
        fl.Projection(),
        fl.GradientDescent(1, rng.uniform(1.0, 1.95)),
        Flow(rng.uniform(0.2, 2.0)),
        fl.Ridge([0.0, *s.increasing(rng.uniform(0.2, 5.0))(k, 1.0).coefficient[1:]]),  # the first task is free
    ]
    return choices[rng.integers(len(choices))]


def ratios(rng):
    """Return upper bound over exact worst case of both losses, on a random collection of radius 1."""
    M, d, k = int(rng.integers(1, 7)), int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 5, 8, 16]))
    X = [rng.standard_normal((int(rng.integers(1, d + 1)), d)) for _ in range(M)]
    X = [x / np.linalg.norm(x, 2) * (1.0 if m == 0 or rng.random() < 0.5 else rng.random()) for m, x in enumerate(X)]
    p = rng.dirichlet(np.full(M, rng.choice([0.3, 1.0, 10.0])))
    filter_ = random_schedule(rng, k)
    forms = exact_forms(X, [filter_[t] for t in range(k)], p)
    proved = [fl.upper_bound(filter_, k, quantity=quantity).value for quantity in ("average_loss", "seen_loss")]
    return [bound / max(np.linalg.eigvalsh(A)[-1] / 2, 1e-300) for bound, A in zip(proved, forms, strict=True)]


@pytest.mark.parametrize("tries", [60, pytest.param(2000, marks=pytest.mark.long)])
def test_no_collection_is_worse_than_its_bounds(tries):
    """Any ranks, norms, probabilities and schedules: the last iterate and the tasks seen."""
    rng = np.random.default_rng([73, seed_for(tries)])
    least = np.min([ratios(rng) for _ in range(tries)], axis=0)
    assert (least >= 1 - 1e-9).all()


def test_losses_weighted_otherwise_get_the_factor(rng):
    """Tasks drawn with p, the loss a plain mean: at most max 1/(Mp_m) times the bound."""
    tasks, ordering = fl.TaskCollection(random_pairs(rng, M=3)), fl.WithReplacement([0.7, 0.2, 0.1])
    computed = [bound for bound in fl.theory.catalogue if bound.name in ("computed", "computed, seen tasks")]
    for check in fl.compare_bounds(tasks, s.increasing(), 200, ordering=ordering, bounds=computed).bounds:
        sizes = {"radius": tasks.radius, "distance": np.linalg.norm(tasks.teacher())}
        unit = fl.upper_bound(s.increasing(), 200, quantity=check.quantity, **sizes).value
        assert check.published == pytest.approx(unit * (1 if check.quantity == "seen_loss" else 1 / 0.3))
        assert check.ratio >= 1


def test_one_step_is_known_in_closed_form():
    """After one step of κ on a task of norm R, and none on one of norm 0, sup ρ((1 − κρ)² + κ²ρ(1 − ρ))/2."""
    rho = np.linspace(0, 1, 100_001)
    for kappa in (0.2, 0.5, 0.9):
        expected = (rho * ((1 - kappa * rho) ** 2 + kappa**2 * (1 - rho))).max() / 2
        for filter_ in (fl.Ridge(1 / kappa - 1), fl.GradientDescent(1, kappa), Flow(-np.log1p(-kappa))):
            assert expected <= fl.upper_bound(filter_, 1).value <= expected * (1 + 1e-3)


def test_values_scale_and_are_capped():
    one, other = fl.upper_bound(s.increasing(), 50), fl.upper_bound(s.increasing(), 50, radius=3.0, distance=0.5)
    assert other.value == pytest.approx(9 * 0.25 * one.value, rel=1e-12)
    assert other.constant == pytest.approx(one.constant, rel=1e-12)
    assert one.constant == pytest.approx(50 * one.value)
    assert (one.k, one.quantity) == (50, "average_loss")
    assert 0.49 < fl.upper_bound(fl.Ridge(1e6), 3).value <= 0.5
    last_free = fl.upper_bound(fl.Ridge([1.0, 2.0, 0.0]), 3, radius=2.0)
    assert last_free.value == 2.0
    assert "trivial bound" in last_free.why
    assert fl.upper_bound(fl.Ridge(1.0), 5, distance=0.0).value == 0.0
    free = fl.upper_bound(fl.Projection(), 16, radius=3.0)
    assert free.constant == fl.upper_bound(fl.Projection(), 16).constant
    assert "trusts" not in free.why


def test_digits_shown_are_rounded_upwards():
    for k in range(3, 40):
        found = fl.upper_bound(s.fixed(), k)
        assert 0 <= float(repr(found).split("≤ ")[1].split()[0]) / found.value - 1 < 2e-5
    assert "≤ 0.5 after" in repr(fl.upper_bound(fl.Ridge([1.0, 0.0]), 2))


@pytest.mark.parametrize(
    ("filter_", "why"),
    [
        (fl.Ridge([1.0, 2.0]), "Theorem 4 of docs/proofs.md, base that of the largest coefficient, Ridge(2 R²)/κ, 178"),
        (fl.GradientDescent([2, 1, 1], [0.5, 0.3, 0.2]), "Theorem 4 of docs/proofs.md, base χ(ξ) = ξ, "),
        (fl.GradientDescent([3, 2, 2], [0.5, 0.4, 0.3]), "base that of the fewest and smallest steps, Gradient"),
        (fl.GradientDescent(2, np.full(16, 0.05)), "Theorem 2 of docs/proofs.md, base its own, Gradient"),
        (fl.Ridge([0.7e-12, 1.0, 2.0]), "error bounds; of the first step it uses only"),
        (fl.Ridge([1.5e-12, 1.0, 2.0]), "rounding error bounds. It holds"),
        (fl.Ridge([0.0, 0.0, 1.0, 2.0]), "; of the first 2 steps it uses only that the error"),
        (Power(1.0, 0.8), "one filter with φ(R²) = 0.8 at every step"),
        (Power(0.5, 1.0), "it trusts the shape of the filter, checked at 194 eigenvalues"),
        (fl.GradientDescent(1, np.nextafter(1, 2)), "one filter with φ(R²) = 1 at every step"),
    ],
)  # fmt: skip
def test_bounds_say_where_they_are_from(filter_, why):
    k = filter_.horizon or 3
    assert why in fl.upper_bound(filter_, k).why
    if filter_.horizon and "first" in why:  # the others as k steps of their own, and 1/2 for every step left out
        left = 1 if "step " in why else 2
        seen = fl.upper_bound(filter_, k, quantity="seen_loss").value
        rest = fl.upper_bound(filter_[left:], k - left, quantity="seen_loss").value
        assert seen == pytest.approx(((k - left) * rest + left / 2) / k, rel=1e-3)
    if isinstance(filter_, fl.GradientDescent):
        assert fl.upper_bound(filter_, k, quantity="next_loss").value > 0

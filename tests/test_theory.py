"""The reduction, the last-iterate lemma, the constructions and the bounds against exact computations."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import forgetless as fl
from collections_ import FAMILIES, random_pairs

s = fl.schedules


# The reduction ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=FAMILIES)
def tasks(request, rng):
    return fl.TaskCollection(random_pairs(rng, **FAMILIES[request.param]))


def filters_for(tasks):
    R2 = tasks.radius**2
    return [fl.Ridge(0.3 * R2), fl.Ridge(20 * R2), fl.GradientDescent(1, 0.5 / R2), fl.GradientDescent(9, 0.2 / R2)]


def test_a_gradient_step_on_the_surrogate_is_the_step(tasks, rng):
    w = rng.standard_normal(tasks.start().shape)
    for filter_, eta in itertools.product(filters_for(tasks), (1e-3, 0.7, 50.0)):
        for task in tasks:
            f = fl.surrogate(task, filter_, eta, tasks.radius)
            np.testing.assert_allclose(f.step(w), fl.step(w, task, filter_), rtol=1e-13, atol=1e-15)
            A, solution = f.matrix, np.linalg.pinv(task.X, rcond=1e-12) @ task.y
            np.testing.assert_allclose(f.gradient(w), A @ (w - solution), atol=1e-9 * np.abs(A).max())
            assert f.value(w) == pytest.approx(0.5 * np.sum((w - solution) * (A @ (w - solution))), rel=1e-9)


def test_the_three_properties_hold_in_numbers(tasks, rng):
    for filter_ in filters_for(tasks):
        check = fl.check_reduction(tasks, filter_, 0.37)
        assert check.smallest_curvature >= 0
        assert check.largest_curvature <= check.smoothness * (1 + 1e-12)
        assert check.lower * (1 - 1e-12) <= check.smallest_ratio
        assert check.largest_ratio <= check.upper * (1 + 1e-12)
        if tasks.is_realizable():
            assert check.largest_value_at_teacher < 1e-20 * (1 + check.smoothness)
        for task in tasks:  # the sandwich itself, at random points
            f = fl.surrogate(task, filter_, 0.37, tasks.radius)
            w = rng.standard_normal(tasks.start().shape)
            excess = task.loss(w) - task.floor
            assert check.lower * f.value(w) <= excess * (1 + 1e-9) + 1e-12
            assert excess <= check.upper * f.value(w) * (1 + 1e-9) + 1e-12


def test_constants_of_the_paper():
    """Smoothness R²/(η(R²+λ)), lower λη and upper R²/β for L2; η/(γN) for a budget."""
    task = fl.TaskCollection([([[2.0, 0.0]], [1.0])])[0]
    f = fl.surrogate(task, fl.Ridge(3.0), 0.5)
    assert (f.smoothness, f.lower) == (pytest.approx(4 / (0.5 * 7)), pytest.approx(1.5))
    g = fl.surrogate(task, fl.GradientDescent(4, 0.1), 0.5)
    assert (g.smoothness, g.lower) == (pytest.approx((1 - 0.6**4) / 0.5), pytest.approx(0.5 / 0.4))
    assert f.upper == pytest.approx(4 / f.smoothness)


def test_filters_that_are_not_concave_are_refused_with_the_place():
    from dataclasses import dataclass

    task = fl.TaskCollection([([[1.0]], [1.0])])[0]

    @dataclass(frozen=True, eq=False)
    class Square(fl.Filter):
        def share(self, eigenvalues):
            return eigenvalues**2 / (1 + eigenvalues**2)

        def slope(self):
            return 0.0

    with pytest.raises(ValueError, match=r"not concave near ξ = .* within \[0, R²\]"):
        fl.surrogate(task, Square(), 1.0)
    with pytest.raises(ValueError, match=r"decreases near ξ = .*step_size below 1/R²"):
        fl.surrogate(task, fl.GradientDescent(2, 1.5), 1.0)
    for call, error, message in [
        (lambda: fl.surrogate(task, fl.Ridge(1.0), 0.0), ValueError, "step_size must be positive"),
        (lambda: fl.surrogate(task, fl.Ridge([1.0, 2.0]), 1.0), ValueError, "single step"),
        (lambda: fl.surrogate(task, 0.5, 1.0), TypeError, "needs a Task"),
        (lambda: fl.surrogate(task, fl.Ridge(1.0), 1.0, radius=0.5), ValueError, "at least that of the task"),
    ]:
        with pytest.raises(error, match=message):
            call()


# Last-iterate descent ---------------------------------------------------------------------------------------------


def test_descent_on_the_surrogates_follows_the_learner(rng):
    """Scheme 1, scheme 2 and incremental gradient descent with the decaying step sizes of the lemma coincide."""
    tasks = fl.TaskCollection(random_pairs(rng, M=4, realizable=False))
    k = 30
    order = fl.WithReplacement().sample(4, k, seed=1)
    etas = fl.linear_decay(k, 3 / (13 * tasks.radius**2))
    for schedule in (s.increasing(), s.increasing_budget(n_steps=3)):
        filter_ = schedule(k, tasks.radius)

        def gradient(w, m, t, filter_=filter_):
            return fl.surrogate(tasks[m], filter_.at(t - 1), etas[t - 1], tasks.radius).gradient(w)

        path = fl.descend(gradient, order, etas, np.zeros(6))
        trace = fl.simulate(tasks, schedule, k, ordering=fl.Sequence(order.tolist()), record="all")
        np.testing.assert_allclose(path, trace.weights[0], rtol=1e-10, atol=1e-13)


def test_hypotheses_of_the_lemma_hold_for_the_surrogates_and_fail_when_broken(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3))
    k, R2 = 4, tasks.radius**2
    etas = fl.linear_decay(k, 3 / (13 * R2))
    filter_ = s.increasing()(k, tasks.radius)
    surrogates = [[fl.surrogate(task, filter_.at(t), etas[t], tasks.radius) for task in tasks] for t in range(k)]

    def check(scale=1.0, etas=etas):
        return fl.check_time_varying(
            lambda w, m, t: tasks[m].loss(w),
            lambda w, m, t: scale * surrogates[t - 1][m].value(w),
            lambda w, m, t: scale * surrogates[t - 1][m].gradient(w),
            tasks.n_tasks,
            etas,
            R2,
            tasks.teacher(),
            rng.standard_normal((6, 6)),
        )

    assert check().holds()
    assert check(1.3).lower > 1e-3
    assert check(0.5).upper > 1e-3
    assert check(etas=[2 * eta for eta in etas]).step_size > 0
    assert check(etas=[*etas[:-1], 1.5 * etas[-1]]).decay > 0.4
    assert not check(1.3).holds()


@pytest.mark.parametrize("k", [*range(1, 61), 100, 300])
def test_weights_are_nonnegative_in_exact_arithmetic(k):
    weights = fl.last_iterate_weights(k, Fraction(3, 13), Fraction(1))
    assert min(weights.c) >= 0
    assert weights.c[-1] >= Fraction(3, 13) / (k + 1)
    floats = fl.last_iterate_weights(k, 3 / 13, 1.0)
    assert float(weights.bound) == pytest.approx(floats.bound, rel=1e-12)
    assert weights.bound * (k + 1) <= Fraction(39, 2)


def test_the_misprinted_weights_would_not_do():
    """With the minus sign of the printed theorem the proof would allow larger steps, for which it is false."""
    weights = fl.last_iterate_weights(50, Fraction(9, 10), Fraction(1))
    assert min(weights.c) < 0


def test_finite_k_constants_of_the_theorem():
    """(k+1)·v₀²/(2c_{k+1}): 8.25 at k = 2, 14.9 at 10, 18.9 at 100, towards 19.5."""
    found = [(k + 1) * fl.last_iterate_weights(k, 3 / 13, 1.0).bound for k in (2, 10, 100, 10**5)]
    np.testing.assert_allclose(found, [8.25, 14.9, 18.9, 19.5], atol=0.06)


# Constructions ----------------------------------------------------------------------------------------------------

SCHEDULES = [fl.Ridge(0.4), fl.Projection(), s.fixed(), s.increasing(), s.increasing_budget(2), s.fixed_budget(3)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_claims_equal_exact_values(schedule):
    for theta in (0.05, 0.7, 1.5, 2.8):
        two = fl.constructions.two_tasks(theta)
        assert two.claim(schedule, 9) == pytest.approx(fl.worst_case(two, schedule, 9).loss, rel=1e-12)
    for k, sign in itertools.product((2, 3, 10, 40), (1, -1)):
        unseen = fl.constructions.unseen_task(k, sign)
        steps = max(k, 3)
        exact = fl.expect(unseen, schedule, steps, start=unseen.origin).average_loss[0]
        assert unseen.claim(schedule, steps) == pytest.approx(exact, rel=1e-12)
        assert unseen.claim(schedule, steps) * k >= 1 / 8 * (steps == k)
    for n, weight, cosine in [(1, 3.0, 0.0), (2, 7.0, 0.3), (4, 2.0, 0.8)]:
        rare = fl.constructions.rare_tasks(30, n, weight, cosine)
        assert rare.claim(schedule, 30) == pytest.approx(fl.worst_case(rare, schedule, 30).loss, rel=1e-10)


def test_unregularized_limit_of_the_unseen_task():
    k = 10**4
    assert fl.constructions.unseen_task(k).claim(fl.Projection(), k) * 2 * math.e * k == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("k", [2, 9, 25])
@pytest.mark.parametrize("schedule", [fl.Ridge(0.0), fl.Ridge(1.0), s.increasing(), s.from_coefficients], ids=repr)
def test_the_seen_task_construction_attains_its_bound_with_its_probability(k, schedule, rng):
    """Of all orders only the place of the odd task matters, so the probability is computed, not sampled."""
    if schedule is s.from_coefficients:
        schedule = s.from_coefficients(rng.uniform(0, 30, k))
    start = rng.standard_normal(4)
    tasks = fl.constructions.seen_task(k, start)
    assert tasks.radius == pytest.approx(1.0)
    assert np.linalg.norm(start - tasks.teacher(start)) == pytest.approx(1.0)
    losses = []
    for place in range(k):
        order = [0] * k
        order[place] = k - 1
        found = fl.expect(tasks, schedule, k, ordering=fl.Sequence(order), metrics="seen_loss", start=start)
        losses.append(found.seen_loss[0])
    attained = [loss >= fl.constructions.seen_task_loss(k) * (1 - 1e-9) for loss in losses]
    assert all(attained)
    each = 1 / k * (1 - 1 / k) ** (k - 1)  # of one given place for the odd task and none elsewhere
    assert k * each == pytest.approx(fl.constructions.seen_task_probability(k), rel=1e-12)
    assert fl.constructions.seen_task_probability(k) >= 1 / math.e
    if k >= 9:
        assert fl.constructions.seen_task_loss(k) >= 1 / (144 * k)
    exact = fl.expect(tasks, schedule, k, metrics="seen_loss", start=start).seen_loss[0]
    assert exact >= tasks.claim(schedule, k)


def test_bad_constructions():
    for call, error, message in [
        (lambda: fl.constructions.two_tasks(0.0), ValueError, "theta must be positive"),
        (lambda: fl.constructions.two_tasks(4.0), ValueError, r"theta must lie in \(0, π\)"),
        (lambda: fl.constructions.two_tasks(1.0, [1.0]), ValueError, "teacher must have shape"),
        (lambda: fl.constructions.unseen_task(1), ValueError, "k must be at least 2"),
        (lambda: fl.constructions.unseen_task(5, 2), ValueError, "sign must be"),
        (lambda: fl.constructions.seen_task(5, [1.0]), ValueError, "at least two features"),
        (lambda: fl.constructions.rare_tasks(50, cosine=1.0), ValueError, "cosine must be below 1"),
        (lambda: fl.constructions.rare_tasks(50, weight=0.0), ValueError, "weight must be positive"),
    ]:
        with pytest.raises(error, match=message):
            call()


# Bounds and certificates ------------------------------------------------------------------------------------------

CATALOGUE = fl.bounds.catalogue


def test_numbers_of_the_bounds():
    """Rows 2, 3, 8 and 14 of the errata."""
    np.testing.assert_allclose(
        [fl.bounds.near_optimal_constant(k) for k in (3, 10, 100)], [2.700, 2.117, 1.963], atol=6e-4
    )
    assert fl.bounds.near_optimal_constant(10**300) == pytest.approx(math.e**2 / 4, rel=2e-3)
    assert all(fl.bounds.near_optimal_constant(k) <= 5 for k in range(3, 2000))
    at = {name: CATALOGUE[name].evaluate for name in ("increasing", "fixed, near-optimal", "increasing, seen tasks")}
    assert at["increasing"](39, 1, 1) == pytest.approx(0.5)
    assert at["fixed, near-optimal"](36, 1, 1) < 0.5 < at["fixed, near-optimal"](35, 1, 1)
    assert at["increasing, seen tasks"](173, 1, 1) == pytest.approx(0.5)
    assert CATALOGUE["increasing, seen tasks, tight"].evaluate(9, 1, 1) == pytest.approx(4.085, abs=1e-3)
    tight, general = CATALOGUE["fixed, near-optimal, tight"], CATALOGUE["fixed, general"]
    for k in (3, 17, 1000):
        assert tight.evaluate(k, 2, 3) == pytest.approx(general.evaluate(k, 2, 3, share=1 / math.log(k)), rel=1e-12)
    assert general.evaluate(50, 1, 1, share=1.0) == pytest.approx(
        CATALOGUE["unregularized, dimension-free"].evaluate(50, 1, 1)
    )
    assert CATALOGUE["increasing"].evaluate(9, 2.0, 3.0) == pytest.approx(
        36 * CATALOGUE["increasing"].evaluate(9, 1, 1)
    )


@pytest.mark.parametrize("bound", CATALOGUE, ids=lambda bound: bound.name)
def test_every_bound_is_complete(bound):
    assert bound.kind in ("upper", "lower")
    assert bound.quantity in ("average", "seen")
    assert bound.status in ("paper", "same proof, tight constant", "derived, unpublished", "literature", "elementary")
    assert bound.hypotheses
    named = ("Theorem", "Lemma", "Corollary", "Table", "Remark", "theorem", "elementary")
    assert any(word in bound.citation for word in named)
    assert bound.status == "elementary" or any(year in bound.citation for year in ("2022", "2023", "2025", "2026"))
    assert CATALOGUE[bound.name] is bound
    if not bound.constant_known:
        with pytest.raises(ValueError, match="constant is not known"):
            bound.evaluate(100, 1.0, 1.0)


def test_bad_numbers_are_refused_with_the_domain():
    increasing, general = CATALOGUE["increasing"], CATALOGUE["fixed, general"]
    for call, error, message in [
        (lambda: increasing.evaluate(1, 1.0, 1.0), ValueError, "k must be at least 2"),
        (lambda: increasing.evaluate(5, -1.0, 1.0), ValueError, "radius must be nonnegative"),
        (lambda: increasing.evaluate(5, 1.0, float("nan")), ValueError, "distance must be nonnegative"),
        (lambda: increasing.evaluate(5, 1.0, 1.0, share=0.5), TypeError, "needs the numbers"),
        (lambda: general.evaluate(5, 1.0, 1.0), TypeError, "share"),
        (lambda: general.evaluate(5, 1.0, 1.0, share=2.0), ValueError, r"share must lie in \(0, 2\)"),
        (lambda: CATALOGUE["nothing"], KeyError, "no bound is called"),
        (lambda: fl.certify(fl.constructions.two_tasks(1.0), [fl.Ridge(1.0)], 3), TypeError, "one schedule"),
    ]:
        with pytest.raises(error, match=message):
            call()


def applying(certificate, kind=None):
    return [check for check in certificate.bounds if check.applies and kind in (None, check.kind)]


def assert_consistent(certificate):
    exact = {"average": certificate.average_loss, "seen": certificate.seen_loss}
    for check in applying(certificate):
        if check.kind == "upper":
            assert check.value >= exact[check.quantity] * (1 - 1e-9) - 1e-15, check
            if check.quantity == "average":
                assert check.value >= certificate.worst_case * (1 - 1e-9) - 1e-15, check
        else:
            assert check.value <= exact[check.quantity] * (1 + 1e-9), check


PRESETS = {
    "fixed": (s.fixed(), {"fixed, general", "fixed, near-optimal", "fixed, near-optimal, tight"}),
    "fixed budget": (s.fixed_budget(4), {"fixed, general", "fixed, near-optimal", "fixed, near-optimal, tight"}),
    "increasing": (
        s.increasing(),
        {"increasing", "increasing, finite k", "increasing, larger scale", "increasing, seen tasks",
         "increasing, seen tasks, tight"},
    ),
    "increasing budget": (
        s.increasing_budget(3),
        {"increasing", "increasing, finite k", "increasing, larger scale", "increasing, seen tasks",
         "increasing, seen tasks, tight"},
    ),
    "strong": (s.increasing(scale=9.0), {"increasing, larger scale"}),
    "first free": (s.unregularized_first(s.increasing()), {"increasing, first task free"}),
    "first free budget": (s.unregularized_first(s.increasing_budget(2)), {"increasing, first task free"}),
    "none": (fl.Projection(), {"fixed, general", "unregularized, dimension-free"}),
    "weak": (s.increasing(scale=1.0), set()),
}  # fmt: skip


@pytest.mark.parametrize("batch", range(25))
def test_exact_losses_lie_between_the_bounds(batch):
    """4500 certificates: every schedule on 500 random collections of all ranks, scales, sizes and horizons."""
    for number in range(20 * batch, 20 * batch + 20):
        check_one_collection(number)


def check_one_collection(number):
    rng = np.random.default_rng([11, number])
    d = int(rng.integers(1, 9))
    pairs = random_pairs(
        rng,
        M=int(rng.integers(1, 9)),
        d=d,
        rows=(1, int(rng.integers(1, d + 3))),
        rank=int(rng.integers(1, d + 1)),
        scales=tuple(10.0 ** rng.uniform(-1, 1, 3)) if number % 3 == 0 else None,
    )
    tasks, k = fl.TaskCollection(pairs), int(rng.integers(3, 90 if number % 10 == 0 else 20))
    start = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 2)
    for name, (schedule, expected) in PRESETS.items():
        certificate = fl.certify(tasks, schedule, k, start=start)
        assert_consistent(certificate)
        uppers = {check.name for check in applying(certificate, "upper")}
        assert uppers >= expected | {"trivial", "trivial, seen tasks"}, name
        assert uppers <= expected | {"trivial", "trivial, seen tasks"}, name


@pytest.mark.parametrize("k", [9, 60])
@pytest.mark.parametrize("name", PRESETS)
def test_lower_bounds_apply_to_their_constructions(name, k, rng):
    schedule = PRESETS[name][0]
    unseen = fl.certify(fl.constructions.unseen_task(k, -1), schedule, k)
    assert {check.name for check in applying(unseen, "lower")} == {"any algorithm", "any filter"}
    start = rng.standard_normal(3)
    seen = fl.certify(fl.constructions.seen_task(k, start), schedule, k, start=start)
    expected = set() if "budget" in name else {"seen tasks, explicit", "seen tasks, explicit, tight"}
    assert {check.name for check in applying(seen, "lower")} == expected
    for certificate in (unseen, seen):
        assert_consistent(certificate)


def names(certificate, kind=None):
    return {check.name for check in applying(certificate, kind)}


def test_overshooting_budgets_are_not_projections():
    one = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[1.0, 0.0]], [1.0])])
    certificate = fl.certify(one, fl.GradientDescent(1, 1.9999), 1000)
    assert "unregularized, dimension-free" not in names(certificate)
    assert_consistent(certificate)


def test_degenerate_settings_do_not_crash():
    zero = fl.TaskCollection([(np.zeros((1, 2)), [0.0])] * 2)
    for schedule in (fl.Projection(), s.increasing(), s.unregularized_first(s.increasing())):
        certificate = fl.certify(zero, schedule, 3)
        assert certificate.average_loss == 0.0
        assert "increasing, first task free" not in names(certificate)
    one = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[1.0, 0.0]], [1.0])])
    assert_consistent(fl.certify(one, fl.Ridge([1e11, 2e11, 5e11]), 3))
    assert "fixed, general" not in names(fl.certify(one, fl.Ridge([1e11, 2e11, 5e11]), 3))
    assert_consistent(fl.certify(one, fl.Ridge(1.0), 3, start=[1.0, 0.0]))


def test_equal_settings_are_recognised_in_other_dress(rng):
    """The smallest construction, one epoch of reshuffling, λ = 0 as a projection, and a schedule in two stages."""
    unseen = fl.certify(fl.constructions.unseen_task(2), fl.Ridge(0.3), 2)
    assert names(unseen, "lower") == {"any algorithm", "any filter"}
    tasks = fl.TaskCollection(random_pairs(rng, M=4))
    reasons = {
        check.name: check.reason for check in fl.certify(tasks, fl.Ridge(0.3), 3, ordering=fl.Reshuffled()).bounds
    }
    assert "no constant is known" in reasons["fixed, general, without replacement"]
    seen = fl.certify(fl.constructions.seen_task(9), fl.Projection(), 9)
    assert names(seen, "lower") == {"seen tasks, explicit", "seen tasks, explicit, tight"}
    coefficients = s.increasing()(6, tasks.radius).coefficient
    staged = fl.Stages((1, 5), (fl.Ridge(coefficients[:1]), fl.Ridge(coefficients[1:])))
    assert "increasing" in names(fl.certify(tasks, staged, 6))


def test_the_cyclic_rate_needs_its_own_coefficient(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=6))
    reasons = {}
    for schedule, k in ((fl.Ridge(0.001), 3), (fl.Ridge(0.001), 30), (s.cyclic(6), 30)):
        checks = fl.certify(tasks, schedule, k, ordering=fl.Cyclic()).bounds
        reasons[schedule, k] = next(check.reason for check in checks if check.name == "cyclic, fixed")
    expected = ("not above the number of tasks", "coefficient is not 2MR²", "no constant is known")
    for part, reason in zip(expected, reasons.values(), strict=True):
        assert part in reason


def test_worst_collections_stay_below_the_bounds():
    for k in (8, 64, 256):
        rare = fl.constructions.rare_tasks(k)
        for schedule, _ in PRESETS.values():
            assert_consistent(fl.certify(rare, schedule, k))


def test_reasons_name_the_hypothesis(rng):
    noisy = fl.TaskCollection(random_pairs(rng, M=3, rows=(7, 9), realizable=False))
    reasons = {check.name: check.reason for check in fl.certify(noisy, s.increasing(), 10).bounds}
    assert "no model fits all tasks" in reasons["increasing"]
    assert "no model fits all tasks" in reasons["trivial"]
    tasks = fl.TaskCollection(random_pairs(rng, M=3))
    uneven = fl.certify(tasks, s.increasing(), 10, ordering=fl.WithReplacement([0.5, 0.3, 0.2]))
    assert "not drawn uniformly" in {check.name: check.reason for check in uneven.bounds}["increasing"]
    cyclic = {check.name: check for check in fl.certify(tasks, s.cyclic(3), 10, ordering=fl.Cyclic()).bounds}
    assert "no constant is known" in cyclic["cyclic, fixed"].reason
    assert not cyclic["cyclic, fixed"].applies
    early = {check.name: check for check in fl.certify(tasks, s.increasing(), 10).bounds}
    assert "trivial bound" in early["increasing"].reason
    assert early["increasing"].value == pytest.approx(early["trivial"].value)
    assert early["increasing"].published == pytest.approx(20 / 11 / 0.5 * early["trivial"].value)


def test_a_certificate_prints_and_exports(rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    certificate = fl.certify(tasks, s.increasing(), 200)
    text, html, plain = repr(certificate), certificate._repr_html_(), certificate.to_dict()
    for word in ("exact expected average loss", "increasing, finite k", "does not apply:", "same proof"):
        assert word in text
    assert "<table>" in html
    keys = {"name", "kind", "quantity", "value", "applies", "reason", "citation", "status"}
    assert all(keys <= set(row) for row in plain["bounds"])
    assert plain["average_loss"] == pytest.approx(fl.expect(tasks, s.increasing(), 200).average_loss[0])
    import json

    assert json.loads(json.dumps(plain))["k"] == 200
    frame = certificate.to_frame()
    assert len(frame) == len(CATALOGUE)
    assert keys <= set(frame.columns)


def test_what_is_out_of_reach_is_said():
    tasks = fl.TaskCollection([(np.eye(40)[m : m + 1], [1.0]) for m in range(40)])
    certificate = fl.certify(tasks, fl.Ridge(1.0), 20, ordering=fl.WithoutReplacement())
    assert certificate.average_loss is None
    assert "bytes" in certificate.notes[0]
    assert "unknown" in repr(certificate)

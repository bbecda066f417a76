"""What of advice is not exact, and how far off it is: random runs, sampled columns, the reduced model."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.advice import _losses, _ranking, _sampled, which_lambda
from forgetless.advice._losses import Losses
from forgetless.advice._reduced import ReducedModel
from support.collections import FAMILIES, random_pairs

s = fl.schedules


def collection(rng, family="plain", **changes):
    return fl.TaskCollection(random_pairs(rng, **{**FAMILIES[family], **changes}))


def noisy(M, rows, d, sigma, seed=0):
    """Tasks of a few noisy rows each: fewer than features, so that no single one shows the noise."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    pairs = [(X := rng.standard_normal((rows, d)), X @ w + sigma * rng.standard_normal(rows)) for _ in range(M)]
    return fl.TaskCollection(pairs)


@pytest.mark.parametrize("sigma", [1.0, 20.0])
def test_the_best_constant_of_noisy_tasks_is_found_by_runs_on_all_of_them(sigma, monkeypatch):
    """A few of these tasks have as many rows as there are features, look noiseless, and want no regularization."""
    tasks, k = noisy(24, 3, 12, sigma), 200
    grid = np.geomspace(1e-2, 1e3, 41) * tasks.radius**2
    best = fl.expect(tasks, [fl.Ridge(c) for c in grid], k).average_loss.min()
    monkeypatch.setattr(which_lambda, "EXACT", 0.0)
    advice = fl.advise(tasks, k)
    assert advice.n_runs > 0
    exact = {option.shape: fl.expect(tasks, option.schedule, k).average_loss[0] for option in advice.options}
    assert exact["constant"] - advice.least <= 1.02 * (best - advice.least)
    said = next(claim for claim in advice.claims if claim.name == "the best constant tried")
    ratio = (exact["constant"] - advice.least) / (exact[advice.options[0].shape] - advice.least)
    assert said.low <= ratio <= said.high


@pytest.mark.long
@pytest.mark.parametrize(("M", "sigma", "k"), [(60, 20.0, 2000), (60, 1.0, 2000), (150, 1.0, 500)])
def test_what_is_said_of_the_best_constant_of_wide_noisy_tasks(M, sigma, k):
    """Tasks of 10 rows and 100 features, as they come: against runs of other orders, and a grid of constants."""
    tasks = noisy(M, 10, 100, sigma)
    advice = fl.advise(tasks, k)

    def above(schedule):
        trace = fl.simulate(tasks, schedule, k, n_trials=400, seed=99, record="last", metrics=("average_loss",))
        return float(trace.average_loss[:, -1].mean()) - advice.least

    best = min(above(fl.Ridge(c * tasks.radius**2)) for c in np.geomspace(1e-2, 1e2, 25))
    found = above(advice.best)
    assert found + advice.least <= 1.05 * (best + advice.least)
    said = next(claim for claim in advice.claims if claim.name == "the best constant tried")
    assert 0.93 * said.low <= best / found <= 1.07 * said.high


@pytest.mark.parametrize("strength", [1e-3, 1e3])
def test_any_constant_evaluated_bounds_the_best_constant(strength, rng):
    """Whatever it is called: here one of the user's is better than the searched one, which is spoiled."""
    tasks, k = collection(rng, "non-realizable", M=8), 30
    found = [shape for shape in which_lambda.shapes(tasks, k, fl.WithReplacement()) if shape.name != "constant"]
    spoiled = _ranking.Shape("constant", lambda _: fl.Ridge(strength * tasks.radius**2), np.array([strength]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ranking, "shapes", lambda *_: [*found, spoiled])
        patch.setattr(_ranking, "noise_aware", lambda _: fl.Ridge(strength * tasks.radius**2))
        mine = fl.Ridge(tasks.radius**2)
        advice = fl.advise(tasks, k, also={"mine": mine})
    said = next(claim for claim in advice.claims if claim.name == "the best constant tried")
    assert said.schedule in (mine, s.fixed())
    above = min(fl.expect(tasks, each, k).average_loss[0] for each in (mine, s.fixed())) - advice.least
    assert said.high == pytest.approx(above / (advice.options[0].loss - advice.least), rel=1e-6)


def test_where_the_reduced_model_is_refused_runs_search_and_exact_losses_decide(monkeypatch):
    tasks, k = noisy(12, 3, 10, 2.0), 100
    plain = fl.advise(tasks, k).options[0].loss
    for name in ("_QUICK", "_STEP"):
        monkeypatch.setattr(_losses, name, 0.0)
    monkeypatch.setattr(_losses, "assembly", lambda _: 0.0)
    monkeypatch.setattr(_ranking, "_TRUSTED", -1.0)
    monkeypatch.setattr(_ranking, "EXACT", 0.0)
    advice = fl.advise(tasks, k)
    assert "searched by random runs on all tasks" in advice.notes[0]
    assert advice.n_runs == 0
    for option in advice.options:
        assert option.loss == pytest.approx(fl.expect(tasks, option.schedule, k).average_loss[0], rel=1e-9)
    assert advice.options[0].loss - advice.least < 1.03 * (plain - advice.least)


def test_a_scale_that_a_search_got_wrong_is_followed_to_a_better_one(rng):
    tasks, k = collection(rng, "non-realizable", M=8), 30
    problem = Losses(tasks, k, fl.WithReplacement(), None, None)
    curves, options, _ = _ranking.compare(problem, lambda: None)
    right = next(option for option in options if option.shape == "constant")
    shape = next(curve.shape for curve in curves if curve.shape.name == "constant")
    for off in (1 / 30, 30.0):
        schedule = shape.make(off * right.scale)
        loss = fl.expect(tasks, schedule, k).average_loss[0]
        wrong = _ranking.Option("constant", schedule, off * right.scale, loss)
        found = _ranking._bracketed(problem, curves, [wrong])[0]
        assert right.loss <= found.loss < 1.03 * right.loss
        assert found.loss == pytest.approx(fl.expect(tasks, found.schedule, k).average_loss[0])


@pytest.mark.parametrize("family", ["non-realizable", "rank one"])
def test_sampled_losses_state_their_error_honestly(family, rng, monkeypatch):
    monkeypatch.setattr(which_lambda, "EXACT", 0.0)
    tasks, k, off = collection(rng, family, M=12), 30, []
    for seed in range(2):
        advice = fl.advise(tasks, k, n_trials=100, seed=seed)
        assert advice.n_runs == 100
        best = advice.options[0]
        exact = fl.expect(tasks, best.schedule, k).average_loss[0]
        if any(claim.about == "loss" for claim in advice.claims):
            off.append(abs(best.loss - exact) / best.error)
        else:
            assert "so far apart" in advice.why
            assert not any(claim.about == "below" for claim in advice.claims)
    assert all(z < 5 for z in off)
    assert off or family == "rank one"
    assert "standard error" in advice.notes[0]
    assert fl.advise(tasks, k, n_trials=100, seed=1).table == advice.table


def test_runs_that_are_too_far_apart_are_replaced_by_exact_losses(rng):
    tasks, k = collection(rng, "rank one", M=3), 60
    advice = fl.advise(tasks, k, n_trials=50)
    assert advice.n_runs == 0
    assert "too far apart to compare by" in advice.notes[0]
    assert advice.table == fl.advise(tasks, k).table


def test_what_runs_cannot_have_seen_is_not_claimed(monkeypatch):
    """Solved exactly once each has come: all runs end at zero but one in 10⁴, which makes up the mean."""
    tasks = fl.TaskCollection([(np.eye(3)[[m]], [1.0]) for m in range(3)])
    monkeypatch.setattr(which_lambda, "EXACT", 0.0)
    advice = fl.advise(tasks, 25, n_trials=100)
    assert fl.expect(tasks, fl.Projection(), 25).average_loss[0] > 1e-6
    assert not any(claim.about in ("loss", "below") for claim in advice.claims)


@pytest.mark.parametrize("objective", ["seen_loss", "validation"])
def test_runs_serve_every_objective_that_can_be_sampled(objective, rng):
    tasks = collection(rng, "non-realizable", M=10)
    ordering = fl.WithReplacement(rng.dirichlet(np.ones(10)))
    held_out = random_pairs(rng, M=1, d=6, realizable=False)
    advice = fl.advise(tasks, 12, objective=objective, ordering=ordering, validation=held_out, n_trials=300)
    best = advice.options[0]
    problem = Losses(tasks, 12, ordering, None, fl.TaskCollection(held_out))
    assert abs(problem([best.schedule], [objective])[objective][0] - best.loss) < 5 * best.error


def test_large_collections_are_sampled_by_themselves_and_their_worst_case_is_refused(rng, monkeypatch):
    tasks = collection(rng, "non-realizable", M=12)
    monkeypatch.setattr(which_lambda, "EXACT", 1.0)
    assert fl.advise(tasks, 20).n_runs >= _sampled.TRIALS
    assert fl.advise(tasks, 20, objective="worst_case").n_runs == 0
    monkeypatch.setattr(which_lambda, "_LONGEST", 1.0)
    with pytest.raises(ValueError, match="cannot be sampled; ask for fewer steps"):
        fl.advise(tasks, 20, objective="worst_case")


def test_sampled_seen_losses_are_within_their_error(rng):
    tasks, k = collection(rng, "non-realizable", M=8), 15
    schedules = [fl.Projection(), fl.Ridge(1.0), s.increasing()]
    exact = fl.expect(tasks, schedules, k, metrics=("average_loss", "seen_loss"))
    problem = Losses(tasks, k, fl.WithReplacement(), None, None)
    values, errors = _sampled.seen_by_difference(problem, schedules, exact.average_loss[:, 0])
    assert (np.abs(values - exact.seen_loss[:, 0]) < 4.5 * errors).all()


def test_the_seen_column_of_a_large_table_says_that_it_is_sampled(rng, monkeypatch):
    monkeypatch.setattr(_ranking, "_SEEN_BUDGET", 0.0)
    assert "random runs" in fl.advise(collection(rng), 10).notes[0]


@pytest.mark.parametrize("family", ["plain", "two targets, non-realizable", "badly scaled"])
@pytest.mark.parametrize("objective", ["average_loss", "worst_case", "validation"])
def test_the_reduced_model_is_close(family, objective, rng, monkeypatch):
    """In few coordinates the space of the pilots is all of it, and only the interpolation between strengths is left."""
    monkeypatch.setattr(_losses, "_QUICK", 0.0)
    monkeypatch.setattr(_losses, "_STEP", 0.0)
    monkeypatch.setattr(_losses, "assembly", lambda _: 0.0)
    tasks, k = collection(rng, family, M=6), 80
    held_out = fl.TaskCollection(random_pairs(rng, **{**FAMILIES[family], "M": 2}))
    problem = Losses(tasks, k, fl.WithReplacement(), None, held_out, objective)
    schedules = [fl.Ridge(0.2), s.increasing(0.1), s.increasing_budget(4, 0.5), s.end_ramp(0.25, 0.1), fl.Projection()]
    schedules.append(s.unregularized_first(s.increasing_budget(2)))
    approximate = problem.model()(schedules)
    exact = problem.losses(schedules)
    np.testing.assert_allclose(approximate, exact, rtol=0.01, atol=1e-12)


def test_the_reduced_model_in_many_coordinates(rng):
    """64 of 820 dimensions are enough."""
    tasks, k = fl.TaskCollection(random_pairs(rng, M=25, d=40, rows=(2, 2))), 150
    problem = Losses(tasks, k, fl.WithReplacement(), None, None)
    model = ReducedModel(problem.moments, problem.law, k, _losses.average_form(problem.moments))
    assert model.dimension <= 64
    schedules = [fl.Ridge(c * tasks.radius**2) for c in (0.003, 0.1, 3.0)] + [
        s.increasing(1.0),
        s.end_ramp(1 / 16, 0.1),
    ]
    exact = problem(schedules, ["average_loss"])["average_loss"]
    approximate = [0.5 * np.sum(V * problem.moments.start) for V in model.forms(schedules)]
    np.testing.assert_allclose(approximate, exact, rtol=0.01)


@pytest.mark.long
def test_advice_by_the_reduced_model_is_the_same(rng, monkeypatch):
    tasks, k = fl.TaskCollection(random_pairs(rng, M=15, d=20, rows=(1, 2))), 100
    plain = fl.advise(tasks, k)
    monkeypatch.setattr(_losses, "_QUICK", 0.0)
    monkeypatch.setattr(_losses, "_STEP", 0.0)
    monkeypatch.setattr(_losses, "assembly", lambda _: 0.0)
    reduced = fl.advise(tasks, k)
    assert "reduced model" in reduced.notes[0]
    assert reduced.options[0].loss == pytest.approx(plain.options[0].loss, rel=2e-3)
    for option in reduced.options:
        assert option.loss == pytest.approx(fl.expect(tasks, option.schedule, k).average_loss[0], rel=1e-9)
    monkeypatch.setattr(_ranking, "_TRUSTED", -1.0)
    assert fl.advise(tasks, k).table == plain.table


def test_pilots_make_the_reduced_model_exact_where_they_went(rng):
    tasks, k = fl.TaskCollection(random_pairs(rng, M=25, d=40, rows=(2, 2), scales=(1.0, 0.03))), 60
    problem = Losses(tasks, k, fl.WithReplacement(), None, None)
    pilot, form = s.increasing(0.003), _losses.average_form(problem.moments)
    exact = problem([pilot], ["average_loss"])["average_loss"][0]
    errors = []
    for pilots in ([], [pilot]):
        V = ReducedModel(problem.moments, problem.law, k, form, pilots).forms([pilot])[0]
        errors.append(abs(0.5 * np.sum(V * problem.moments.start) / exact - 1))
    assert errors[1] < min(errors[0], 1e-3)


RUNS = _sampled.Runs(np.array([[3.0, 5.0, 4.0, 4.0], [2.0, 2.0, 2.0, 6.0], [1.0, 1.0, 1.0, 1.0]]), floor=1.0)


def test_what_four_runs_say_by_hand():
    np.testing.assert_allclose(RUNS.means, [4.0, 3.0, 1.0])
    np.testing.assert_allclose(RUNS.errors, [np.sqrt(2 / 3) / 2, 1.0, 0.0])
    assert RUNS.ratio(0, 1) == (1.5, pytest.approx(np.sqrt(29 / 3) / 2 / 2))  # above the floor: 3 over 2
    assert RUNS.ratio(2, 1) == (0.0, 0.0)
    assert RUNS.ratio(1, 2) == (np.inf, np.inf)
    assert RUNS.lower(0, 1) == (-1.0, pytest.approx(np.sqrt(14 / 3) / 2))
    assert RUNS.lower(1, 0) == (1.0, pytest.approx(np.sqrt(14 / 3) / 2))


def test_runs_are_far_apart_by_what_is_above_the_floor():
    """Variance over squared mean is 3.98/1.02 above a floor of 1, and 3.98/4.03 above 0."""
    losses = np.array([[1.01, 1.01, 1.01, 5.0]])
    assert _sampled.Runs(losses, 1.0).heavy(0)
    assert not _sampled.Runs(losses, 0.0).heavy(0)
    assert not RUNS.heavy(0)
    for unseen, heavy in ((0.149, False), (0.151, True)):  # a twentieth of 3
        assert _sampled.Runs(RUNS.losses, 1.0, unseen).heavy(0) is heavy


def test_how_probable_runs_are_that_were_not_seen():
    """Two tasks on their own in three draws: missed by 1/4, drawn once by 3/4, and twice, each in either task."""
    tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])])
    problem = Losses(tasks, 3, fl.WithReplacement(), None, None)
    for n_runs, expected in ((10, 1.75), (33, 1.75), (34, 0.25), (99, 0.25), (100, 0.0)):
        assert _sampled._unseen(problem, n_runs) == pytest.approx(expected)
    assert _sampled._unseen(Losses(tasks, 1, fl.WithReplacement(), None, None), 10) == pytest.approx(2.0)
    assert _sampled._unseen(Losses(tasks, 3, fl.Cyclic(), None, None), 10) == 0.0
    shared = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[2.0, 0.0]], [1.0]), (np.eye(2), [1.0, 1.0])])
    assert _sampled._alone(shared).tolist() == [False, False, True]


def test_runs_are_repeated_until_their_error_is_small_above_the_floor():
    """Most of these losses is noise that no weights avoid: half a percent of all would be a large part of the rest."""
    problem = Losses(noisy(12, 3, 6, 5.0), 40, fl.WithReplacement(), None, None)
    filters = [fl.Ridge(c * problem.tasks.radius**2) for c in (3.0, 30.0)]
    runs = _sampled.decided(problem, filters)
    best = int(np.argmin(runs.means))
    above = runs.means[best] - problem.least
    assert problem.least > 3 * above
    assert runs.errors[best] <= 0.005 * above or runs.n_runs > 4096 - _sampled.TRIALS


def test_first_losses_and_their_rounding_have_the_unit_of_a_loss():
    def problem(unit):
        pairs = [([[3.0 * unit, 0.0]], [unit]), ([[0.0, unit]], [unit]), ([[unit, unit]], [-unit])]
        return Losses(fl.TaskCollection(pairs), 9, fl.WithReplacement(), None, None)

    one, other = problem(1.0), problem(16.0)
    assert one.initial("average_loss") == pytest.approx(0.5)  # targets of ±1 at the origin
    assert one.initial("worst_case") == pytest.approx((9 + 1 + 2) / 6)
    for name in ("average_loss", "worst_case"):
        assert other.initial(name) == pytest.approx(256 * one.initial(name))
        assert 0 < one.rounding(name) < 1e-12
        assert other.rounding(name) == pytest.approx(256 * one.rounding(name), rel=1e-9, abs=0)
        # Random roundings add up over the steps: with √k.
        expected = one.rounding(name) * (1 + 6) / (1 + 3)
        assert one.with_steps(36).rounding(name) == pytest.approx(expected, rel=1e-9, abs=0)


def test_runs_of_equal_losses_are_not_heavy():
    losses = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 9.0]])
    runs = _sampled.Runs(losses, 0.0)
    assert [runs.heavy(b) for b in range(3)] == [False, False, True]


def test_coefficients_lie_between_nodes_by_their_logarithms(rng):
    tasks, k = fl.TaskCollection(random_pairs(rng, M=4, d=3, rows=(2, 2))), 20
    problem = Losses(tasks, k, fl.WithReplacement(), None, None)
    model = ReducedModel(problem.moments, problem.law, k, _losses.average_form(problem.moments))
    first, second, third = model.strengths[:3]
    coefficients = np.array([0.0, 0.5 * first, first, np.sqrt(first * second), second, np.sqrt(second * third)])
    np.testing.assert_allclose(model._places(coefficients), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5], rtol=1e-9)

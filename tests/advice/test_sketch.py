"""What of advice is not exact, and how far off it is: sketches, sampled columns, the reduced model."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.advice import _losses, _ranking, _sketch
from forgetless.advice._losses import Losses
from forgetless.advice._reduced import ReducedModel
from support.collections import FAMILIES, random_pairs

s = fl.schedules


def collection(rng, family="plain", **changes):
    return fl.TaskCollection(random_pairs(rng, **{**FAMILIES[family], **changes}))


@pytest.mark.parametrize("objective", ["average_loss", "worst_case", "seen_loss"])
def test_losses_of_a_sketch_are_exact_where_that_is_affordable(objective, rng):
    tasks, k = collection(rng, "non-realizable", M=24), 60
    advice = fl.advise(tasks, k, objective=objective, sketch=6, seed=3)
    assert "6 of 24 tasks" in advice.notes[0]
    assert "exact, on all tasks" in advice.notes[0]
    exact = Losses(tasks, k, fl.WithReplacement(), None, None)(
        [option.schedule for option in advice.options], [objective]
    )
    np.testing.assert_allclose([option.loss for option in advice.options], exact[objective], rtol=1e-9)
    if objective == "average_loss":
        assert advice.options[0].loss < 1.1 * fl.advise(tasks, k).options[0].loss
    assert fl.advise(tasks, k, objective=objective, sketch=6, seed=3).table == advice.table


@pytest.mark.parametrize("family", ["non-realizable", "rank one"])
def test_a_sampled_sketch_states_its_error_honestly(family, rng, monkeypatch):
    monkeypatch.setattr(_sketch, "DECIDING", 0.0)
    tasks, k, off = collection(rng, family, M=24), 60, []
    for seed in range(4):
        advice = fl.advise(tasks, k, sketch=6, seed=seed)
        best = advice.options[0]
        exact = fl.expect(tasks, best.schedule, k).average_loss[0]
        if not any("single run" in note for note in advice.notes):
            off.append(abs(best.loss - exact) / best.error)
    assert all(z < 5 for z in off)
    assert "standard error" in advice.notes[0]
    worst = fl.advise(tasks, k, objective="worst_case", sketch=6)
    assert "those of the sketch" in worst.notes[0]
    assert worst.options[0].average_loss is None


@pytest.mark.parametrize("objective", ["seen_loss", "worst_case", "validation"])
def test_sketches_serve_every_objective(objective, rng):
    tasks = collection(rng, M=10)
    ordering = fl.WithReplacement(rng.dirichlet(np.ones(10)))
    held_out = random_pairs(rng, M=1, d=6)
    advice = fl.advise(tasks, 12, objective=objective, ordering=ordering, validation=held_out, sketch=5)
    assert "5 of 10 tasks" in advice.notes[0]


def test_sketches_take_tasks_that_can_come(rng):
    tasks, p = collection(rng, M=30), np.zeros(30)
    p[:3] = 1 / 3
    for seed in range(3):
        assert fl.advise(tasks, 20, sketch=5, seed=seed, ordering=fl.WithReplacement(p)).options


def test_large_collections_are_sketched_by_themselves(rng, monkeypatch):
    tasks = collection(rng, M=12)
    monkeypatch.setattr(_sketch, "BUDGET", 1.0)
    monkeypatch.setattr(_sketch, "_SKETCH", _sketch.operations(tasks, 20, "average_loss", 5))
    assert "5 of 12 tasks" in fl.advise(tasks, 20).notes[0]


def test_sampled_seen_losses_are_within_their_error(rng):
    tasks, k = collection(rng, "non-realizable", M=8), 15
    schedules = [fl.Projection(), fl.Ridge(1.0), s.increasing()]
    exact = fl.expect(tasks, schedules, k, metrics=("average_loss", "seen_loss"))
    problem = Losses(tasks, k, fl.WithReplacement(), None, None)
    values, errors = _sketch.seen_by_difference(problem, schedules, exact.average_loss[:, 0], 0)
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
    problem = Losses(tasks, k, fl.WithReplacement(), None, held_out)
    schedules = [fl.Ridge(0.2), s.increasing(0.1), s.increasing_budget(4, 0.5), s.end_ramp(0.25, 0.1), fl.Projection()]
    schedules.append(s.unregularized_first(s.increasing_budget(2)))
    approximate = problem.model(objective)(schedules)
    exact = problem(schedules, [objective])[objective]
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

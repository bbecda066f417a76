"""One interface, schedules and orderings by name or as a number, one or several, in every verb; and one result."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import forgetless as fl
from forgetless.orderings import as_ordering
from forgetless.schedules.named import as_schedule
from support.checks import check_frozen
from support.collections import random_pairs

TASKS = fl.TaskCollection(random_pairs(np.random.default_rng(3), d=3))
NAMED = {"λ = 2": 2.0, "rising": fl.schedules.increasing(0.5), "none": fl.Projection()}
PLAIN = [fl.Ridge(2.0), fl.schedules.increasing(0.5), fl.Projection()]


def test_a_dict_is_what_its_schedules_are_one_by_one():
    found = fl.expect(TASKS, NAMED, 9, metrics=("average_loss", "seen_loss"), record="all")
    worst = fl.worst_case(TASKS, NAMED, 9)
    proved = fl.compare_bounds(TASKS, NAMED, 9)
    assert found.labels == worst.labels == tuple(proved) == tuple(NAMED)
    for i, (label, schedule) in enumerate(zip(NAMED, PLAIN, strict=True)):
        alone = fl.expect(TASKS, schedule, 9, metrics=("average_loss", "seen_loss"), record="all")
        np.testing.assert_allclose(found.seen_loss[i], alone.seen_loss, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(found.sel(schedule=label).average_loss, alone.average_loss, rtol=1e-9, atol=1e-14)
        single = fl.worst_case(TASKS, schedule, 9).worst_case[0]
        assert worst.worst_case[i, 0] == pytest.approx(single, rel=1e-9, abs=1e-14)
        single = fl.compare_bounds(TASKS, schedule, 9).average_loss
        assert proved[label].average_loss == pytest.approx(single, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("seed", [5, np.random.default_rng(5), None])
def test_several_schedules_meet_the_same_orders(seed):
    options = {"record": "all", "metrics": ("average_loss", "weights")}
    found = fl.simulate(TASKS, {"a": 1.0, "b": fl.Ridge(1.0), "c": 2.0}, 12, n_trials=3, seed=seed, **options)
    np.testing.assert_array_equal(found.sel(schedule="a").average_loss, found.sel(schedule="b").average_loss)
    assert found.average_loss.shape == (3, 3, 12)
    assert found.weights.shape == (3, 3, 12, 3)
    assert (found.sel(schedule="a").average_loss != found.sel(schedule="c").average_loss).any()
    if seed == 5:
        alone = fl.simulate(TASKS, 2.0, 12, n_trials=3, seed=5, **options)
        np.testing.assert_array_equal(found.sel(schedule="c").weights, alone.weights)


def test_labels_are_kept_in_frames():
    trace = fl.simulate(TASKS, NAMED, 9, n_trials=2, seed=0, record=[3, 9])
    exact, worst = (verb(TASKS, NAMED, 9, record=[3, 9]) for verb in (fl.expect, fl.worst_case))
    for found in (trace, exact, worst, fl.compare_bounds(TASKS, NAMED, 9)):
        frame = found.to_frame()
        assert list(dict.fromkeys(frame["schedule"])) == list(NAMED)
        assert frame.columns[0] == "schedule"
    frame = trace.to_frame().set_index(["schedule", "trial", "step"])
    for i, trial, j in np.ndindex(trace.drift.shape):
        assert frame.loc[(list(NAMED)[i], trial, [3, 9][j]), "drift"] == trace.drift[i, trial, j]
    assert fl.expect(TASKS, PLAIN, 9).to_frame()["schedule"].tolist() == [0, 1, 2]
    assert "schedule" not in fl.expect(TASKS, 1.0, 9).to_frame()


def test_what_is_meant():
    assert as_schedule("none") == fl.Projection()
    assert as_schedule("fixed_budget") == fl.schedules.fixed_budget()
    for number in (2, np.float32(0.5), np.array(3)):
        assert as_schedule(number) == fl.Ridge(float(number))


def test_names_in_every_verb():
    by_name = fl.expect(TASKS, "cyclic", 9, ordering="cyclic")  # which knows the number of tasks
    plain = fl.expect(TASKS, fl.schedules.cyclic(4), 9, ordering=fl.Cyclic())
    np.testing.assert_array_equal(by_name.average_loss, plain.average_loss)
    assert fl.upper_bound("increasing", 16).constant == fl.upper_bound(fl.schedules.increasing(), 16).constant
    by_name = fl.advise(TASKS, 8, ordering="random-reshuffling", also={"mine": 0.7})
    by_object = fl.advise(TASKS, 8, ordering=fl.RandomReshuffling(), also={"mine": fl.Ridge(0.7)})
    assert [option.loss for option in by_name.options] == [option.loss for option in by_object.options]
    assert fl.loss_gradient(TASKS, 0.5, 4).loss == fl.loss_gradient(TASKS, fl.Ridge(0.5), 4).loss


def test_orderings_by_name():
    assert as_ordering("without_replacement") == fl.WithoutReplacement()
    assert as_ordering(None) == fl.WithReplacement()
    with pytest.raises(ValueError, match=r"ordering must be one of .* did you mean 'cyclic'"):
        as_ordering("cycle")
    with pytest.raises(TypeError, match=r"ordering is Cyclic itself; make one by calling it: Cyclic\(\)"):
        as_ordering(fl.Cyclic)


# --- the one result: selection, averages over trials, copies ---

THREE = fl.TaskCollection(random_pairs(np.random.default_rng(4), M=3, d=2))
GRID = {"none": "none", "λ = 1": 1.0}
EXACT = fl.expect(THREE, GRID, 9, metrics=("average_loss", "task_losses"), record=[0, 3, 9])
RUNS = fl.simulate(THREE, GRID, 9, n_trials=5, seed=0, metrics=("average_loss", "weights"), record=[3, 9])


def test_one_coordinate_drops_its_axis_and_a_list_keeps_it():
    one = EXACT.sel(schedule="λ = 1", step=9)
    assert one.average_loss == EXACT.average_loss[1, 2]
    np.testing.assert_array_equal(one.task_losses, EXACT.task_losses[1, 2])
    assert one.axes == {"average_loss": (), "task_losses": ("task",)}
    some = EXACT.sel(schedule=["λ = 1"], step=[9, 0])
    np.testing.assert_array_equal(some.average_loss, EXACT.average_loss[[1]][:, [2, 0]])
    assert some.labels == ("λ = 1",)
    assert some.steps.tolist() == [9, 0]
    run = RUNS.sel(trial=4)
    np.testing.assert_array_equal(run.weights, RUNS.weights[:, 4])
    assert run.axes["weights"] == ("schedule", "step", "feature")
    assert len(some.to_frame()) == 2
    assert list(one.to_frame().columns) == ["average_loss"]
    assert "1.0" not in repr(one).splitlines()[0]
    assert one.errors == EXACT.errors


def test_means_and_standard_errors():
    np.testing.assert_allclose(RUNS.means("average_loss"), RUNS.average_loss.mean(axis=1))
    spread = RUNS.average_loss.std(axis=1, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(RUNS.standard_errors("average_loss"), spread)
    np.testing.assert_array_equal(EXACT.means("average_loss"), EXACT.average_loss)
    assert not EXACT.standard_errors("average_loss").any()


def test_results_are_frozen_and_have_their_metrics_as_attributes():
    for result in (EXACT, fl.loss_gradient(TASKS, 1.0, 2)):
        check_frozen(result, by_value=False)
    check_frozen(fl.metrics.drift)
    assert {"average_loss", "weights", "sel"} <= set(dir(RUNS))
    assert "weights (2, 5, 2, 2)" in repr(RUNS)


@pytest.mark.parametrize("curves", [EXACT, RUNS, EXACT.sel(step=3)], ids=["exact", "runs", "part"])
def test_copies_and_pickles_keep_numbers_and_errors(curves):
    for other in (pickle.loads(pickle.dumps(curves)), copy.deepcopy(curves)):
        assert other.errors == curves.errors
        assert other.coordinates == curves.coordinates
        for name, value in curves.values.items():
            np.testing.assert_array_equal(getattr(other, name), value)


MANY = fl.TaskCollection([(np.eye(40)[m : m + 1], [1.0]) for m in range(40)])
EPOCH = {"ordering": "without-replacement"}
EVERY = {"n_trials": 10**4, "record": "all", "metrics": ("weights", "task_losses", "drift")}
STATES = "chain of 137,846,528,820 states with"
TOO_LARGE = [
    (fl.expect, [1.0, 2.0, 3.0], 20, EPOCH, f"{STATES} 40 coordinates and 3 .* needs 9.983e.06 GiB"),
    (fl.expect, 1.0, 20, {"metrics": "drift", **EPOCH}, f"{STATES} 42 .* needs 2.211e.08 GiB"),
    (fl.worst_case, 1.0, 20, EPOCH, f"{STATES} 40 .* needs 3.41e.06 GiB, .* here; use simulate"),
    (fl.loss_gradient, 1.0, 10**6, {}, "the forms of 1,000,000 steps needs 11.92 GiB"),
    (fl.simulate, 1.0, 10**5, EVERY, "10,000 runs at 100,000 steps needs 603.5 GiB"),
]
SLOW = [
    (fl.worst_case, (5, 40, 200), {"k": 10**4}, "1 matrices with 200 coordinates will take about 64 seconds here"),
    (fl.expect, (1000, 1, 20), {"k": 200, "metrics": "drift"}, "1,001 .* 86 seconds here; .* average_loss alone are"),
]


@pytest.mark.parametrize(("verb", "schedule", "k", "options", "said"), TOO_LARGE)
def test_what_does_not_fit_into_memory_is_refused_with_its_size(verb, schedule, k, options, said):
    with pytest.raises(MemoryError, match=said):
        verb(MANY, schedule, k, **options)


@pytest.mark.parametrize(("verb", "shape", "options", "said"), SLOW)
def test_what_long_calls_will_take_is_said_beforehand(verb, shape, options, said, rng, monkeypatch):
    """With the line that calls. The warning is an error here, so that the call ends with it."""
    tasks = fl.TaskCollection([(X, np.zeros(len(X))) for X in rng.standard_normal(shape)])
    warnings.simplefilter("always")
    monkeypatch.setattr(warnings, "showwarning", lambda text, kind, file, *_: pytest.fail(f"{text} in {file}"))
    with pytest.raises(pytest.fail.Exception, match=f"{said}.* in {__file__}"):
        verb(tasks, fl.schedules.increasing(), **options)

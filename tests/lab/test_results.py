"""The one result: selection, names that are close, averages over trials, copies."""

import copy
import pickle

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs

TASKS = fl.TaskCollection(random_pairs(np.random.default_rng(4), M=3, d=2))
GRID = {"none": "none", "λ = 1": 1.0}
EXACT = fl.expect(TASKS, GRID, 9, metrics=("average_loss", "task_losses"), record=[0, 3, 9])
RUNS = fl.simulate(TASKS, GRID, 9, n_trials=5, seed=0, metrics=("average_loss", "weights"), record=[3, 9])


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


def test_metrics_are_attributes_that_complete():
    assert {"average_loss", "weights", "sel"} <= set(dir(RUNS))
    assert "average_loss" in repr(RUNS)
    assert "weights (2, 5, 2, 2)" in repr(RUNS)


def test_means_and_standard_errors():
    np.testing.assert_allclose(RUNS.means("average_loss"), RUNS.average_loss.mean(axis=1))
    spread = RUNS.average_loss.std(axis=1, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(RUNS.standard_errors("average_loss"), spread)
    np.testing.assert_array_equal(EXACT.means("average_loss"), EXACT.average_loss)
    assert not EXACT.standard_errors("average_loss").any()


@pytest.mark.parametrize("curves", [EXACT, RUNS, EXACT.sel(step=3)], ids=["exact", "runs", "part"])
def test_copies_and_pickles_keep_numbers_and_errors(curves):
    for other in (pickle.loads(pickle.dumps(curves)), copy.deepcopy(curves)):
        assert other.errors == curves.errors
        assert other.coordinates == curves.coordinates
        for name, value in curves.values.items():
            np.testing.assert_array_equal(getattr(other, name), value)


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ((5, 40, 200), {"k": 10**4}, "1 matrices with 200 coordinates will take about 64 seconds here; simulate"),
        ((1000, 1, 20), {"k": 200, "metrics": "drift"}, "1,001 matrices with .* average_loss alone are faster"),
    ],
)
def test_what_long_calls_will_take_is_said_beforehand(shape, options, said, rng):
    """The warning is an error here, so that the call ends with it."""
    tasks = fl.TaskCollection([(X, np.zeros(len(X))) for X in rng.standard_normal(shape)])
    with pytest.raises(UserWarning, match=said):
        fl.expect(tasks, fl.schedules.increasing(), **options)

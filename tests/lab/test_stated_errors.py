"""Stated errors where losses vanish."""

import pytest

import forgetless as fl


@pytest.mark.parametrize("ordering", [fl.Cyclic(), fl.WithReplacement(), fl.RandomReshuffling()], ids=repr)
def test_errors_are_finite_where_the_start_solves_a_task(ordering):
    tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[0.6, 0.8]], [1.0])])
    found = fl.expect(tasks, fl.Ridge(1.0), 3, ordering=ordering, metrics=("average_loss", "seen_loss", "drift"))
    assert all(0.0 <= error < 1e-10 for error in found.errors.values())

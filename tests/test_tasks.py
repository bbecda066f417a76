import numpy as np
import pandas as pd
import pytest

import forgetless as fl
from support.checks import check_frozen
from support.collections import FAMILIES, random_pairs


@pytest.fixture(params=FAMILIES)
def pairs(request, rng):
    return random_pairs(rng, **FAMILIES[request.param])


def test_spectra_rebuild_the_data(pairs):
    for task, (X, y) in zip(fl.TaskCollection(pairs), pairs, strict=True):
        V, s = task.singular_vectors, task.singular_values
        np.testing.assert_allclose(V @ V.T, np.eye(task.rank), atol=1e-13)
        np.testing.assert_allclose((V.T * s**2) @ V, X.T @ X, atol=1e-12 * task.radius**2)
        np.testing.assert_allclose(V.T @ task.targets, np.linalg.pinv(X, rcond=1e-12) @ y, atol=1e-11)
        best = np.linalg.lstsq(X, y, rcond=1e-12)[0]
        assert task.floor == pytest.approx(0.5 * np.sum((X @ best - y) ** 2), abs=1e-13 * (1 + np.sum(y**2)))


def test_signs_of_singular_vectors_do_not_depend_on_rounding(rng):
    """Entries of one size are equal up to rounding, which depends on the scale: then the first one is positive."""
    for scale in rng.uniform(0.1, 10, 50):
        rows = fl.TaskCollection([(scale * np.array([[1.0, -1.0]]), [1.0])])[0].singular_vectors
        assert rows[0, 0] > 0 > rows[0, 1]


def test_teacher_is_the_joint_least_squares_solution_nearest_to_the_start(pairs, rng):
    tasks = fl.TaskCollection(pairs)
    A, b = np.concatenate([X for X, _ in pairs]), np.concatenate([y for _, y in pairs])
    for w0 in (np.zeros(tasks.teacher().shape), rng.standard_normal(tasks.teacher().shape)):
        expected = w0 + np.linalg.pinv(A, rcond=1e-11) @ (b - A @ w0)
        np.testing.assert_allclose(w0 + tasks.shifted(w0).teacher(), expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("realizable", [True, False])
def test_realizability(realizable, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=4, rows=(2, 4), realizable=realizable))
    assert tasks.is_realizable() is (tasks.residual < 1e-13) is realizable
    assert fl.TaskCollection([([[1.0]], [0.0])]).residual == 0.0


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_realizability_does_not_depend_on_the_scale_of_a_task(scale, rng):
    teacher, X = rng.standard_normal(6), rng.standard_normal((2, 2, 6))
    tasks = fl.TaskCollection([(X[0], X[0] @ teacher), (scale * X[1], scale * (X[1] @ teacher))])
    assert tasks.is_realizable(1e-12)
    np.testing.assert_allclose(X[1] @ tasks.teacher(), X[1] @ teacher, rtol=1e-10)


def test_span_contains_all_directions_and_nothing_else(pairs):
    tasks = fl.TaskCollection(pairs)
    q = np.linalg.matrix_rank(np.concatenate([X / np.linalg.norm(X, 2) for X, _ in pairs]), tol=1e-9)
    assert tasks.span_dimension == q
    np.testing.assert_allclose(tasks.span.T @ tasks.span, np.eye(q), atol=1e-13)
    np.testing.assert_allclose(tasks.singular_vectors @ tasks.span @ tasks.span.T, tasks.singular_vectors, atol=1e-13)
    np.testing.assert_allclose(tasks.span_vectors, tasks.singular_vectors @ tasks.span, atol=1e-13)
    if q == tasks.n_features:
        np.testing.assert_array_equal(tasks.span, np.eye(q))


def test_every_singular_vector_has_an_owner():
    empty = (np.zeros((1, 3)), [0.0])
    tasks = fl.TaskCollection([empty, (np.eye(3)[:2], [1.0, 2.0]), empty, (np.eye(3), [1.0, 2.0, 3.0]), empty])
    assert tasks.ranks.tolist() == [0, 2, 0, 3, 0]
    assert tasks.offsets.tolist() == [0, 0, 2, 2, 5, 5]
    assert tasks.owners.tolist() == [1, 1, 3, 3, 3]
    values = np.arange(10.0).reshape(2, 5)
    assert tasks.by_task(values).tolist() == [[0, 1, 0, 9, 0], [0, 11, 0, 24, 0]]
    assert tasks[:1].by_task(np.zeros((2, 0))).tolist() == [[0], [0]]
    rank_one = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [4.0])])
    assert rank_one.by_task(np.array([3.0, 4.0])).tolist() == [3, 4]
    assert [task.sizes.tolist() for task in rank_one] == [[1.0], [4.0]]


@pytest.mark.parametrize("angle", [1e-3, 1e-7, 1e-12])
def test_span_keeps_nearly_parallel_directions(angle):
    """A direction 1e-12 away from the span still counts: dropping it would change results in the 12th digit."""
    basis = fl.TaskCollection([([[1.0, 0, 0, 0, 0]], [1.0]), ([[1.0, angle, 0, 0, 0]], [1.0])]).span
    assert basis.shape == (5, 2)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)


@pytest.mark.parametrize("condition", [1.0, 5.0, 50.0, 1e6, 1e12])
def test_spectra_of_wide_tasks_are_accurate(condition, rng):
    n, d = 20, 200
    U, V = np.linalg.qr(rng.standard_normal((n, n)))[0], np.linalg.qr(rng.standard_normal((d, n)))[0]
    s = np.geomspace(condition, 1.0, n)
    X = (U * s) @ V.T
    task = fl.TaskCollection([(X, np.ones(n))])[0]
    np.testing.assert_allclose(task.singular_values, s, rtol=1e-13 * condition)
    np.testing.assert_allclose(task.singular_vectors @ task.singular_vectors.T, np.eye(n), atol=1e-13)
    X[0] = X[1]
    assert fl.TaskCollection([(X, np.ones(n))])[0].rank == n - 1


def test_from_arrays_splits_by_label(rng):
    X, y = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    for labels in (["b", "a", "c", "a", "b", "b", "c"], np.array([np.float64(i % 3) for i in range(7)], dtype=object)):
        groups = np.array(labels)
        tasks = fl.TaskCollection.from_arrays(X, y, labels)
        for task, label in zip(tasks, np.unique(groups), strict=True):
            np.testing.assert_array_equal(task.X, X[groups == label])
            np.testing.assert_array_equal(task.y, y[groups == label])


def test_container_protocol(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5))
    X, y = tasks[1]
    assert X is tasks[1].X
    assert y is tasks[1].y
    assert len(tasks[1:3]) == 2
    assert tasks[-1] is list(tasks)[4]
    assert tasks[1:3][0] is tasks[1]
    assert "n_tasks=5" in repr(tasks)
    assert "rank=" in repr(tasks[0])
    check_frozen(tasks[0], by_value=False)
    assert fl.metrics.task_losses(tasks, np.zeros(6))[0] == pytest.approx(0.5 * np.sum(tasks[0].y ** 2))


def test_teacher_of_tasks_that_share_a_subspace(rng):
    """Directions agree only up to rounding there; dividing by the differences would give nonsense."""
    for M, d, q in [(200, 50, 5), (5, 50, 5), (3, 20, 5), (40, 10, 2)]:
        B, w = np.linalg.qr(rng.standard_normal((d, q)))[0].T, rng.standard_normal(d)
        tasks = fl.TaskCollection([(X := rng.standard_normal((q, q)) @ B, X @ w) for _ in range(M)])
        np.testing.assert_allclose(tasks.teacher(), B.T @ (B @ w), atol=1e-10)
        assert tasks.is_realizable(1e-12)


@pytest.mark.parametrize("scales", [(2.0**-50, 1.0), (1.0, 2.0**-50), (2.0**-498, 2.0**498), (2.0**498, 2.0**-498)])
def test_contradictory_tasks_of_very_different_scales(scales, rng):
    """The larger task decides, the smaller one where it is silent: a limit that can be solved in two parts."""
    small, large = np.argsort(scales)
    X, y = rng.standard_normal((2, 4, 6)), rng.standard_normal((2, 4))
    tasks = fl.TaskCollection([(scale * A, scale * b) for scale, A, b in zip(scales, X, y, strict=True)])
    w = np.linalg.pinv(X[large]) @ y[large]
    free = np.linalg.svd(X[large])[2][4:].T
    w = w + free @ np.linalg.lstsq(X[small] @ free, y[small] - X[small] @ w)[0]
    np.testing.assert_allclose(tasks.teacher(), w, rtol=1e-9)


def test_residuals_do_not_depend_on_the_unit_of_the_targets():
    """Squares of the targets leave the range of a float."""
    labels = np.array([[1.0, 1.0], [3.0, 1.5], [-2.0, 1.0]])[:, None]
    units = 1.0, 1e-200, 1e200
    found = [fl.TaskCollection([([[1.0, 0.0]], unit * label) for label in labels]).residual for unit in units]
    assert 0.1 < found[0] < 10
    assert found == pytest.approx(found[:1] * 3, rel=1e-12)


def test_the_loss_of_a_task_sums_over_rows_and_targets():
    tasks = fl.TaskCollection([([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 4.0]])])
    w = [[0.0, 1.0], [3.0, 1.0]]
    assert fl.metrics.task_losses(tasks, w)[0] == tasks[0].loss(w) == pytest.approx(0.5 * (1 + 1 + 36 + 4))
    with pytest.raises(ValueError, match=r"w must have shape \(\.\.\., 2, 2\)"):
        fl.metrics.task_losses(tasks, [0.0, 1.0])


@pytest.mark.parametrize(
    "groups",
    [
        np.array(["2024-01-01", "NaT", "2024-01-02"], dtype="datetime64[ns]"),
        pd.Series([1, 2, None], dtype="Int64"),
        pd.Series(["a", None, "b"]),
        np.array([1.0, np.nan, 2.0], dtype=object),
    ],
)
def test_a_missing_group_label_is_no_task_of_its_own(groups):
    X, y = np.eye(3), np.ones(3)
    for split in (fl.TaskCollection.from_arrays, lambda *data: fl.ContinualRidge().fit(*data)):
        with pytest.raises(ValueError, match="groups must have a label for every row, but 1 rows have none"):
            split(X, y, groups)


def test_noise_and_walk_belong_to_every_collection_made_of_another(tmp_path):
    tasks = fl.TaskCollection.from_arrays(np.eye(3), np.ones(3), [0, 1, 1], noise=0.5, walk=0.25)
    tasks.save(tmp_path / "tasks")
    for each in (tasks[1:], tasks.shifted(np.ones(3)), fl.load(tmp_path / "tasks")):
        assert (each.noise, each.walk) == (0.5, 0.25)
        assert repr(each).endswith(", noise=0.5, walk=0.25)")
    assert (fl.TaskCollection(tasks).noise, fl.TaskCollection(tasks).walk) == (0.0, 0.0)


@pytest.mark.parametrize("targets", [None, 2])
def test_shifted_tasks_are_those_of_the_labels_that_remain(targets, rng):
    """The same spectrum and floors, and the sizes of what was rounded; all else as if y − X w₀ were the labels."""
    tasks = fl.TaskCollection(random_pairs(rng, M=4, d=3, rows=(2, 5), targets=targets, realizable=False))
    start = rng.standard_normal(tasks.teacher().shape)
    shifted, given = tasks.shifted(start), fl.TaskCollection([(X, y - X @ start) for X, y in tasks])
    assert shifted.floors is not given.floors
    np.testing.assert_array_equal(shifted.floors, tasks.floors)
    np.testing.assert_allclose(shifted.targets, given.targets, rtol=1e-12, atol=1e-12)
    for one, task, other in zip(shifted, tasks, given, strict=True):
        assert one.singular_vectors is task.singular_vectors
        np.testing.assert_array_equal(one.y, other.y)
        assert np.all(one.sizes >= other.sizes * (1 - 1e-12))
    losses = fl.metrics.task_losses(shifted, np.zeros_like(start))
    np.testing.assert_allclose(losses, fl.metrics.task_losses(tasks, start), rtol=1e-12)
    np.testing.assert_allclose(shifted.shifted(-start).teacher(), tasks.teacher(), rtol=1e-10)


@pytest.mark.parametrize("distance", [1e-4, 1e-7, 1e-10])
def test_what_rounding_leaves_of_labels_near_the_start_is_no_contradiction(distance, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=4, rows=(2, 4)))
    near = tasks.shifted(tasks.teacher() + distance * rng.standard_normal(4))
    assert near.is_realizable()
    assert fl.compare_bounds(near, fl.schedules.increasing(), 20).bounds[0].applies

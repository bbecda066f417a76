"""``evaluate_stream``: errors before learning and on held-out rows, of any model with ``partial_fit``."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier, SGDRegressor

import forgetless as fl
from support.checks import check_frozen
from support.streams import stream


@pytest.mark.parametrize(
    ("model", "targets"),
    [(fl.ContinualRidge(alpha=1.0), ()), (fl.StreamingRidge(1.0), (2,)), (SGDRegressor(random_state=0), ())],
    ids=str,
)
def test_errors_before_learning_are_those_of_predictions(rng, model, targets):
    tasks, twin = list(stream(rng, 5, 20, 3, targets)), clone(model)
    result = fl.evaluate_stream(clone(model), tasks)
    assert np.isnan(result.before[0])
    assert result.tasks == ["1", "2", "3", "4", "5"]
    for t, (X, y) in enumerate(tasks):
        if t:
            so_far = np.concatenate([targets for _, targets in tasks[:t]])
            assert result.before[t] == pytest.approx(np.mean((twin.predict(X) - y) ** 2))
            assert result.mean_before[t] == pytest.approx(np.mean((y - so_far.mean(axis=0)) ** 2))
            assert result.last_before[t] == pytest.approx(np.mean((y - tasks[t - 1][1].mean(axis=0)) ** 2))
        twin.partial_fit(X, y)
    check_frozen(result, by_value=False)
    assert not result.watched
    assert result.change.shape == (5, 2)
    assert result.prequential_mse == pytest.approx(result.before[1:].mean())
    assert repr(result) == f"StreamResult of 5 tasks: RMSE {np.sqrt(result.prequential_mse):.4g} before learning"


@pytest.mark.parametrize("model", [fl.StreamingRidge(rank=2), SGDRegressor(random_state=0)], ids=str)
def test_held_out_rows_are_never_learned_and_watched_until_the_end(rng, model):
    tasks, learned = list(stream(rng, 5, 20, 3)), []

    class Spy(type(model)):
        def partial_fit(self, X, y, **options):
            learned.append(X)
            return super().partial_fit(X, y, **options)

    spy = Spy(**model.get_params())
    result = fl.evaluate_stream(spy, (("task", X, y) for X, y in tasks), holdout=0.25, seed=3)
    assert [len(X) for X in learned] == [15] * 5
    for m, ((X, y), rows) in enumerate(zip(tasks, learned, strict=True)):
        held = ~(X[:, None, :] == rows[None, :, :]).all(axis=2).any(axis=1)
        assert held.sum() == 5
        assert result.errors[-1, m] == pytest.approx(np.mean((spy.predict(X[held]) - y[held]) ** 2))
    np.testing.assert_allclose(result.forgetting, result.errors[-1] - np.diag(result.errors), atol=1e-12)
    np.testing.assert_allclose(result.seen, np.nanmean(result.errors, axis=1))
    again = fl.evaluate_stream(Spy(**model.get_params()), tasks, holdout=0.25, seed=3)
    np.testing.assert_array_equal(again.errors, result.errors)
    learned, end = np.sqrt(np.diag(result.errors).mean()), np.sqrt(result.errors[-1].mean())
    assert repr(result).endswith(f"on held-out rows {learned:.4g} after learning their task, {end:.4g} at the end")


@pytest.mark.parametrize(("n", "holdout", "learned"), [(4, 0.25, 3), (4, 0.1, 3), (2, 0.9, 1), (1, 0.5, 1)])
def test_one_row_of_a_small_task_is_held_out(n, holdout, learned, rng):
    X, y = rng.standard_normal((3, n, 2)), rng.standard_normal((3, n))
    tasks = fl.TaskCollection(list(zip(X, y, strict=True)))
    result = fl.evaluate_stream(fl.ContinualRidge(alpha=1.0), tasks, holdout=holdout)
    assert result.rows.tolist() == [learned] * 3
    assert result.watched
    assert np.isnan(result.before).tolist() == [True, False, False]


def test_all_tasks_share_the_rows_that_are_watched(rng):
    """20,000 rows over the number of tasks, which is rounded up to three binary digits: 9 to 10, and 17 to 20."""

    class Spy(fl.ContinualRidge):
        def predict(self, X):
            watched[self.n_tasks_seen_] = max(len(X), watched.get(self.n_tasks_seen_, 0))
            return super().predict(X)

    watched = {}
    fl.evaluate_stream(Spy(), [(rng.standard_normal((23_000, 1)), np.ones(23_000))] * 17, holdout=0.9)
    assert [watched[t] for t in (1, 2, 3, 9, 17)] == [20_000, 20_000, 3 * 6666, 9 * 2000, 17 * 1000]


def test_wrong_arguments_are_named(rng):
    for share in (-0.1, 1.0, 1.5):
        with pytest.raises(ValueError, match=rf"holdout must be a fraction of the rows in \[0, 1\), got {share}"):
            fl.evaluate_stream(fl.ContinualRidge(alpha=1.0), stream(rng), holdout=share)
    with pytest.raises(ValueError, match="there are no tasks to learn"):
        fl.evaluate_stream(fl.StreamingRidge(), [])
    X = rng.standard_normal((20, 3))
    for tasks in (X, X[:, :2], [X], (X, X[:, 0])):  # rows without targets, and one task that is in no list
        with pytest.raises(ValueError, match=r"tasks must be pairs \(X, y\) or .* got ndarray of length \d+; give"):
            fl.evaluate_stream(fl.StreamingRidge(), tasks)


def test_few_held_out_rows_of_many_columns_take_little_memory(rng):
    """The rows that are watched take memory as they come: 20 rows of 10⁵ features are 16 MB, and not 15 GB."""
    n, d = 20, 100_000
    tasks = [(rng.standard_normal((n, d)), rng.standard_normal(n)) for _ in range(2)]
    tracemalloc.start()
    try:
        result = fl.evaluate_stream(fl.ContinualRidge(1.0), tasks, holdout=0.5, seed=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(result.errors[-1]).all()
    assert peak < 12 * n * d * 8


def test_errors_of_classifiers_are_fractions_of_wrong_rows(rng):
    """Also where classes are numbers, of which squared differences would be multiples of 100."""
    labels = rng.integers(0, 3, (4, 60))
    tasks = [(3.0 * np.eye(3)[y] + rng.standard_normal((60, 3)), 10 * y) for y in labels]
    result = fl.evaluate_stream(fl.StreamingRidgeClassifier(), tasks)
    model, before = fl.StreamingRidgeClassifier().partial_fit(*tasks[0]), [np.nan]
    for X, y in tasks[1:]:
        before.append(np.mean(model.predict(X) != y))
        model.partial_fit(X, y)
    np.testing.assert_allclose(result.before, before)
    assert repr(result).endswith(f"error rate {np.mean(before[1:]):.4g} before learning")
    most_frequent = 10 * np.bincount(labels[:3].ravel()).argmax()
    assert result.mean_before[3] == pytest.approx(np.mean(tasks[3][1] != most_frequent))
    other = SGDClassifier(random_state=0).partial_fit(*tasks[0], classes=[0, 10, 20])
    for model in (fl.StreamingRidgeClassifier(), other):
        held = fl.evaluate_stream(model, tasks, holdout=0.2)
        wrong = 12 * held.errors[-1]  # of 12 rows each
        np.testing.assert_allclose(wrong, wrong.round(), atol=1e-9)
        assert (held.errors[-1] < held.constant).all()
        assert held.constant.max() <= 1

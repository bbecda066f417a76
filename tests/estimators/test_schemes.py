"""``ContinualRidge`` and ``ContinualGD``: the literal algorithms of the paper, and which filter a task takes."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import forgetless as fl
from support import literal
from support.streams import learned, stream

KINDS = [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csc_array]
SHAPES = [(kind, shape) for kind in KINDS for shape in [(5, 20), (20, 5), (8, 8), (1, 7)]]
LARGE = [(sparse.csr_array, (260, 280)), (sparse.csc_array, (280, 260))]  # solved by products alone


@pytest.mark.parametrize(("kind", "shape"), SHAPES + LARGE)
def test_steps_are_those_of_the_paper(rng, kind, shape):
    d = shape[1]
    w = rng.standard_normal(d)
    X, y = rng.standard_normal(shape) / np.sqrt(d / 5), rng.standard_normal(shape[0])
    for model, step in [
        (fl.ContinualRidge(0.3), lambda start: literal.ridge_step(start, X, y, 0.3)),
        (fl.ContinualGD(7, 0.02), lambda start: literal.descent_step(start, X, y, 7, 0.02)),
        (fl.ContinualRidge(0.0), lambda start: literal.projection_step(start, X, y)),
    ]:
        start = model.partial_fit(np.eye(d), w).coef_
        model.partial_fit(kind(X), y)
        np.testing.assert_allclose(model.coef_, step(start), rtol=1e-6, atol=1e-8)


def weights(model):
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


MODELS = [
    fl.ContinualRidge(0.3),
    fl.ContinualRidge(0.0, fit_intercept=True),
    fl.ContinualRidge(schedule=fl.schedules.increasing(), n_tasks=20),
    fl.ContinualGD(3),
]


@pytest.mark.parametrize("targets", [(), (2,)])
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("r", [0, 1.5, 2])
def test_averages_answer_and_the_last_weights_learn(r, model, targets, rng):
    averaging, alone = clone(model).set_params(average=r), clone(model)
    path, squares = [], []
    for X, y in stream(rng, targets=targets):
        if path:
            squares.append(np.mean((averaging.predict(X) - y) ** 2))
        averaging.partial_fit(X, y)
        path.append(weights(alone.partial_fit(X, y)))
    expected = literal.averages(np.array(path), r)[-1]
    np.testing.assert_allclose(weights(averaging), expected, rtol=1e-12, atol=1e-12)
    answers = X @ averaging.coef_.T + averaging.intercept_
    np.testing.assert_allclose(averaging.predict(X), answers, rtol=1e-10, atol=1e-12)
    assert averaging.prequential_mse_ == pytest.approx(np.mean(squares))


s = fl.schedules
SCHEDULES = [s.increasing(0.1), s.end_ramp(), s.cyclic(3), s.increasing_budget(5), fl.Ridge(np.arange(1.0, 7.0))]


@pytest.mark.parametrize("schedule", [*SCHEDULES, "increasing"], ids=str)
def test_a_schedule_is_that_of_the_laboratory(rng, schedule):
    tasks = list(stream(rng, 6))
    collection = fl.TaskCollection(tasks)
    scheme = fl.ContinualGD if "budget" in str(schedule) else fl.ContinualRidge
    model = scheme(schedule=schedule, n_tasks=6, radius=collection.radius)
    trace = fl.simulate(collection, schedule, 6, ordering=fl.FixedOrder(range(6)), metrics="weights")
    np.testing.assert_allclose(learned(model, tasks).coef_, trace.weights[0, -1], rtol=1e-8)


def test_any_callable_is_a_schedule(rng):
    tasks = list(stream(rng, 4))
    model = learned(fl.ContinualRidge(schedule=lambda k, radius: fl.Ridge(np.arange(1.0, k + 1)), n_tasks=4), tasks)
    w = np.zeros(8)
    for t, (X, y) in enumerate(tasks, start=1):
        w = literal.ridge_step(w, X, y, float(t))
    np.testing.assert_allclose(model.coef_, w, rtol=1e-9)
    assert model.alpha_ == 4.0
    # One whose filter is the same at every step needs no number of tasks.
    constant = learned(fl.ContinualRidge(schedule=lambda k, radius: fl.Ridge(radius**2)), tasks)
    assert constant.alpha_ == pytest.approx(constant.radius_**2)


def test_the_number_of_tasks_must_be_known(rng):
    (X, y), more = stream(rng, 2, 6)
    with pytest.raises(ValueError, match="depends on the number of tasks: set n_tasks"):
        fl.ContinualRidge(schedule="increasing").partial_fit(X, y)
    groups = [0, 0, 1, 1, 2, 2]
    counted = fl.ContinualRidge(schedule="increasing").fit(X, y, groups)
    known = fl.ContinualRidge(schedule="increasing", n_tasks=3).fit(X, y, groups)
    np.testing.assert_array_equal(counted.coef_, known.coef_)
    for model in (counted, known):
        with pytest.raises(ValueError, match="task 4 is beyond the 3 tasks that the schedule was made for; set n_t"):
            model.partial_fit(*more)
    assert fl.ContinualGD().fit(X, y, groups).partial_fit(*more).n_tasks_seen_ == 4


def test_the_running_radius_is_the_largest_norm_so_far(rng):
    tasks = [(X * scale, y) for scale, (X, y) in zip([0.01, 0.03, 0.02, 0.05], stream(rng, 4), strict=True)]
    norms = np.maximum.accumulate([np.linalg.norm(X, 2) for X, _ in tasks])
    model = fl.ContinualRidge(schedule="increasing", n_tasks=4)
    for t, (X, y) in enumerate(tasks, start=1):
        model.partial_fit(X, y)
        assert model.radius_ == pytest.approx(norms[t - 1])
        assert model.alpha_ == pytest.approx(13 / 3 * norms[t - 1] ** 2 * 5 / (4 - t + 2))
    for model, n_steps in ((fl.ContinualGD(7), 7), (fl.ContinualGD(), 100)):
        assert learned(model, tasks).alpha_ == pytest.approx(2 * norms[-1] ** 2 / n_steps)
    assert learned(fl.ContinualRidge(), tasks).alpha_ == 1.0


def test_weights_that_overflow_are_refused():
    model = fl.ContinualRidge(alpha=0.0).partial_fit([[1.0]], [1.0])
    with pytest.raises((OverflowError, ValueError)), np.errstate(all="ignore"):
        model.partial_fit([[1e-300]], [1e300])
    assert model.coef_.tolist() == [1.0]
    descent = fl.ContinualGD(10**6, 1.0).partial_fit([[1.0]], [1.0])
    with pytest.raises(OverflowError, match="smaller steps"), np.errstate(all="ignore"):
        descent.partial_fit([[3.0]], [1.0])


def test_wide_sparse_tasks_take_no_more_memory_than_their_rows_and_weights(rng):
    d = 10**6
    places = rng.integers(200, size=2000), rng.integers(d, size=2000)
    X = sparse.csr_array((np.ones(2000), places), shape=(200, d))
    model = fl.ContinualRidge(1.0)
    tracemalloc.start()
    try:
        model.partial_fit(X, rng.standard_normal(200))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * 8 * d
    assert set(np.flatnonzero(model.coef_)) <= set(X.indices)

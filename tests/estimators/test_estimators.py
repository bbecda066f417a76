"""What a stream of tasks gives: the literal algorithms, the engine, and one-hot targets."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import forgetless as fl
from support import literal
from support.streams import learned, stream


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "list", "float32", "blocks", "generator", "memmap"])
@pytest.mark.parametrize("model", [fl.ContinualRidge(0.5), fl.ContinualGD(7, 0.01)], ids=["ridge", "gd"])
def test_a_stream_is_the_literal_algorithm_for_every_kind_of_input(rng, tmp_path, kind, model):
    tasks = list(stream(rng, targets=(2,)))
    model = clone(model)
    w = np.zeros((8, 2))
    for i, (X, y) in enumerate(tasks):
        if isinstance(model, fl.ContinualRidge):
            w = literal.ridge_step(w, X, y, 0.5)
        else:
            w = literal.descent_step(w, X, y, 7, 0.01)
        if kind in ("blocks", "generator"):
            blocks = [(X[:2], y[:2]), (X[2:], y[2:])]
            model.partial_fit_blocks(blocks if kind == "blocks" else (block for block in blocks))
            continue
        if kind == "memmap":
            stored = np.memmap(tmp_path / str(i), dtype=float, mode="w+", shape=X.shape)
            stored[:] = X
            model.partial_fit(stored, y)
            continue
        forms = {
            "dense": X,
            "csr": sparse.csr_array(X),
            "csc": sparse.csc_matrix(X),
            "list": X.tolist(),
            "float32": X.astype(np.float32),
        }
        model.partial_fit(forms[kind], y)
    assert model.coef_.dtype == (np.float32 if kind == "float32" else np.float64)
    np.testing.assert_allclose(model.coef_, w.T, rtol=1e-4 if kind == "float32" else 1e-9, atol=1e-6)
    assert model.n_tasks_seen_ == len(tasks)


def test_fit_learns_groups_in_order_of_appearance_and_knows_their_number(rng):
    tasks = list(stream(rng, 5))
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    groups = np.repeat(["z", "b", "y", "a", "q"], 5)
    fitted = fl.ContinualRidge(schedule="increasing", radius=4.0).fit(X, y, groups)
    streamed = learned(fl.ContinualRidge(schedule="increasing", radius=4.0, n_tasks=5), tasks)
    np.testing.assert_allclose(fitted.coef_, streamed.coef_, rtol=1e-12)
    shuffled = rng.permutation(len(X))
    again = fl.ContinualRidge(alpha=1.0).fit(X[shuffled], y[shuffled], groups[shuffled])
    assert again.n_tasks_seen_ == 5
    # fit forgets everything
    assert again.fit(X, y).n_tasks_seen_ == 1


def test_estimator_follows_the_engine(rng):
    tasks = list(stream(rng, 6))
    collection = fl.TaskCollection(tasks)
    for model, schedule in [
        (fl.ContinualRidge(schedule="increasing", n_tasks=6, radius=collection.radius), fl.schedules.increasing()),
        (fl.ContinualRidge(schedule="fixed", n_tasks=6, radius=collection.radius), fl.schedules.fixed()),
        (fl.ContinualRidge(schedule="none"), fl.Projection()),
        (
            fl.ContinualGD(4, schedule="increasing", n_tasks=6, radius=collection.radius),
            fl.schedules.increasing_budget(4),
        ),
    ]:
        options = {"ordering": fl.FixedOrder(range(6)), "record": "last", "metrics": "weights"}
        trace = fl.simulate(collection, schedule, 6, **options)
        np.testing.assert_allclose(learned(model, tasks).coef_, trace.weights[0, -1], rtol=1e-8, err_msg=str(model))


def test_classifier_is_ridge_on_one_hot_targets(rng):
    X, labels = rng.standard_normal((30, 4)), rng.choice(["x", "y", "z"], 30)
    model = fl.ContinualRidgeClassifier(alpha=0.5)
    hot = fl.ContinualRidge(alpha=0.5, fit_intercept=True)
    for part in (slice(0, 10), slice(10, 30)):
        model.partial_fit(X[part], labels[part], classes=["z", "x", "y"])
        hot.partial_fit(X[part], (labels[part, None] == np.array(["x", "y", "z"])).astype(float))
    np.testing.assert_allclose(model.coef_, hot.coef_, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), np.array(["x", "y", "z"])[hot.predict(X).argmax(1)])
    blocks = [(X[:10], labels[:10]), (X[10:], labels[10:])]
    part = fl.ContinualRidgeClassifier(alpha=0.5).partial_fit_blocks(blocks, classes=["x", "y", "z"])
    np.testing.assert_allclose(part.coef_, fl.ContinualRidgeClassifier(alpha=0.5).fit(X, labels).coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="in blocks these must be declared"):
        fl.ContinualRidgeClassifier().partial_fit_blocks(blocks)

"""Models that answer with an average of their weights: what learns, what answers, and what is kept."""

import copy

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from support import literal
from support.streams import learned, stream

KINDS = [
    fl.ContinualRidge(0.3),
    fl.ContinualRidge(0.0, fit_intercept=True),
    fl.ContinualRidge(schedule="increasing", n_tasks=20),
    fl.ContinualGD(3),
]


def weights(model):
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("targets", [(), (2,)])
@pytest.mark.parametrize("model", KINDS, ids=str)
@pytest.mark.parametrize("r", [0, 1.5, 2])
def test_answers_with_the_average_and_learns_from_the_last(r, model, targets, dtype, rng):
    model, alone = (copy.deepcopy(model) for _ in range(2))
    model.set_params(average=r)
    path, squares = [], []
    for X, y in stream(rng, targets=targets):
        X, y = X.astype(dtype), y.astype(dtype)
        predicted = model.predict(X) if path else 0 * y
        squares.append(np.mean((predicted - y) ** 2))
        model.partial_fit(X, y)
        path.append(weights(alone.partial_fit(X, y)))
        assert model.coef_.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    expected = literal.averages(np.array(path), r)[-1]
    np.testing.assert_allclose(weights(model), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_.T + model.intercept_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.history_["mse_before"], squares, rtol=100 * tolerance)
    np.testing.assert_allclose(model.history_["mse_after"], alone.history_["mse_after"], rtol=100 * tolerance)
    assert model.prequential_mse_ == pytest.approx(np.mean(squares), rel=100 * tolerance)
    assert 0 < model.nbytes_ - alone.nbytes_ <= np.dtype(dtype).itemsize * len(expected) + 8


@pytest.mark.parametrize("given", ["blocks", "generator", "sparse", "rows", "weighted", "fit"])
def test_tasks_given_in_any_way_are_averaged_alike(given, rng):
    tasks = list(stream(rng))
    model, known = fl.ContinualRidge(0.3, average=2), learned(fl.ContinualRidge(0.3, average=2), tasks)
    if given == "fit":
        groups = np.repeat(np.arange(len(tasks)), [len(X) for X, _ in tasks])
        model.fit(np.vstack([X for X, _ in tasks]), np.concatenate([y for _, y in tasks]), groups=groups)
    for X, y in tasks if given != "fit" else ():
        blocks = [(X[:2], y[:2]), (X[2:], y[2:])]
        if given in ("blocks", "generator"):
            model.partial_fit_blocks(blocks if given == "blocks" else iter(blocks))
        elif given == "weighted":
            model.partial_fit(np.vstack([X, 2 * X]), np.append(y, 9 * y), np.repeat([1.0, 0.0], len(y)))
        else:
            model.partial_fit(sparse.csr_array(X) if given == "sparse" else X.tolist(), y)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.history_["mse_before"], known.history_["mse_before"], rtol=1e-9)


def test_classes_are_those_of_the_average(rng):
    X, labels = rng.standard_normal((40, 3)), rng.choice(["a", "b", "c"], 40)
    model, alone, path = fl.ContinualRidgeClassifier(0.2, average=0), fl.ContinualRidgeClassifier(0.2), []
    for part in np.split(np.arange(40), 4):
        for each in (model, alone):
            each.partial_fit(X[part], labels[part], classes=["a", "b", "c"])
        path.append(weights(alone))
    np.testing.assert_allclose(weights(model), np.mean(path, axis=0), rtol=1e-12, atol=1e-14)
    scores = X @ model.coef_.T + model.intercept_
    assert model.predict(X).tolist() == model.classes_[scores.argmax(1)].tolist()


def test_an_average_begins_with_the_stream(rng):
    tasks = list(stream(rng))
    model = learned(fl.ContinualRidge(0.3), tasks)
    with pytest.raises(ValueError, match="average was None for the first task and cannot become 2 within a stream"):
        model.set_params(average=2).partial_fit(*tasks[0])
    model.fit(*tasks[0])
    assert model._state.iterate is not None
    for value in (-1, 33, "2"):
        with pytest.raises((TypeError, ValueError), match=r"average must be .*use 2 for weights"):
            fl.ContinualRidge(alpha=1.0, average=value).fit(*tasks[0])

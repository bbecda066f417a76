"""What holds for every streaming estimator: rows in any form, in any units, and with later features."""

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier

import forgetless as fl
from support.streams import cut, learned, linear

MODELS = [
    fl.StreamingRidge(),
    fl.StreamingRidge(adaptive=True),
    fl.StreamingRidge(1.0, rank=3),
    fl.StreamingRidgeClassifier(),
    fl.StreamingRidgeClassifier(rank=3),
    fl.StreamingLogistic(),
]
SCHEMES = [fl.ContinualRidge(0.3, average=2), fl.ContinualGD(4, 0.01, fit_intercept=True)]
every_model = pytest.mark.parametrize("model", MODELS + SCHEMES, ids=str)
every_standardizing_model = pytest.mark.parametrize("model", MODELS, ids=str)


def targets_of(model, y):
    """Numbers for regressors, names of classes for classifiers."""
    return np.where(y > 3.0, "high", "low") if is_classifier(model) else y


def tasks_of(model, n=60, d=6, **options):
    X, y = linear(n, d, noise=1.0, **options)
    return cut(X, targets_of(model, y), [n // 3] * 3)


def answers(model, X):
    return model.predict_proba(X) if is_classifier(model) else model.predict(X)


def errors_of(model):
    names = ("prequential_mse_", "prequential_error_", "temperature_")
    return [getattr(model, name) for name in names if hasattr(model, name)]


def close(model):
    """Logistic regression is solved by steps."""
    tolerance = 1e-4 if isinstance(model, fl.StreamingLogistic) else 1e-7
    return {"rtol": tolerance, "atol": tolerance}


@every_model
def test_groups_of_fit_are_tasks_one_after_the_other(model):
    tasks = tasks_of(model)
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    found = clone(model).fit(X.tolist(), y, groups=np.repeat(["first", "second", "third"], 20))
    known = learned(clone(model), tasks)
    np.testing.assert_array_equal(answers(found, X), answers(known, X))
    assert errors_of(found) == errors_of(known)


@every_model
def test_weights_are_repeated_rows(model, rng):
    weighted, repeated = clone(model), clone(model)
    for X, y in tasks_of(model):
        counts = rng.integers(0, 4, len(X))
        weighted.partial_fit(X, y, sample_weight=counts)
        again = np.repeat(np.arange(len(X)), counts)
        repeated.partial_fit(X[again], y[again])
    np.testing.assert_allclose(answers(weighted, X), answers(repeated, X), **close(model))
    assert errors_of(weighted) == pytest.approx(errors_of(repeated))
    if isinstance(model, fl.StreamingRidge):
        deviations = (each.predict(X, return_std=True)[1] for each in (weighted, repeated))
        np.testing.assert_allclose(*deviations, rtol=1e-9)


@every_model
def test_rows_of_weight_zero_are_not_there(model):
    """Neither their values, nor their range, nor their classes."""
    ((X, y),) = cut(*linear(40, 3), [40])
    y = targets_of(model, y)
    extreme = np.full(40, "new" if is_classifier(model) else 1e6, dtype=y.dtype)
    found = clone(model).partial_fit(
        np.vstack([X, 100 * X]), np.append(y, extreme), sample_weight=np.repeat([1.0, 0.0], 40)
    )
    plain = clone(model).partial_fit(X, y)
    np.testing.assert_allclose(answers(found, 9 * X), answers(plain, 9 * X), **close(model))


@every_model
def test_sparse_rows_are_dense_rows(model, rng):
    tasks = [(X * (rng.random(X.shape) < 0.4), y) for X, y in tasks_of(model)]
    dense = learned(clone(model), tasks)
    found = learned(clone(model), [(sparse.csc_matrix(X), y) for X, y in tasks])
    for X in (tasks[0][0], 9 * tasks[0][0], tasks[0][0] + 9.0):  # also outside of the range
        np.testing.assert_allclose(answers(found, sparse.csr_array(X)), answers(dense, X), **close(model))


@every_standardizing_model
@pytest.mark.parametrize(("scale", "shift"), [(1e-8, 0.0), (1e8, 0.0), (1e3, 7.0)])
def test_units_of_features_change_nothing(model, scale, shift):
    tasks = tasks_of(model)
    units = scale ** np.linspace(0, 1, 6)
    plain = learned(clone(model), tasks)
    rescaled = learned(clone(model), [(X * units + shift, y) for X, y in tasks])
    X = tasks[0][0]
    np.testing.assert_allclose(answers(rescaled, X * units + shift), answers(plain, X), **close(model))


@every_model
def test_widened_models_are_those_of_columns_that_were_zero(model):
    tasks = tasks_of(model)
    with_zeros = [(np.column_stack([X, np.zeros((len(X), 2))]), y) for X, y in tasks]
    late = learned(clone(model), tasks[:2]).widen(2)
    early = learned(clone(model), with_zeros[:2])
    more = np.random.default_rng(9).standard_normal((20, 8))
    for each in (late, early):
        each.partial_fit(*with_zeros[2]).partial_fit(more, targets_of(model, more.sum(axis=1) + 3.0))
    np.testing.assert_allclose(answers(late, more), answers(early, more), **close(model))


@every_model
def test_features_have_names_where_tables_have(model):
    frame = pandas.DataFrame(linear(20, 2)[0], columns=["a", "b"])
    y = targets_of(model, np.arange(20.0))
    model = clone(model).fit(frame, y)
    with pytest.raises(ValueError, match="names"):
        model.widen(1)
    model.widen(1, ["c"]).partial_fit(frame.assign(c=1.0), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.coefficients().columns["feature"] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["b", "a"]].assign(c=1.0), y)
    with pytest.warns(UserWarning, match="feature names"):
        model.partial_fit(frame.assign(c=1.0).to_numpy(), y)


@every_model
def test_models_of_scikit_learn_predict_the_same(model):
    ((X, y),) = cut(*linear(30, 3), [30])
    model = clone(model).fit(X, targets_of(model, y))
    other = model.to_sklearn()
    assert type(other).__module__.startswith("sklearn.linear_model")
    if is_classifier(model):
        assert other.predict(X).tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(answers(other, X), answers(model, X), atol=1e-12)

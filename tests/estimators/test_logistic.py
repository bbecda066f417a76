"""``StreamingLogistic``: one task is logistic regression, more are its Laplace approximation."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import forgetless as fl
from support.streams import learned


def data(rng, n=120, d=3, classes=2):
    X = rng.standard_normal((n, d)) * [1.0, 20.0, 0.1][:d] + 5.0
    scores = ((X - 5.0) / [1.0, 20.0, 0.1][:d]) @ rng.standard_normal((d, classes)) * 2
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def reference(X, y, alpha):
    """Logistic regression of scikit-learn with a penalty α of standardized weights, in the units of X."""
    scaler = StandardScaler().fit(X)
    model = LogisticRegression(C=1 / alpha, tol=1e-10, max_iter=1000).fit(scaler.transform(X), y)
    coef = model.coef_[0] / scaler.scale_
    return coef, model.intercept_[0] - coef @ scaler.mean_


def test_one_task_is_penalized_logistic_regression(rng):
    X, y = data(rng)
    model = fl.StreamingLogistic(0.5).fit(X, y)
    coef, intercept = reference(X, y, 0.5)
    np.testing.assert_allclose(model.coef_[0], coef, rtol=1e-4)
    np.testing.assert_allclose(model.intercept_[0], intercept, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(X @ coef + intercept), atol=1e-5)


def test_several_classes_are_one_against_the_rest(rng):
    X, y = data(rng, classes=3)
    model = fl.StreamingLogistic(0.5).fit(X, y)
    for k in range(3):
        np.testing.assert_allclose(model.coef_[k], reference(X, y == k, 0.5)[0], rtol=1e-3)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.predict(X).tolist() == probabilities.argmax(axis=1).tolist()
    assert model.to_sklearn().predict(X).tolist() == model.predict(X).tolist()


def test_tasks_together_are_nearly_all_rows_at_once(rng):
    X, y = data(rng, n=2000)
    whole = fl.StreamingLogistic().fit(X, y)
    parts = learned(fl.StreamingLogistic(), list(zip(np.split(X, 20), np.split(y, 20), strict=True)))
    assert np.abs(parts.predict_proba(X) - whole.predict_proba(X)).max() < 0.05
    assert parts.n_tasks_seen_ == 20


def test_norms_of_any_size_are_no_leverage():
    """Rows of very different norms: a step of the log-loss is bounded, one of least squares is not."""
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal(5)
    X = rng.standard_normal((1200, 5)) * np.exp(1.0 * rng.standard_normal((1200, 1)))
    y = X @ teacher > 0
    tasks = list(zip(np.split(X[:1000], 10), np.split(y[:1000], 10), strict=True))
    logistic, ridge = (learned(kind(), tasks) for kind in (fl.StreamingLogistic, fl.StreamingRidgeClassifier))
    wrong = [np.mean(model.predict(X[1000:]) != y[1000:]) for model in (logistic, ridge)]
    assert wrong[0] < 0.05 < wrong[1]


def test_classes_are_declared_with_the_first_task(rng):
    X, y = data(rng, n=30)
    with pytest.raises(ValueError, match="one class, 0; declare all of them with classes="):
        fl.StreamingLogistic().partial_fit(X, np.zeros(30, dtype=int))
    model = fl.StreamingLogistic().partial_fit(X, np.zeros(30, dtype=int), classes=[0, 1])
    assert model.partial_fit(X, y).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"did not declare: \[2\].*StreamingRidgeClassifier"):
        model.partial_fit(X, y + 1)


def test_a_penalty_of_zero_is_refused(rng):
    with pytest.raises(ValueError, match="alpha must be positive, got 0"):
        fl.StreamingLogistic(alpha=0).partial_fit(*data(rng, n=30))


def test_separable_classes_have_finite_weights():
    X = np.linspace(-1, 1, 20)[:, None]
    model = learned(fl.StreamingLogistic(), [(X, X[:, 0] > 0)] * 5)
    assert np.isfinite(model.coef_).all()
    assert (model.predict(X) == (X[:, 0] > 0)).all()


def test_too_many_features_are_refused():
    with pytest.raises(ValueError, match="more than 2,000; use StreamingRidgeClassifier"):
        fl.StreamingLogistic().partial_fit(np.zeros((2, 2001)), [0, 1])

"""``StreamingRidgeClassifier``: classes that come later, weights, and probabilities."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import forgetless as fl
from support.streams import learned

CENTRES = np.random.default_rng(11).standard_normal((5, 12)) * 2
NAMES = np.array(["e", "b", "d", "a", "c"])


def rows_of(rng, classes, n=8):
    """Rows around the centres of some classes, and their names."""
    at = np.repeat(classes, n)
    return CENTRES[at] + 0.5 * rng.standard_normal((len(at), 12)), NAMES[at]


def parts(rng):
    return [rows_of(rng, classes) for classes in ([0], [1, 2], [0, 3], [4])]


def counts(model):
    """Rows of every class: the mean of a one-hot target is a share."""
    return model.rows_.n * model.rows_.target


def test_scores_are_ridge_regression_on_one_hot_targets(rng):
    tasks = parts(rng)
    model = learned(fl.StreamingRidgeClassifier(2.0), tasks)
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    scaler = StandardScaler().fit(X)
    one_hot = (y[:, None] == np.unique(y)).astype(float)
    reference = Ridge(2.0).fit(scaler.transform(X), one_hot)
    np.testing.assert_allclose(
        model.decision_function(X), reference.predict(scaler.transform(X)), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.decision_function(X), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.3}, {"rank": 6}, {"standardize": False}], ids=str)
def test_a_class_may_come_later_as_if_it_had_been_declared(rng, options):
    early, late = (fl.StreamingRidgeClassifier(**options) for _ in range(2))
    for t, (X, y) in enumerate(parts(rng)):
        early.partial_fit(X, y, classes=["a", "b", "c", "d", "e"] if t == 0 else None)
        late.partial_fit(X, y)
        if t == 1:
            late = pickle.loads(pickle.dumps(late))
    assert late.classes_.tolist() == early.classes_.tolist() == ["a", "b", "c", "d", "e"]
    np.testing.assert_allclose(late.coef_, early.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(late.intercept_, early.intercept_, rtol=1e-6, atol=1e-9)
    for model in (late, early):
        np.testing.assert_allclose(counts(model), [8, 8, 8, 8, 16])


def test_one_class_alone_is_a_beginning(rng, tmp_path):
    X, y = rows_of(rng, [2])
    model = fl.StreamingRidgeClassifier().partial_fit(X, y)
    assert set(model.predict(X)) == {"d"}
    np.testing.assert_array_equal(model.predict_proba(X), 1.0)
    model.save(tmp_path / "m")
    other = fl.load(tmp_path / "m").partial_fit(*rows_of(rng, [0, 1]))
    assert other.classes_.tolist() == ["b", "d", "e"]
    assert np.mean(other.predict(X) == "d") > 0.9


def test_coefficients_have_the_names_of_classes(rng):
    X, y = rows_of(rng, [0, 1, 2])
    for model in (fl.StreamingRidgeClassifier(), fl.StreamingLogistic()):
        columns = model.fit(X, y).coefficients().columns
        assert list(columns) == ["feature", "b", "d", "e", "scale"]
        np.testing.assert_array_equal(columns["d"], model.coef_[1])
        np.testing.assert_allclose(columns["scale"], X.std(axis=0))


def log_loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def with_temperature(scores, temperature):
    powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def digits():
    """Digits in random tasks, and rows that are never learned."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    return [(X[at : at + 60], y[at : at + 60]) for at in range(0, 1200, 60)], (X[1200:], y[1200:])


@pytest.mark.parametrize("parameters", [{}, {"rank": 20}, {"alpha": 10.0}])
def test_log_loss_is_near_that_of_the_best_temperature(digits, parameters):
    tasks, (X, y) = digits
    model = learned(fl.StreamingRidgeClassifier(**parameters), tasks)
    probabilities, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(probabilities, with_temperature(scores, model.temperature_), rtol=1e-10)
    best = min(log_loss(with_temperature(scores, T), y) for T in np.geomspace(0.01, 2.0, 200))
    assert log_loss(probabilities, y) < 1.03 * best
    assert best < 0.5 * log_loss(with_temperature(scores, 1.0), y)


def test_rows_in_an_order_of_classes_have_the_same_temperature(rng):
    """2000 rows whose labels alternate, one class wider than the other: every second row is of one of them."""
    y = np.arange(2000) % 2
    X = rng.standard_normal((3, 2000, 3)) * (1 + 2 * y[:, None]) + y[:, None]
    for order in (np.arange(2000), rng.permutation(2000)):
        model = learned(fl.StreamingRidgeClassifier(), [(task[order], y[order]) for task in X])
        assert 0.35 < model.temperature_ < 0.5


def test_classes_that_come_one_by_one_have_a_temperature_too(digits):
    tasks, (X, y) = digits
    rows, labels = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    by_class = [(rows[labels == digit], labels[labels == digit]) for digit in range(10)]
    model = learned(fl.StreamingRidgeClassifier(), by_class)
    scores = model.decision_function(X)
    best = min(log_loss(with_temperature(scores, T), y) for T in np.geomspace(0.01, 2.0, 200))
    assert log_loss(model.predict_proba(X), y) < 1.05 * best

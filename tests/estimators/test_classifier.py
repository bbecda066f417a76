"""``StreamingRidgeClassifier``: classes that come later, weights, and probabilities."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import forgetless as fl
from forgetless.estimators.temperature import Temperature
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


def test_groups_of_fit_are_tasks_one_after_the_other(rng):
    """Classes of later groups are not known in earlier ones."""
    tasks = parts(rng)
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    groups = np.repeat(np.arange(4), [len(labels) for _, labels in tasks])
    fitted, streamed = fl.StreamingRidgeClassifier().fit(X, y, groups), learned(fl.StreamingRidgeClassifier(), tasks)
    np.testing.assert_array_equal(fitted.coef_, streamed.coef_)
    np.testing.assert_array_equal(fitted.predict_proba(X), streamed.predict_proba(X))
    assert fitted.prequential_error_ == streamed.prequential_error_


def test_one_class_alone_is_a_beginning(rng, tmp_path):
    X, y = rows_of(rng, [2])
    model = fl.StreamingRidgeClassifier().partial_fit(X, y)
    assert set(model.predict(X)) == {"d"}
    np.testing.assert_array_equal(model.predict_proba(X), 1.0)
    model.save(tmp_path / "m")
    other = fl.load(tmp_path / "m").partial_fit(*rows_of(rng, [0, 1]))
    assert other.classes_.tolist() == ["b", "d", "e"]
    assert np.mean(other.predict(X) == "d") > 0.9


def test_units_change_nothing(rng):
    tasks = parts(rng)
    one, other = fl.StreamingRidgeClassifier(), fl.StreamingRidgeClassifier()
    for X, y in tasks:
        one.partial_fit(X, y)
        other.partial_fit(1e3 * X + 7.0, y)
    np.testing.assert_allclose(1e3 * other.coef_, one.coef_, rtol=1e-8, atol=1e-12)
    assert one.temperature_ == pytest.approx(other.temperature_)


def test_classes_one_after_the_other_are_not_forgotten(rng):
    held = [rows_of(rng, [k], 30) for k in range(5)]
    model = learned(fl.StreamingRidgeClassifier(), [rows_of(rng, [k], 30) for k in range(5)])
    assert np.mean([np.mean(model.predict(X) != y) for X, y in held]) < 0.02


def test_weights_are_repeated_rows(rng):
    tasks = parts(rng)
    weighted, repeated = fl.StreamingRidgeClassifier(), fl.StreamingRidgeClassifier()
    for X, y in tasks:
        times = rng.integers(0, 3, len(X))
        weighted.partial_fit(X, y, sample_weight=times)
        again = np.repeat(np.arange(len(X)), times)
        repeated.partial_fit(X[again], y[again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8, atol=1e-12)
    assert weighted.temperature_ == pytest.approx(repeated.temperature_)
    np.testing.assert_allclose(counts(weighted), counts(repeated))
    assert weighted.prequential_error_ == pytest.approx(repeated.prequential_error_)


def test_classes_of_rows_of_weight_zero_are_not_learned(rng):
    X, y = rows_of(rng, [0, 1])
    model = fl.StreamingRidgeClassifier().partial_fit(X, y, sample_weight=(y == "e").astype(float))
    assert model.classes_.tolist() == ["e"]
    assert counts(model).tolist() == [8.0]


def test_sparse_rows_and_another_kind_of_labels(rng):
    X, y = rows_of(rng, [0, 1])
    model = fl.StreamingRidgeClassifier().partial_fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.predict_proba(X), fl.StreamingRidgeClassifier().fit(X, y).predict_proba(X))
    with pytest.raises((TypeError, ValueError)):
        model.partial_fit(X, np.linspace(0, 1, len(X)))
    assert model.classes_.tolist() == ["b", "e"]
    assert model.n_tasks_seen_ == 1


def test_widened_models_are_those_of_columns_that_were_zero(rng):
    X, y = rows_of(rng, [0, 1])
    wide = np.column_stack([X, np.zeros(len(X))])
    a = fl.StreamingRidgeClassifier().partial_fit(X, y).widen(1)
    b = fl.StreamingRidgeClassifier().partial_fit(wide, y)
    for model in (a, b):
        model.partial_fit(wide + 1.0, y[::-1])
    np.testing.assert_allclose(a.predict_proba(wide), b.predict_proba(wide), rtol=1e-8)


def test_a_model_of_scikit_learn_has_the_same_probabilities(rng):
    for classes in ([0, 1], [0, 1, 2]):
        X, y = rows_of(rng, classes)
        model = fl.StreamingRidgeClassifier().fit(X, y)
        np.testing.assert_allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X), atol=1e-12)
        assert model.to_sklearn().predict(X).tolist() == model.predict(X).tolist()


def test_coefficients_have_the_names_of_classes(rng):
    X, y = rows_of(rng, [0, 1, 2])
    for model in (fl.StreamingRidgeClassifier(), fl.StreamingLogistic()):
        columns = model.fit(X, y).coefficients().columns
        assert list(columns) == ["feature", "b", "d", "e", "scale"]
        np.testing.assert_array_equal(columns["d"], model.coef_[1])
        np.testing.assert_allclose(columns["scale"], X.std(axis=0))


# --- probabilities ---


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


def test_classes_that_come_one_by_one_have_a_temperature_too(digits):
    tasks, (X, y) = digits
    rows, labels = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    by_class = [(rows[labels == digit], labels[labels == digit]) for digit in range(10)]
    model = learned(fl.StreamingRidgeClassifier(), by_class)
    scores = model.decision_function(X)
    best = min(log_loss(with_temperature(scores, T), y) for T in np.geomspace(0.01, 2.0, 200))
    assert log_loss(model.predict_proba(X), y) < 1.05 * best


def test_the_temperature_minimizes_the_log_loss_of_its_rows():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((400, 3))
    labels = np.array([rng.choice(3, p=row) for row in with_temperature(scores, 0.3)])
    fitted = Temperature().plus(scores, np.eye(3)[labels], np.ones(400))
    best = minimize_scalar(lambda log: log_loss(with_temperature(scores, np.exp(log)), labels), bounds=(-4, 2))
    assert fitted.value == pytest.approx(np.exp(best.x), rel=0.02)
    assert fitted.rows == 400
    assert Temperature().value == 1.0


def test_later_rows_count_more_once_there_are_enough():
    few = Temperature().plus(np.eye(2)[[0] * 50], np.eye(2)[[0] * 50], np.ones(50))
    assert few.decayed().rows == 50
    many = few.plus(np.eye(2)[[0] * 150], np.eye(2)[[0] * 150], np.ones(150))
    assert many.decayed().rows == 190

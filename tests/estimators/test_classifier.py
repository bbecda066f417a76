"""Classifiers: ridge on one-hot targets, with classes that come later, and penalized logistic regression."""

import pickle

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.utils import shuffle

import forgetless as fl
from support.streams import cut, learned

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
    model = learned(fl.StreamingRidgeClassifier(2.0, guard=None), tasks)
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    scaler = StandardScaler().fit(X)
    one_hot = (y[:, None] == np.unique(y)).astype(float)
    reference = Ridge(2.0).fit(scaler.transform(X), one_hot)
    for scores in (reference.predict(scaler.transform(X)), X @ model.coef_.T + model.intercept_):
        np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-8, atol=1e-10)
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


@pytest.fixture(scope="module")
def digits():
    """Digits in random tasks, and rows that are never learned."""
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    *tasks, rest = cut(X, y, [60] * 20 + [597])
    return tasks, rest


@pytest.mark.parametrize(
    ("parameters", "by_class"), [({}, False), ({"rank": 20}, False), ({"alpha": 10.0}, False), ({}, True)]
)
def test_log_loss_is_near_that_of_the_best_temperature(digits, parameters, by_class):
    tasks, (X, y) = digits
    if by_class:
        rows, labels = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
        tasks = [(rows[labels == digit], labels[labels == digit]) for digit in range(10)]
    model = learned(fl.StreamingRidgeClassifier(**parameters), tasks)
    probabilities, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(probabilities, softmax(scores / model.temperature_, axis=1), rtol=1e-10)
    best = min(log_loss(y, softmax(scores / T, axis=1)) for T in np.geomspace(0.01, 2.0, 200))
    assert log_loss(y, probabilities) < (1.05 if by_class else 1.03) * best
    assert best < 0.5 * log_loss(y, softmax(scores, axis=1))


def test_rows_in_an_order_of_classes_have_the_same_temperature(rng):
    """2000 rows whose labels alternate, one class wider than the other: every second row is of one of them."""
    y = np.arange(2000) % 2
    X = rng.standard_normal((3, 2000, 3)) * (1 + 2 * y[:, None]) + y[:, None]
    for order in (np.arange(2000), rng.permutation(2000)):
        model = learned(fl.StreamingRidgeClassifier(), [(task[order], y[order]) for task in X])
        assert 0.35 < model.temperature_ < 0.5


def test_the_temperature_has_ends():
    """Of left-out scores that never err by little, of those that always do, and of rows that are fitted exactly."""
    X = np.repeat([[-1.0], [1.0]], 30, axis=0)
    for alpha, temperature in ((1e3, 2.0**-9), (1e4, 4.0)):
        assert fl.StreamingRidgeClassifier(alpha).fit(X, X[:, 0] > 0).temperature_ == temperature
    assert fl.StreamingRidgeClassifier(1e-9).fit(np.eye(3, 5), [0, 1, 2]).temperature_ < 1 / 32
    swapped = [(X, X[:, 0] * sign > 0) for sign in (1, -1, -1)]
    assert 3 < learned(fl.StreamingRidgeClassifier(), swapped).temperature_ < 4


# --- StreamingLogistic: one task is logistic regression, more are its Laplace approximation ---


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
    parts = learned(fl.StreamingLogistic(), cut(X, y, [100] * 20))
    assert np.abs(parts.predict_proba(X) - whole.predict_proba(X)).max() < 0.05
    assert parts.n_tasks_seen_ == 20


def test_norms_of_any_size_are_no_leverage():
    """Rows of very different norms: a step of the log-loss is bounded, one of least squares is not."""
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal(5)
    X = rng.standard_normal((1200, 5)) * np.exp(rng.standard_normal((1200, 1)))
    *tasks, (new, y) = cut(X, X @ teacher > 0, [100] * 10 + [200])
    models = [learned(kind(), tasks) for kind in (fl.StreamingLogistic, fl.StreamingRidgeClassifier)]
    logistic, ridge = (np.mean(model.predict(new) != y) for model in models)
    assert logistic < 0.05 < ridge


def test_classes_are_declared_with_the_first_task(rng):
    X, y = data(rng, n=30)
    with pytest.raises(ValueError, match="one class, 0; declare all of them with classes="):
        fl.StreamingLogistic().partial_fit(X, np.zeros(30, dtype=int))
    assert fl.StreamingLogistic().partial_fit(X, np.where(y, "a", "b"), classes=[]).classes_.tolist() == ["a", "b"]
    model = fl.StreamingLogistic().partial_fit(X, np.zeros(30, dtype=int), classes=[0, 1])
    assert model.partial_fit(X, y).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"did not declare: \[2\].*StreamingRidgeClassifier"):
        model.partial_fit(X, y + 1)


def test_separable_classes_have_finite_weights():
    X = np.linspace(-1, 1, 20)[:, None]
    model = learned(fl.StreamingLogistic(), [(X, X[:, 0] > 0)] * 5)
    assert np.isfinite(model.coef_).all()
    assert (model.predict(X) == (X[:, 0] > 0)).all()

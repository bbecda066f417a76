"""Probabilities of classes: one temperature, fitted while a stream is learned."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits

import forgetless as fl
from forgetless.estimators.history import Calibration


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


def learned(tasks, **parameters):
    model = fl.ContinualRidgeClassifier(**parameters)
    for X, y in tasks:
        model.partial_fit(X, y)
    return model


@pytest.mark.parametrize("parameters", [{}, {"memory": 20}, {"alpha": 10.0, "memory": 100}])
def test_log_loss_is_near_that_of_the_best_temperature(digits, parameters):
    tasks, (X, y) = digits
    model = learned(tasks, **parameters)
    probabilities, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(probabilities, with_temperature(scores, model.temperature_), rtol=1e-10)
    best = min(log_loss(with_temperature(scores, T), y) for T in np.geomspace(0.01, 2.0, 200))
    assert log_loss(probabilities, y) < 1.03 * best
    assert best < 0.5 * log_loss(with_temperature(scores, 1.0), y)


def test_classes_that_come_one_by_one_have_a_temperature_too(digits):
    tasks, (X, y) = digits
    rows, labels = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    model = learned([(rows[labels == digit], labels[labels == digit]) for digit in range(10)])
    scores = model.decision_function(X)
    best = min(log_loss(with_temperature(scores, T), y) for T in np.geomspace(0.01, 2.0, 200))
    assert log_loss(model.predict_proba(X), y) < 1.05 * best


def test_the_temperature_minimizes_the_log_loss_of_its_rows():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((400, 3))
    labels = np.array([rng.choice(3, p=row) for row in with_temperature(scores, 0.3)])
    calibration = Calibration.empty().with_rows(scores, np.eye(3)[labels], np.ones(400))
    best = minimize_scalar(lambda log: log_loss(with_temperature(scores, np.exp(log)), labels), bounds=(-4, 2))
    assert calibration.temperature == pytest.approx(np.exp(best.x), rel=0.02)
    assert calibration.rows == 400
    assert Calibration.empty().temperature == 1.0


def test_later_rows_count_more_once_there_are_enough():
    few = Calibration.empty().with_rows(np.eye(2)[[0] * 50], np.eye(2)[[0] * 50], np.ones(50))
    many = few.with_rows(np.eye(2)[[1] * 150], np.eye(2)[[1] * 150], np.ones(150))
    assert few.decayed().rows == few.rows
    assert many.decayed().rows == pytest.approx(190.0)
    np.testing.assert_allclose(many.decayed().losses, 0.95 * many.losses)


def test_files_hold_the_temperature(digits, tmp_path):
    tasks, (X, y) = digits
    model = learned(tasks)
    for state in ("learn", "predict"):
        model.save(tmp_path / "model.fl", state=state)
        loaded = fl.load(tmp_path / "model.fl")
        np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-10)
    more = fl.load(tmp_path / "model.fl")
    assert more.temperature_ == model.temperature_
    model.save(tmp_path / "model.fl")
    again = fl.load(tmp_path / "model.fl").partial_fit(X, y)
    assert again.temperature_ == model.partial_fit(X, y).temperature_


def test_two_classes_of_probability_one_half_are_even():
    rng = np.random.default_rng(0)
    model = learned([(rng.standard_normal((50, 3)), rng.integers(0, 2, 50)) for _ in range(10)])
    assert np.abs(model.predict_proba(rng.standard_normal((20, 3))) - 0.5).max() < 0.15


def test_a_row_of_weight_two_counts_as_two_rows(digits):
    X, y = digits[0][0]
    weight = np.arange(len(y)) % 3
    weighted = fl.ContinualRidgeClassifier().partial_fit(X, y, sample_weight=weight)
    repeated = fl.ContinualRidgeClassifier().partial_fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-9)

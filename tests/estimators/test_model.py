"""Streams: memory stays flat, and monitoring says what happened."""

import gc
import tracemalloc

import numpy as np
import pytest

import forgetless as fl
from support.streams import sparse_rows


@pytest.mark.parametrize("options", [{}, {"schedule": "auto"}, {"schedule": "increasing"}], ids=str)
def test_memory_is_flat(rng, options, monkeypatch):
    monkeypatch.setattr("forgetless.estimators.history.SIZE", 100)
    model = fl.ContinualRidge(**{"alpha": 1.0, **options})
    A, b = rng.standard_normal((500, 1, 4)), rng.standard_normal((500, 1))

    def learn(count):
        for i in range(count):
            model.partial_fit(A[i % 500], b[i % 500])

    learn(150)
    tracemalloc.start()
    learn(150)
    gc.collect()
    first = tracemalloc.get_traced_memory()[0]
    learn(500)
    gc.collect()
    last = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # The coefficients of the current epoch are known beforehand, some 40 bytes a task.
    assert last - first < (300_000 if options else 40_000)
    assert len(model.history_["task"]) == 100


@pytest.mark.long
def test_memory_is_flat_over_a_million_tasks(rng):
    model = fl.ContinualRidge(alpha=1.0)
    A, b = rng.standard_normal((1000, 1, 10)), rng.standard_normal((1000, 1))
    tracemalloc.start()
    model.partial_fit(A[0], b[0])
    for i in range(2000):
        model.partial_fit(A[i % 1000], b[i % 1000])
    first = tracemalloc.get_traced_memory()[0]
    for i in range(1_000_000):
        model.partial_fit(A[i % 1000], b[i % 1000])
    last = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert last - first < 20_000
    assert model.n_tasks_seen_ == 1_002_001


def test_history_says_what_happened(rng):
    model = fl.ContinualRidge(alpha=0.7)
    w, rows = np.zeros(5), []
    for _ in range(6):
        A, b, weight = rng.standard_normal((7, 5)), rng.standard_normal(7), rng.uniform(0.2, 3, 7)
        model.partial_fit(A, b, sample_weight=weight)
        before = np.average((A @ w - b) ** 2, weights=weight)
        w = model.coef_
        after = np.average((A @ w - b) ** 2, weights=weight)
        rows.append((before, after, weight.sum(), np.linalg.norm(A * np.sqrt(weight)[:, None], 2)))
    before, after, total, norms = np.array(rows).T
    history = model.history_
    assert history["task"].tolist() == [1, 2, 3, 4, 5, 6]
    assert history["n_rows"].tolist() == [7] * 6
    np.testing.assert_allclose(history["strength"], 0.7)
    np.testing.assert_allclose(history["mse_before"], before, rtol=1e-10)
    np.testing.assert_allclose(history["mse_after"], after, rtol=1e-8)
    np.testing.assert_allclose(history["radius"], np.maximum.accumulate(norms), rtol=1e-10)
    assert (history["error"] < 1e-9).all()
    assert model.prequential_mse_ == pytest.approx(np.average(before, weights=total))


def test_the_size_of_the_state_is_told(rng):
    A, b = rng.standard_normal((40, 30)), rng.standard_normal(40)
    plain = fl.ContinualRidge(alpha=1.0).partial_fit(A, b)
    assert plain.nbytes_ == 8 * (
        30 + 1 + 3 + 7
    )  # weights, intercept and radius, prequential error, one task of the history
    assert fl.JointRidge().partial_fit(A, b).nbytes_ >= 8 * (900 + 60)
    auto = fl.ContinualRidge().partial_fit(A, b)
    # XᵀX, four vectors of statistics, the units, the ranges, and a few numbers.
    assert 8 * (900 + 4 * 30 + 3 * 30 + 2 * 30) <= auto.nbytes_ - plain.nbytes_ <= 8 * (900 + 9 * 30) + 200


def test_large_weighted_tasks_are_read_in_blocks(rng, monkeypatch):
    monkeypatch.setattr("forgetless.estimators._input.BLOCK_BYTES", 8 * 5 * 7)
    A, b, weight = rng.standard_normal((40, 4)), rng.standard_normal(40), rng.uniform(0, 2, 40)
    whole = fl.ContinualRidge(0.4, fit_intercept=True).fit(A, b, sample_weight=weight)
    monkeypatch.setattr("forgetless._core.validate.FACTORIZATION_LIMIT", 1500)
    small = fl.ContinualRidge(0.4, fit_intercept=True).fit(A, b, sample_weight=weight)
    np.testing.assert_allclose(small.coef_, whole.coef_, rtol=1e-10)


def test_wide_sparse_tasks_never_become_dense(rng):
    d = 200_000
    A = sparse_rows(rng, (300, d), density=1e-4)
    b = rng.standard_normal(300)
    for model in (fl.ContinualGD(50), fl.ContinualRidge(alpha=5.0)):
        tracemalloc.start()
        model.partial_fit(A, b).partial_fit(A, b)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40 * 8 * d  # some vectors of length d, not 300 of them
    dense = np.linalg.solve((A @ A.T).toarray() + 5.0 * np.eye(300), b)
    first = A.T @ dense
    second = first + A.T @ np.linalg.solve((A @ A.T).toarray() + 5.0 * np.eye(300), b - A @ first)
    np.testing.assert_allclose(model.coef_, second, atol=1e-10)

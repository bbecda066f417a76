"""Overlap of a task with the truncation residual of the memory, against matrices that are written out."""

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.estimators import _residual
from forgetless.estimators._residual import Residual
from forgetless.solvers.rows import Rows


def some(rng, d, n):
    """Rows that share most of their directions, as those of a stream do."""
    return rng.standard_normal((n, d)) @ np.diag(np.arange(1, d + 1) ** -0.4)


def test_a_sketch_tells_the_trace_of_a_product_in_the_mean(rng):
    d, k = 200, 32
    X, Y = some(rng, d, 30), some(rng, d, 40)
    true = np.sum((X @ Y.T) ** 2)
    found = []
    for seed in range(300):
        places = _residual._Places(d, k, seed)
        E, A = (places.of(Z).T @ places.of(Z) for Z in (X, Y))
        found.append(_residual.inner(E, A))
    on_diagonal = 2 / k * np.sum(np.sum(X**2, axis=0) * np.sum(Y**2, axis=0))
    assert np.mean(found) == pytest.approx(true - on_diagonal, abs=4 * np.std(found) / np.sqrt(300))
    assert np.std(found) < 0.35 * true


def test_what_is_lost_is_all_rows_less_those_remembered(rng):
    """TᵀET of a stream with cuts is that of Σ XᵀX − BᵀB, whatever the tasks were given as."""
    d, k = 60, 32
    model = fl.ContinualRidgeClassifier(memory=7, fit_intercept=True)
    whole = np.zeros((d, d))
    for t in range(6):
        X = some(rng, d, 9)
        y = np.arange(9) % 3
        model.partial_fit(sparse.csr_array(X) if t % 2 else X, y)
        whole += X.T @ X
    known = model._state.memory
    B = known.rows(np.float64)[:, :-1]  # without the column of the intercept
    places = _residual._Places(d, k)
    E = places.of(np.ascontiguousarray(places.of(whole - B.T @ B).T))
    np.testing.assert_allclose(known.residual.sketch, E, atol=1e-5 * np.trace(whole))
    assert known.lost_trace == pytest.approx(np.trace(whole) + 54 - np.sum(known.norms**2))


def test_the_share_that_is_met_is_that_of_whole_matrices(rng):
    """Σ tr(EA)/tr(E) over Σ tr(A), A being XᵀX off the span of B."""
    d, rank = 400, 6
    model = fl.ContinualRidgeClassifier(memory=fl.LowRankMemory(rank, dtype="float64"), fit_intercept=False)
    whole, shared, met = np.zeros((d, d)), 0.0, 0.0
    for t in range(12):
        X, y = some(rng, d, 25), np.arange(25) % 2
        if t:
            U = model._state.memory.unit_rows(np.float64)
            B = model._state.memory.rows(np.float64)
            E, P = whole - B.T @ B, np.eye(d) - np.linalg.pinv(U) @ U
            A = P @ X.T @ X @ P
            shared, met = shared + np.trace(E @ A) / np.trace(E), met + np.trace(A)
        model.partial_fit(X, y)
        whole += X.T @ X
    assert model._state.memory.residual.mean_overlap == pytest.approx(shared / met, rel=0.15)
    size = np.mean(np.sum(X**2, axis=1))
    assert model.history_["strength"][-1] == pytest.approx(
        model._state.memory.row_scale / 20 + 2 / 3 * np.trace(E) * shared / met, rel=0.15
    )
    assert model.history_["strength"][-1] > size / 10


@pytest.mark.parametrize("made", ["sparse", "blocks", "gram"])
def test_rows_are_met_as_they_come(made, rng):
    X, units = some(rng, 50, 20), np.linalg.qr(rng.standard_normal((50, 4)))[0].T.astype(np.float32)
    rows = {
        "sparse": lambda: Rows.of(sparse.csr_array(X)),
        "blocks": lambda: Rows(lambda: iter((X[:7], X[7:])), X.shape, X.size),
        "gram": lambda: Rows.of_gram(X.T @ X, 20),
    }[made]()
    start = Residual(np.eye(32) + 0.1)
    expected = start.with_overlap(Rows.of(X), units, 50, 1.0)
    found = start.with_overlap(rows, units, 50, 1.0)
    assert (found.overlap, found.size) == pytest.approx((expected.overlap, expected.size), rel=1e-5)
    old, new = (units, np.full(4, 2.0)), (units, np.ones(4))
    np.testing.assert_allclose(
        start.after(rows, 3.0, old, new, 50).sketch, start.after(Rows.of(X), 3.0, old, new, 50).sketch, atol=1e-10
    )


def test_nothing_is_met_where_nothing_was_lost(rng):
    """A memory that holds everything learns with the same λ throughout: joint ridge regression."""
    model = fl.ContinualRidgeClassifier(memory=fl.LowRankMemory(30, dtype="float64"), fit_intercept=False)
    for _ in range(8):
        model.partial_fit(some(rng, 20, 10), np.arange(10) % 2)
    assert model._state.memory.residual.mean_overlap == 0.0
    np.testing.assert_allclose(model.history_["strength"], model._state.memory.row_scale / 20, rtol=1e-12)


def test_it_goes_on_from_a_file(tmp_path, rng):
    tasks = [(some(rng, 40, 12), np.arange(12) % 3) for _ in range(6)]
    one = fl.ContinualRidgeClassifier(memory=4)
    for X, y in tasks[:3]:
        one.partial_fit(X, y)
    one.save(tmp_path / "m.npz")
    other = fl.load(tmp_path / "m.npz")
    for X, y in tasks[3:]:
        one.partial_fit(X, y)
        other.partial_fit(X, y)
    np.testing.assert_array_equal(other.coef_, one.coef_)
    assert other._state.memory.residual.mean_overlap == one._state.memory.residual.mean_overlap > 0


def test_a_strength_of_ones_own_needs_no_sketch(rng):
    X, y = some(rng, 40, 12), np.arange(12) % 3
    for options in ({"alpha": 2.0}, {"schedule": "increasing", "n_tasks": 5}, {"memory": fl.LowRankMemory(4, True)}):
        model = fl.ContinualRidgeClassifier(**{"memory": 4, **options}).partial_fit(X, y)
        assert model._state.memory.residual is None


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("power", [-150, -30, 19, 50, 140])
def test_other_units_change_nothing(power, precision, rng):
    """λ is in the units of ‖x‖², also where these are far from those that fourth powers or float32 have room for."""
    tasks = [(some(rng, 60, 12), np.arange(12) % 3) for _ in range(5)]
    usual, other = (
        fl.ContinualRidgeClassifier(memory=fl.LowRankMemory(6, dtype=precision), fit_intercept=False) for _ in "ab"
    )
    unit = 10.0**power
    for X, y in tasks:
        usual.partial_fit(X, y)
        other.partial_fit(unit * X, y)
    strength = other.history_["strength"] / unit / unit
    np.testing.assert_allclose(strength, usual.history_["strength"], rtol=1e-3)
    assert strength[-1] > 2 * strength[0]
    X = tasks[0][0]
    np.testing.assert_allclose(other.decision_function(unit * X), usual.decision_function(X), atol=1e-3)
    assert other.retained_fraction_ == pytest.approx(usual.retained_fraction_, rel=1e-4)


def test_a_strength_that_is_given_for_a_while_loses_nothing(rng):
    """What was lost meanwhile is known afterwards, and λ as large as it must be."""
    model = fl.ContinualRidgeClassifier(memory=fl.LowRankMemory(5, dtype="float64"), fit_intercept=False)
    whole = np.zeros((50, 50))
    for alpha in [None] * 10 + [3.0] * 10 + [None] * 2:
        X = some(rng, 50, 6)
        model.set_params(alpha=alpha).partial_fit(X, np.arange(6) % 3)
        whole += X.T @ X
    B, places = model._state.memory.rows(np.float64), _residual._Places(50, 32)
    E = places.of(np.ascontiguousarray(places.of(whole - B.T @ B).T))
    np.testing.assert_allclose(model._state.memory.residual.sketch, E, atol=1e-10 * np.trace(whole))
    strength = model.history_["strength"]
    assert strength[20] > 1.5 * strength[9]


def test_places_are_the_same_for_ever():
    """Files hold sketches made with them; the numbers are those of splitmix64 begun at zero."""
    assert [hex(int(bits)) for bits in _residual._mixed_bits(np.arange(2, dtype=np.uint64))] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
    ]
    few, many = _residual._Places(50, 32), _residual._Places(90, 32)
    np.testing.assert_array_equal(many.at[:50], few.at)
    np.testing.assert_array_equal(many.sign[:50], few.sign)
    assert 0 <= few.at.min() <= few.at.max() < 32
    assert set(few.sign) == {-1.0, 1.0}

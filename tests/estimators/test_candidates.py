"""``schedule="auto"``: candidates against their definition, the sketch against the rows, choices against hindsight."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.estimators.candidates import SKETCH, STRENGTHS, Candidates
from support.streams import learned, stream


def drifting(rng, n_tasks=60, n=8, d=10, drift=0.0, noise=0.5):
    teacher = rng.standard_normal(d)
    for _ in range(n_tasks):
        X = rng.standard_normal((n, d))
        yield X, X @ teacher + noise * rng.standard_normal(n)
        teacher = teacher + drift * rng.standard_normal(d)


def literal(tasks, rank=0):
    """Weights of every candidate, and squared errors before learning, as the definition says."""
    d = tasks[0][0].shape[1]
    W, B, squares, before = np.zeros((len(STRENGTHS), d)), np.zeros((0, d)), np.zeros(d), np.zeros(len(STRENGTHS))
    unit = None
    for t, (X, y) in enumerate(tasks, 1):
        squares = squares + np.sum(X * X, axis=0)
        mean = squares / t
        u2 = np.sqrt(mean * mean.mean())
        unit = np.sum(np.sum(X * X, axis=0) / u2) if unit is None else unit
        errors = y - W @ X.T
        before += np.sum(errors**2, axis=1) if t > 1 else 0.0
        for j, c in enumerate(STRENGTHS):
            W[j] += np.linalg.solve(np.diag(c * t * unit * u2) + B.T @ B + X.T @ X, X.T @ errors[j])
        _, s, V = np.linalg.svd(np.concatenate([B, X]), full_matrices=False)
        B = s[:rank, None] * V[:rank]
    return W, before


@pytest.mark.parametrize("rank", [0, 4, 10])
@pytest.mark.parametrize("n", [1, 3, 25])
def test_candidates_are_what_their_definition_says(rng, rank, n):
    tasks = list(drifting(rng, 12, n))
    W, before = literal(tasks, rank)
    dense = learned(fl.ContinualRidge(schedule="auto", memory=fl.LowRankMemory(rank, dtype="float64")), tasks)
    thin = learned(
        fl.ContinualRidge(schedule="auto", memory=fl.LowRankMemory(rank, dtype="float64")),
        [(sparse.csr_array(X), y) for X, y in tasks],
    )
    for model in (dense, thin):
        found = model._state.candidates
        np.testing.assert_allclose(found.weights[:, :, 0], W, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.before, before, rtol=1e-6)
        np.testing.assert_allclose(model.coef_, found.weights[found.chosen, :, 0], rtol=1e-9, atol=1e-12)
        assert model.history_["strength"][-1] == pytest.approx(STRENGTHS[found.chosen] * 12 * found.unit)


def test_blocks_read_once_or_twice_and_weights_mean_the_same(rng):
    tasks = list(drifting(rng, 6, 5, noise=0.1))
    models = [fl.ContinualRidge(schedule="auto", fit_intercept=True, loss="mean") for _ in range(3)]
    for X, y in tasks:
        models[0].partial_fit(X, y)
        models[1].partial_fit_blocks([(X[:2], y[:2]), (X[2:], y[2:])])
        models[2].partial_fit_blocks(iter([(X[:2], y[:2]), (X[2:], y[2:])]))
    for other in models[1:]:
        np.testing.assert_allclose(
            other._state.candidates.weights, models[0]._state.candidates.weights, rtol=1e-5, atol=1e-8
        )
        np.testing.assert_allclose(other._state.candidates.before, models[0]._state.candidates.before, rtol=1e-6)
    # Any rows with the same XᵀX serve the sketch of rows that were read once.
    once, whole = (model._state.candidates.seen_errors() for model in (models[2], models[0]))
    assert np.all(once > 0)
    assert np.all(np.abs(np.log(once / whole)) < 2)


def test_the_sketch_knows_the_error_on_all_rows_on_average(rng):
    tasks = [(X, y[:, None] * [1.0, -2.0]) for X, y in drifting(rng, 20, 6)]
    start = np.zeros((10, 2))
    ratios = []
    for seed in range(30):
        order = np.random.default_rng(seed).permutation(20)
        model = learned(fl.ContinualRidge(schedule="auto"), [tasks[i] for i in order])
        found = model._state.candidates
        true = [sum(np.sum((X @ w - y) ** 2) for X, y in tasks) for w in found.weights]
        ratios.append(found.seen_errors() / true)
    # The mean over K sums of squares has a relative deviation of √(2/K) at most, over two targets that are one.
    assert np.abs(np.mean(ratios) - 1) < 4 * np.sqrt(2 / SKETCH / 30)
    assert np.std(ratios) < 1.5 * np.sqrt(2 / SKETCH)
    assert Candidates.starting_from(start).seen_errors().tolist() == [0.0] * len(STRENGTHS)


@pytest.mark.parametrize("drift", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("units", [1.0, 1e3])
def test_the_choice_is_near_the_best_constant_in_hindsight(drift, units):
    """Seen rows and the next ones within 1.2 of it, also where columns come in units far apart."""
    rng = np.random.default_rng(3)
    size = np.logspace(-np.log10(units), np.log10(units), 10)
    tasks = [(X * size, y) for X, y in drifting(rng, 80, drift=drift)]

    def errors(model):
        learned(model, tasks)
        seen = np.mean([np.mean((X @ model.coef_ - y) ** 2) for X, y in tasks])
        return seen, model.prequential_mse_

    total = np.sum(tasks[0][0] ** 2)
    best = np.min([errors(fl.ContinualRidge(alpha=c * total)) for c in 10.0 ** np.arange(-12, 3)], axis=0)
    assert errors(fl.ContinualRidge(schedule="auto"))[0] < 1.2 * best[0]
    assert errors(fl.ContinualRidge(schedule=fl.schedules.auto(objective="next")))[1] < 1.2 * best[1]


def test_classes_one_after_the_other_are_not_forgotten(rng):
    centres = rng.standard_normal((6, 40)) * 2
    tasks = [(centres[k] + rng.standard_normal((30, 40)), np.full(30, k)) for k in range(6)]
    model = fl.ContinualRidgeClassifier(schedule="auto", memory=6)
    for X, y in tasks:
        model.partial_fit(X, y)
    assert np.mean([np.mean(model.predict(X) != y) for X, y in tasks]) < 0.05


def test_copies_pickles_and_files_go_on_alike(rng, tmp_path):
    tasks = list(drifting(rng, 20))
    model = learned(
        fl.ContinualRidge(schedule="auto", memory=fl.LowRankMemory(3, dtype="float64"), fit_intercept=True), tasks[:10]
    )
    model.save(tmp_path / "m.npz")
    others = [copy.copy(model), pickle.loads(pickle.dumps(model)), fl.load(tmp_path / "m.npz")]
    learned(model, tasks[10:])
    for other in others:
        np.testing.assert_allclose(learned(other, tasks[10:]).coef_, model.coef_, rtol=1e-8)
    assert model.nbytes_ == others[0].nbytes_


def test_a_model_may_begin_to_choose_later_and_stop(rng):
    tasks = list(stream(rng, 9))
    model = learned(fl.ContinualRidge(0.3), tasks[:3])
    model.set_params(schedule="auto").partial_fit(*tasks[3])
    assert model._state.candidates.tasks == 1
    model.set_params(schedule=None).partial_fit(*tasks[4])
    assert model._state.candidates is None
    with pytest.raises(ValueError, match="objective must be one of seen, next"):
        fl.schedules.auto(objective="past")


@pytest.mark.parametrize("diagonal", [False, True])
def test_a_mean_is_the_sum_of_rows_divided_by_the_root_of_their_number(rng, diagonal):
    w = rng.standard_normal(5)
    mean, total = (
        fl.ContinualRidge(schedule="auto", loss=loss, memory=fl.LowRankMemory(0, diagonal)) for loss in ("mean", "sum")
    )
    for n in (8, 8, 8, 8):
        X = rng.standard_normal((n, 5))
        y = X @ w + 0.3 * rng.standard_normal(n)
        mean.partial_fit(X, y)
        total.partial_fit(X / np.sqrt(n), y / np.sqrt(n))
    np.testing.assert_allclose(mean.coef_, total.coef_, rtol=1e-8)


@pytest.mark.parametrize(("rows", "targets"), [(1e-60, 1.0), (1e60, 1.0), (1.0, 1e-100), (1.0, 1e60)])
def test_other_units_of_rows_and_targets_change_no_choice(rows, targets, rng, tmp_path):
    """Also where single precision, in which sums of rows are kept, has no room for them."""
    tasks = [(X * np.logspace(0, -3, 20), y) for X, y in stream(rng, 12, 6, 20)]
    usual = learned(fl.ContinualRidge(schedule="auto"), tasks)
    other = learned(fl.ContinualRidge(schedule="auto"), [(rows * X, targets * y) for X, y in tasks[:8]])
    other.save(tmp_path / "m.npz")
    other = learned(fl.load(tmp_path / "m.npz"), [(rows * X, targets * y) for X, y in tasks[8:]])
    assert other._state.candidates.chosen == usual._state.candidates.chosen
    np.testing.assert_allclose(other.coef_ * rows / targets, usual.coef_, rtol=1e-6)

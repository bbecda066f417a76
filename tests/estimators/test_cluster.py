"""Tasks in dask arrays: the numbers of NumPy, without loading them."""

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.estimators import rules
from forgetless.estimators.strength import Auto, Steady
from forgetless.solvers import one_task, remote
from support.collections import random_pairs

CHUNKS = (7, 5, 11, 1)
N = sum(CHUNKS)

MODELS = {
    "ridge": lambda **o: fl.ContinualRidge(alpha=0.7, **o),
    "none": lambda **o: fl.ContinualRidge(alpha=0.0, **o),
    "tiny": lambda **o: fl.ContinualRidge(alpha=1e-9, **o),
    "schedule": lambda **o: fl.ContinualRidge(schedule="increasing", n_tasks=3, **o),
    "average": lambda **o: fl.ContinualRidge(alpha=0.7, average=2, **o),
    "auto": lambda **o: fl.ContinualRidge(**{"fit_intercept": False, "standardize": False, **o}),
    "next": lambda **o: fl.ContinualRidge(
        **{"schedule": Auto(objective="next"), "fit_intercept": False, "standardize": False, **o}
    ),
    "steady": lambda **o: fl.ContinualRidge(schedule=Steady(0.5, 0.1), **o),
    "descent": lambda **o: fl.ContinualGD(n_steps=40, **o),
    "few steps": lambda **o: fl.ContinualGD(n_steps=3, **o),
    "joint": lambda **o: fl.JointRidge(alpha=0.5, **o),
    "recursive": lambda **o: fl.RecursiveLeastSquares(alpha=0.5, **o),
}


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def tasks(rng, d=6, targets=None, scales=None):
    return random_pairs(rng, M=2, d=d, rows=(N, N), targets=targets, realizable=False, scales=scales)


def remotely(array):
    return da.from_array(array, chunks=(CHUNKS, *((each,) for each in array.shape[1:])))


def sparsely(X):
    return remotely(X).map_blocks(sparse.csr_matrix, meta=sparse.csr_matrix((0, 0)))


def same(ours, theirs, rel=1e-10):
    for name in ("coef_", "intercept_"):
        got, want = getattr(ours, name), getattr(theirs, name)
        assert np.abs(got - want).max() <= rel * max(np.abs(theirs.coef_).max(), np.abs(want).max())
    assert ours.history_["n_rows"].tolist() == theirs.history_["n_rows"].tolist()
    for name in ("strength", "mse_before", "mse_after"):
        np.testing.assert_allclose(ours.history_[name], theirs.history_[name], rtol=1e-8, atol=1e-12)
    assert ours.prequential_mse_ == pytest.approx(theirs.prequential_mse_, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}], ids=["plain", "intercept"])
def test_numbers_are_those_of_numpy(rng, name, options):
    ours, theirs = MODELS[name](**options), MODELS[name](**options)
    for X, y in tasks(rng):
        ours.partial_fit(remotely(X), remotely(y))
        theirs.partial_fit(X, y)
    same(ours, theirs)
    assert ours.n_tasks_seen_ == 2
    assert isinstance(ours.coef_, np.ndarray)


@pytest.mark.parametrize("name", ["ridge", "descent", "joint", "recursive", "none"])
@pytest.mark.parametrize("kind", ["weights", "targets", "sparse", "unknown lengths", "y in memory", "columns apart"])
def test_every_form_of_a_task(rng, name, kind):
    ours, theirs = MODELS[name](), MODELS[name]()
    for X, y in tasks(rng, targets=3 if kind == "targets" else None):
        weight = rng.integers(0, 3, N).astype(float) if kind == "weights" else None
        made = {"weights": remotely, "sparse": sparsely, "columns apart": lambda X: remotely(X).rechunk({1: 2})}
        there = made.get(kind, remotely)(X)
        target = y if kind == "y in memory" else remotely(y)
        if kind == "unknown lengths":
            there, target = there[remotely(np.ones(N)) > 0], target[remotely(np.ones(N)) > 0]
        ours.partial_fit(there, target, None if weight is None else remotely(weight))
        theirs.partial_fit(X, y, weight)
    same(ours, theirs)


@pytest.mark.parametrize("name", ["ridge", "schedule", "descent", "few steps"])
@pytest.mark.parametrize("kind", [remotely, sparsely], ids=["dense", "sparse"])
def test_many_features_by_passes_on_the_workers(rng, name, kind, monkeypatch):
    """The same from products with vectors, as for features whose XᵀX is too large; one round trip each."""
    few_features(monkeypatch)
    trips = []
    real = remote.RemoteRows.normal
    monkeypatch.setattr(remote.RemoteRows, "normal", lambda self, V: trips.append(1) or real(self, V))
    known = {"schedule": {"radius": 3.0}, "descent": {"step_size": 0.05}, "few steps": {"step_size": 0.05}}
    ours, theirs = MODELS[name](**known.get(name, {})), MODELS[name](**known.get(name, {}))
    for X, y in tasks(rng, targets=2):
        ours.partial_fit(kind(X), remotely(y))
        theirs.partial_fit(X, y)
    same(ours, theirs)
    assert len(trips) > 0


def few_features(monkeypatch):
    """Six features are many here."""
    monkeypatch.setattr(remote, "GRAM_SIDE", 3)
    monkeypatch.setattr("forgetless._core.validate.FACTORIZATION_LIMIT", 500)
    for module in (one_task, rules):
        monkeypatch.setattr(module, "SMALL_SIDE", 3)


def test_the_norm_by_passes(rng, monkeypatch):
    few_features(monkeypatch)
    X, y = tasks(rng)[0]
    model = fl.ContinualRidge(schedule="increasing", n_tasks=5).partial_fit(remotely(X), remotely(y))
    assert model.radius_ == pytest.approx(np.linalg.norm(X, 2), rel=1e-6)


def test_ill_conditioned_tasks_are_as_accurate_as_in_memory(rng):
    X, y = random_pairs(rng, M=1, d=6, rows=(N, N), realizable=False)[0]
    X = X * np.geomspace(1, 1e-4, 6)
    for alpha in (0.0, 1e-12, 1e-6):
        ours = fl.ContinualRidge(alpha=alpha).partial_fit(remotely(X), remotely(y))
        theirs = fl.ContinualRidge(alpha=alpha).partial_fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)


def test_float32_stays_float32(rng):
    X, y = tasks(rng)[0]
    X, y = X.astype(np.float32), y.astype(np.float32)
    ours = fl.ContinualRidge(alpha=0.7).partial_fit(remotely(X), remotely(y))
    theirs = fl.ContinualRidge(alpha=0.7).partial_fit(X, y)
    assert ours.coef_.dtype == np.float32
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)


def test_streams_of_both_kinds_go_on(rng):
    (X, y), (Z, z) = tasks(rng)
    mixed = fl.ContinualRidge(alpha=0.7).partial_fit(X, y).partial_fit(remotely(Z), remotely(z))
    same(mixed, fl.ContinualRidge(alpha=0.7).partial_fit(X, y).partial_fit(Z, z))
    assert fl.ContinualRidge(alpha=0.7).fit(remotely(X), remotely(y)).n_tasks_seen_ == 1


def test_blocks_are_never_held_together(rng):
    held, most = [0], [0]

    def block(i):
        held[0] += 1
        most[0] = max(most[0], held[0])
        return Counted(rng.standard_normal((20, 4)), held)

    parts = [da.from_delayed(dask.delayed(block)(i), (20, 4), float) for i in range(40)]
    y = da.zeros(800, chunks=20) + 1.0
    fl.ContinualRidge(alpha=1.0).partial_fit(da.concatenate(parts), y)
    assert most[0] <= 2


class Counted(np.ndarray):
    def __new__(cls, array, held):
        made = array.view(cls)
        made.held = held
        return made

    def __array_finalize__(self, other):
        self.held = None

    def __del__(self):
        if self.held is not None:
            self.held[0] -= 1


def test_what_x_and_y_share_is_made_once(rng):
    made = []

    def rows(i):
        made.append(i)
        return np.full((3, 2), 1.0 + i), np.ones(3)

    parts = [dask.delayed(rows, nout=2)(i) for i in range(5)]
    X = da.concatenate([da.from_delayed(part[0], (3, 2), float) for part in parts])
    y = da.concatenate([da.from_delayed(part[1], (3,), float) for part in parts])
    fl.ContinualRidge(alpha=1.0).partial_fit(X, y)
    assert sorted(made) == list(range(5))


@pytest.mark.parametrize("targets", [None, 2])
def test_collections_of_dask_arrays_are_those_of_numpy(rng, targets):
    pairs = tasks(rng, targets=targets)
    ours = fl.TaskCollection([(remotely(X), remotely(y)) for X, y in pairs])
    theirs = fl.TaskCollection(pairs)
    assert ours.ranks.tolist() == theirs.ranks.tolist()
    assert ours[0].X.shape[0] <= 6 + (targets or 1)
    np.testing.assert_allclose(ours.singular_values, theirs.singular_values, rtol=1e-12)
    np.testing.assert_allclose(ours.floors, theirs.floors, rtol=1e-10)
    for metric in ("average_loss", "drift"):
        got, want = (fl.expect(each, fl.Ridge(0.3), 9, metrics=metric).values[metric] for each in (ours, theirs))
        np.testing.assert_allclose(got, want, rtol=1e-10)
    w = rng.standard_normal(theirs.teacher().shape)
    assert ours[1].loss(w) == pytest.approx(theirs[1].loss(w), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda X, y: (X * np.nan, y), ValueError, "NaN or infinity"),
        (lambda X, y: (X, y / 0.0), ValueError, "NaN or infinity"),
        (lambda X, y: (X, y[:-1]), ValueError, "y must have one value per row"),
        (lambda X, y: (X * 0.0, y), ValueError, "at least one row that is not zero"),
        (lambda X, y: (X[:, :3], y), ValueError, "3 features"),
        (lambda X, y: (X[:, 0], y), ValueError, r"shape \(n, d\)"),
        (lambda X, y: (X, y[:, None].repeat(2, axis=1)), ValueError, "like that of the first task"),
        (lambda X, y: (X[X[:, 0] > -9], np.ones(N)), ValueError, "unknown lengths"),
        (lambda X, y: (X, y[y > -9e9]), ValueError, r"call y.compute_chunk_sizes\(\)"),
        (lambda X, y: (X, y, np.ones((N, 1))), ValueError, r"shape \(n,\), got \(24, 1\)"),
        (lambda X, y: (X, y, np.zeros(N)), ValueError, "zero for every row"),
        (lambda X, y: (X.map_blocks(np.copy, chunks=(CHUNKS, (np.nan,))), y), ValueError, "number of columns"),
        (lambda X, y: (X * 1e160, y), OverflowError, "rescale X"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_tasks_are_refused_and_change_nothing(rng, change, error, words):
    (X, y), (Z, z) = tasks(rng)
    model = fl.ContinualRidge(alpha=0.7).partial_fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(error, match=words):
        model.partial_fit(*change(remotely(Z), remotely(z)))
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_tasks_seen_ == 1


def test_other_refusals(rng):
    X, y = (remotely(each) for each in tasks(rng)[0])
    with pytest.raises(ValueError, match="groups need arrays in memory"):
        fl.ContinualRidge(alpha=1.0).fit(X, y, groups=np.zeros(N))
    with pytest.raises(ValueError, match="sample_weight must be nonnegative"):
        fl.ContinualRidge(alpha=1.0).partial_fit(X, y, remotely(-np.ones(N)))
    with pytest.raises(TypeError, match="give a dask array"):
        fl.ContinualRidge(alpha=1.0).partial_fit(dask.delayed(np.eye(2)), np.ones(2))


def test_rows_of_zeros_with_an_intercept_are_learned_as_in_memory():
    X, y = np.zeros((6, 2)), np.arange(6.0)
    model = fl.ContinualRidge(1.0, fit_intercept=True).partial_fit(da.from_array(X, chunks=(3, 2)), y)
    expected = fl.ContinualRidge(1.0, fit_intercept=True).partial_fit(X, y)
    assert model.intercept_ == pytest.approx(expected.intercept_, rel=1e-12)
    assert model.coef_.tolist() == expected.coef_.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="at least one row that is not zero"):
        fl.ContinualRidge(1.0).partial_fit(da.from_array(X, chunks=(3, 2)), y)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model.partial_fit(da.from_array(X, chunks=(3, 2)), y, np.zeros(6))


@pytest.mark.parametrize("size", [1e30, 1e90])
def test_large_rows_and_targets_on_a_cluster_are_learned_as_in_memory(rng, size):
    model, expected = fl.ContinualRidge(1.0), fl.ContinualRidge(1.0)
    for _ in range(2):
        X, y = rng.standard_normal((4, 6)) * size, rng.standard_normal(4) * size
        model.partial_fit(da.from_array(X, chunks=(2, 6)), y)
        expected.partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X * 1j, y), "X must hold real numbers, got dtype complex128"),
        (lambda X, y: (X, y * 1j), "y must hold real numbers, got dtype complex128"),
        (lambda X, y: (X.astype(object), y), "X must hold real numbers, got dtype object"),
        (lambda X, y: (da.ma.masked_greater(X, 0.5), y), "X has masked blocks"),
        (lambda X, y: (X, np.ma.masked_less(np.arange(6.0), 1.0)), "y is a masked array"),
        (lambda X, y: (X, y, np.ma.masked_less(np.arange(6.0), 1.0)), "sample_weight is a masked array"),
        (lambda X, y: (X, 5.0), r"y must have shape \(n,\) or \(n, c\)"),
        (lambda X, y: (X, None), "y must hold real numbers"),
        (lambda X, y: (X, y.to_delayed()[0]), "y is a dask Delayed; give a dask array"),
    ],
)
def test_what_is_refused_in_memory_is_refused_on_a_cluster(change, message):
    X, y = da.ones((6, 2), chunks=(3, 2)), da.ones(6, chunks=3)
    model = fl.ContinualRidge(alpha=1.0)
    with pytest.raises((TypeError, ValueError), match=message):
        model.partial_fit(*change(X, y))
    assert not hasattr(model, "coef_")


def test_half_precision_is_widened_as_in_memory(rng):
    X, y = rng.standard_normal((30, 3)).astype(np.float16), rng.standard_normal(30)
    here = fl.ContinualRidge(alpha=0.1).partial_fit(X, y)
    there = fl.ContinualRidge(alpha=0.1).partial_fit(da.from_array(X, chunks=(10, 3)), da.from_array(y, chunks=10))
    assert there.coef_.dtype == here.coef_.dtype
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_standardize_is_refused_in_one_sentence_and_nothing_is_learned(name, rng):
    X, y = tasks(rng)[0]
    for model in (MODELS[name](standardize=True), MODELS[name](standardize=True, fit_intercept=True)):
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(
                ValueError, match=r"standardize needs tasks in memory or in blocks; set it to False and"
            ):
                learn(da.from_array(X, chunks=(CHUNKS, X.shape[1])), y)
        assert not hasattr(model, "coef_")
    model.partial_fit_blocks([(X[:7], y[:7]), (X[7:], y[7:])])
    assert np.isfinite(model.predict(X)).all()  # the way that the sentence names

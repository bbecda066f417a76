"""Low-rank memory: exact at both ends, and the proved statements in between."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import forgetless as fl
from support.streams import learned, sparse_rows, stream


def far(one, other):
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def literal(tasks, rank, alpha, *, diagonal=False, decay=0.0):
    """The algorithm as its definition says: weights and rows B."""
    d = tasks[0][0].shape[1]
    w, B, h = np.zeros((d, tasks[0][1].shape[1])), np.zeros((0, d)), np.zeros(d)
    for X, y in tasks:
        B, h = np.sqrt(1 - decay) * B, (1 - decay) * h
        D = np.full(d, alpha)
        if diagonal:
            D += np.maximum(h - np.sum(B * B, axis=0), 0.0)
        w = w + np.linalg.solve(np.diag(D) + B.T @ B + X.T @ X, X.T @ (y - X @ w))
        _, s, V = np.linalg.svd(np.concatenate([B, X]), full_matrices=False)
        B, h = s[:rank, None] * V[:rank], h + np.sum(X * X, axis=0)
    return w, B


def tasks_of(rng, n_tasks=12, n=3, d=20, c=2, noise=0.1):
    return list(stream(rng, n_tasks, n, d, (c,), noise))


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.2])
@pytest.mark.parametrize("rank", [0, 1, 4, 10, 20, 30])
@pytest.mark.parametrize("n", [2, 7, 40])
def test_it_is_what_its_definition_says(rng, rank, diagonal, decay, n):
    if decay and rank == 0 and not diagonal:
        return  # rejected: there is no memory
    tasks = tasks_of(rng, 8, n)
    options = {"memory": fl.LowRankMemory(rank, diagonal, decay, dtype="float64")}
    w, B = literal(tasks, min(rank, 20), 0.3, diagonal=diagonal, decay=decay)
    dense = learned(fl.ContinualRidge(0.3, **options), tasks)
    thin = learned(fl.ContinualRidge(0.3, **options), [(sparse.csr_array(X), y) for X, y in tasks])
    blocks, once = fl.ContinualRidge(0.3, **options), fl.ContinualRidge(0.3, **options)
    for X, y in tasks:
        blocks.partial_fit_blocks([(X[:1], y[:1]), (X[1:], y[1:])])
        once.partial_fit_blocks(iter([(X[:1], y[:1]), (X[1:], y[1:])]))
    for model in (dense, thin, blocks, once):
        assert far(model.coef_.T, w) < 1e-9
        memory = model._state.memory
        if memory is not None and rank:
            ours = memory.rows(np.float64)
            np.testing.assert_allclose(ours.T @ ours, B.T @ B, atol=1e-9 * np.sum(B * B))


def test_without_a_memory_nothing_changes(rng):
    tasks = tasks_of(rng)
    plain = learned(fl.ContinualRidge(0.3), tasks)
    assert plain._state.memory is None
    assert plain.retained_fraction_ == 0.0
    w = np.zeros((20, 2))
    for X, y in tasks:
        w = fl.step(w, (X, y), fl.Ridge(0.3))
    np.testing.assert_array_equal(plain.coef_.T, w)


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"diagonal": True}], ids=str)
@pytest.mark.parametrize("n", [1, 3, 50])
def test_at_full_rank_it_is_recursive_least_squares(rng, options, n):
    tasks = tasks_of(rng, 30, n)
    intercept = {"fit_intercept": options.get("fit_intercept", False)}
    memory = fl.LowRankMemory(20 + len(options), options.get("diagonal", False), dtype="float64")
    model = learned(fl.ContinualRidge(0.5, memory=memory, **intercept), tasks)
    rls, joint = (learned(kind(0.5, **intercept), tasks) for kind in (fl.RecursiveLeastSquares, fl.JointRidge))
    assert far(model.coef_, rls.coef_) < 1e-9
    assert far(model.coef_, joint.coef_) < 1e-9
    np.testing.assert_allclose(model.intercept_, rls.intercept_, atol=1e-9)
    assert model.retained_fraction_ == pytest.approx(1.0, abs=1e-12)


def test_tasks_of_low_rank_need_no_more_directions_than_that(rng):
    """Also where they have many features and come row by row, so that rows are gathered between cuts."""
    basis = rng.standard_normal((12, 60))
    tasks = [(X := rng.standard_normal((1, 12)) @ basis, X @ np.ones(60)) for _ in range(100)]
    model = learned(fl.ContinualRidge(0.1, memory=fl.LowRankMemory(12, dtype="float64")), tasks)
    assert far(model.coef_, learned(fl.RecursiveLeastSquares(0.1), tasks).coef_) < 1e-9


@pytest.mark.long
@pytest.mark.parametrize("scale", [pytest.param(1.0, marks=pytest.mark.long), 1e3])
@pytest.mark.parametrize("n", [1, pytest.param(3, marks=pytest.mark.long)])
def test_ten_thousand_tasks_do_not_add_up_rounding(rng, n, scale):
    d = 15
    size, teacher = np.logspace(0, -np.log10(scale), d), rng.standard_normal(d)
    model = fl.ContinualRidge(0.01, memory=fl.LowRankMemory(d, dtype="float64"))
    A, b = np.zeros((d, d)), np.zeros(d)
    for _ in range(10_000):
        X = rng.standard_normal((n, d)) * size
        y = X @ teacher + 0.1 * rng.standard_normal(n)
        model.partial_fit(X, y)
        A, b = A + X.T @ X, b + X.T @ y
    best = np.linalg.solve(A + 0.01 * np.eye(d), b)
    assert far(model.coef_, best) < 1e-8


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    rank=st.integers(0, 8),
    n=st.integers(1, 5),
    alpha=st.floats(0.01, 10.0),
    noise=st.sampled_from([0.0, 0.5]),
)
def test_the_statements_hold_for_every_rank_and_order(seed, rank, n, alpha, noise):
    """Excess over joint ridge = ½gᵀH⁻¹g with g = Σ E_{s−1}Δw_s; Σ e_tᵀ(I + X_tH̃⁻¹X_tᵀ)⁻¹e_t ≤ the joint optimum."""
    rng, d = np.random.default_rng(seed), 8
    tasks = list(stream(rng, 10, n, d, (), noise))
    model = fl.ContinualRidge(alpha, memory=fl.LowRankMemory(rank, dtype="float64"))
    H, b, total = alpha * np.eye(d), np.zeros(d), 0.0
    g, weighed, squares, w = np.zeros(d), 0.0, 0.0, np.zeros(d)
    gone = np.zeros((d, d))  # E: everything seen that B does not hold
    for X, y in tasks:
        e = y - X @ w
        model.partial_fit(X, y)
        change = model.coef_ - w
        g += gone @ change
        weighed += float(e @ (e - X @ change))  # (I + XH̃⁻¹Xᵀ)⁻¹e is the residual that learning leaves
        squares += float(e @ e)
        w = model.coef_
        H, b, total = H + X.T @ X, b + X.T @ y, total + float(y @ y)
        B = model._state.memory.rows(np.float64) if rank else np.zeros((0, d))
        gone = H - alpha * np.eye(d) - B.T @ B
        best = np.linalg.solve(H, b)
        excess = 0.5 * float((w - best) @ H @ (w - best))
        assert excess == pytest.approx(0.5 * float(g @ np.linalg.solve(H, g)), rel=1e-6, abs=1e-9 * total)
        optimum = total - float(b @ best)
        assert weighed <= optimum * (1 + 1e-9) + 1e-9 * total
        if rank >= d:
            assert weighed == pytest.approx(optimum, rel=1e-6, abs=1e-9 * total)
    if noise == 0.0:
        teacher, radius = np.linalg.lstsq(*map(np.concatenate, zip(*tasks, strict=True)), rcond=None)[0], 0.0
        radius = max(np.linalg.norm(X, 2) for X, _ in tasks)
        assert squares <= (alpha + radius**2) * float(teacher @ teacher) * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 5])
def test_few_digits_cost_little(n):
    """Within one percent of float64 on held-out rows, after many tasks."""
    rng, d = np.random.default_rng(5), 60
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.arange(1, d + 1) ** -0.5
    teacher, held = rng.standard_normal(d), rng.standard_normal((300, d)) @ turn.T
    models = [fl.ContinualRidge(1.0, memory=fl.LowRankMemory(20, dtype=each)) for each in ("float64", "float32")]
    for _ in range(1500 // n):
        X = rng.standard_normal((n, d)) @ turn.T
        y = X @ teacher + 0.1 * rng.standard_normal(n)
        for model in models:
            model.partial_fit(X, y)
    exact, rough = (np.mean((held @ (model.coef_ - teacher)) ** 2) for model in models)
    assert rough == pytest.approx(exact, rel=0.01)


def test_bytes_are_what_was_asked_for(rng):
    d, c, rank = 2000, 3, 20
    model = fl.ContinualRidge(alpha=1.0, memory=rank)
    rows = fl.ContinualRidge(alpha=1.0, memory=rank)
    for _ in range(40):
        X, y = rng.standard_normal((30, d)), rng.standard_normal((30, c))
        model.partial_fit(X, y)
        rows.partial_fit(X[:1], y[:1, 0])
    assert model.nbytes_ <= 4 * rank * d + 8 * d * (c + 1) + 200 * rank
    assert rows.nbytes_ <= 4 * rank * d + 8 * d * 2 + 200 * rank  # B·Bᵀ, 8r² bytes, is within the second of these
    assert 0.0 < model.retained_fraction_ < 1.0


def test_blocks_of_a_task_too_large_for_its_gram_matrix(rng, monkeypatch):
    """The step is exact; the memory is merged block by block, as close to the best as cuts allow."""
    teacher = rng.standard_normal(1500)
    tasks = [(X := rng.standard_normal((1200, 1500)) / np.arange(1, 1501), X @ teacher) for _ in range(2)]
    models = [fl.ContinualRidge(1.0, memory=fl.LowRankMemory(10, dtype="float64")) for _ in "ab"]
    for limit, model in zip((2**31, 2**22), models, strict=True):
        monkeypatch.setattr("forgetless._core.validate.FACTORIZATION_LIMIT", limit)
        learned(model, tasks)
    assert far(models[1].coef_, models[0].coef_) < 1e-4
    values = np.linalg.eigvalsh(sum(X.T @ X for X, _ in tasks))[::-1]
    best = values[:10].sum() / values.sum()  # of 10 vectors, by Eckart and Young
    for model in models:
        assert best - 1e-3 < model.retained_fraction_ < best + 1e-9


def test_weights_scale_the_rows_that_are_remembered(rng):
    tasks = tasks_of(rng, 6, 4)
    weight = rng.uniform(0.5, 2.0, 4)
    given = fl.ContinualRidge(0.5, memory=fl.LowRankMemory(7, dtype="float64"))
    scaled = copy.copy(given)
    for X, y in tasks:
        given.partial_fit(X, y, sample_weight=weight)
        scaled.partial_fit(np.sqrt(weight)[:, None] * X, np.sqrt(weight)[:, None] * y)
    assert far(given.coef_, scaled.coef_) < 1e-10


def test_a_copy_and_a_pickle_go_their_own_way(rng):
    """Rows are written behind those that a state owns: two models must not write to one place."""
    tasks = list(stream(rng, 60, 1, 40))
    model = learned(fl.ContinualRidge(0.5, memory=fl.LowRankMemory(32, dtype="float64")), tasks[:20])
    twin, reference = copy.copy(model), pickle.loads(pickle.dumps(model))
    for (X, y), (Z, u) in zip(tasks[20:40], tasks[40:], strict=True):
        model.partial_fit(X, y)
        twin.partial_fit(Z, u)
    assert far(learned(reference, tasks[20:40]).coef_, model.coef_) < 1e-9
    assert far(model.coef_, twin.coef_) > 1e-3


def test_no_row_leaves_the_process_as_it_was(rng, tmp_path):
    X, y = rng.standard_normal((5, 30)), rng.standard_normal(5)
    model = fl.ContinualRidge(alpha=1.0, memory=fl.LowRankMemory(10, dtype="float64")).partial_fit(X, y)
    model.save(tmp_path / "m.npz")
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    for other in (fl.load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model))):
        memory = other._state.memory
        assert np.abs(unit @ memory.vectors.T).max() < 0.999
        ours = memory.rows(np.float64)
        np.testing.assert_allclose(ours.T @ ours, X.T @ X, atol=1e-10)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_that_are_the_same_leave_the_process_as_one(precision, tmp_path):
    """Mixing them gives rows of zeros too, which have no direction."""
    x, y = np.eye(6)[:1], np.ones(1)
    model = learned(fl.ContinualRidge(alpha=1.0, memory=fl.LowRankMemory(5, dtype=precision)), [(x, y)] * 4)
    model.save(tmp_path / "m.npz")
    for other in (fl.load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose(other._state.memory.norms, [2.0], rtol=1e-12)
        assert far(learned(other, [(2 * x, y)]).coef_, learned(copy.copy(model), [(2 * x, y)]).coef_) < 1e-12


@pytest.mark.parametrize("power", [-100, -22, 19, 50, 140])
@pytest.mark.parametrize("n", [1, 12])
def test_rows_of_any_size_are_remembered_in_single_precision(power, n, rng):
    """Also those that single precision, in which vectors are computed, has no room for."""
    unit, tasks = 10.0**power, list(stream(rng, 20, n, 40))
    usual = learned(fl.ContinualRidge(alpha=1.0, memory=7), tasks)
    other = learned(fl.ContinualRidge(alpha=unit * unit, memory=7), [(unit * X, y) for X, y in tasks])
    assert far(unit * other.coef_, usual.coef_) < 5e-3
    assert other.retained_fraction_ == pytest.approx(usual.retained_fraction_, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": -1}, "memory must be at least 0"),
        ({"memory": 1.5}, "memory must be an integer"),
        ({"memory": 2, "alpha": 0.0}, "needs explicit L2 with a finite positive coefficient"),
        ({"memory": 2, "schedule": fl.Projection()}, "needs explicit L2"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(rng, options, said):
    X, y = next(stream(rng))
    with pytest.raises((ValueError, TypeError), match=said):
        fl.ContinualRidge(**options).partial_fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": -1}, "rank must be at least 0"),
        ({"rank": 1.5}, "rank must be an integer"),
        ({"diagonal": "euclid"}, "diagonal must be True or False"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64"),
        ({"decay": 1.0}, r"decay must be in \[0, 1\)"),
        ({"decay": 0.1, "rank": 0}, "needs a memory, and rank=0 has none"),
    ],
    ids=str,
)
def test_parameters_of_a_memory_are_checked(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fl.LowRankMemory(**options)


def test_the_memory_of_a_stream_stays_what_it_is(rng):
    X, y = next(stream(rng))
    model = fl.ContinualRidge(alpha=1.0, memory=2).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"memory was LowRankMemory\(rank=2.* for the first task"):
        model.set_params(memory=3).partial_fit(X, y)
    with pytest.raises(OverflowError):
        fl.ContinualRidge(alpha=1.0, memory=2).partial_fit(1e200 * X, y)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_a_full_memory_holds_as_many_vectors_as_rows_are_independent(rng, scale):
    X = scale * rng.standard_normal((30, 3)) @ np.diag([1.0, 1e-3, 1e-5]) @ rng.standard_normal((3, 6))
    model = fl.ContinualRidge(scale**2, memory=fl.LowRankMemory(6, dtype="float64")).partial_fit(X, X[:, 0])
    assert len(model._state.memory.norms) == 3


def test_sparse_rows_stay_sparse(rng):
    """A dense copy of these rows would take 800 MB."""
    X = sparse_rows(rng, (1000, 100_000), 1e-4)
    model = fl.ContinualRidge(alpha=1.0, memory=fl.LowRankMemory(3, diagonal=True)).partial_fit(
        X, rng.standard_normal(1000)
    )
    assert model.partial_fit(X, rng.standard_normal(1000)).retained_fraction_ < 1.0

"""Logistic regression on a stream: steps against a literal minimization and forty digits, the memory, two streams."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression

import forgetless as fl
from forgetless.estimators._newton import minimum

NAMES = np.array(["a", "b", "c"])
EXACT = fl.LowRankMemory(50, dtype="float64")
s = fl.schedules


def tasks_of(rng, n_tasks=3, d=4, c=3, n=12):
    """Rows around a centre of each class, in tasks that lie apart."""
    centres = rng.standard_normal((c, d))
    result = []
    for _ in range(n_tasks):
        y = rng.integers(c, size=n)
        result.append((centres[y] + rng.standard_normal((n, d)) + 0.5 * rng.standard_normal(d), NAMES[y]))
    return result


def with_ones(X):
    return np.hstack([X, np.ones((len(X), 1))])


def literal_step(X, labels, weights, W, G, coefficient):
    """The minimum of Σ ω ℓ + ½(V − W)ᵀ(G + λ)(V − W), by SciPy; X has a column for the intercept."""
    n, c = len(X), W.shape[1]
    metric = G + coefficient * np.eye(len(W))

    def objective(flat):
        V = flat.reshape(W.shape)
        outputs, change = X @ V, V - W
        value = -weights @ log_softmax(outputs, axis=1)[np.arange(n), labels] + 0.5 * np.sum(change * (metric @ change))
        slopes = (softmax(outputs, axis=1) - np.eye(c)[labels]) * weights[:, None]
        return value, (X.T @ slopes + metric @ change).ravel()

    options = {"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-11}
    return minimize(objective, W.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(W.shape)


def literal_curvatures(before, after, kind):
    """The mean of the eigenvalues of the second derivative of the loss of each row, but for the one that is 0."""
    if kind == "bound":
        return np.full(len(after), 0.5)
    means = []
    for p in (softmax(before, axis=1), softmax(after, axis=1)):
        second = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
        means.append(np.linalg.eigvalsh(second)[:, 1:].mean(axis=1))
    return means[1] if kind == "fisher" else (means[0] + means[1]) / 2


def literal_run(tasks, kind, coefficients, weights=None, decay=0.0, diagonal=False):
    W, G = np.zeros((tasks[0][0].shape[1] + 1, 3)), 0.0
    for t, (X, y) in enumerate(tasks):
        rows, labels = with_ones(X), np.searchsorted(NAMES, y)
        omega = np.ones(len(X)) if weights is None else weights[t]
        before, G = W, (1 - decay) * np.asarray(G) * np.ones((len(W), len(W)))
        W = literal_step(rows, labels, omega, W, G, coefficients[t])
        h = literal_curvatures(rows @ before, rows @ W, kind)
        G = G + (rows * (omega * h)[:, None]).T @ rows
        G = np.diag(np.diag(G)) if diagonal else G
    return W


def weights_of(model):
    return np.vstack([model.coef_.T, model.intercept_])


@pytest.mark.parametrize("kind", ["fisher", "mean", "bound"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_tasks_are_learned_as_defined(rng, kind, container):
    tasks = tasks_of(rng)
    model = fl.ContinualLogistic(0.7, curvature=kind, memory=EXACT)
    for X, y in tasks:
        model.partial_fit(container(X), y, classes=NAMES)
    single = model.coef_.dtype == np.float32
    tolerance = 1e-4 if single else 1e-6
    np.testing.assert_allclose(weights_of(model), literal_run(tasks, kind, [0.7] * 3), atol=tolerance)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-5 if single else 1e-12)
    assert model.history_["error"].max() <= 1e-10


def test_weights_decay_diagonal_and_auto(rng):
    tasks = tasks_of(rng)
    weights = [rng.uniform(0.5, 2.0, len(X)) for X, _ in tasks]
    decaying = fl.ContinualLogistic(1.5, memory=fl.LowRankMemory(50, decay=0.2, dtype="float64"))
    diagonal = fl.ContinualLogistic(0.3, memory=fl.LowRankMemory(0, diagonal=True), curvature="fisher")
    for (X, y), weight in zip(tasks, weights, strict=True):
        decaying.partial_fit(X, y, classes=NAMES, sample_weight=weight)
        diagonal.partial_fit(sparse.csr_array(X), y, classes=NAMES)
    # "auto" is the mean curvature for three classes
    expected = literal_run(tasks, "mean", [1.5] * 3, weights, decay=0.2)
    np.testing.assert_allclose(weights_of(decaying), expected, atol=1e-6)
    np.testing.assert_allclose(weights_of(diagonal), literal_run(tasks, "fisher", [0.3] * 3, diagonal=True), atol=1e-6)


def test_two_classes_use_the_fisher_information_by_default(rng):
    tasks = [(X, (y == "a").astype(int)) for X, y in tasks_of(rng)]
    models = [fl.ContinualLogistic(memory=EXACT, curvature=kind) for kind in ("auto", "fisher", "mean")]
    for X, y in tasks:
        for model in models:
            model.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert np.abs(models[0].coef_ - models[2].coef_).max() > 1e-3


def test_rows_of_weight_two_are_rows_twice(rng):
    ((X, y),) = tasks_of(rng, 1)
    twice = fl.ContinualLogistic().partial_fit(np.vstack([X, X]), np.concatenate([y, y]))
    weighted = fl.ContinualLogistic().partial_fit(X, y, sample_weight=2.0)
    np.testing.assert_allclose(twice.coef_, weighted.coef_, rtol=1e-8)
    dropped = fl.ContinualLogistic().partial_fit(X, y, sample_weight=[1.0] * 10 + [0.0] * 2)
    alone = fl.ContinualLogistic().partial_fit(X[:10], y[:10], classes=NAMES)
    np.testing.assert_allclose(dropped.coef_, alone.coef_, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_task_is_logistic_regression_of_scikit_learn(rng, n_classes):
    X, y = rng.standard_normal((40, 5)), rng.integers(n_classes, size=40)
    model = fl.ContinualLogistic(0.8, fit_intercept=False).partial_fit(X, y)
    C = (2 if n_classes == 2 else 1) / 0.8
    other = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-6)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, other.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    tags = model.__sklearn_tags__()
    assert not tags.target_tags.multi_output
    with pytest.warns(DataConversionWarning, match="column-vector"):
        fl.ContinualLogistic().partial_fit(X, y[:, None])


def forty_digits(X, labels, coefficient, W):
    """The minimum of Σ ℓ + (λ/2)‖W‖² by Newton's method from W (d, 3)."""
    d = X.shape[1]
    with mpmath.workdps(40):
        W = mpmath.matrix(W.tolist())
        for _ in range(4):
            g = mpmath.matrix([coefficient * W[i, j] for i in range(d) for j in range(3)])
            H = coefficient * mpmath.eye(3 * d)
            for x, label in zip(X.tolist(), labels, strict=True):
                powers = [mpmath.exp(mpmath.fsum(x[i] * W[i, j] for i in range(d))) for j in range(3)]
                p = [power / mpmath.fsum(powers) for power in powers]
                for i, j in itertools.product(range(d), range(3)):
                    g[3 * i + j] += x[i] * (p[j] - int(j == label))
                    for i2, j2 in itertools.product(range(d), range(3)):
                        H[3 * i + j, 3 * i2 + j2] += x[i] * x[i2] * p[j] * (int(j == j2) - p[j2])
            step = mpmath.lu_solve(H, g)
            W -= mpmath.matrix([[step[3 * i + j] for j in range(3)] for i in range(d)])
        return np.array([[float(W[i, j]) for j in range(3)] for i in range(d)])


@pytest.mark.parametrize("alpha", [1e3, 1.0, 1e-4, 1e-9])
def test_stated_errors_hold_against_forty_digits(rng, alpha):
    X, labels = 5.0 * rng.standard_normal((12, 2)), np.arange(12) % 3
    model = fl.ContinualLogistic(alpha, fit_intercept=False, memory=None).partial_fit(X, labels)
    exact = forty_digits(X, labels, alpha, model.coef_.T)
    error = model.history_["error"][0]
    assert error <= 1e-10
    assert np.linalg.norm(model.coef_.T - exact) <= (error + 1e-14) * np.linalg.norm(exact)


@pytest.mark.parametrize("most_rows", [2000, 10])
def test_large_and_sparse_tasks_are_learned_as_dense_ones(rng, monkeypatch, most_rows):
    """By conjugate gradients, in coordinates of the rows, and by products with sparse rows only."""
    monkeypatch.setattr("forgetless.estimators.softmax.MOST_ROWS", most_rows)
    d = 1500
    X = sparse.csr_array(rng.random((300, d)) * (rng.random((300, d)) < 0.05))
    teacher = rng.standard_normal((d, 3))
    tasks = [(part, NAMES[np.argmax(part @ teacher, axis=1)]) for part in (X[:150], X[150:])]
    for memory in (fl.LowRankMemory(400, dtype="float64"), fl.LowRankMemory(20, diagonal=True, dtype="float64"), None):
        dense, thin = (fl.ContinualLogistic(0.1, memory=memory) for _ in range(2))
        for part, y in tasks:
            thin.partial_fit(part, y, classes=NAMES)
            dense.partial_fit(part.toarray(), y, classes=NAMES)
        np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-7)
        assert thin.history_["error"].max() <= 1e-9


def test_the_error_of_a_sparse_task_is_that_of_its_gradient(rng, monkeypatch):
    """A step that is wrong by 1e-9 is stored with ‖gradient‖/(λ‖change‖), and one by 1e-3 is computed otherwise."""
    X, y = sparse.csr_array(rng.random((6, 40)) * (rng.random((6, 40)) < 0.3)), NAMES[[0, 1, 2, 0, 1, 2]]
    exact = fl.ContinualLogistic(0.2, memory=None).partial_fit(X, y)

    def inexact(part):
        def perturbed(f):
            step = minimum(f)
            return step._replace(change=step.change * (1 + part))

        monkeypatch.setattr("forgetless.estimators.softmax.minimum", perturbed)
        return fl.ContinualLogistic(0.2, memory=None).partial_fit(X, y)

    model = inexact(1e-9)
    W, rows = weights_of(model), with_ones(X.toarray())
    slopes = softmax(rows @ W, axis=1) - np.eye(3)[[0, 1, 2, 0, 1, 2]]
    error = np.linalg.norm(rows.T @ slopes + 0.2 * W) / (0.2 * np.linalg.norm(W))
    assert model.history_["error"][0] == pytest.approx(error, rel=1e-4)
    np.testing.assert_allclose(inexact(1e-3).coef_, exact.coef_, rtol=1e-8)


def test_tasks_for_which_few_passes_do_not_suffice(rng, monkeypatch):
    monkeypatch.setattr("forgetless.estimators._newton.FEW_PRODUCTS", 2)
    X = rng.standard_normal((400, 60)) * np.geomspace(0.1, 10.0, 60)
    y = NAMES[rng.integers(3, size=400)]
    model = fl.ContinualLogistic(0.1).partial_fit(X, y)
    assert model.history_["error"][0] <= 1e-10
    other = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(with_ones(X), y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(with_ones(X)), atol=1e-4)


def test_schedules_are_scaled_by_the_smoothness(rng):
    tasks = tasks_of(rng)
    model = fl.ContinualLogistic(schedule=fl.schedules.minimax(), n_tasks=3, radius=4.0, memory=None)
    for X, y in tasks:
        model.partial_fit(X, y, classes=NAMES)
    t = np.arange(1, 4)
    strengths = 0.5 * 4.0**2 * t / (4 - t)  # R²/2 in place of R²
    np.testing.assert_allclose(model.history_["strength"], strengths)
    W = np.zeros((5, 3))
    for (X, y), coefficient in zip(tasks, strengths, strict=True):
        labels = np.searchsorted(NAMES, y)
        W = literal_step(with_ones(X), labels, np.ones(len(X)), W, np.zeros((5, 5)), coefficient)
    np.testing.assert_allclose(weights_of(model), W, atol=1e-6)
    assert model.history_["radius"].tolist() == [4.0] * 3
    fixed = fl.ContinualLogistic().partial_fit(*tasks[0])
    assert np.isnan(fixed.history_["radius"][0])
    assert fixed.history_["strength"][0] == 3.0
    assert fixed.radius_ == 0.0
    running = fl.ContinualLogistic(schedule="increasing", n_tasks=3).partial_fit(*tasks[0])
    norm = np.linalg.norm(with_ones(tasks[0][0]), 2)
    assert running.radius_ == pytest.approx(norm)
    assert running.history_["strength"][0] == pytest.approx(13 / 3 * norm**2 / 2)


def test_squared_errors_are_those_of_probabilities(rng):
    (X, y), (X2, y2) = tasks_of(rng, 2)
    model = fl.ContinualLogistic(standardize=True).partial_fit(X, y, classes=NAMES)
    targets = (y2[:, None] == NAMES).astype(float)
    before = np.mean((targets - model.predict_proba(X2)) ** 2)
    model.partial_fit(X2, y2)
    history = model.history_
    assert history["mse_before"][0] == pytest.approx(np.mean((1 / 3 - np.eye(3)[0]) ** 2))
    assert history["mse_before"][1] == pytest.approx(before)
    assert history["mse_after"][1] == pytest.approx(np.mean((targets - model.predict_proba(X2)) ** 2))
    assert model.prequential_mse_ == pytest.approx(np.mean(history["mse_before"]))


def test_standardized_streams_do_not_depend_on_units(rng):
    tasks = tasks_of(rng)
    one, other = (fl.ContinualLogistic(standardize=True, memory=EXACT) for _ in range(2))
    for X, y in tasks:
        one.partial_fit(X, y, classes=NAMES)
        other.partial_fit(X * [1.0, 10.0, 0.1, 5.0] + [0.0, 30.0, 1.0, -2.0], y, classes=NAMES)
    X = tasks[0][0]
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X * [1.0, 10.0, 0.1, 5.0] + [0.0, 30.0, 1.0, -2.0]), atol=1e-7
    )


def test_columns_that_vary_more_later_start_from_smaller_weights(rng):
    """The penalty of a standardized stream has its centre between the memory's and the discounted weights."""
    (X, y), (X2, y2) = tasks_of(rng, 2)
    X2 = 3.0 * X2
    model = fl.ContinualLogistic(2.0, standardize=True, memory=EXACT, curvature="bound").partial_fit(
        X, y, classes=NAMES
    )
    W = np.vstack([model._state.coef.T, model._state.intercept])  # in units of the first task
    mean, scale = X.mean(axis=0), X.std(axis=0)
    both = np.vstack([X, X2])
    mean2, scale2 = both.mean(axis=0), both.std(axis=0)
    rows, rows2 = with_ones((X - mean2) / scale2), with_ones((X2 - mean2) / scale2)
    origin = W.copy()
    origin[:-1] *= (scale2 / scale)[:, None]
    origin[-1] += ((mean2 - mean) / scale2) @ origin[:-1]
    start = origin * np.append(np.minimum(scale / scale2, 1.0) ** 2, 1.0)[:, None]
    G = 0.5 * rows.T @ rows
    centre = np.linalg.solve(G + 2.0 * np.eye(5), G @ origin + 2.0 * start)
    expected = literal_step(rows2, np.searchsorted(NAMES, y2), np.ones(12), centre, G, 2.0)
    model.partial_fit(X2, y2)
    assert scale2.min() > 0
    np.testing.assert_allclose(np.vstack([model._state.coef.T, model._state.intercept]), expected, atol=1e-6)


def test_classes_may_come_later(rng):
    rows, names = np.vstack([np.eye(4) * 4, -np.eye(4) * 4]), np.array(list("abcdefgh"))
    tasks = [
        (rows[at] + 0.3 * rng.standard_normal((10, 4)), names[at]) for at in (np.arange(10) % 2 + i for i in (0, 2))
    ]
    model = fl.ContinualLogistic()
    for X, y in tasks:
        model.partial_fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert all(np.mean(model.predict(X) == y) == 1.0 for X, y in tasks)
    single = fl.ContinualLogistic().partial_fit(rows[:1], ["a"])
    np.testing.assert_array_equal(single.predict_proba(rows), 1.0)
    single.partial_fit(rows[1:2], ["b"]).partial_fit(rows[1:3], ["b", "c"])
    assert single.predict(rows[:3]).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"curvature": "hessian"}, ValueError, "curvature must be one of auto, fisher, mean, bound, got 'hessian'"),
        ({"alpha": 0.0}, ValueError, "alpha must be"),
        ({"radius": -1.0}, ValueError, "radius must be"),
        ({"schedule": "auto"}, ValueError, "auto"),
        ({"schedule": fl.Projection()}, ValueError, "ContinualLogistic needs explicit L2 with a finite positive"),
        ({"schedule": fl.GradientDescent(3, 0.1)}, ValueError, "ContinualLogistic needs explicit L2"),
        ({"alpha": 1e-20}, ValueError, "the coefficient λ must be at least"),
    ],
)
def test_wrong_parameters_are_rejected(rng, options, error, message):
    ((X, y),) = tasks_of(rng, 1)
    model = fl.ContinualLogistic(**options)
    with pytest.raises(error, match=message):
        model.partial_fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_blocks_are_one_task_and_dask_arrays_are_rejected(rng, container):
    dask = pytest.importorskip("dask.array")
    ((X, y),) = tasks_of(rng, 1)
    whole, parts = (fl.ContinualLogistic() for _ in range(2))
    whole.partial_fit(X, y, sample_weight=[1.0] * 5 + [2.0] * 7)
    blocks = [(container(X[:5]), y[:5]), (X[5:], y[5:], np.full(7, 2.0))]
    parts.partial_fit_blocks(lambda: iter(blocks), classes=NAMES)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-7)
    assert parts.n_tasks_seen_ == 1
    before = parts.coef_.copy()
    with pytest.raises(ValueError, match="blocks must hold at least one row"):
        parts.partial_fit_blocks([])
    with pytest.raises(TypeError, match=r"use X\.compute\(\)"):
        parts.fit(dask.from_array(X), y)
    np.testing.assert_array_equal(parts.coef_, before)


def cancer(seed):
    """Breast cancer as 20 tasks, sorted along the first principal direction, in random order; and held-out rows."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, held = order[:400], order[400:]
    key = X[train] @ np.linalg.svd(X, full_matrices=False)[2][0]
    parts = np.array_split(train[np.argsort(key)], 20)
    return [(X[parts[i]], y[parts[i]]) for i in rng.permutation(20)], (X[held], y[held])


def shifted(seed):
    """Rows of shifted tasks with clean labels; the logarithms of their norms have a standard deviation of 1."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(30)

    def rows(n, shift):
        X = (rng.standard_normal((n, 30)) + shift) * np.exp(rng.standard_normal((n, 1)))
        return X, (X @ teacher > 0).astype(int)

    shifts = 0.7 * rng.standard_normal((60, 30))
    tasks, held = [rows(20, shift) for shift in shifts], [rows(30, shift) for shift in shifts]
    return tasks, (np.vstack([X for X, _ in held]), np.concatenate([y for _, y in held]))


@pytest.mark.parametrize(("stream", "n_seeds", "bar"), [(cancer, 6, 0.025), (shifted, 4, 0.03)])
def test_errors_of_the_default_on_two_streams(stream, n_seeds, bar):
    errors = []
    for seed in range(n_seeds):
        tasks, (X, y) = stream(seed)
        model = fl.ContinualLogistic()
        for rows, labels in tasks:
            model.partial_fit(rows, labels)
        errors.append(np.mean(model.predict(X) != y))
    assert np.mean(errors) <= bar


@pytest.mark.parametrize("standardize", [False, True])
def test_a_first_class_alone_is_learned_against_the_next_one(rng, standardize):
    tasks = tasks_of(rng, 4, c=2)
    tasks[:2] = [(X[y == "a"], y[y == "a"]) for X, y in tasks[:2]]
    early, late = (fl.ContinualLogistic(standardize=standardize) for _ in range(2))
    for X, y in tasks:
        early.partial_fit(X, y, classes=["a", "b"])
        late.partial_fit(X, y)
    np.testing.assert_allclose(late.coef_, early.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(late.intercept_, early.intercept_, rtol=1e-6, atol=1e-9)
    three = fl.ContinualLogistic().partial_fit(X[:2], ["a", "a"]).partial_fit(X[:4], ["a", "a", "b", "c"])
    np.testing.assert_allclose(three.coef_.sum(axis=0), 0.0, atol=1e-12)

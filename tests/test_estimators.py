"""The estimators against scikit-learn's checks, against others' algorithms, and against the engines of this package."""

import copy
import pickle
import warnings

import mpmath
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import PassiveAggressiveRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import forgetless as fl
import literal
from forgetless._strength import HOMOGENEOUS, Strength, equivalent_coefficient

ESTIMATORS = [
    fl.ContinualRidge(),
    fl.ContinualRidge(schedule="increasing", fit_intercept=True, loss="mean", radius=0.5),
    fl.ContinualRidge(schedule="auto"),
    fl.ContinualGD(),
    fl.ContinualRidgeClassifier(),
    fl.ContinualRidgeClassifier(alpha=0.1, fit_intercept=False),
    fl.JointRidge(),
    fl.RecursiveLeastSquares(fit_intercept=True),
]


def stream(rng, n_tasks=6, n=5, d=8, targets=(), noise=0.1):
    teacher = rng.standard_normal((d, *targets))
    for _ in range(n_tasks):
        X = rng.standard_normal((n, d))
        yield X, X @ teacher + noise * rng.standard_normal((n, *targets))


def learned(model, tasks):
    for X, y in tasks:
        model.partial_fit(X, y)
    return model


# --- scikit-learn's contract ---


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_all_checks_of_scikit_learn_pass(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke warnings of their own
        results = check_estimator(model, on_skip=None, on_fail=None)
    assert [result for result in results if result["status"] == "failed"] == []
    assert len([result for result in results if result["status"] == "passed"]) >= 60


def check_tensors(model, device, dtype):
    from sklearn.utils.estimator_checks import check_array_api_input

    options = {"check_values": True, "check_sample_weight": True}
    check_array_api_input(type(model).__name__, model, "torch", device, dtype, **options)


CONTINUAL = [fl.ContinualRidge(), fl.ContinualRidge(schedule="auto"), fl.ContinualGD(), fl.ContinualRidgeClassifier()]


@pytest.mark.torch
@pytest.mark.parametrize("model", CONTINUAL, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_tensors_stay_torch(model, dtype):
    check_tensors(model, "cpu", dtype)


@pytest.mark.torch
def test_tensors_stay_on_the_gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    for model in CONTINUAL:
        for dtype in ("float64", "float32"):
            check_tensors(model, "cuda", dtype)


@pytest.mark.torch
def test_torch_targets_weights_groups_and_baselines(rng):
    import torch

    X, y, weight = rng.standard_normal((12, 3)), rng.standard_normal(12), rng.uniform(0.5, 2, 12)
    groups = np.repeat([0, 1], 6)
    T = [torch.tensor(array) for array in (X, y, weight, groups)]
    expected = fl.ContinualRidge(holdout=0.2, random_state=0).fit(X, y, groups, weight)
    with config_context(array_api_dispatch=True):
        tensors = fl.ContinualRidge(holdout=0.2, random_state=0).fit(T[0].requires_grad_(), T[1], T[3], T[2])
        np.testing.assert_allclose(tensors.coef_.detach().numpy(), expected.coef_, rtol=1e-10)
        mixed = fl.ContinualRidge().partial_fit(X, T[1])
        np.testing.assert_allclose(mixed.coef_, fl.ContinualRidge().partial_fit(X, y).coef_, rtol=1e-10)
        for kind in (fl.JointRidge, fl.RecursiveLeastSquares):
            joint = kind().partial_fit(T[0].detach(), T[1])
            np.testing.assert_allclose(joint.coef_, kind().partial_fit(X, y).coef_, rtol=1e-10)
            assert joint.predict(T[0].detach()).shape == (12,)
    with pytest.raises(ValueError, match="array_api_dispatch=True"):
        tensors.predict(X)


def test_pandas_names_are_checked(rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rng.standard_normal((6, 2)), columns=["a", "b"])
    y = pandas.Series(rng.standard_normal(6))
    model = fl.ContinualRidge().partial_fit(X, y).partial_fit(X, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(X[["b", "a"]], y)
    with pytest.warns(UserWarning, match="feature names"):
        model.partial_fit(X.to_numpy()[:1], y.to_numpy()[:1])


def test_clone_pickle_and_copy_keep_the_model(rng):
    model = learned(fl.ContinualRidge(schedule="increasing", n_tasks=9, holdout=0.3, random_state=1), stream(rng))
    others = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    more = list(stream(np.random.default_rng(5), 2))
    learned(model, more)
    for other in others:
        np.testing.assert_array_equal(learned(other, more).coef_, model.coef_)
        assert other.seen_mse_ == model.seen_mse_
    assert not hasattr(clone(model), "coef_")
    assert clone(model).get_params() == model.get_params()


def test_grid_search_pipeline_and_routing(rng):
    X, y = rng.standard_normal((60, 4)), rng.standard_normal(60)
    groups = np.repeat(np.arange(6), 10)
    search = GridSearchCV(make_pipeline(StandardScaler(), fl.ContinualRidge()), {"continualridge__alpha": [0.1, 10.0]})
    assert search.fit(X, y).best_estimator_.predict(X).shape == (60,)
    with config_context(enable_metadata_routing=True):
        model = fl.ContinualRidge().set_fit_request(groups=True, sample_weight=True)
        model.set_score_request(sample_weight=False)
        result = cross_validate(
            model,
            X,
            y,
            cv=GroupKFold(3),
            params={"groups": groups, "sample_weight": np.ones(60)},
            return_estimator=True,
        )
    assert [fitted.n_tasks_seen_ for fitted in result["estimator"]] == [4, 4, 4]


# --- what one task and a stream of tasks give ---


@pytest.mark.parametrize("shape", [(20, 5), (5, 20), (1, 7)])
@pytest.mark.parametrize("targets", [(), (3,)])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_task_from_zero_is_ridge(rng, shape, targets, intercept):
    X, y, weight = rng.standard_normal(shape), rng.standard_normal((shape[0], *targets)), rng.uniform(0.1, 2, shape[0])
    ours = fl.ContinualRidge(alpha=0.7, fit_intercept=intercept).fit(X, y, sample_weight=weight)
    # The intercept is one more weight, so the reference gets a column of ones and no intercept of its own.
    wide = np.hstack([X, np.ones((shape[0], 1))]) if intercept else X
    theirs = Ridge(alpha=0.7, fit_intercept=False).fit(wide, y, sample_weight=weight)
    expected = theirs.coef_[..., :-1] if intercept else theirs.coef_
    np.testing.assert_allclose(ours.coef_, expected, rtol=1e-8, atol=1e-12)
    if intercept:
        np.testing.assert_allclose(ours.intercept_, theirs.coef_[..., -1], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(wide), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "list", "float32", "blocks", "generator", "memmap"])
@pytest.mark.parametrize("model", [fl.ContinualRidge(0.5), fl.ContinualGD(7, 0.01)], ids=["ridge", "gd"])
def test_a_stream_is_the_literal_algorithm_for_every_kind_of_input(rng, tmp_path, kind, model):
    tasks = list(stream(rng, targets=(2,)))
    model = clone(model)
    w = np.zeros((8, 2))
    for i, (X, y) in enumerate(tasks):
        if isinstance(model, fl.ContinualRidge):
            w = literal.ridge_step(w, X, y, 0.5)
        else:
            w = literal.descent_step(w, X, y, 7, 0.01)
        if kind in ("blocks", "generator"):
            blocks = [(X[:2], y[:2]), (X[2:], y[2:])]
            model.partial_fit_blocks(blocks if kind == "blocks" else (block for block in blocks))
            continue
        if kind == "memmap":
            stored = np.memmap(tmp_path / str(i), dtype=float, mode="w+", shape=X.shape)
            stored[:] = X
            model.partial_fit(stored, y)
            continue
        forms = {
            "dense": X, "csr": sparse.csr_array(X), "csc": sparse.csc_matrix(X), "list": X.tolist(),
            "float32": X.astype(np.float32),
        }  # fmt: skip
        model.partial_fit(forms[kind], y)
    assert model.coef_.dtype == (np.float32 if kind == "float32" else np.float64)
    np.testing.assert_allclose(model.coef_, w.T, rtol=1e-4 if kind == "float32" else 1e-9, atol=1e-6)
    assert model.n_tasks_seen_ == len(tasks)


@pytest.mark.parametrize("intercept", [False, True])
def test_short_path_of_one_row_is_the_usual_path(rng, intercept):
    tasks = list(stream(rng, 30, 1, 5))
    for schedule in (None, "increasing", fl.Ridge(0.3), fl.schedules.fixed()):
        quick = fl.ContinualRidge(0.4, schedule=schedule, n_tasks=30, fit_intercept=intercept)
        usual = clone(quick)
        for X, y in tasks:
            quick.partial_fit(X, y)
            usual.partial_fit(X.tolist(), y.tolist())
        np.testing.assert_allclose(quick.coef_, usual.coef_, rtol=1e-10)
        np.testing.assert_allclose(quick.intercept_, usual.intercept_, rtol=1e-10)
        for name, values in usual.history_.items():
            np.testing.assert_allclose(quick.history_[name], values, rtol=1e-6, atol=1e-12, err_msg=name)


def test_short_path_heeds_changed_parameters(rng):
    (X, y), (X2, y2), (X3, y3) = stream(rng, 3, 1, 4)
    model = fl.ContinualRidge(1.0).partial_fit(X, y).partial_fit(X2, y2)
    before = model.coef_.copy()
    model.set_params(alpha=9.0).partial_fit(X3, y3)
    np.testing.assert_allclose(model.coef_, literal.ridge_step(before, X3, y3, 9.0))
    model.set_params(alpha=-1.0)
    with pytest.raises(ValueError, match="alpha"):
        model.partial_fit(X3, y3)


def test_fit_learns_groups_in_order_of_appearance_and_knows_their_number(rng):
    tasks = list(stream(rng, 5))
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    groups = np.repeat(["z", "b", "y", "a", "q"], 5)
    fitted = fl.ContinualRidge(schedule="increasing", radius=4.0).fit(X, y, groups)
    streamed = learned(fl.ContinualRidge(schedule="increasing", radius=4.0, n_tasks=5), tasks)
    np.testing.assert_allclose(fitted.coef_, streamed.coef_, rtol=1e-12)
    shuffled = rng.permutation(len(X))
    again = fl.ContinualRidge(alpha=1.0).fit(X[shuffled], y[shuffled], groups[shuffled])
    assert again.n_tasks_seen_ == 5
    # fit forgets everything
    assert again.fit(X, y).n_tasks_seen_ == 1


def test_estimator_follows_the_engine(rng):
    tasks = list(stream(rng, 6))
    collection = fl.TaskCollection(tasks)
    for model, schedule in [
        (fl.ContinualRidge(schedule="increasing", n_tasks=6, radius=collection.radius), fl.schedules.increasing()),
        (fl.ContinualRidge(schedule="fixed", n_tasks=6, radius=collection.radius), fl.schedules.fixed()),
        (fl.ContinualRidge(schedule="none"), fl.Projection()),
        (
            fl.ContinualGD(4, schedule="increasing", n_tasks=6, radius=collection.radius),
            fl.schedules.increasing_budget(4),
        ),
    ]:
        trace = fl.simulate(collection, schedule, 6, ordering=fl.Sequence(range(6)), record="last")
        np.testing.assert_allclose(learned(model, tasks).coef_, trace.weights[0, -1], rtol=1e-8, err_msg=str(model))


# --- strength ---


def test_advised_and_optimised_schedules_are_used_as_they_are(rng, tmp_path):
    tasks = list(stream(rng, 6))
    collection = fl.TaskCollection(tasks)
    advised = fl.advise(collection, k=6).best
    optimised = fl.optimal_schedule(collection, k=6)
    for schedule in (advised, optimised, fl.schedules.end_ramp(), fl.schedules.noise_aware()):
        model = fl.ContinualRidge(schedule=schedule, n_tasks=6, radius=collection.radius)
        trace = fl.simulate(collection, schedule, 6, ordering=fl.Sequence(range(6)), record="last")
        np.testing.assert_allclose(learned(model, tasks).coef_, trace.weights[0, -1], rtol=1e-8)
        model.save(tmp_path / "m.npz")
        np.testing.assert_array_equal(fl.ContinualRidge.load(tmp_path / "m.npz").coef_, model.coef_)
    assert (
        fl.ContinualRidge(schedule=optimised).partial_fit(*tasks[0]).history_["strength"][0]
        == optimised.coefficients[0]
    )


@pytest.mark.parametrize(
    "schedule", [kind(2) if kind is fl.schedules.Cyclic else kind() for kind in HOMOGENEOUS], ids=repr
)
def test_presets_scale_with_the_radius(schedule):
    unit, other = schedule(9, 1.0), schedule(9, 3.0)
    for t in range(9):
        expected = 9.0 * equivalent_coefficient(unit.at(t))
        assert equivalent_coefficient(other.at(t)) == pytest.approx(expected, rel=1e-12)
    strength = Strength(schedule, 9, "error")
    for t, radius in enumerate([0.5, 2.0, 2.0, 7.0], start=1):
        expected = equivalent_coefficient(schedule(9, radius).at(t - 1))
        assert equivalent_coefficient(strength.at(t, radius)) == pytest.approx(expected, rel=1e-12)


def test_listed_coefficients_cannot_go_on():
    with pytest.raises(ValueError, match="cannot go on after 3 listed coefficients"):
        fl.ContinualRidge(schedule=fl.Ridge([1.0, 2.0, 3.0]), beyond="anytime").partial_fit([[1.0]], [1.0])


def test_default_budget_goes_on_after_the_groups_of_fit(rng):
    (X, y), more = stream(rng, 2, 6)
    assert fl.ContinualGD().fit(X, y, [0, 0, 1, 1, 2, 2]).partial_fit(*more).n_tasks_seen_ == 4


def test_running_radius_is_the_largest_norm_so_far(rng):
    tasks = [(X * scale, y) for scale, (X, y) in zip([1, 3, 2, 5], stream(rng, 4), strict=True)]
    model = learned(fl.ContinualRidge(schedule="increasing", n_tasks=4), tasks)
    norms = np.maximum.accumulate([np.linalg.norm(X, 2) for X, _ in tasks])
    np.testing.assert_allclose(model.history_["radius"], norms, rtol=1e-10)
    expected = [13 / 3 * norm**2 * 5 / (4 - t + 2) for t, norm in enumerate(norms, start=1)]
    np.testing.assert_allclose(model.history_["strength"], expected, rtol=1e-10)
    assert model.radius_ == pytest.approx(norms[-1])


def test_beyond_the_horizon_is_an_error_or_goes_on(rng):
    tasks = list(stream(rng, 7))
    model = learned(fl.ContinualRidge(schedule="increasing", n_tasks=2), tasks[:2])
    before = model.coef_
    with pytest.raises(ValueError, match="task 3 is beyond the declared horizon of 2 tasks"):
        model.partial_fit(*tasks[2])
    assert model.coef_ is before
    constant = learned(fl.ContinualRidge(alpha=1.0, n_tasks=2), [(X[:1], y[:1]) for X, y in tasks[:2]])
    for rows in (1, 5):
        with pytest.raises(ValueError, match="task 3 is beyond the declared horizon of 2 tasks"):
            constant.partial_fit(tasks[2][0][:rows], tasks[2][1][:rows])
    # The groups of fit declare nothing for a strength that is the same at every task.
    assert fl.ContinualRidge().fit(*tasks[0], groups=[0, 0, 1, 1, 2]).partial_fit(*tasks[1]).n_tasks_seen_ == 4
    on = learned(fl.ContinualRidge(schedule="increasing", n_tasks=2, beyond="anytime", radius=1.0), tasks)
    ratios = [(k + 1) / (k - t + 2) for k, t in [(2, 1), (2, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]]
    np.testing.assert_allclose(on.history_["strength"], 13 / 3 * np.array(ratios))


def test_unknown_horizon_doubles(rng):
    model = learned(fl.ContinualRidge(schedule="increasing", radius=1.0), stream(rng, 9))
    epochs = [(4, 1), (4, 2), (4, 3), (4, 4), (4, 1), (4, 2), (4, 3), (4, 4), (8, 1)]
    np.testing.assert_allclose(model.history_["strength"], [13 / 3 * (k + 1) / (k - t + 2) for k, t in epochs])


def test_mean_loss_divides_by_rows_and_weights(rng):
    X, y, weight = rng.standard_normal((6, 4)), rng.standard_normal(6), rng.uniform(0.5, 2, 6)
    mean = fl.ContinualRidge(alpha=0.3, loss="mean").fit(X, y, sample_weight=weight)
    total = fl.ContinualRidge(alpha=0.3 * weight.sum()).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(mean.coef_, total.coef_, rtol=1e-10)
    repeated = fl.ContinualRidge(alpha=0.3, loss="mean").fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(repeated.coef_, fl.ContinualRidge(0.3, loss="mean").fit(X, y).coef_, rtol=1e-10)
    steps = fl.ContinualGD(5, 0.1, loss="mean").fit(X, y)
    np.testing.assert_allclose(steps.coef_, literal.descent_step(np.zeros(4), X, y, 5, 0.1 / 6), rtol=1e-10)

    class Soft(fl.Filter):
        horizon = None

        def share(self, eigenvalues):
            return np.tanh(eigenvalues)

    own = fl.ContinualRidge(schedule=Soft(), loss="mean").fit(X, y)
    np.testing.assert_allclose(own.coef_, fl.step(np.zeros(4), (X / np.sqrt(6), y / np.sqrt(6)), Soft()), rtol=1e-10)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"alpha": -1.0}, ValueError, "alpha must be nonnegative"),
        ({"alpha": "1"}, TypeError, "alpha must be a real number"),
        ({"schedule": "rising"}, ValueError, "must be none, fixed, increasing, auto, a filter"),
        ({"schedule": 3.0}, TypeError, "schedule must be a name"),
        ({"schedule": "fixed", "n_tasks": 2}, ValueError, "k must be at least 3"),
        ({"n_tasks": 0}, ValueError, "n_tasks must be at least 1"),
        ({"radius": 0.0}, ValueError, "radius must be positive"),
        ({"beyond": "stop"}, ValueError, "beyond must be one of error, anytime"),
        ({"loss": "median"}, ValueError, "loss must be one of sum, mean"),
        ({"solver": "lu"}, ValueError, "solver must be one of"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"holdout": 1.0}, ValueError, "holdout must be a share"),
        ({"history_size": -1}, ValueError, "history_size"),
        ({"memory": 1.5}, TypeError, "memory"),
    ],
)
def test_bad_parameters_are_named(parameters, error, words):
    with pytest.raises(error, match=words):
        fl.ContinualRidge(**parameters).partial_fit([[1.0, 2.0]], [1.0])


def test_divergent_step_sizes_are_refused():
    with pytest.raises(ValueError, match=r"step_size=1 diverges on this task, whose squared norm is 4"):
        fl.ContinualGD(3, 1.0).partial_fit([[2.0, 0.0]], [1.0])
    with pytest.raises(ValueError, match="step_size=10 diverges"):
        fl.ContinualRidge(schedule=fl.GradientDescent(20, 10.0)).partial_fit([[2.0, 0.0]], [1.0])
    with pytest.raises(TypeError, match="n_steps"):
        fl.ContinualGD(2.5).partial_fit([[2.0, 0.0]], [1.0])


# --- others' algorithms ---


def test_one_row_tasks_are_passive_aggressive_pa2(rng):
    C = 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is renaming this class
        theirs = PassiveAggressiveRegressor(
            C=C, loss="squared_epsilon_insensitive", epsilon=0.0, fit_intercept=False, shuffle=False
        )
        ours = fl.ContinualRidge(alpha=1 / (2 * C))
        for X, y in stream(rng, 40, 1, 6):
            ours.partial_fit(X, y)
            theirs.partial_fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)


def test_one_row_tasks_are_nlms_and_kaczmarz(rng):
    tasks = list(stream(rng, 40, 1, 6))
    nlms, kaczmarz = np.zeros(6), np.zeros(6)
    for X, y in tasks:
        x = X[0]
        nlms += x * (y[0] - x @ nlms) / (0.3 + x @ x)
        kaczmarz += x * (y[0] - x @ kaczmarz) / (x @ x)
    np.testing.assert_allclose(learned(fl.ContinualRidge(alpha=0.3), tasks).coef_, nlms, rtol=1e-10)
    np.testing.assert_allclose(learned(fl.ContinualRidge(alpha=0.0), tasks).coef_, kaczmarz, rtol=1e-10)
    np.testing.assert_allclose(learned(fl.ContinualRidge(alpha=1e-13), tasks).coef_, kaczmarz, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 30])
@pytest.mark.parametrize("intercept", [False, True])
def test_recursive_least_squares_is_joint_ridge(rng, n, intercept):
    tasks = list(stream(rng, 12, n, 8, targets=(2,)))
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    rls = learned(fl.RecursiveLeastSquares(0.5, fit_intercept=intercept), tasks)
    joint = learned(fl.JointRidge(0.5, fit_intercept=intercept), tasks)
    wide = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    expected = Ridge(alpha=0.5, fit_intercept=False).fit(wide, y).coef_[:, :8]
    np.testing.assert_allclose(rls.coef_, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(joint.coef_, expected, rtol=1e-8, atol=1e-10)
    for name in ("mse_before", "mse_after"):
        np.testing.assert_allclose(rls.history_[name], joint.history_[name], rtol=1e-6)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0])
def test_baselines_know_how_accurate_they_are(rng, alpha):
    U, _, V = np.linalg.svd(rng.standard_normal((40, 8)), full_matrices=False)
    X = (U * np.logspace(3, -4, 8)) @ V
    y = rng.standard_normal(40)
    with mpmath.workdps(50):
        A = mpmath.matrix(X.tolist())
        exact = mpmath.lu_solve(A.T * A + mpmath.mpf(alpha) * mpmath.eye(8), A.T * mpmath.matrix(y.tolist()))
        exact = np.array([float(value) for value in exact])
    for model in (fl.JointRidge(alpha), fl.RecursiveLeastSquares(alpha)):
        found = model.fit(X, y)
        error = np.linalg.norm(found.coef_ - exact) / np.linalg.norm(exact)
        assert error <= found.history_["error"][0]
        assert error < 1e-3


def test_recursive_least_squares_forgets_nothing_where_one_model_fits(rng):
    tasks = list(stream(rng, 10, 2, 30, noise=0.0))

    def seen(model):
        return np.mean([np.mean((model.predict(X) - y) ** 2) for X, y in tasks])

    remembering = learned(fl.RecursiveLeastSquares(1e-8), tasks)
    isotropic = learned(fl.ContinualRidge(schedule="increasing", n_tasks=10), tasks)
    assert seen(remembering) < 1e-12
    assert seen(isotropic) > 1e-2


def test_baselines_refuse_more_memory_than_allowed(rng):
    for model in (fl.JointRidge(memory=1000), fl.RecursiveLeastSquares(memory=1000)):
        with pytest.raises(MemoryError, match=r"\(50, 50\).*ContinualRidge"):
            model.partial_fit(rng.standard_normal((2, 50)), rng.standard_normal(2))
    with pytest.raises(MemoryError, match="read once"):
        fl.ContinualRidge(memory=1000).partial_fit_blocks(b for b in [(rng.standard_normal((2, 50)), np.ones(2))])
    with pytest.raises(fl.ConvergenceError, match="generator"):
        fl.RecursiveLeastSquares().partial_fit_blocks(b for b in [(rng.standard_normal((2, 5)), np.ones(2))])


# --- classification ---


def test_classifier_is_ridge_on_one_hot_targets(rng):
    X, labels = rng.standard_normal((30, 4)), rng.choice(["x", "y", "z"], 30)
    model = fl.ContinualRidgeClassifier(alpha=0.5)
    hot = fl.ContinualRidge(alpha=0.5, fit_intercept=True)
    for part in (slice(0, 10), slice(10, 30)):
        model.partial_fit(X[part], labels[part], classes=["z", "x", "y"])
        hot.partial_fit(X[part], (labels[part, None] == np.array(["x", "y", "z"])).astype(float))
    np.testing.assert_allclose(model.coef_, hot.coef_, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), np.array(["x", "y", "z"])[hot.predict(X).argmax(1)])
    with pytest.raises(ValueError, match=r"labels \['w'\] that are not among the classes"):
        model.partial_fit(X[:1], ["w"])
    with pytest.raises(ValueError, match="classes must not change"):
        model.partial_fit(X[:1], ["x"], classes=["x", "y"])
    blocks = [(X[:10], labels[:10]), (X[10:], labels[10:])]
    part = fl.ContinualRidgeClassifier(alpha=0.5).partial_fit_blocks(blocks, classes=["x", "y", "z"])
    np.testing.assert_allclose(part.coef_, fl.ContinualRidgeClassifier(alpha=0.5).fit(X, labels).coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        fl.ContinualRidgeClassifier().partial_fit(X, labels)

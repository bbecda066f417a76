"""The estimators among those of scikit-learn: its checks, its tools, and what ridge, PA-II and NLMS compute."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import PassiveAggressiveRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import forgetless as fl
from support.streams import learned, stream

MODELS = [
    fl.StreamingRidge(),
    fl.StreamingRidge(adaptive=True),
    fl.StreamingRidge(rank=1),
    fl.StreamingRidge(adaptive=True, rank=1),
    fl.StreamingRidge(1.0, standardize=False, fit_intercept=False),
    fl.StreamingRidge(guard=None, fit_intercept=False),
    fl.StreamingRidgeClassifier(),
    fl.StreamingRidgeClassifier(1.0, rank=1),
    fl.StreamingRidgeClassifier(standardize=False, guard=None),
    fl.StreamingLogistic(),
    fl.StreamingLogistic(0.1, guard=None),
    fl.ContinualRidge(),
    fl.ContinualRidge(0.0, fit_intercept=True),
    fl.ContinualRidge(schedule=fl.schedules.increasing(1e-4), n_tasks=50, average=2),
    fl.ContinualGD(),
    fl.ContinualGD(schedule=fl.schedules.increasing_budget(10**4, 1e-3), n_tasks=50),
]


def checks():
    for model in MODELS:
        for instance, check in estimator_checks_generator(model):
            name = getattr(check, "func", check).__name__
            if name.startswith("check_array_api"):  # for arrays of other libraries, which become those of NumPy
                continue
            # It sets alpha, which is an error beside a schedule.
            if name == "check_regressors_train" and isinstance(model, fl.ContinualRidge) and model.schedule:
                continue
            yield pytest.param(instance, check, id=f"{model}-{name}")


@pytest.mark.parametrize(("model", "check"), list(checks()))
def test_scikit_learn_contract(model, check):
    check(model)


@pytest.mark.parametrize("shape", [(20, 5), (5, 20), (1, 7)])
@pytest.mark.parametrize("targets", [(), (3,)])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_task_from_zero_is_ridge(rng, shape, targets, intercept):
    X, y, weight = rng.standard_normal(shape), rng.standard_normal((shape[0], *targets)), rng.uniform(0.1, 2, shape[0])
    ours = fl.ContinualRidge(alpha=0.7, fit_intercept=intercept).fit(X, y, sample_weight=weight)
    # The intercept is one more weight: of a column of ones, or of zeros where there is none.
    wide = np.hstack([X, np.full((shape[0], 1), float(intercept))])
    theirs = Ridge(alpha=0.7, fit_intercept=False).fit(wide, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[..., :-1], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.intercept_, theirs.coef_[..., -1], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(wide), rtol=1e-8, atol=1e-12)


def test_one_row_tasks_are_passive_aggressive_nlms_and_kaczmarz(rng):
    tasks = list(stream(rng, 40, 1, 6))
    nlms, kaczmarz = np.zeros(6), np.zeros(6)
    for (x,), y in tasks:
        nlms += x * (y[0] - x @ nlms) / (0.3 + x @ x)
        kaczmarz += x * (y[0] - x @ kaczmarz) / (x @ x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn is renaming this class
        options = {"loss": "squared_epsilon_insensitive", "epsilon": 0.0, "fit_intercept": False, "shuffle": False}
        aggressive = learned(PassiveAggressiveRegressor(C=0.5 / 0.3, **options), tasks)
    found = learned(fl.ContinualRidge(alpha=0.3), tasks).coef_
    np.testing.assert_allclose([found, aggressive.coef_], [nlms, nlms], rtol=1e-10)
    for alpha, tolerance in ((0.0, 1e-10), (1e-13, 1e-9)):
        np.testing.assert_allclose(learned(fl.ContinualRidge(alpha), tasks).coef_, kaczmarz, rtol=tolerance)


def test_arrays_of_other_libraries_become_those_of_numpy(rng):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    expected = fl.StreamingRidge().partial_fit(X, y)
    model = fl.StreamingRidge().partial_fit(Tensor(X), Tensor(y))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(Tensor(X)), expected.predict(X))


class Tensor:
    """What a tensor gives to NumPy."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def test_clone_pickle_and_copy_keep_the_model(rng):
    model = learned(fl.StreamingRidge(), stream(rng))
    others = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)]
    more = list(stream(np.random.default_rng(5), 2))
    learned(model, more)
    for other in others:
        np.testing.assert_array_equal(learned(other, more).coef_, model.coef_)
        assert other.prequential_mse_ == model.prequential_mse_
    assert not hasattr(clone(model), "coef_")
    assert clone(model).get_params() == model.get_params()


def test_grid_search_pipeline_and_routing(rng):
    X, y = rng.standard_normal((60, 4)), rng.standard_normal(60)
    search = GridSearchCV(make_pipeline(StandardScaler(), fl.StreamingRidge()), {"streamingridge__alpha": [0.1, 10.0]})
    assert search.fit(X, y).best_estimator_.predict(X).shape == (60,)
    with config_context(enable_metadata_routing=True):
        model = fl.StreamingRidge().set_fit_request(groups=True, sample_weight=True)
        model.set_score_request(sample_weight=False)
        params = {"groups": np.repeat(np.arange(6), 10), "sample_weight": np.ones(60)}
        result = cross_validate(model, X, y, cv=GroupKFold(3), params=params, return_estimator=True)
    assert [fitted.n_tasks_seen_ for fitted in result["estimator"]] == [4, 4, 4]

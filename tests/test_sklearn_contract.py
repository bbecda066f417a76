"""scikit-learn's contract: its checks, data frames, cloning, search and routing."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import forgetless as fl
from support.streams import learned, stream

ESTIMATORS = [
    fl.ContinualRidge(),
    fl.ContinualRidge(schedule="increasing", fit_intercept=True, radius=0.5),
    fl.ContinualRidge(schedule="auto"),
    fl.ContinualRidge(memory=2),
    fl.ContinualRidge(memory=2, standardize=True, fit_intercept=True),
    fl.ContinualRidge(memory=fl.LowRankMemory(1, diagonal=True, decay=0.1, dtype="float64"), fit_intercept=True),
    fl.ContinualGD(),
    fl.ContinualRidgeClassifier(),
    fl.ContinualRidgeClassifier(memory=2),
    fl.ContinualRidgeClassifier(alpha=0.1, fit_intercept=False),
    fl.ContinualLogistic(),
    fl.ContinualLogistic(memory=2, curvature="bound", standardize=True),
    fl.ContinualLogistic(0.1, memory=None, fit_intercept=False),
    fl.ContinualLogistic(memory=fl.LowRankMemory(1, diagonal=True, decay=0.1)),
    fl.JointRidge(),
    fl.RecursiveLeastSquares(fit_intercept=True),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_several_targets_are_declared_where_they_are_learned(model):
    regression = sklearn.base.is_regressor(model)
    assert model.__sklearn_tags__().target_tags.multi_output == regression


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_all_checks_of_scikit_learn_pass(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke warnings of their own
        results = check_estimator(model, on_skip=None, on_fail=None)
    failed = [result for result in results if result["status"] == "failed"]
    assert failed == []
    passed = [result for result in results if result["status"] == "passed"]
    assert len(passed) >= 50  # that they ran at all: 59 in scikit-learn 1.6, more since


def test_arrays_of_other_libraries_become_those_of_numpy(rng):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    expected = fl.ContinualRidge().partial_fit(X, y)
    model = fl.ContinualRidge().partial_fit(Tensor(X), Tensor(y))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(Tensor(X)), expected.predict(X))


class Tensor:
    """What a tensor gives to NumPy."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


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
    model = learned(fl.ContinualRidge(schedule="increasing", n_tasks=9), stream(rng))
    others = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    more = list(stream(np.random.default_rng(5), 2))
    learned(model, more)
    for other in others:
        np.testing.assert_array_equal(learned(other, more).coef_, model.coef_)
        assert other.prequential_mse_ == model.prequential_mse_
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

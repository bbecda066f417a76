"""scikit-learn's checks of the estimators in all configurations."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import forgetless as fl

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

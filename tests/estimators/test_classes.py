"""Classes that come later, their weights, and probabilities."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl

CENTRES = np.random.default_rng(11).standard_normal((5, 12)) * 2


def rows_of(rng, classes, n=8):
    """Rows around the centres of some classes, and their names."""
    at = np.repeat(classes, n)
    return CENTRES[at] + 0.5 * rng.standard_normal((len(at), 12)), np.array(["e", "b", "d", "a", "c"])[at]


def parts(rng):
    return [rows_of(rng, classes) for classes in ([0], [1, 2], [0, 3], [4])]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"memory": fl.LowRankMemory(6, dtype="float64")},
        {"memory": fl.LowRankMemory(6, diagonal=True, dtype="float64"), "fit_intercept": False},
        {"alpha": 0.3, "average": 1.0},
        {"memory": fl.LowRankMemory(3, dtype="float64")},
    ],
    ids=str,
)
def test_a_class_may_come_later_as_if_it_had_been_declared(rng, options):
    early, late = (fl.ContinualRidgeClassifier(**options) for _ in range(2))
    tasks = parts(rng)
    for t, (X, y) in enumerate(tasks):
        early.partial_fit(X, y, classes=["a", "b", "c", "d", "e"] if t == 0 else None)
        late.partial_fit(X, y)
        if t == 1:
            late = pickle.loads(pickle.dumps(late))
    assert late.classes_.tolist() == early.classes_.tolist() == ["a", "b", "c", "d", "e"]
    np.testing.assert_allclose(late.coef_, early.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(late.intercept_, early.intercept_, rtol=1e-6, atol=1e-9)
    assert late.class_counts_.tolist() == early.class_counts_.tolist() == [8, 8, 8, 8, 16]


def test_one_class_alone_is_a_beginning(rng, tmp_path):
    X, y = rows_of(rng, [2])
    model = fl.ContinualRidgeClassifier(memory=4).partial_fit(X, y)
    assert set(model.predict(X)) == {"d"}
    np.testing.assert_array_equal(model.predict_proba(X), 1.0)
    model.save(tmp_path / "m.npz")
    other = fl.load(tmp_path / "m.npz").partial_fit(*rows_of(rng, [0, 1]))
    assert other.classes_.tolist() == ["b", "d", "e"]
    assert np.mean(other.predict(X) == "d") > 0.9


@pytest.mark.parametrize("standardize", [True, False])
def test_the_default_does_not_depend_on_units(rng, standardize):
    """The same classes, whatever rows are multiplied with."""
    tasks = parts(rng)
    options = {"memory": fl.LowRankMemory(3, dtype="float64"), "standardize": standardize}
    one, other = (fl.ContinualRidgeClassifier(**options) for _ in range(2))
    for X, y in tasks:
        one.partial_fit(X, y)
        other.partial_fit(1e3 * X, y)
    np.testing.assert_allclose(1e3 * other.coef_, one.coef_, rtol=1e-6, atol=1e-12)
    assert one.retained_fraction_ < 0.9


def test_the_default_learns_classes_one_after_the_other(rng):
    tasks = [rows_of(rng, [k], 30) for k in range(5)]
    held = [rows_of(rng, [k], 30) for k in range(5)]
    model, forgetful = fl.ContinualRidgeClassifier(), fl.ContinualRidgeClassifier(alpha=1.0)
    for X, y in tasks:
        model.partial_fit(X, y)
        forgetful.partial_fit(X, y)
    wrong, others = (np.mean([np.mean(m.predict(X) != y) for X, y in held]) for m in (model, forgetful))
    assert wrong < 0.02 < others


def test_labels_of_another_kind_and_blocks(rng):
    X, y = rows_of(rng, [0, 1])
    model = fl.ContinualRidgeClassifier().partial_fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="of another kind"):
        model.partial_fit(X, np.arange(len(X)) % 2)
    with pytest.raises(ValueError, match=r"labels \['d'\] of new classes"):
        model.partial_fit_blocks([(X, np.array(["d"] * len(X)))])
    assert model.classes_.tolist() == ["b", "e"]
    assert model.n_tasks_seen_ == 1

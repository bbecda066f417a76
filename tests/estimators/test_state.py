"""The state of a stream: it comes back from arrays, and is replaced as a whole or not at all."""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import forgetless as fl
from forgetless.estimators import regressor

MODELS = [
    fl.ContinualRidge(0.3),
    fl.ContinualRidge(schedule="increasing", n_tasks=50, fit_intercept=True),
    fl.ContinualRidge(0.3, memory=2, fit_intercept=True),
    fl.ContinualRidge(0.3, memory=fl.LowRankMemory(3, diagonal=True, decay=0.1)),
    fl.ContinualRidge(schedule="auto", memory=fl.LowRankMemory(2, dtype="float64")),
    fl.ContinualRidge(schedule="auto"),
    fl.ContinualRidge(schedule="auto", fit_intercept=True),
    fl.ContinualGD(4),
    fl.ContinualGD(4, schedule="increasing", n_tasks=50, fit_intercept=True),
    fl.JointRidge(fit_intercept=True),
    fl.RecursiveLeastSquares(),
    fl.RecursiveLeastSquares(fit_intercept=True),
    fl.ContinualRidgeClassifier(),
    fl.ContinualRidgeClassifier(schedule="auto", fit_intercept=False),
    fl.ContinualLogistic(),
    fl.ContinualLogistic(schedule="increasing", n_tasks=50, memory=2, standardize=True),
]


def tasks(model, seed, n=5, targets=(), kind=np.asarray, dtype=float, count=5):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        X, y = rng.standard_normal((n, 4)).astype(dtype), rng.standard_normal((n, *targets)).astype(dtype)
        if is_classifier(model):
            y = np.where(np.arange(n) < 2, ["u", "v", "u", "v", "u"][:n], "w")
        yield kind(X), y


def learned(model, stream):
    classes = {"classes": ["u", "v", "w"]} if is_classifier(model) else {}
    for X, y in stream:
        model.partial_fit(X, y, **classes)
    return model


def test_the_range_of_a_feature_is_that_of_all_tasks():
    """Values within it are not clipped, whichever task had them."""
    model = fl.ContinualRidge()
    for low, high in ((0.0, 1.0), (-4.0, -3.0), (5.0, 6.0), (0.0, 1.0)):
        x = np.linspace(low, high, 9)
        model.partial_fit(x[:, None], 2.0 * x)
    np.testing.assert_array_equal(model._state.ranges, [[-4.0], [6.0]])
    slope = float(model.coef_[0])
    at = np.array([[-4.0], [0.0], [6.0]])
    np.testing.assert_allclose(np.diff(model.predict(at)), [4.0 * slope, 6.0 * slope], rtol=1e-9)


# --- all or nothing ---


def shown(model):
    """Return everything that a user can read off a fitted model, as bytes."""
    numbers = (model.coef_, model.intercept_, model.n_tasks_seen_, model.prequential_mse_)
    more = [getattr(model, name) for name in ("radius_", "gram_", "inverse_", "energy_") if hasattr(model, name)]
    return pickle.dumps([np.asarray(value).tobytes() for value in (*numbers, *more, *model.history_.values())])


def interrupted(call, n, event, again=0):
    """Call, with a KeyboardInterrupt before the n-th place in the streams' own code; return how many places there were.

    A place is a line, when it is first reached, or an opcode. A second one comes ``again`` places after the first, if
    so much of that code is still run.
    """
    count, lines = 0, set()

    def local(frame, kind, _):
        nonlocal count
        place = (frame.f_code, frame.f_lineno)
        if kind == event and (kind == "opcode" or place not in lines):
            lines.add(place)
            count += 1
            if count in (n, n + again if again else n):
                raise KeyboardInterrupt
        return local

    def everywhere(frame, _kind, _):
        if "/forgetless/estimators/" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        frame.f_trace_opcodes = event == "opcode"
        frame.f_trace = local  # newer Pythons heed the line before only where this is set too
        return local

    before = sys.gettrace()
    sys.settrace(everywhere)
    try:
        call()
    except KeyboardInterrupt:
        assert count >= n
    finally:
        sys.settrace(before)
    return count


def check_interruptions(model, learn, event, again=0):
    """Interrupt at every point: the model is that of before or of after, and goes on as that one does."""
    blob = pickle.dumps(model)
    after = pickle.loads(blob)
    total = interrupted(lambda: learn(after), 0, event)
    before = pickle.loads(blob)
    wanted = {shown(before): shown(learned(before, tasks(before, 7, count=1)))}
    first = shown(after)
    assert first not in wanted
    wanted[first] = shown(learned(after, tasks(after, 7, count=1)))
    for n in range(1, total + 1):
        model = pickle.loads(blob)
        interrupted(lambda model=model: learn(model), n, event, again)
        found = shown(model)
        assert found in wanted, f"interrupted at place {n} of {total}"
        assert shown(learned(model, tasks(model, 7, count=1))) == wanted[found]
    assert total > 40


SOME = [pytest.param(model, marks=[pytest.mark.long] if i % 3 else []) for i, model in enumerate(MODELS)]


@pytest.mark.parametrize("model", SOME, ids=str)
def test_a_task_is_learned_whole_or_not_at_all_wherever_it_is_interrupted(model):
    model = learned(clone(model), tasks(model, 0))
    ((X, y),) = tasks(model, 3, count=1)
    check_interruptions(model, lambda model: model.partial_fit(X, y, sample_weight=[0, 1, 2, 1, 1]), "line")


@pytest.mark.parametrize("model", [fl.ContinualRidge(alpha=1.0), fl.JointRidge()], ids=str)
def test_fit_and_blocks_are_whole_or_not_at_all_wherever_they_are_interrupted(model):
    model = learned(clone(model), tasks(model, 0))
    (X, y), (A, b) = tasks(model, 3, count=2)
    check_interruptions(model, lambda model: model.partial_fit_blocks([(X, y), (A, b)]), "line")
    check_interruptions(model, lambda model: model.fit(X, y, groups=[0, 0, 1, 1, 1]), "line")


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_learning_changes_a_model_in_one_assignment(model):
    """So that there is nothing to put back, which a second interruption could interrupt."""
    pandas = pytest.importorskip("pandas")
    writes = []

    class Watched(type(model)):
        def __setattr__(self, name, value):
            if self is watched:
                writes.append(name)
            super().__setattr__(name, value)

        def __delattr__(self, name):
            raise AssertionError(f"{name} was deleted")

    parameters = model.get_params()
    watched = Watched.__new__(Watched)
    watched.__dict__.update(parameters)
    (X, y), (A, b), (row, target) = [*tasks(model, 0, count=2), *tasks(model, 0, n=1, count=1)]
    classes = {"classes": ["u", "v", "w"]} if is_classifier(model) else {}
    frame = pandas.DataFrame(X, columns=list("abcd"))
    calls = [
        lambda: watched.partial_fit(frame, y, **classes),
        lambda: watched.fit(X, y),
        lambda: watched.partial_fit(A, b),
        lambda: watched.partial_fit(row, target),
        lambda: watched.partial_fit_blocks([(X, y), (A, b)]),
        lambda: watched.fit(X, y, groups=[0, 0, 1, 1, 1] if not classes else None),
    ]
    for call in calls:
        writes.clear()
        call()
        assert writes == ["_state"]
        assert watched.__dict__.keys() == {*parameters, "_state"}


# --- one writer, many readers ---


def test_a_prediction_is_that_of_one_state(monkeypatch):
    """Where a writer comes in between: with X = 1 throughout, coefficient and intercept are the same number."""
    ones = np.ones((1, 1))
    model = fl.ContinualRidge(alpha=1.0, fit_intercept=True).partial_fit(ones, np.ones(1))
    validate = regressor.validate_data

    def meanwhile(*args, **kwargs):
        model.partial_fit(ones, 7 * np.ones(1))
        return validate(*args, **kwargs)

    monkeypatch.setattr(regressor, "validate_data", meanwhile)
    assert model.predict(-ones).tolist() == [0.0]
    assert model.n_tasks_seen_ == 2
    # Two attributes of a model that moves are of two states; those of a copy belong together.
    frozen = copy.copy(model)
    model.predict(-ones)
    assert frozen.n_tasks_seen_ == frozen.history_["task"][-1] == 2
    assert frozen.coef_[0] == frozen.intercept_


@pytest.mark.parametrize("rows", [1, 3])
def test_readers_in_other_threads_never_see_a_mixture(rows):
    ones, rng = np.ones((rows, 1)), np.random.default_rng(0)
    model = fl.ContinualRidge(alpha=1.0, fit_intercept=True).partial_fit(ones, np.ones(rows))
    targets = 100 * rng.standard_normal((50, rows))
    wrong = []

    def read():
        for _ in range(300):
            frozen = copy.copy(model)
            if frozen.history_["task"][-1] != frozen.n_tasks_seen_ or abs(frozen.coef_[0] - frozen.intercept_) > 1e-9:
                wrong.append("copy")
            if set(np.diff(model.history_["task"]).tolist()) - {1}:
                wrong.append("history")
            if abs(model.predict(-ones)).max() > 1e-9:
                wrong.append("prediction")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    readers = [threading.Thread(target=read) for _ in range(2)]
    try:
        for reader in readers:
            reader.start()
        while any(reader.is_alive() for reader in readers):
            for target in targets:
                model.partial_fit(ones, target)
    finally:
        sys.setswitchinterval(interval)
        for reader in readers:
            reader.join()
    assert wrong == []
    assert model.n_tasks_seen_ > 50


def test_learned_attributes_are_read_only_and_absent_before_the_first_task():
    model = fl.ContinualRidge(alpha=1.0)
    for name in ("coef_", "intercept_", "n_tasks_seen_", "radius_", "n_features_in_", "feature_names_in_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match="cannot be set"):
            setattr(model, name, 1.0)
    model.partial_fit(np.eye(2), np.ones(2))
    with pytest.raises(AttributeError, match="coef_ is learned by fit and partial_fit; it cannot be set"):
        model.coef_ = np.zeros(2)
    assert not hasattr(model, "feature_names_in_")
    model.feature_names_in_ = np.array(["a", "b"], dtype=object)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.partial_fit(np.eye(2), np.ones(2))

"""Any sequence of what may happen to a model, beside a literal learner that is told of the same tasks."""

import copy
import gc
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scipy import sparse

import forgetless as fl
from support import literal
from support.campaigns import SEED

D = 3
SIZES = st.sampled_from([1, 1, 2, 5])
SEEDS = st.integers(0, 2**32 - 1)


class Literal:
    """Weights after the tasks it was told of, by the algorithm as it is written in the paper, and their average."""

    def __init__(self, options):
        self.options, self.w, self.n, self.path = options, None, 0, []

    def told(self, X, y, weight=None):
        rows = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
        weight = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=float)
        if self.options["fit_intercept"]:
            rows = np.column_stack([rows, np.ones(len(rows))])
        w = np.zeros(rows.shape[1]) if self.w is None else self.w
        root = np.sqrt(weight)[:, None]
        self.n += 1
        if self.coefficient == 0:
            self.w = literal.projection_step(w, root * rows, root[:, 0] * y)
        else:
            self.w = literal.ridge_step(w, root * rows, root[:, 0] * y, self.coefficient)
        self.path.append(self.w)

    @property
    def answer(self):
        average = self.options["average"]
        return self.w if average is None else literal.averages(np.array(self.path), average)[-1]

    @property
    def coefficient(self):
        if self.options["schedule"] is None:
            return self.options["alpha"]
        k, t = self.options["n_tasks"], self.n
        return 13 / 3 * self.options["radius"] ** 2 * (k + 1) / (k - t + 2)


class Interrupted(KeyboardInterrupt):
    """Raised in the midst of learning."""


def interrupt_after(events):
    """Raise at the given line that is run, wherever it is."""
    left = events

    def trace(frame, event, argument):
        nonlocal left
        left -= 1
        if left <= 0:
            sys.settrace(None)
            raise Interrupted
        return trace

    return trace


class Life(RuleBasedStateMachine):
    """A model that learns, is saved, loaded, copied, interrupted and given nonsense."""

    @initialize(
        alpha=st.sampled_from([0.0, 1e-3, 1.0, 50.0]),
        intercept=st.booleans(),
        increasing=st.booleans(),
        average=st.sampled_from([None, 0, 1.5, 2]),
    )
    def begin(self, alpha, intercept, increasing, average):
        self.options = {
            "alpha": alpha,
            "fit_intercept": intercept,
            "schedule": None,
            "average": average,
        }
        if increasing:
            self.options |= {"schedule": "increasing", "n_tasks": 10_000, "radius": 2.0}
        self.model, self.twin = fl.ContinualRidge(**self.options), Literal(self.options)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "model.npz")

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def task(self, seed, n):
        rng = np.random.default_rng(seed)
        return rng.standard_normal((n, D)), rng.standard_normal(n)

    @rule(seed=SEEDS, n=SIZES, kind=st.sampled_from(["dense", "sparse", "fortran", "list"]))
    def learn(self, seed, n, kind):
        X, y = self.task(seed, n)
        given = {"dense": X, "sparse": sparse.csr_array(X), "fortran": np.asfortranarray(X), "list": X.tolist()}[kind]
        assert self.model.partial_fit(given, y) is self.model
        self.twin.told(X, y)

    @rule(seed=SEEDS, n=SIZES)
    def learn_weighted(self, seed, n):
        X, y = self.task(seed, n)
        weight = np.random.default_rng(seed + 1).uniform(0.1, 3.0, n)
        self.model.partial_fit(X, y, sample_weight=weight)
        self.twin.told(X, y, weight)

    @precondition(lambda self: self.twin.coefficient >= 1e-3)
    @rule(seed=SEEDS, parts=st.integers(1, 4), once=st.booleans())
    def learn_blocks(self, seed, parts, once):
        X, y = self.task(seed, 3 * parts)
        blocks = list(zip(np.split(X, parts), np.split(y, parts), strict=True))
        self.model.partial_fit_blocks(iter(blocks) if once else blocks)
        self.twin.told(X, y)

    @rule(seed=SEEDS, n=st.integers(1, 3))
    def begin_anew(self, seed, n):
        X, y = self.task(seed, 4 * n)
        self.model.fit(X, y, groups=np.repeat(np.arange(n)[::-1], 4))
        self.twin = Literal(self.twin.options)
        for part in range(n):
            self.twin.told(X[4 * part : 4 * part + 4], y[4 * part : 4 * part + 4])

    @precondition(lambda self: self.twin.n > 0)
    @rule()
    def save_and_load(self):
        self.model.save(self.path)
        loaded = fl.load(self.path)
        assert loaded.get_params() == self.model.get_params()
        np.testing.assert_array_equal(loaded.coef_, self.model.coef_)
        for name, column in self.model.history_.items():
            np.testing.assert_array_equal(loaded.history_[name], column)
        self.model = loaded

    @precondition(lambda self: self.twin.n > 0)
    @rule(X=SEEDS)
    def save_to_predict(self, X):
        self.model.save(self.path, state="predict")
        loaded, (rows, y) = fl.load(self.path), self.task(X, 4)
        np.testing.assert_array_equal(loaded.predict(rows), self.model.predict(rows))
        with pytest.raises(ValueError, match="predict"):
            loaded.partial_fit(rows, y)

    @rule(how=st.sampled_from([copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]), seed=SEEDS)
    def copied(self, how, seed):
        """The copy goes on; what happens to the original does not reach it."""
        other = how(self.model)
        self.model.partial_fit(*self.task(seed, 2))
        self.model = other

    @precondition(lambda self: self.options["schedule"] is None)
    @rule(alpha=st.sampled_from([0.01, 2.0]))
    def another_alpha(self, alpha):
        self.options["alpha"] = alpha
        self.model.set_params(alpha=alpha)

    @precondition(lambda self: self.twin.n > 0)
    @rule(name=st.sampled_from(["nan", "width", "length", "zeros", "words", "outside", "huge"]), seed=SEEDS)
    def nonsense(self, name, seed):
        X, y = self.task(seed, 4)
        outside = sparse.csr_array(X)
        outside.indices = outside.indices + np.int32(D)
        bad = {
            "nan": (np.full_like(X, np.nan), y),
            "width": (X[:, :2], y),
            "length": (X, y[:3]),
            "zeros": (0.0 * X, y),
            "words": (X, ["a"] * 4),
            "outside": (outside, y),
            "huge": (X, y * 1e200),
        }[name]
        if name == "zeros" and self.options["fit_intercept"]:  # they tell the intercept
            self.model.partial_fit(*bad)
            self.twin.told(*bad)
            return
        before = self.model._state
        with pytest.raises((ValueError, TypeError, OverflowError)):
            self.model.partial_fit(*bad)
        assert self.model._state is before

    @precondition(lambda self: self.twin.n > 0)
    @rule(seed=SEEDS, n=SIZES, events=st.integers(1, 400))
    def interrupted(self, seed, n, events):
        X, y = self.task(seed, n)
        before, seen = self.model._state, self.model.n_tasks_seen_
        tracing = sys.gettrace()  # of a measurement of coverage
        gc.disable()  # an interruption inside a callback of the collector would be reported as unraisable
        sys.settrace(interrupt_after(events))
        try:
            self.model.partial_fit(X, y)
        except Interrupted:
            pass
        finally:
            sys.settrace(tracing)
            gc.enable()
        if self.model._state is not before:
            assert self.model.n_tasks_seen_ == seen + 1
            self.twin.told(X, y)

    @invariant()
    def weights_are_those_of_the_literal_learner(self):
        if not hasattr(self, "model") or self.twin.n == 0:
            return
        expected, model = self.twin.answer, self.model
        found = np.append(model.coef_, model.intercept_) if self.options["fit_intercept"] else model.coef_
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()))

    @invariant()
    def everything_agrees_with_everything(self):
        if not hasattr(self, "model") or self.twin.n == 0:
            return
        model, history = self.model, self.model.history_
        assert model.n_tasks_seen_ == self.twin.n
        assert history["task"].tolist() == list(range(1, self.twin.n + 1))
        assert len({len(column) for column in history.values()}) == 1
        assert np.isfinite(model.prequential_mse_)
        assert model.nbytes_ >= model.coef_.nbytes


def run(examples, steps, seed=None):
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        derandomize=seed is None,
        phases=(Phase.generate, Phase.shrink),  # explaining would trace, as interruptions do
        suppress_health_check=list(HealthCheck),
    )
    machine = type("Life", (Life,), {})
    run_state_machine_as_test(machine if seed is None else seeded(seed)(machine), settings=options)


def test_a_model_lives_through_anything():
    run(25, 20)


@pytest.mark.long
def test_models_live_through_anything(campaign):
    run(2000, 30, SEED)
    campaign(
        f"seed {SEED}: 2000 lives of a model, up to 30 events each (learn, save, copy, interrupt, nonsense): as told"
    )

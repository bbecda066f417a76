"""The comparison on real streams: its protocol, the rivals against other computations, resume and reports."""

import json
import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

import forgetless as fl
from streams import report, suite
from streams.data.packaged import DataMissingError
from streams.data.stream import grouped
from streams.methods import methods
from streams.protocol import evaluate, tuned
from streams.rivals import AllRows, ClassMeans, Counted, Fewer, FrequentDirections, OneHot, Reservoir, RunningMean


def stream_of(rng, n=120, d=6, kind="regression", **options):
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 3.0 + 0.1 * rng.standard_normal(n)
    if kind == "classes":
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    return grouped("made", "here", X, y, np.repeat(np.arange(6), n // 6), task="week", timed=True, kind=kind, **options)


def test_scores_by_hand(rng):
    stream = stream_of(rng)
    tasks = list(stream)
    score = evaluate(RunningMean, tasks, "regression", n_first=2)
    unit = np.concatenate([task.y for task in tasks]).var()
    means = [np.concatenate([task.y for task in tasks[: t + 1]]).mean() for t in range(6)]
    before = np.concatenate([(tasks[t].y - means[t - 1]) ** 2 for t in range(2, 6)])
    assert score.prequential == pytest.approx(before.mean() / unit)
    assert score.final == pytest.approx(np.mean([np.mean((t.y_held - means[5]) ** 2) for t in tasks]) / unit)
    learned = np.mean([np.mean((t.y_held - m) ** 2) for t, m in zip(tasks, means, strict=True)]) / unit
    assert score.forgotten == pytest.approx(score.final - learned)
    assert (score.nbytes, score.seconds >= 0) == (16, True)


def test_settings_are_chosen_on_the_first_third_alone(rng):
    stream = stream_of(rng)
    tasks = list(stream)
    later = [task._replace(y=rng.permutation(task.y) * 100) for task in tasks[2:]]  # would choose otherwise
    makers = [lambda a=a: fl.ContinualRidge(alpha=a, fit_intercept=True) for a in (1e6, 1e-3, 1e3)]
    for rest in (tasks[2:], later):
        score = tuned(makers, [*tasks[:2], *rest], stream)
        assert (score.setting, score.tried) == (1, 3)


def test_what_diverges_has_an_infinite_error(rng):
    class Diverging(RunningMean):
        def predict(self, X):
            raise ValueError("Input contains infinity")

    class Wrong(RunningMean):
        def predict(self, X):
            raise ValueError("our own mistake")

    stream = stream_of(rng)
    score = tuned([Diverging, RunningMean], list(stream), stream)
    assert score.setting == 1
    assert tuned([Diverging], list(stream), stream).to_dict()["final"] is None
    with pytest.raises(ValueError, match="our own mistake"):
        tuned([Wrong], list(stream), stream)


@pytest.mark.parametrize("make_sparse", [False, True])
def test_rivals_that_keep_everything_are_ridge_regression(rng, make_sparse):
    X, Y = rng.standard_normal((40, 5)), rng.standard_normal((40, 2))
    sketch = FrequentDirections(6, 0.3)
    kept, whole = Reservoir(1000, 1e-12), AllRows(0.3)
    for part in np.split(np.arange(40), 4):
        rows = sparse.csr_array(X[part]) if make_sparse else X[part]
        sketch.partial_fit(rows, Y[part])
        kept.partial_fit(rows, Y[part])
        whole.partial_fit(rows, Y[part])
    ones = np.column_stack([X, np.ones(40)])
    wanted = np.linalg.solve(ones.T @ ones + 0.3 * np.eye(6), ones.T @ Y)
    np.testing.assert_allclose(sketch.W, wanted, rtol=1e-9)
    np.testing.assert_allclose(whole.W, wanted, rtol=1e-9)
    assert whole.nbytes_ >= 8 * (12 + 40 * 6 + 80)
    np.testing.assert_allclose(kept.W, np.linalg.lstsq(ones, Y)[0], rtol=1e-6)
    new = rng.standard_normal((3, 5))
    np.testing.assert_allclose(kept.predict(new), np.column_stack([new, np.ones(3)]) @ kept.W)


def test_a_reservoir_is_a_uniform_sample(rng):
    counts = np.zeros(40)
    for seed in range(400):
        model = Reservoir(8, 1.0, seed)
        for part in np.split(np.arange(40.0), 5):
            model.partial_fit(part[:, None], part)
        assert model.X.shape == (8, 2)
        counts[model.Y[:, 0].astype(int)] += 1
    expected = 400 * 8 / 40
    assert np.sum((counts - expected) ** 2 / expected) < 40 + 5 * math.sqrt(80)
    assert model.nbytes_ == 8 * 2 + 4 * 16 + 8 * 8


def test_what_frequent_directions_cut_is_bounded(rng):
    model, X = FrequentDirections(4, 1.0), rng.standard_normal((60, 9))
    for part in np.split(X, 6):
        model.partial_fit(part, part[:, 0])
    ones = np.column_stack([X, np.ones(60)])
    gap = np.linalg.eigvalsh(ones.T @ ones - model.B.T @ model.B)
    assert gap.min() > -1e-9
    assert gap.max() <= model.cut + 1e-9  # the theorem of frequent directions


def test_class_means_and_wrappers(rng):
    X, y = rng.standard_normal((60, 4)), rng.permutation(np.repeat([2, 5, 7], 20))
    X += y[:, None]
    classes, new = np.array([2, 5, 7]), 5 + 2 * rng.standard_normal((30, 4))
    means = ClassMeans(classes)
    for part in np.split(np.arange(60), 3):
        means.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(means.predict(new), NearestCentroid().fit(X, y).predict(new))
    hot = OneHot(fl.StreamingRidge(0.5, standardize=False, fit_intercept=False), classes).partial_fit(X, y)
    direct = Ridge(0.5, fit_intercept=False).fit(X, (y[:, None] == classes).astype(float)).predict(new)
    np.testing.assert_array_equal(hot.predict(new), classes[direct.argmax(axis=1)])
    few = Fewer(fl.StreamingRidge(0.5, standardize=False, fit_intercept=False), 1).partial_fit(X, y.astype(float))
    alone = fl.StreamingRidge(0.5, standardize=False, fit_intercept=False).partial_fit(2 * X[:, :1], y.astype(float))
    np.testing.assert_allclose(few.predict(new), alone.predict(2 * new[:, :1]))
    assert few.nbytes_ == alone.nbytes_
    assert hot.nbytes_ > 0


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_every_method_learns(rng, kind):
    stream = stream_of(rng, n=180, kind=kind)
    tasks = list(stream)
    found = methods(stream, tasks)
    trivial = evaluate(found["running mean"][0], tasks, kind).final if kind == "regression" else 2 / 3
    for name, makers in found.items():
        if name in ("running mean",):
            continue
        score = tuned(makers, tasks, stream)
        assert score.final < 0.7 * trivial, (name, score)
        assert score.nbytes > 0
    wide = stream_of(rng, d=200)
    names = set(methods(wide, list(wide)))
    assert {"r = 100", "reservoir, 10 rows", "frequent directions, 10", "joint ridge, 44 features"} <= names


@pytest.fixture
def bench(monkeypatch, rng, tmp_path):
    made = {"a": stream_of(rng), "b": stream_of(rng, kind="classes")}

    def load(name, seed):
        if name == "missing":
            raise DataMissingError("its package is not installed")
        return made[name]

    monkeypatch.setattr(suite, "STREAMS", ("a", "b", "missing"))
    monkeypatch.setattr(suite, "load_stream", load)
    told = []

    def run(*names, **options):
        return suite.bench(names, tmp_path / "out", tell=told.append, **options)

    run.told, run.folder = told, tmp_path / "out"
    return run


def test_what_is_done_is_not_done_again(bench):
    first = bench("a", only=["r = 0", "running"])
    assert set(first[0]["scores"]) >= {"r = 0", "running mean"}
    n = len(bench.told)
    assert bench("a", only=["r = 0", "running"]) == first
    assert len(bench.told) == n
    assert bench("a", minutes=1e-9)[0]["scores"] == first[0]["scores"]
    assert bench.told[-1] == "the time is up in a; the same command goes on with the next method"
    more = bench("a", "missing", only=["joint"])
    assert set(more[0]["scores"]) == {*first[0]["scores"], "joint ridge"}
    assert bench.told[-1] == "missing: left out, since its package is not installed"
    with pytest.raises(ValueError, match="stream must be one of a, b, missing, got 'c'"):
        bench("c")
    file = bench.folder / "a.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "forgetless": "0.0"}))
    with pytest.raises(ValueError, match=r"was made by forgetless 0\.0"):
        bench("a")


def test_streams_of_which_nothing_was_run_are_not_reported(bench):
    assert bench("a", only=["ContinualRidge"]) == []
    assert bench.told[-1].startswith("a: no method has 'ContinualRidge' in its name; there are")
    assert bench("a", minutes=1e-9) == []
    assert [each["stream"] for each in bench("a", "b", only=["running"])] == ["a"]


def test_units_are_part_of_the_name(bench):
    bench("a", only=["r = 0"], units=3.0)
    assert [file.name for file in bench.folder.iterdir()] == ["a-units-3.json"]
    assert suite.read(bench.folder)[0]["units"] == 3.0


def test_reports_and_figures(bench):
    records = bench("a", "b", only=["r = 0", "r = 10", "joint", "running", "means"])
    table = report.table(records[0])
    errors = table.columns["final"]
    assert errors == sorted(errors)
    assert "6 tasks by week, 96 rows, 6 features" in table.title
    over = report.overview(records)
    assert over.columns["best other"] == ["running mean", "class means"]
    assert math.isnan(over.columns["r = 100"][0])
    files = report.figures(records, bench.folder / "figures")
    assert [file.name for file in files] == ["a.svg", "b.svg", "summary.svg"]
    assert all(file.stat().st_size > 1000 for file in files)


def test_scikit_learn_models_are_counted():
    from sklearn.linear_model import SGDRegressor

    model = Counted(SGDRegressor(random_state=0)).partial_fit(np.eye(3), np.ones(3))
    assert model.nbytes_ == 8 * 3 + 8
    assert model.predict(np.eye(3)).shape == (3,)

"""What a report says: warnings, alarms and coefficients, against streams of which the truth is known."""

import html5lib
import numpy as np
import pytest

import forgetless as fl
from forgetless.datasets.grouped import Part
from forgetless.streams import alarms, page
from forgetless.streams.run import follow


def stream(count=30, n=40, d=3, change=None, seed=0):
    rng = np.random.default_rng(seed)
    teacher = np.arange(1.0, d + 1)
    for t in range(count):
        X = rng.standard_normal((n, d))
        sign = -1.0 if change is not None and t >= change else 1.0
        yield Part(f"task {t}", X, sign * X @ teacher + 0.5 * rng.standard_normal(n))


def made(**more):
    return fl.ContinualRidge(alpha=1e-3, fit_intercept=True, standardize=True, **more)


def test_nothing_is_said_where_nothing_happened():
    run = follow(made(rank=10), stream())
    assert page.warnings_of(run) == []
    assert page.summary(run)["drift_alarms"] == page.summary(run)["forgetting_alarms"] == []


def test_a_change_is_drift_and_forgetting():
    run = follow(made(), stream(n=600, change=20))
    assert alarms.drifted(run.before, run.rows) == [20]
    assert alarms.forgotten(run) == list(range(20))
    told = " ".join(page.warnings_of(run))
    assert "Drift: these tasks were out of line with those before them: task 20." in told
    assert "20 tasks are answered clearly worse than when they were learned: task 0 to task 19." in told
    assert "worse than the mean of all targets so far before it learned them: task 20." in told


def test_errors_before_learning_are_those_of_the_definition():
    model, other, tasks = made(), made(), list(stream(6))
    run = follow(model, tasks, holdout=0.0)
    for t, part in enumerate(tasks):
        if t:
            so_far = np.concatenate([each.y for each in tasks[:t]])
            assert run.before[t] == pytest.approx(np.mean((other.predict(part.X) - part.y) ** 2), rel=1e-9)
            assert run.mean_before[t] == pytest.approx(np.mean((part.y - so_far.mean()) ** 2))
            assert run.last_before[t] == pytest.approx(np.mean((part.y - tasks[t - 1].y.mean()) ** 2))
        other.partial_fit(part.X, part.y)
    assert not run.watched
    assert "rmse_at_the_end" not in page.summary(run)


def test_growth_of_an_error_and_its_uncertainty_come_from_the_same_rows():
    run = follow(made(), stream(change=20), seed=3)
    np.testing.assert_allclose(run.change[:, 0], run.forgetting, rtol=1e-9, atol=1e-12)
    assert np.all(run.change[:-1, 1] > 0)


def test_progress_is_a_bar_or_told_or_refused():
    told = []
    follow(made(), stream(3), progress=lambda *what: told.append(what))
    assert [what[:2] for what in told] == [(0, 0), (1, 0), (2, 0)]
    assert told[2][2].startswith("tasks, now ")
    bar, none = (follow(made(), stream(3), progress=progress) for progress in (True, None))
    np.testing.assert_array_equal(bar.errors, none.errors)
    with pytest.raises(TypeError, match="progress must be True or a callable"):
        follow(made(), stream(3), progress="yes")


def test_too_few_rows_are_given_as_the_reason():
    run = follow(made(), stream(4, n=3, d=20))
    assert "too few to tell them apart" in page._why(run, [1], "mean_before")


def test_coefficients_have_names_and_an_uncertainty_that_covers_the_truth():
    covered = []
    for seed in range(20):
        model = fl.make_pipeline(fl.TableEncoder(), made(rank=10))
        rng = np.random.default_rng(seed)
        for part in stream(20, seed=seed):
            names = {f"f{i}": part.X[:, i] * 10.0**i for i in range(3)}
            model.partial_fit({**names, "town": rng.choice(["Ulm", "Bonn"], 40)}, part.y)
        table = page.coefficients(model).columns
        found = dict(zip(table["feature"], zip(table["coefficient"], table["±"], strict=True), strict=True))
        assert table["feature"][:3] == ["f2", "f1", "f0"]  # by their effect, not by their units
        covered += [abs(found[f"f{i}"][0] - (i + 1) / 10**i) < 1.96 * found[f"f{i}"][1] for i in range(3)]
    assert 0.85 <= np.mean(covered) <= 1.0


def test_the_page_holds_all_of_it(tmp_path):
    model = fl.make_pipeline(fl.TableEncoder(), made(rank=10))
    tasks = [Part(part.label, {f"f{i}": part.X[:, i] for i in range(3)}, part.y) for part in stream(12, change=8)]
    run = follow(model, [Part(p.label, frame(p.X), p.y) for p in tasks])
    page.write(run, tmp_path / "r.html", "settings", ["a note"])
    text = (tmp_path / "r.html").read_text()
    html5lib.HTMLParser(strict=True).parse(text)
    for words in ("Look twice", "a note", "<td>f2</td>", "task 11", "What became of each column", "RMSE before"):
        assert words in text
    assert text.count("data:image/png;base64,") == 2


def frame(columns):
    import pandas

    return pandas.DataFrame(columns)

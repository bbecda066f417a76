"""What a report says: warnings, alarms and coefficients, against streams of which the truth is known."""

from types import SimpleNamespace

import numpy as np
import pytest

import forgetless as fl
from forgetless.estimators.evaluation import Baselines
from forgetless.tables import report as page
from forgetless.tables.task_files import Part


def stream(count=30, n=40, d=3, change=None, seed=0):
    rng = np.random.default_rng(seed)
    teacher = np.arange(1.0, d + 1)
    for t in range(count):
        X = rng.standard_normal((n, d))
        sign = -1.0 if change is not None and t >= change else 1.0
        yield Part(f"task {t}", X, sign * X @ teacher + 0.5 * rng.standard_normal(n))


def evaluated(model, tasks, holdout=0.2, **options):
    return fl.evaluate_stream(model, tasks, holdout=holdout, **options)


def forgetful():
    return fl.ContinualRidge(alpha=1e-3, fit_intercept=True)


def joint():
    return fl.StreamingRidge(alpha=1e-3)


def test_nothing_is_said_where_nothing_happened():
    run = evaluated(joint(), stream())
    assert page.warnings_of(run) == []
    assert page.summary(run)["drift_alarms"] == page.summary(run)["forgetting_alarms"] == []


def test_a_change_is_drift_and_forgetting():
    run = evaluated(forgetful(), stream(n=600, change=20))
    assert page.drifted(run.before, run.rows) == [20]
    assert page.forgotten(run) == list(range(20))
    told = " ".join(page.warnings_of(run))
    assert "Drift: these tasks were out of line with those before them: task 20." in told
    assert "20 tasks are predicted clearly worse than when they were learned: task 0 to task 19." in told
    assert "worse than the mean of all targets so far before it learned them: task 20." in told


def test_forgetting_of_all_tasks_is_seen_where_that_of_each_is_not():
    run = evaluated(forgetful(), stream(n=40, change=20))
    assert page.forgotten(run) == []
    assert page.summary(run)["forgetting_together"]
    learned, now = (np.sqrt(each[:-1].mean()) for each in (np.diag(run.errors), run.errors[-1]))
    assert f"of {learned:.4g} when they were learned and have one of {now:.4g} now" in " ".join(page.warnings_of(run))
    assert not page.forgotten_together(evaluated(joint(), stream()))
    assert not page.forgotten_together(evaluated(forgetful(), stream(1)))
    assert not page.forgotten_together(evaluated(forgetful(), stream(3), holdout=0.0))


def test_errors_that_grew_by_what_may_be_chance_are_counted():
    run = evaluated(forgetful(), stream(n=60, change=20), seed=0)
    clear, grown = len(page.forgotten(run)), int(np.sum(run.forgetting > 0))
    told = [line for line in page.warnings_of(run) if line.startswith("Forgetting")]
    assert (f"Of {grown - clear} more the error has grown" in told[0]) == (grown - clear > clear)
    assert 0 < clear < grown


def test_a_model_that_goes_on_is_judged_as_in_one_run():
    tasks = list(stream(16, change=12))
    whole, model = evaluated(joint(), tasks), joint()
    first = evaluated(model, tasks[:11])
    parts = [first, evaluated(model, tasks[11:12], baselines=Baselines(first.end))]
    parts.append(evaluated(model, tasks[12:], baselines=Baselines(parts[-1].end)))
    for name in ("before", "mean_before", "last_before", "rows"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, name) for p in parts]), getattr(whole, name))
    assert [page.summary(run)["drift_alarms"] for run in parts] == [[], [], page.summary(whole)["drift_alarms"]]
    assert page.summary(whole)["drift_alarms"][0] == "task 12"
    assert "on 4 of the 4 tasks the model was worse" in page.warnings_of(parts[-1])[0]
    assert page.sentences(parts[1])[0].startswith("Rows of a task not yet learned are predicted")


def test_growth_of_an_error_and_its_uncertainty_come_from_the_same_rows():
    run = evaluated(forgetful(), stream(change=20), seed=3)
    np.testing.assert_allclose(run.change[:, 0], run.forgetting, rtol=1e-9, atol=1e-12)
    assert np.all(run.change[:-1, 1] > 0)


def test_too_few_rows_are_given_as_the_reason():
    run = evaluated(forgetful(), stream(4, n=3, d=20))
    assert "too few to tell them apart" in page._why(run, [1], "mean_before")


def test_cures_name_what_was_not_tried():
    def noise():
        rng = np.random.default_rng(0)
        return [Part(str(t), rng.standard_normal((20, 5)), rng.standard_normal(20)) for t in range(5)]

    def told(model):
        lines = page.warnings_of(evaluated(model, noise()))
        return next((line for line in lines if "than the mean on the tasks seen" in line), "")

    assert told(fl.ContinualRidge(alpha=1e-6)).endswith(
        "try --schedule auto or --intercept or features that say more of the target."
    )
    assert told(fl.StreamingRidge(1e-6, rank=2, standardize=False)).endswith(
        "try --rank 5 or --standardize or features that say more of the target."
    )
    assert told(fl.StreamingRidge(1e-6)).endswith("try features that say more of the target.")


def test_levels_that_move_are_told_from_features_that_change():
    def tasks(levels, change):
        rng = np.random.default_rng(0)
        for t, level in enumerate(levels):
            X = rng.standard_normal((200, 3))
            sign = -1.0 if t >= change else 1.0
            yield Part(f"task {t}", X, level + sign * X.sum(axis=1) + 0.1 * rng.standard_normal(200))

    moving = evaluated(joint(), tasks(20.0 * np.arange(10), 10))
    assert any("Levels move from task to task" in line for line in page.warnings_of(moving))
    turned = evaluated(joint(), tasks(np.zeros(10), 5))
    assert "worse than the mean of the last task" in " ".join(page.warnings_of(turned))
    assert not any("Levels move" in line for line in page.warnings_of(turned))


def drift_by_definition(errors, t, n):
    """Whether log e_t lies 5 deviations above the median of up to 20 tasks before it."""
    window = [e for e in np.log(errors[max(t - 20, 0) : t]) if np.isfinite(e)]
    if len(window) < 5 or not np.isfinite(errors[t]):
        return False
    middle = np.median(window)
    deviation = max(1.4826 * np.median(np.abs(window - middle)), np.sqrt(2 / n))
    return bool(np.log(errors[t]) > middle + 5 * deviation)


@pytest.mark.parametrize("n_earlier", [0, 3, 27, 40])
def test_drift_is_that_of_its_definition(n_earlier):
    """The level rises at task 30, which the median of the last 20 tasks follows ten tasks later."""
    rng, n = np.random.default_rng(0), 50
    errors = np.exp(0.1 * rng.standard_normal(60) + 3.0 * (np.arange(60) >= 30))
    errors[[0, 7]], errors[[12, 58]] = np.nan, errors[[12, 58]] * 20.0
    expected = [t - n_earlier for t in range(n_earlier, 60) if drift_by_definition(errors, t, n)]
    earlier = errors[:n_earlier] if n_earlier else None
    assert page.drifted(errors[n_earlier:], np.full(60 - n_earlier, n), earlier) == expected
    assert len(expected) >= 1


def test_a_sentence_names_five_ranges_of_tasks():
    run = SimpleNamespace(tasks=[f"t{i}" for i in range(20)])
    assert page._named(run, [0, 1, 2, 4, 6, 8, 10]) == "t0 to t2, t4, t6, t8, t10"
    assert page._named(run, [0, 2, 4, 6, 8, 10, 11, 13]) == "t0, t2, t4, t6, t8 and 2 more"


@pytest.mark.parametrize("n", [2, 8, 50])
def test_worse_than_a_baseline_is_by_more_than_twice_the_deviation_of_a_mean_of_squares(n):
    """Of n squared Gaussian errors the mean has a relative standard deviation of √(2/n)."""
    margin = 1.0 + 2.0 * np.sqrt(2.0 / n)
    before = 3.0 * margin * np.array([0.99, 1.0 - 1e-12, 1.0 + 1e-12, 1.01, np.nan])
    assert page.worse_than_baseline(before, np.full(5, 3.0), np.full(5, n)) == [2, 3]


def test_tasks_of_single_rows_are_decided_by_chance():
    run = evaluated(joint(), stream(200, n=1, seed=1))
    told = [line for line in page.warnings_of(run) if "mean of all targets so far" in line]
    assert told
    assert all("few rows" in line for line in told)


@pytest.mark.parametrize("standardize", [True, False])
def test_the_uncertainty_of_categories_is_that_of_differences(standardize):
    rng = np.random.default_rng(0)
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(), fl.StreamingRidge(alpha=1e-8, standardize=standardize))
    towns, sizes, targets = [], [], []
    for _ in range(10):
        town, size = rng.choice(["Ulm", "Bonn", "Jena"], 100, p=[0.6, 0.3, 0.1]), 100 * rng.random(100)
        y = 10.0 * (town == "Ulm") + 0.1 * size + rng.standard_normal(100)
        model.partial_fit({"size": size, "town": town, "same": np.ones(100)}, y)
        towns, sizes, targets = [*towns, *town], [*sizes, *size], [*targets, *y]
    table = page.coefficients(model).columns
    found = dict(zip(table["feature"], table["±"], strict=True))
    hot = np.array([[town == name for name in ("Ulm", "Bonn", "Jena")] for town in towns], dtype=float)
    A = np.column_stack([np.array(sizes), hot])  # categories add up to the intercept
    inverse = np.linalg.inv(A.T @ A)
    noise = found["size"] ** 2 / inverse[0, 0]
    share = hot.mean(axis=0)
    for i, name in enumerate(("Ulm", "Bonn", "Jena")):
        difference = np.eye(4)[1 + i] - np.append(0.0, share)
        expected = np.sqrt(noise * (difference @ inverse @ difference))
        assert found[f"town={name}"] == pytest.approx(expected, rel=1e-4)
    assert 0.9 < noise < 1.1
    assert not standardize or np.isnan(found["same"])  # it has not varied


def test_coefficients_have_names_and_an_uncertainty_that_covers_the_truth():
    covered = []
    for seed in range(20):
        model = fl.tables.make_pipeline(fl.tables.TableEncoder(), joint())
        rng = np.random.default_rng(seed)
        for part in stream(20, seed=seed):
            names = {f"f{i}": part.X[:, i] * 10.0**i for i in range(3)}
            model.partial_fit({**names, "town": rng.choice(["Ulm", "Bonn"], 40)}, part.y)
        table = page.coefficients(model).columns
        found = dict(zip(table["feature"], zip(table["coefficient"], table["±"], strict=True), strict=True))
        assert table["feature"][:3] == ["f2", "f1", "f0"]  # by their effect, not by their units
        covered += [abs(found[f"f{i}"][0] - (i + 1) / 10**i) < 1.96 * found[f"f{i}"][1] for i in range(3)]
    assert 0.85 <= np.mean(covered) <= 1.0


def test_only_what_is_there_is_drawn_and_explained(tmp_path):
    def page_of(run):
        page.write(run, tmp_path / "r.html", "settings")
        return (tmp_path / "r.html").read_text()

    one = page_of(evaluated(joint(), list(stream(1))))
    assert one.count("data:image/png;base64,") == 1
    assert "Error of each task before" not in one
    unheld = page_of(evaluated(forgetful(), list(stream(3)), holdout=0.0))
    assert unheld.count("data:image/png;base64,") == 1
    assert "a curve that rises is forgetting" not in unheld
    assert "± is one standard deviation" not in unheld  # nothing is remembered
    nothing = page_of(evaluated(forgetful(), list(stream(1)), holdout=0.0))
    assert "There is one task, and no row of it was held out." in nothing


def test_single_rows_are_not_called_held_out():
    assert any("3 of them have a single row" in line for line in page.sentences(evaluated(forgetful(), stream(3, n=1))))
    assert not any("single row" in line for line in page.sentences(evaluated(forgetful(), stream(3, n=2))))


def test_an_effect_is_that_of_one_deviation_of_sparse_rows_too():
    rng = np.random.default_rng(0)
    size, words = 50 + rng.random(200), rng.choice(["good thing", "bad thing"], 200)
    model = fl.tables.make_pipeline(fl.tables.TableEncoder(text=["words"]), joint())
    model.partial_fit({"size": size, "words": words}, 3 * size + (words == "good thing"))
    found = page.coefficients(model).columns
    at = found["feature"].index("size")
    assert found["effect"][at] == pytest.approx(found["coefficient"][at] * size.std())
    assert all(found["coefficient"])  # buckets of no word are left out


def frame(columns):
    import pandas

    return pandas.DataFrame(columns)

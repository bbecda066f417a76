"""Tables and figures of a sweep: means, errors, slopes and bounds against direct computation."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy.stats import linregress

import forgetless as fl
from forgetless.reporting.table import Noted, Table
from forgetless.sweeps import report
from forgetless.sweeps.grid import AXES
from forgetless.sweeps.report import failure_lines, slope_of
from support.sweeping import SCHEDULES, gauss, small

mpl.use("agg")

FIRST = fl.__version__


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "results.db"
    sweep = small(k=[8, 16, 32], scales=[0.1, 1.0], orderings=["with-replacement", "cyclic"], bounds=True)
    return sweep, path, sweep.run(path, n_workers=0)


def exact(schedule, k, seed, ordering, scale=1.0):
    tasks = fl.TaskCollection(gauss(seed))
    filter_ = fl.schedules.resolve(SCHEDULES[schedule], k, tasks.radius).scaled(scale)
    return float(fl.expect(tasks, filter_, k, ordering=ordering).average_loss[0])


def test_rows_come_in_the_order_of_the_axes(swept):
    _, _, table = swept
    columns = table.columns
    assert list(dict.fromkeys(columns["ordering"])) == ["with-replacement", "cyclic"]
    assert list(dict.fromkeys(columns["schedule"])) == ["none", "up", "ridge"]
    assert columns["k"][:9] == [8, 8, 8, 16, 16, 16, 32, 32, 32]
    assert columns["seed"][:3] == [0, 1, 2]
    frame = table.to_frame()
    assert frame.shape == (90, 8)
    assert table.to_frame().shape == (90, 8)


def test_a_summary_has_means_errors_slopes_and_bounds(swept):
    sweep, path, table = swept
    made = sweep.summary(path).columns
    assert len(made["schedule"]) == 2 * 3
    row = made["schedule"].index("up")
    losses = {
        scale: {k: [exact("up", k, seed, fl.WithReplacement(), scale) for seed in range(3)] for k in (8, 16, 32)}
        for scale in (0.1, 1.0)
    }
    best = min(losses, key=lambda scale: np.mean(losses[scale][32]))
    assert made["scale"][row] == best
    for k in (8, 16, 32):
        cell = made[f"k = {k}"][row]
        assert cell.value == pytest.approx(np.mean(losses[best][k]), rel=1e-9)
        assert cell.note == f" ± {np.std(losses[best][k], ddof=1) / np.sqrt(3):.2g}"
    means = [np.mean(losses[best][k]) for k in (8, 16, 32)]
    (slope, _), covariance = np.polyfit(np.log([8, 16, 32]), np.log(means), 1, cov=True)
    assert made["slope"][row].value == pytest.approx(slope, rel=1e-9)
    assert made["slope"][row].note == f" ± {np.sqrt(covariance[0, 0]):.2f}"
    assert made["k·average_loss"][row] == pytest.approx(32 * means[-1], rel=1e-9)
    upper = table.where(schedule="up", ordering="with-replacement", k=32, scale=best).columns["average_loss.upper"]
    assert made["upper bound"][row] == pytest.approx(np.mean(upper))


def test_a_simulated_cell_alone_has_its_own_error(tmp_path):
    sweep = small(seeds=[4], n_trials=20, k=[8])
    table = sweep.run(tmp_path / "a.db", n_workers=0)
    (error,) = table.where(schedule="up").columns["average_loss ±"]
    made = sweep.summary(tmp_path / "a.db").columns
    assert made["k = 8"][made["schedule"].index("up")].note == f" ± {error:.2g}"
    assert made["slope"][0] == Noted(None, "")
    assert "upper bound" not in made


def test_a_figure_has_a_panel_for_every_other_axis_and_the_best_scale(swept):
    sweep, path, table = swept
    left, right = sweep.plot(path, x="k", y="average_loss", hue="schedule")
    assert [ax.get_title() for ax in (left, right)] == ["with-replacement", "cyclic"]
    words = [text.get_text() for text in left.get_legend().get_texts()]
    assert words == ["none", "up, best of 2 scales", "ridge, best of 2 scales"]
    drawn = left.containers[1].lines[0].get_ydata()
    part = table.where(ordering="with-replacement", schedule="up")
    for k, value in zip((8, 16, 32), drawn, strict=True):
        means = [np.mean(part.where(k=k, scale=scale).columns["average_loss"]) for scale in (0.1, 1.0)]
        assert value == pytest.approx(min(means))
    ax = sweep.plot(path, x="scale", hue="schedule", where={"ordering": "cyclic", "k": 8})
    assert ax.get_xlabel() == "scale"
    plt.close("all")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"x": "lambda"}, "there is no 'lambda' in this sweep; it has tasks, schedule, scale"),
        ({"x": "tasks"}, "x must be k, scale or seed"),
        ({"y": "accuracy"}, "there is no 'accuracy'"),
        ({"hue": "k"}, "x and hue must be two axes"),
        ({"where": {"colour": 1}}, "there is no 'colour'"),
        ({"where": {"k": 5}}, "the store holds no results for this figure"),
    ],
)
def test_figures_of_what_is_not_there_are_refused(swept, options, words):
    sweep, path, _ = swept
    with pytest.raises(ValueError, match=words):
        sweep.plot(path, **options)


def test_one_axes_takes_one_panel(swept):
    sweep, path, _ = swept
    ax = plt.subplots()[1]
    with pytest.raises(ValueError, match="choose by where="):
        sweep.plot(path, ax=ax)
    assert sweep.plot(path, ax=ax, where={"ordering": "cyclic"}) is ax
    plt.close("all")


def test_slopes_need_two_points_and_leave_out_what_is_not_positive():
    assert report.slope_of({8: 1.0}) == (None, None)
    assert report.slope_of({8: 0.0, 16: 1.0}) == (None, None)
    slope, error = report.slope_of({1: 9.0, 8: 1.0, 16: 0.5, 32: 0.25, 64: 0.125})
    assert (slope, error) == (pytest.approx(-1), pytest.approx(0, abs=1e-12))


def test_an_empty_store_has_no_summary(tmp_path):
    sweep = small(tasks={"none": lambda seed: 1 / 0})
    assert len(sweep.run(tmp_path / "a.db", n_workers=0)) == 0
    with pytest.raises(ValueError, match=r"holds no results of this sweep \(18 cells failed\)"):
        sweep.summary(tmp_path / "a.db")
    sweep = small(record=[1, 2])
    assert len(sweep.run(tmp_path / "b.db", n_workers=0)) == 36
    with pytest.raises(ValueError, match="needs the values at step k, and none was recorded"):
        sweep.summary(tmp_path / "b.db")


def test_a_summary_shows_schedules_that_lack_the_largest_k(tmp_path):
    small(schedules={"up": SCHEDULES["up"]}).run(tmp_path / "a.db", n_workers=0)
    small(schedules={"none": SCHEDULES["none"]}, k=[4]).run(tmp_path / "a.db", n_workers=0)
    made = small().summary(tmp_path / "a.db")
    row = made.columns["schedule"].index("none")
    assert made.columns["k = 4"][row].value == pytest.approx(
        np.mean([exact("none", 4, seed, fl.WithReplacement()) for seed in range(3)])
    )
    assert (made.columns["k = 16"][row], made.columns["k·average_loss"][row]) == (Noted(None, ""), None)
    assert made.facts[1:] == (
        "gauss, with-replacement, none: nothing at k = 16, the largest is 4",
        "9 cells are missing",
    )


def test_a_scale_whose_mean_is_not_a_number_is_not_the_best():
    axes = {"tasks": ["t"] * 2, "schedule": ["up"] * 2, "scale": [1.0, 2.0], "ordering": ["o"] * 2}
    table = Table("Sweep", {**axes, "k": [4, 4], "seed": [0, 0], "loss": [None, 3.0]})
    assert report.summary(table, "loss").columns["scale"] == [2.0]


def test_cells_of_other_versions_are_exported_and_never_hidden_silently(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    first = small(seeds=[0]).run(path, n_workers=0)
    monkeypatch.setattr(fl, "__version__", "9.9")
    small(seeds=[0, 1]).run(path, n_workers=0)
    held, _ = report.of_store(path)
    assert len(held) == 12
    assert held.facts == ("6 cells of other versions of forgetless (" + FIRST + ") are left out; an export has them",)
    whole = report.everything(path).columns
    assert len(set(whole["key"])) == len(whole["key"]) == 18
    old = [value for value, made in zip(whole["average_loss"], whole["version"], strict=True) if made == FIRST]
    assert sorted(old) == sorted(first.columns["average_loss"])
    assert all(each is not None for each in whole["average_loss rounding"])


def test_slopes_and_their_errors_are_those_of_linear_regression(rng):
    k = np.array([4, 16, 64, 256])
    values = k**-0.8 * np.exp(0.2 * rng.standard_normal(4))
    slope, error = slope_of(dict(zip(k.tolist(), values.tolist(), strict=True)))
    expected = linregress(np.log(k), np.log(values))
    assert slope == pytest.approx(expected.slope, rel=1e-9)
    assert error == pytest.approx(expected.stderr, rel=1e-9)
    assert slope_of({4: 1.0, 16: 0.25}) == (pytest.approx(-1.0), None)
    assert slope_of({4: 1.0}) == (None, None)


def test_failures_are_told_by_kind_with_the_first_cell_of_each():
    errors = ["ValueError: seed 3", "OSError: disk", "ValueError: seed 5"]
    columns = {axis: [f"{axis}{i}" for i in range(3)] for axis in AXES} | {"error": errors}
    columns["scale"] = [None, 0.5, None]
    first, second = failure_lines(Table("failures", columns))
    places = [", ".join(f"{axis} {columns[axis][i]}" for axis in AXES if columns[axis][i] is not None) for i in (0, 1)]
    assert first == f"ValueError: seed 3 (2 cells, the first at {places[0]})"
    assert second == f"OSError: disk (1 cell, at {places[1]})"

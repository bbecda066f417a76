"""Results draw themselves, print the numbers they hold, and show how far a long computation is."""

import html5lib
import matplotlib as mpl
import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs

mpl.use("Agg")

TASKS = fl.TaskCollection(random_pairs(np.random.default_rng(3), d=3))
NAMED = {"λ = 2": 2.0, "rising": fl.schedules.increasing(0.5)}


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def lines(ax):
    return {line.get_label(): line.get_ydata() for line in ax.get_lines()}


def test_curves_are_drawn_as_they_are_with_their_labels():
    found = fl.expect(TASKS, NAMED, 40, record="all")
    drawn = lines(found.plot())
    for label in NAMED:
        np.testing.assert_allclose(drawn[label], found.sel(schedule=label).average_loss)
    trace = fl.simulate(TASKS, NAMED, 40, n_trials=5, seed=0)
    ax = trace.plot("drift")
    np.testing.assert_allclose(lines(ax)["rising"][1:], trace.sel(schedule="rising").drift.mean(axis=0)[1:])
    band = ax.collections[1].get_paths()[0].vertices[:, 1]
    assert np.nanmax(band) == pytest.approx(np.quantile(trace.sel(schedule="rising").drift, 0.9, axis=0).max())
    assert np.nanmin(band) == pytest.approx(np.quantile(trace.sel(schedule="rising").drift, 0.1, axis=0)[1:].min())
    assert [bool(fl.simulate(TASKS, 2.0, 9, n_trials=n, seed=0, record="all").plot().collections) for n in (1, 2)] == [
        0,
        1,
    ]
    assert ax.get_ylabel() == "mean drift"
    assert found.plot().get_ylabel() == "expected average loss"
    assert fl.simulate(TASKS, 2.0, 9, seed=0).plot("seen_loss").get_ylabel() == "seen-task loss"
    worst = fl.worst_case(TASKS, NAMED, 32, record=[8, 16, 32])
    np.testing.assert_allclose(lines(worst.plot())["rising"], worst.worst_case[1])
    for record, scale in (([0, 40], "linear"), ([4, 39], "linear"), ([4, 40], "log")):  # a decade
        ax = fl.expect(TASKS, NAMED, 40, record=record).plot()
        assert (ax.get_xscale(), ax.get_yscale()) == (scale, "log")
    solved = fl.expect(fl.TaskCollection([([[1.0]], [1.0])]), "none", 4, record=[1, 2, 3])
    assert solved.plot().get_yscale() == "linear"
    assert fl.plots.look(7) == fl.plots.look(0) != fl.plots.look(1)


def test_one_step_is_drawn_as_dots_and_one_number_not_at_all():
    found = fl.expect(TASKS, NAMED, 40)
    ax = found.plot()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(NAMED)
    assert {line.get_linewidth() for line in ax.get_lines()} == {0}
    assert {float(x) for line in ax.get_lines() for x in line.get_xdata()} >= set(found.average_loss[:, 0].tolist())
    solved = fl.expect(fl.TaskCollection([([[1.0]], [1.0])]), {"none": "none", "λ = 1": 1.0}, 4)
    assert [float(line.get_xdata()[0]) for line in solved.plot().get_lines()][:1] == [0.0]
    with pytest.raises(ValueError, match=r'average_loss after 40 steps is .* pass record="log" for a curve'):
        found.sel(schedule="rising").plot()


def test_rounding_does_not_stretch_the_axis():
    tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])])
    trace = fl.simulate(tasks, "none", 20, n_trials=3, seed=0, record="all")
    assert np.nanmin(lines(trace.plot())["_child0"]) > 1e-14


def test_given_axes_are_drawn_on():
    import matplotlib.pyplot as plt

    optimal = fl.optimal_schedule(fl.theory.constructions.two_tasks(np.pi / 8), 8, objective="worst_case")
    curves, worst = fl.expect(TASKS, NAMED, 9, record="all"), fl.worst_case(TASKS, NAMED, 9)
    proved = fl.compare_bounds(TASKS, 2.0, 40)
    for shown in (curves, worst, proved, optimal, fl.advise(TASKS, 9), fl.expect(TASKS, NAMED, 9)):
        ax = plt.subplots()[1]
        assert shown.plot(ax=ax) is ax
        assert ax.get_lines()
        width, height = shown.plot().figure.get_size_inches()
        assert 5 < width < 8
        assert 1.3 < height < 4.7


def test_comparisons_are_drawn_at_their_values():
    found = fl.compare_bounds(fl.theory.constructions.unseen_task(40), "increasing", 40)
    ax = found.plot()
    dots = [float(line.get_xdata()[0]) for line in ax.get_lines() if line.get_marker() in "<>"]
    assert sorted(dots) == sorted(check.value for check in found.bounds if check.applies)
    assert any(float(line.get_xdata()[0]) == found.average_loss for line in ax.get_lines())
    upper, lower = found.sharpest("upper"), found.sharpest("lower")
    assert lower.value <= found.average_loss <= upper.value
    assert upper.value == min(
        c.value for c in found.bounds if c.applies and (c.kind, c.quantity) == ("upper", "average_loss")
    )


def test_the_best_schedule_and_the_losses_of_every_scale_are_drawn():
    found, advice = fl.optimal_schedule(TASKS, 8), fl.advise(TASKS, 9)
    assert tuple(lines(found.plot())["optimal"]) == found.coefficients
    assert found.plot().get_lines()[0].get_xdata().tolist() == list(range(1, 9))
    assert found.plot().get_ylim()[0] == 0
    drawn = lines(advice.plot())
    for option in advice.options:
        if len(option.scales) > 1:
            np.testing.assert_array_equal(drawn[option.shape], option.losses)
    low, high = advice.plot().get_ylim()
    assert 0.5 * advice.options[0].loss < low < advice.options[0].loss < high <= 30 * advice.options[0].loss


def shown_numbers(found):
    """What is printed holds the numbers, and the page of a notebook the same cells."""
    text, page = repr(found), found._repr_html_()
    cells = [cell.text.strip() for cell in html5lib.parse(page, namespaceHTMLElements=False).iter("td")]
    assert cells
    for cell in cells:
        assert " ".join(cell.split()) in " ".join(text.split())
    return text


def test_losses_are_printed():
    found = fl.expect(TASKS, NAMED, 40)
    for i, label in enumerate(NAMED):
        assert f"{label}" in shown_numbers(found)
        assert f"{float(found.average_loss[i, 0]):.4g}" in repr(found)
    trace = fl.simulate(TASKS, 2.0, 40, n_trials=7, seed=0)
    mean, error = trace.drift[:, -1].mean(), trace.drift[:, -1].std(ddof=1) / np.sqrt(7)
    assert f"{mean:.4g} ± {error:.1g}" in shown_numbers(trace)
    assert "mean of 7 runs" in repr(trace)
    assert "±" not in repr(fl.simulate(TASKS, 2.0, 40, seed=0))
    worst = fl.worst_case(TASKS, NAMED, 8, record=[4, 8])
    assert f"{worst.worst_case[1, 1]:.4g}" in shown_numbers(worst)
    assert f"{fl.worst_case(TASKS, 1.0, 4).worst_case[0]:.4g}" in repr(fl.worst_case(TASKS, 1.0, 4))
    several = fl.compare_bounds(TASKS, NAMED, 9)
    assert f"{several['rising'].average_loss:.5g}" in shown_numbers(several)


def test_text_aligns_numbers_right_and_words_left_and_html_escapes_them():
    found = fl.expect(fl.TaskCollection([([[1.0]], [2.0])]), {"a": 1.0, "longer <b>": 3.0}, 1)
    assert repr(found).splitlines()[1:] == [
        "schedule    step  average_loss",
        "a              1           0.5",
        "longer <b>     1         1.125",
    ]
    assert '<td>longer &lt;b&gt;</td><td class="n">1</td><td class="n">1.125</td>' in found._repr_html_()


def test_advice_catalogue_and_coefficients_show_in_a_notebook():
    advice, catalogue = fl.advise(TASKS, 9), fl.theory.catalogue
    for word in (advice.options[0].code, "Use "):
        assert word in advice._repr_html_()
    for shown in (repr(catalogue), catalogue._repr_html_()):
        assert all(bound.name in shown for bound in catalogue)
    model = fl.StreamingRidge().partial_fit([[1.0], [2.0], [4.0]], [2.0, 3.0, 5.0])
    assert "0.9967" in model.coefficients().text()
    assert "<table" in model.coefficients()._repr_html_()

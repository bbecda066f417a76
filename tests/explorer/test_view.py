"""fl.explore: what it takes, what it refuses, what it gives back."""

import html
import re

import numpy as np
import pytest

import forgetless as fl
from forgetless.explorer.page import Explorer


def test_a_page_with_tasks_holds_them_their_schedule_and_its_certificate():
    tasks = fl.theory.constructions.two_tasks(np.pi / 5)
    shown = fl.explore(tasks, fl.schedules.increasing(scale=1 / 4), k=30)
    assert isinstance(shown, Explorer)
    state = shown.data["state"]
    assert (state["kind"], state["k"], state["scheme"]) == ("data", 30, "ridge")
    assert state["schedule"] == {"preset": "increasing", "scale": 0.25}
    assert shown.data["tasks"]["tasks"][1]["X"] == [[np.cos(np.pi / 5), np.sin(np.pi / 5)]]
    bound = fl.upper_bound(fl.schedules.increasing(scale=1 / 4), 30, radius=tasks.radius, distance=1.0).value
    assert shown.data["upper_bound"] == pytest.approx(bound, rel=1e-6)


def test_no_certificate_where_no_model_fits_or_no_theorem_covers_the_steps():
    noisy = fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [2.0])])
    assert fl.explore(noisy, k=10).data["upper_bound"] is None
    far = fl.TaskCollection([([[1.0]], [1.0])])
    assert fl.explore(far, fl.GradientDescent(1, 1.9), k=3).data["upper_bound"] is None


def test_the_number_of_steps_is_that_of_the_schedule_or_given():
    tasks = fl.theory.constructions.two_tasks(1.0)
    assert fl.explore(tasks).data["state"]["k"] == 100
    assert fl.explore(tasks, fl.Ridge(np.ones(12))).data["state"]["k"] == 12
    assert fl.explore(k=7).data == {"state": {"k": 7}}


def test_a_file_and_a_notebook_get_the_same_page(tmp_path):
    shown = fl.explore(fl.theory.constructions.two_tasks(1.0), k=5)
    assert shown.save(tmp_path / "page.html").read_text(encoding="utf-8") == shown.html
    frame = shown._repr_html_()
    assert 'sandbox="allow-scripts allow-downloads"' in frame  # and not the origin of the notebook
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == shown.html
    assert "save('explorer.html')" in repr(shown)


def test_many_rows_make_no_large_page():
    rng = np.random.default_rng(0)
    tasks = fl.TaskCollection([(rng.standard_normal((50_000, 4)), rng.standard_normal(50_000)) for _ in range(3)])
    assert len(fl.explore(tasks, k=20).html) < 300_000


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([([[1.0]], [1.0])],), TypeError, "tasks must be a TaskCollection, got list"),
        ((None, fl.Ridge(1.0)), TypeError, "schedule needs tasks"),
        ((fl.TaskCollection([([[1.0]], [[1.0, 2.0]])]),), ValueError, "one target to be explored, got 2"),
        ((fl.theory.constructions.two_tasks(1.0), None, 6000), ValueError, "k must be at most 5000"),
        ((fl.theory.constructions.two_tasks(1.0), None, 0), ValueError, "k must be"),
        ((fl.TaskCollection([(np.eye(70), np.ones(70))]), None, 5), ValueError, "at most 60 coordinates"),
        (
            (fl.theory.constructions.two_tasks(1.0), fl.schedules.unregularized_first(fl.GradientDescent(1, 0.1)), 5),
            TypeError,
            "to be drawn",
        ),
        (
            (fl.theory.constructions.two_tasks(1.0), fl.GradientDescent([1, 2], [0.1, 0.2]), 2),
            ValueError,
            "many of both",
        ),
    ],
)
def test_what_cannot_be_explored_is_refused_with_a_cure(arguments, error, message):
    with pytest.raises(error, match=message):
        fl.explore(*arguments)

"""Statements of the papers of the field against the numbers computed for them."""

from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from papers import PAPERS, __main__, karpel2026, li2026, lin2023
from papers.statement import ABSTRACT, CODE, DERIVED, MEMORY, PAPER, QUOTED, Statement
from papers.tsipory2025 import greedy

PAGE = (Path(__file__).parents[2] / "docs/paper.md").read_text()
SHOWN = {karpel2026: "{:.4f}", li2026: "{:.3g} ±"}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.PAPER)
def test_statements_hold(paper):
    statements = paper.statements()
    assert statements
    for statement in statements:
        assert statement.holds, statement
        assert statement.source in (CODE, PAPER, QUOTED, ABSTRACT, MEMORY, DERIVED)
        assert np.isfinite([statement.published, statement.computed]).all()
        assert paper not in SHOWN or SHOWN[paper].format(statement.computed) in PAGE


def test_a_false_statement_does_not_hold(capsys, monkeypatch):
    false = Statement("π", 3.0, 3.1, CODE)
    assert not false.holds
    assert Statement("", 1.0, 1.1, CODE, error=0.03).holds
    assert not Statement("", 1.0, 1.1, CODE, "≤").holds
    assert not Statement("", 1.0, 0.9, CODE, "≥").holds
    assert Statement("", 1.0, 0.9, CODE, "≤").holds
    assert Statement("", 1.0, 1.04, CODE, "≈", tolerance=0.05).holds
    monkeypatch.setattr(lin2023, "statements", lambda: [false])
    monkeypatch.setattr(__main__, "PAPERS", [lin2023])
    assert __main__.main([]) == 1
    assert "0 of 1 statements hold" in capsys.readouterr().out


def test_the_figure_is_drawn(tmp_path):
    assert __main__.main([str(tmp_path / "field.png")]) == 0
    assert (tmp_path / "field.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("n_features", "n_rows", "noise", "expected"),
    [
        (10, 5, 0.0, (2.35546875, 1.3218750000000001, 434.29448190325184)),
        (10, 3, 0.5, (2.65211375, 0.8187899999999999, 404.39000926561096)),
        (4, 9, 0.2, (2.4025, 3.15, 831.8100208178648)),
    ],
)
def test_formulas_at_recorded_settings(n_features, n_rows, noise, expected):
    distances = fl.ensembles.teachers.exchangeable(1.5, similarity=0.3).distances(4)
    setting = (distances, n_features, n_rows, noise)
    computed = (
        lin2023.generalization(*setting),
        lin2023.forgetting(*setting),
        karpel2026.limit(500, n_features, n_rows, noise + 0.1),
    )
    assert computed == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rule", ["residual", "distance"])
def test_greedy_orders_learn_the_worst_task_next(rule):
    """After every step the chosen task has the largest loss, or distance, of those to come."""
    rng = np.random.default_rng(1)
    tasks = fl.TaskCollection([(rng.standard_normal((2, 9)), rng.standard_normal(2)) for _ in range(6)])
    filter_ = fl.Ridge(rng.uniform(0.05, 0.5, 6))
    order = greedy(tasks, filter_, 6, rule)
    assert sorted(order) == list(range(6))
    weights = fl.simulate(tasks, filter_, 6, ordering=fl.FixedOrder(order), record="all", metrics="weights").weights[0]
    for t, w in enumerate(np.vstack([np.zeros(9), weights[:-1]])):
        left = order[t:]
        scores = fl.metrics.task_losses(tasks, w)[left]
        if rule == "distance":
            steps = [fl.step(w, tasks[m], fl.Projection()) - w for m in left]
            scores = np.linalg.norm(steps, axis=1)
        assert scores[0] == pytest.approx(scores.max(), rel=1e-9)


def test_greedy_takes_the_first_of_equal_tasks():
    tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 0.1]], [0.2]), ([[0.0, 3.0]], [0.0])])
    assert greedy(tasks, fl.Projection(), 1, "residual") == [0]
    assert greedy(tasks, fl.Projection(), 1, "distance") == [1]
    same = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])])
    assert greedy(same, fl.Projection(), 2) == [0, 1]

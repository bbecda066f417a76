"""Statements of the papers of the field against the numbers computed for them."""

import json

import numpy as np
import pytest

from forgetless import cli
from forgetless.ensembles import Gaussian, teachers
from forgetless.reproduce.field import PAPERS, Statement
from forgetless.reproduce.field._statement import ABSTRACT, CODE, DERIVED, MEMORY, PAPER, QUOTED
from forgetless.theory import fresh_tasks


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.PAPER)
def test_statements_hold(paper):
    statements = paper.statements()
    assert statements
    for statement in statements:
        assert statement.holds, statement
        assert statement.source in (CODE, PAPER, QUOTED, ABSTRACT, MEMORY, DERIVED)
        assert np.isfinite([statement.published, statement.computed]).all()


def test_a_false_statement_does_not_hold():
    assert not Statement("", 1.0, 1.1, CODE).holds
    assert Statement("", 1.0, 1.1, CODE, error=0.03).holds
    assert not Statement("", 1.0, 1.1, CODE, "≤").holds
    assert not Statement("", 1.0, 0.9, CODE, "≥").holds
    assert Statement("", 1.0, 0.9, CODE, "≤").holds
    assert Statement("", 1.0, 1.04, CODE, "≈", tolerance=0.05).holds


def test_on_the_command_line(tmp_path, capsys):
    assert cli.main(["reproduce", "field", "--out", str(tmp_path / "field")]) == 0
    output = capsys.readouterr().out
    assert "Lin et al. 2023" in output
    assert "from memory" in output
    stored = json.loads((tmp_path / "field" / "field.json").read_text())
    assert {"computed", "published", "difference", "source"} <= set(stored["columns"])
    papers = stored["columns"]["paper"]
    assert len(set(papers)) >= 12
    assert f"{len(papers)} of {len(papers)} statements hold as computed" in output
    assert (tmp_path / "field" / "report.html").read_text().count("<img") == 4


def test_formulas_reject_what_they_do_not_cover():
    distances = Gaussian(9, 4, 0.0, teachers.exchangeable()).teachers.distances(3)
    with pytest.raises(ValueError, match="differ by at least two"):
        fresh_tasks.generalization_of_projections(distances, 5, 4, 0.1)
    with pytest.raises(ValueError, match="at least two teachers"):
        fresh_tasks.forgetting_of_projections(distances[:2, :2], 9, 4)
    with pytest.raises(ValueError, match="must have shape"):
        fresh_tasks.generalization_of_projections([1.0, 2.0], 9, 4)
    with pytest.raises(ValueError, match="limit for many tasks"):
        fresh_tasks.best_constant(100, 1, 10.0, 1)
    with pytest.raises(ValueError, match="noise must be positive"):
        fresh_tasks.best_constant(100, 1, 0.0, 10)

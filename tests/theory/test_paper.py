"""docs/paper.md is true, and statements of the paper that no other test checks."""

import re
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text()

SOURCE = """
tab:comparison def:train_loss schm:regularized schm:early_stopped schm:igd reduc:regularized_to_sgd
reduc:early_to_sgd lem:reg_function_properties fig:reductions asm:realizability def:random_ordering
lem:general_fixed_parameters cor:near_optimal_fixed_parameters rem:ext_to_wor thm:optimal_scheduled_parameters
thm:relaxed_sgd def:seen_loss lem:regularized_scheme_seen_lb fig:emp_fixed_schedule
thm:any_algorithm_lower_bound lem:sherman_morrison lem:general_reduction_properties thm:relaxed_sgd_indexing
thm:timevarying_frenchmen varsgd lem:c_t lem:wr_stability eq:sm-re-bound
"""
LABELS = SOURCE.split()
"""All labels of statements in the source of the paper."""

LABEL = re.compile(r"\b(?:tab|def|schm|reduc|lem|fig|asm|cor|rem|thm):\w+")


# --- the page ---


def test_labels_on_the_page_in_code_and_catalogue_are_those_of_the_paper():
    assert [label for label in LABELS if f"`{label}`" not in PAGE] == []
    assert set(LABEL.findall(PAGE)) <= set(LABELS)
    text = "".join(path.read_text() for path in (ROOT / "src/forgetless").rglob("*.py"))
    used = set(LABEL.findall(text))
    assert used <= set(LABELS)
    assert {"lem:reg_function_properties", "schm:igd", "thm:any_algorithm_lower_bound"} <= used
    paper = [bound for bound in fl.theory.catalogue if bound.status == "paper"]
    assert all(LABEL.search(bound.place) for bound in paper)


def test_every_test_on_the_page_exists():
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE):
        assert (ROOT / path).exists(), path
        assert f"def {name}" in (ROOT / path).read_text(), name


def test_every_bound_on_the_page_is_in_the_catalogue():
    names = {bound.name for bound in fl.theory.catalogue}
    cells = [cell for line in PAGE.splitlines() for cell in line.split(" | ") if re.search(r"\bbounds? \"", cell)]
    found = [name for cell in cells for name in re.findall(r'"([^"]+)"', cell)]
    assert len(found) > 15
    assert set(found) <= names


# --- statements ---


def seen_and_average(tasks, k):
    """The two losses of the theorem's schedule, over R²D²."""
    found = fl.expect(tasks, fl.schedules.increasing(), k, metrics=("average_loss", "seen_loss"))
    unit = tasks.radius**2 * np.sum(tasks.teacher() ** 2)
    return found.seen_loss[0] / unit, found.average_loss[0] / unit


def test_the_stability_lemma_on_random_collections(rng):
    """Seen-task loss ≤ 2·average loss + 8·(3/13)R²D²/(k+1), which is less than the 8R²D²/k that its proof ends with."""
    for _ in range(40):
        d, M, k = int(rng.integers(1, 6)), int(rng.integers(1, 7)), int(rng.integers(1, 25))
        seen, average = seen_and_average(fl.TaskCollection(random_pairs(rng, M=M, d=d, rows=(1, 3))), k)
        assert seen <= 2 * average + 8 * 3 / 13 / (k + 1)


@pytest.mark.parametrize("schedule", [fl.schedules.fixed(), fl.schedules.fixed_budget(3)], ids=repr)
def test_fixed_strengths_have_their_rate_without_replacement(schedule, rng):
    """The remark states no constant; that of the lemma for draws with replacement is not exceeded either."""
    for _ in range(25):
        M = int(rng.integers(3, 8))
        tasks = fl.TaskCollection(random_pairs(rng, M=M, d=4, rows=(1, 3)))
        unit = tasks.radius**2 * np.sum(tasks.teacher() ** 2)
        exact = fl.expect(tasks, schedule, M, ordering=fl.WithoutReplacement()).average_loss[0]
        assert exact <= fl.theory.catalogue["fixed, near-optimal, tight"].at(M) * unit


def test_losses_are_close_in_random_orders(rng):
    """Seen-task over average loss of the theorem's schedule, 60 steps: .86 to .98 on 240 random collections."""
    ratios = []
    for _ in range(40):
        tasks = fl.TaskCollection(random_pairs(rng, M=int(rng.integers(3, 9)), d=5, rows=(1, 3)))
        seen, average = seen_and_average(tasks, 60)
        ratios.append(seen / average)
    assert 0.8 < min(ratios) <= max(ratios) < 1.0

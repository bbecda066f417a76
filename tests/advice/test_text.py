"""What advice says beside the ranking: the guarantee, and the noise of the labels."""

import re

import numpy as np
import pytest

import forgetless as fl
from forgetless.advice._text import guarantee, label_noise
from forgetless.advice.results import up
from support.collections import FAMILIES, random_pairs

s = fl.schedules


def collection(rng, family="plain", **changes):
    return fl.TaskCollection(random_pairs(rng, **{**FAMILIES[family], **changes}))


@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_label_noise_is_found_within_its_error(noise, rng):
    w = rng.standard_normal(4)
    pairs = [(X := rng.standard_normal((30, 4)), X @ w + noise * rng.standard_normal(30)) for _ in range(10)]
    found, source = label_noise(fl.TaskCollection(pairs))
    assert source == "within tasks"
    assert abs(found / noise - 1) < 4 / np.sqrt(2 * 260)
    rows = [(X[i : i + 2], y[i : i + 2]) for X, y in pairs for i in range(0, 30, 2)]
    found, source = label_noise(fl.TaskCollection(rows))
    assert source == "between tasks"
    assert abs(found / noise - 1) < 4 / np.sqrt(2 * 296)


def test_label_noise_where_nothing_tells():
    assert label_noise(fl.TaskCollection([([[1.0, 0.0]], [1.0])])) == (None, "not identified")
    assert label_noise(fl.TaskCollection([([[1.0, 0.0]], [1.0])] * 3)) == (0.0, "between tasks")


def test_the_guarantee_is_for_the_objective(rng):
    tasks = collection(rng, "non-realizable")
    huge = fl.TaskCollection([(task.X, 1e7 * task.y) for task in tasks])
    for schedule in (s.increasing(), fl.Ridge(1.0)):
        said = guarantee(tasks, schedule, 500, fl.WithReplacement(), None, "worst_case")
        assert said.text.startswith(("A theorem", "No theorem"))
        assert said == guarantee(huge, schedule, 500, fl.WithReplacement(), None, "worst_case")
    covered = guarantee(tasks, s.increasing(), 500, fl.WithReplacement(), None, "worst_case")
    assert "A theorem guarantees" in covered.text
    assert "held-out" in guarantee(tasks, s.increasing(), 500, fl.WithReplacement(), None, "validation").text


def test_guarantees_are_the_least_of_catalogue_and_certificates(rng):
    tasks, law = collection(rng), fl.WithReplacement()
    distance = float(np.linalg.norm(tasks.teacher()))
    said = guarantee(tasks, s.increasing(), 1000, law, None, "average_loss")
    certificate = fl.upper_bound(s.increasing(), 1000, radius=tasks.radius, distance=distance).value
    assert certificate <= said.high <= certificate * (1 + 1e-6)
    assert said.high < fl.theory.bounds.catalogue["increasing, every k"].evaluate(1000, tasks.radius, distance)
    assert f"{up(said.high, 3):.3g}" in said.text
    assert "seen-task" in guarantee(tasks, s.increasing(), 1000, law, None, "seen_loss").text
    assert "every schedule" in guarantee(tasks, s.increasing(), 9, fl.Cyclic(), None, "average_loss").text
    noisy = collection(rng, "non-realizable")
    assert "one model fits" in guarantee(noisy, s.increasing(), 99, law, None, "average_loss").text


def test_what_is_guaranteed_counts_certificates(rng):
    w = rng.standard_normal(5)
    tasks = fl.TaskCollection([(X := rng.standard_normal((2, 5)), X @ w) for _ in range(6)])
    advice = fl.advise(tasks, 60)
    certificate = fl.compare_bounds(tasks, advice.best, 60)
    uppers = [check for check in certificate.bounds if (check.kind, check.quantity) == ("upper", "average_loss")]
    least = min(check.value for check in uppers if check.applies)
    assert least < 0.5 * tasks.radius**2 * certificate.distance**2
    said = next(claim for claim in advice.claims if claim.about == "guarantee")
    assert said.high == pytest.approx(least, rel=1e-12)


def test_a_loss_that_rounding_hides_is_not_called_zero(rng):
    """Labels are noisy, so that no loss is zero; rounding of a column in the millions does not make it so."""
    tasks = []
    for _ in range(6):
        X = np.column_stack([rng.standard_normal((20, 2)), 3e6 + 1e6 * rng.standard_normal(20), np.ones(20)])
        tasks.append((X, X[:, 0] + 2e-6 * X[:, 2] + rng.standard_normal(20)))
    advice = fl.advise(fl.TaskCollection(tasks), k=20)
    assert advice.least > 1
    told = re.findall(r"^ ?\d+  .*?(?<!,) {2,}(\S+)", str(advice), flags=re.MULTILINE)
    assert len(told) == len(advice.options)
    assert all(float(loss) >= advice.least for loss in told)

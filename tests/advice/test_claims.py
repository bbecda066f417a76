"""Every sentence of advice is true: claims on random problems against losses computed another way."""

import re

import numpy as np
import pytest

import forgetless as fl
from forgetless.advice.results import below_text, change_text, down, up, value_text
from support.claims import best_of_constants, check, random_case, rounding


def held_to_its_word(number, monkeypatch, n_constants):
    case = random_case(number)
    with monkeypatch.context() as patch:
        case.patch(patch)
        advice = case.advise()
    own = check(case, advice)
    assert own <= 1.05 * best_of_constants(case, n_constants) + rounding(case), (case.name, repr(advice))


@pytest.mark.parametrize("number", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 20))])
def test_every_claim_is_true_and_the_choice_is_good(number, monkeypatch):
    held_to_its_word(number, monkeypatch, 200)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20, 220))
def test_every_claim_of_many_problems_is_true(number, monkeypatch):
    held_to_its_word(number, monkeypatch, 2000)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.9, 1.2, None),
        (1.0, 1.1, None),
        (1.28, 1.28, "22 % below"),
        (293.9, 294.1, "294× below"),
        (12345.0, 12345.0, "12,300× below"),
        (2e9, 2e9, "2e+09× below"),
        (1.11, 1.31, "between 9.9 % and 24 % below"),
        (1.6, 2.6, "between 1.6 and 2.6× below"),
        (3.14, 5.01, "between 3.1 and 5.1× below"),
        (1.5, 100.0, "at least 33 % below"),
        (3.19, np.inf, "at least 3.1× below"),
    ],
)
def test_ratios_are_said_as_precisely_as_they_are_known(low, high, said):
    assert below_text(low, high) == said


def test_losses_and_changes_are_said_as_precisely_as_they_are_known():
    assert value_text(5.3821, 5.3821) == "5.382"
    assert value_text(10.34, 11.21) == "between 10.3 and 11.3"
    assert value_text(-1e-14, 2.3e-14) == "at most 3e-14"
    assert change_text(0.995, 1.005) == "the same within 1 %"
    assert change_text(1.5, 1.5) == "1.5 times as large"
    assert change_text(1.5, 1.6) == "between 1.5 and 1.6 times as large"
    assert change_text(0.95, 0.95) == "5 % smaller"
    assert (down(0.0199), up(0.0191), up(3.0), down(3.0)) == (0.019, 0.02, 3.0, 3.0)


@pytest.mark.parametrize("gap", [1e-7, 1e-8, 1e-9])
@pytest.mark.parametrize("k", [5, 60])
def test_no_loss_is_stated_below_the_least_possible(gap, k, rng):
    """Near-duplicate columns: the joint solution is far away, and rounding relative to it can exceed any loss."""
    X = rng.standard_normal((40, 4))
    X[:, 3] = X[:, 2] + gap * rng.standard_normal(40)
    y = X @ rng.standard_normal(4) + 3.0 * rng.standard_normal(40)
    tasks = fl.TaskCollection.from_arrays(X, y, np.repeat(np.arange(8), 5))
    advice = fl.advise(tasks, k)
    least = 0.5 * np.sum((y - X @ np.linalg.lstsq(X, y, rcond=1e-14)[0]) ** 2) / 8
    for claim in advice.claims:
        if claim.about == "loss":
            assert claim.low >= least * (1 - 1e-6)
            assert claim.high >= claim.low
        if claim.about == "least":
            assert claim.low == pytest.approx(least, rel=1e-3)
    trace = fl.simulate(tasks, advice.best, k, n_trials=4000, seed=0, record="last", keep_weights=False)
    mean, error = trace.average_loss.mean(), 5 * trace.average_loss.std() / 4000**0.5
    low, high = next((claim.low, claim.high) for claim in advice.claims if claim.about == "loss")
    assert low - error <= mean <= high + error


@pytest.mark.parametrize("gap", [1e-3, 1e-8, 1e-11])
def test_near_duplicate_columns_of_noisy_tables_change_neither_advice_nor_its_digits(gap):
    rng = np.random.default_rng(3)
    pairs = []
    for _ in range(6):
        Z = rng.standard_normal((6, 2))
        X = np.column_stack([Z, Z[:, 0] + gap * rng.standard_normal(6)])
        pairs.append((X, X @ [1.0, -1.0, 0.5] + 1.5 * rng.standard_normal(6)))
    tasks = fl.TaskCollection(pairs)
    advice = fl.advise(tasks, k=60)
    plain = fl.advise(fl.TaskCollection([(X[:, :2], y) for X, y in pairs]), k=60)
    assert advice.options[0].loss >= advice.least * (1 - 1e-9) > 0
    assert advice.options[0].loss == pytest.approx(plain.options[0].loss, rel=0.2)
    exact = float(fl.expect(tasks, advice.best, 60).average_loss[0])
    assert advice.options[0].loss == pytest.approx(exact, rel=1e-6)
    assert "One model fits" not in advice.why
    for claim in advice.claims:
        if claim.about == "horizon":
            assert 0 < claim.low <= claim.high < 10


@pytest.mark.parametrize(
    ("low", "high"), [(1.64e8, 1.78e8), (1.66e6, 2.2e6), (3.1, 3.6), (140.0, 190.0), (1.2, 1.4), (9.6e7, 1.04e8)]
)
def test_a_range_error_text_holds_what_it_stands_for(low, high):
    text = below_text(low, high)
    first, last = (float(word.replace(",", "")) for word in re.findall(r"[\d.,]+(?:e[+-]\d+)?", text))
    if "%" in text:
        first, last = (1 / (1 - each / 100) for each in (first, last))
    assert first <= low < high <= last

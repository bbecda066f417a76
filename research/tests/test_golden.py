"""Numbers of research stay as they are in golden.json."""

import json
from pathlib import Path

import pytest

import forgetless as fl
import research
from research.isotropic import isotropic_bound

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
FILTERS = {"fixed": fl.schedules.fixed(), "projection": fl.Projection(), "constant": fl.Ridge(0.3)}


def minimax_schedule(scheme):
    best = research.minimax_schedule(8, scheme=scheme)
    return [best.upper_bound.value, *best.strengths]


def worst_collection(name):
    return [research.load_worst_collection(name, 64).value]


def optimal_average(name):
    best = research.optimal_average(FILTERS[name], 16)
    return [best.value, *best.weights]


def bound_of_isotropic(name, quantity):
    return [isotropic_bound(FILTERS[name], 20, quantity, independent=quantity == "average_loss")]


PARTS = {
    "minimax_schedule": (minimax_schedule, 1e-5),  # found by an optimizer
    "worst_collection": (worst_collection, 1e-12),
    "optimal_average": (optimal_average, 1e-5),
    "isotropic_bound": (bound_of_isotropic, 1e-12),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_numbers_are_those_of_the_golden_file(name):
    part, *arguments = name.split("/")
    compute, tolerance = PARTS[part]
    expected = GOLDEN[name]
    size = max(abs(value) for value in expected)
    assert compute(*arguments) == pytest.approx(expected, rel=tolerance, abs=tolerance * size)

"""The recorded worst collections."""

import json

import numpy as np
import pytest

import forgetless as fl
import research
from support import literal

s = fl.schedules

SCHEDULES = {"none": fl.Projection(), "fixed": s.fixed(), "increasing": s.increasing()}

REFERENCE = {
    ("none", 64): 0.2126,
    ("none", 256): 0.2133,
    ("fixed", 64): 0.445,
    ("fixed", 256): 0.573,
    ("increasing", 64): 0.952,
    ("increasing", 256): 0.979,
}


@pytest.mark.parametrize(("name", "k"), REFERENCE)
def test_shipped_collections_have_their_values(name, k):
    """By a plain loop over d × d matrices, and not below the values known before."""
    found = research.load_worst_collection(name, k)
    filter_ = s.resolve(SCHEDULES[name], k, 1.0)
    p, rows = found.probabilities, found.rows
    V = (rows.T * p) @ rows
    for t in range(k, 0, -1):
        columns = [literal.step_of(filter_)] * len(rows)
        maps = [
            np.stack([step(e, row[None], np.zeros(1), t) for e in np.eye(rows.shape[1])], axis=1)
            for step, row in zip(columns, rows, strict=True)
        ]
        V = sum(weight * L.T @ V @ L for weight, L in zip(p, maps, strict=True))
    assert 0.5 * k * np.linalg.eigvalsh(V)[-1] == pytest.approx(found.value, rel=1e-9)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(1.0, abs=1e-12)
    assert round(found.value, 4 if name == "none" else 3) >= REFERENCE[name, k]
    assert rows.shape[1] <= 6
    assert len(rows) <= 8
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)
    bound = fl.upper_bound(SCHEDULES[name], k).constant
    assert found.value <= bound
    if name == "increasing":
        assert bound <= 1.03 * found.value


@pytest.mark.long
@pytest.mark.parametrize("name", ["none", "fixed", "increasing"])
def test_recorded_calls_find_what_is_recorded(name):
    recorded = research.load_worst_collection(name, 64)
    found = eval(recorded.command, {"find_worst_collection": research.find_worst_collection})
    assert found.value >= recorded.value * (1 - 1e-4)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of 'none' with 64, .*, got 'rising' and 64; search for others"):
        research.load_worst_collection("rising", 64)
    with pytest.raises(ValueError, match="got 'fixed' and 65"):
        research.load_worst_collection("fixed", 65)


def test_plain_values():
    plain = json.loads(json.dumps(research.load_worst_collection("fixed", 64).to_dict()))
    assert plain["schedule"] == "fixed"
    assert plain["counts"] == [1, 1, 1, 1, 1, 6]

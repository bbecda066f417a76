"""Forged results whose checksum agrees: rejected, or as harmless as any other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forgetless as fl
from attacks.documents import forged
from forgetless.io.document import read

TASKS = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8], [0.0, 0.5]], [0.6, 0.0])])
RESULTS = {
    "tasks": TASKS,
    "trace": fl.simulate(TASKS, {"a": 1.0, "b": 2.0}, 4, n_trials=3, seed=0),
    "expectation": fl.expect(TASKS, 1.0, 4, record="all"),
    "bound-comparison": fl.compare_bounds(TASKS, "increasing", 9),
    "advice": fl.advise(TASKS, 9),
}

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths_in(plain, at=()):
    """Every place of a value in nested dicts and lists."""
    yield at
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, each in items:
        yield from paths_in(each, (*at, key))


@pytest.mark.parametrize("name", ["bound-comparison", "advice"])
@settings(max_examples=40)
@given(data=st.data())
def test_forged_headers_are_rejected_or_printed(name, data, tmp_path_factory):
    """Any value in any field of a header: FileError, or an object that can be printed and drawn."""
    path = tmp_path_factory.mktemp("forged") / "f.fl"
    RESULTS[name].save(path)
    header = read(path).header
    place = data.draw(st.sampled_from(list(paths_in(header))[1:]))
    inside = header
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = data.draw(JSONS)
    forged(path, header=header)
    try:
        loaded = fl.load(path)
    except fl.errors.FileError:
        return
    assert repr(loaded)
    assert isinstance(loaded.to_dict(), dict)
    if hasattr(loaded, "_repr_html_"):
        assert loaded._repr_html_()


ODD = [
    np.zeros(0),
    np.zeros((2, 0)),
    np.array(1.0),
    np.array([np.nan, np.inf]),
    np.full((2, 3, 4), np.inf),
    np.array([3, 2, 1]),
    np.array([-1]),
    np.array([2**62]),
    np.zeros((1, 1, 1, 1, 1)),
    np.zeros(3, dtype=np.float32),
    np.array([True, False]),
]


@pytest.mark.parametrize("name", ["tasks", "trace", "expectation"])
def test_forged_arrays_are_rejected_or_shown(name, tmp_path):
    """Every array replaced by every odd one, left out, or beside one that does not belong there."""
    path = tmp_path / "f.fl"
    RESULTS[name].save(path)
    arrays = read(path).arrays
    changes = [(each, odd) for each in arrays for odd in (*ODD, None)]
    changes += [("other", np.zeros(1)), ("value.x", np.zeros(1))]
    rejected = 0
    for each, odd in changes:
        others = {key: array for key, array in arrays.items() if key != each}
        forged(path, arrays=others if odd is None else {**others, each: odd})
        try:
            loaded = fl.load(path)
        except fl.errors.FileError:
            rejected += 1
        else:
            assert repr(loaded)
            assert loaded.to_frame() is not None if hasattr(loaded, "to_frame") else len(loaded) == len(TASKS)
        RESULTS[name].save(path)
    assert rejected >= len(changes) - 9  # a metric or the weights left out, or infinite


HEADERS = {
    "trace": [
        {"labels": ["a"]},
        {"labels": ["a", "a"]},
        {"labels": [["a"], "b"]},
        {"labels": None},
        {"labels": [True, 2.5]},
    ],
    "expectation": [{"errors": {}}, {"errors": {"average_loss": 2}}, {"method": 3}, {"errors": 1}],
}


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in HEADERS for change in HEADERS[name]], ids=str)
def test_forged_headers_are_rejected(name, change, tmp_path):
    path = tmp_path / "f.fl"
    RESULTS[name].save(path)
    forged(path, header={**read(path).header, **change})
    with pytest.raises(fl.errors.FileError, match=r"f\.fl is damaged"):
        fl.load(path)


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("kind", ["tasks", "trace", "expectation", "bound-comparison", "advice", "x", ""])
def test_a_file_that_claims_another_kind_is_rejected(name, kind, tmp_path):
    path = tmp_path / "f.fl"
    RESULTS[name].save(path)
    if kind != name:
        forged(path, kind=kind)
        with pytest.raises(fl.errors.FileError, match=r"f\.fl"):
            fl.load(path)

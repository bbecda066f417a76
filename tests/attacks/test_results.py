"""Results from strangers, with hashes that agree: refused, or as harmless as any other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forgetless as fl
from forgetless.io.archive import pack, pack_json, unpack, unpack_json

TASKS = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8], [0.0, 0.5]], [0.6, 0.0])])
FOUND = {
    "tasks": (TASKS, "forgetless-tasks"),
    "trace": (fl.simulate(TASKS, {"a": 1.0, "b": 2.0}, 4, n_trials=3, seed=0), "forgetless-result"),
    "expectation": (fl.expect(TASKS, 1.0, 4, record="all"), "forgetless-result"),
    "certificate": (fl.compare_bounds(TASKS, "increasing", 9), "forgetless-certificate"),
    "advice": (fl.advise(TASKS, 9), "forgetless-advice"),
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


@pytest.mark.parametrize("name", ["certificate", "advice"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_forged_records_are_refused_or_printed(name, data, tmp_path_factory):
    """With a hash that agrees, whatever stands in any field: FileError, or an object that can be printed and drawn."""
    (found, _), path = FOUND[name], tmp_path_factory.mktemp("forged") / "f.json"
    found.save(path)
    plain = unpack_json(path, f"forgetless-{name}", name, (1,))["record"]
    place = data.draw(st.sampled_from(list(paths_in(plain))[1:]))
    inside = plain
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = data.draw(JSONS)
    header = {"format": f"forgetless-{name}", "version": 1, "note": "", "provenance": {}}
    path.write_bytes(pack_json(header, {"record": plain}))
    try:
        loaded = type(found).load(path)
    except fl.errors.FileError:
        return
    assert repr(loaded)
    assert loaded._repr_html_()
    assert isinstance(loaded.to_dict(), dict)


ODD = [
    np.zeros(0),
    np.zeros((2, 0)),
    np.array(1.0),
    np.array([np.nan, np.inf]),
    np.full((2, 3, 4), np.inf),
    np.array([3, 2, 1]),
    np.array([-1]),
    np.array([2**62]),
    np.array(["a"]),
    np.zeros((1, 1, 1, 1, 1)),
    np.zeros(3, dtype=np.float16),
    np.array([True, False]),
]


@pytest.mark.parametrize("name", ["tasks", "trace", "expectation"])
def test_forged_arrays_are_refused_or_shown(name, tmp_path):
    """Every array replaced by every odd one, left out, or beside one that does not belong there."""
    found, format = FOUND[name]
    path = tmp_path / "f.npz"
    found.save(path)
    header, arrays = unpack(path, format, name, (1,))
    changes = [(each, odd) for each in arrays for odd in (*ODD, None)] + [
        ("other", np.zeros(1)),
        ("value.x", np.zeros(1)),
    ]
    refused = 0
    for each, odd in changes:
        left = {key: array for key, array in arrays.items() if key != each}
        path.write_bytes(pack(header, left if odd is None else {**left, each: odd}))
        try:
            loaded = type(found).load(path)
        except fl.errors.FileError:
            refused += 1
            continue
        assert repr(loaded)
        assert loaded.to_frame() is not None if hasattr(loaded, "to_frame") else len(loaded) == len(found)
    assert refused >= len(changes) - 9  # a metric or the weights left out, or infinite


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["a"]},
        {"labels": ["a", "a"]},
        {"labels": [["a"], "b"]},
        {"labels": None},
        {"labels": [True, 2.5]},
        {"provenance": [1]},
        {"kind": "Expectation"},
        {"kind": {"a": 1}},
        {"kind": None},
    ],
    ids=str,
)
def test_forged_headers_of_traces_are_refused(change, tmp_path):
    found, format = FOUND["trace"]
    path = tmp_path / "f.npz"
    found.save(path)
    header, arrays = unpack(path, format, "trace", (1,))
    path.write_bytes(pack({**header, **change}, arrays))
    with pytest.raises(fl.errors.FileError, match=r"f\.npz"):
        fl.results.Trace.load(path)
    assert not fl.describe_file(path).ok or change.get("kind") == "Expectation"


@pytest.mark.parametrize(
    "change", [{"errors": {}}, {"errors": {"average_loss": 2}}, {"method": 3}, {"errors": 1}], ids=str
)
def test_forged_headers_of_expectations_are_refused(change, tmp_path):
    found, format = FOUND["expectation"]
    path = tmp_path / "f.npz"
    found.save(path)
    header, arrays = unpack(path, format, "expectation", (1,))
    path.write_bytes(pack({**header, **change}, arrays))
    with pytest.raises(fl.errors.FileError, match=r"f\.npz"):
        fl.results.Expectation.load(path)

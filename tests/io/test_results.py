"""Tasks and results in files: what is read is what was written; forged files raise FileError."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.errors import FileError
from forgetless.io import read, write
from support.collections import random_pairs

TASKS = fl.TaskCollection(random_pairs(np.random.default_rng(3), d=3))
NAMED = {"λ = 2": 2.0, "rising": fl.schedules.increasing(0.5)}
RESULTS = {
    "tasks": TASKS,
    "disturbed tasks": fl.TaskCollection(TASKS, noise=0.5, walk=0.1),
    "empty task": fl.TaskCollection([(np.eye(2), np.ones((2, 2))), (np.zeros((0, 2)), np.zeros((0, 2)))]),
    "trace": fl.simulate(TASKS, 2.0, 9, n_trials=3, seed=1, metrics=tuple(fl.metrics.NAMED)),
    "traces": fl.simulate(TASKS, NAMED, 9, n_trials=2, seed=4, record=[0, 9]),
    "expectation": fl.expect(TASKS, 2.0, 9, metrics=fl.metrics.METRICS, record="all"),
    "expectations": fl.expect(TASKS, [1.0, lambda k, radius: fl.Ridge(radius)], 9, ordering="cyclic"),
}


@pytest.fixture(params=RESULTS)
def saved(request, tmp_path):
    RESULTS[request.param].save(tmp_path / "result.safetensors")
    return RESULTS[request.param], tmp_path / "result.safetensors"


def test_what_is_read_is_what_was_written(saved):
    result, path = saved
    for _ in range(2):
        loaded = fl.load(path)
        assert repr(loaded) == repr(result)
        np.testing.assert_equal(content_of(loaded), content_of(result))
        loaded.save(path)


def content_of(thing):
    if isinstance(thing, fl.TaskCollection):
        return [(X, y) for X, y in thing]
    return [thing.labels, thing.steps, thing.values, thing.errors]


def test_forged_arrays_raise(saved):
    _, path = saved
    kind, header, arrays, _ = read(path)
    for name, array in arrays.items():
        for wrong in (array[None], array.reshape(-1)[:0], array.astype(bool)):
            if wrong.shape == array.shape == (0,):
                continue
            write(path, kind, header, {**arrays, name: wrong})
            with pytest.raises(FileError, match=r"result\.safetensors is damaged"):
                fl.load(path)
    write(path, kind, header, {**arrays, "more": np.ones(2)})
    if arrays:
        with pytest.raises(FileError, match="more does not belong there"):
            fl.load(path)
    write(path, kind, {}, {})
    with pytest.raises(FileError):
        fl.load(path)

"""What only one block needs is one task; what several need, or what is on the cluster already, is not made again."""

import dask
import dask.array as da
import numpy as np
import pytest

from forgetless._core.dask_arrays import blocks_of


def rows_of(X, y, weight):
    return X, y, weight


def n_tasks(graph):
    return len(dask.optimize(graph)[0].__dask_graph__())


def made(i):
    return np.full((3, 2), 1.0 + i), np.arange(3.0) + i


def generated(n=4):
    parts = [dask.delayed(made, nout=2)(i) for i in range(n)]
    X = da.concatenate([da.from_delayed(part[0], (3, 2), float) for part in parts])
    return X, da.concatenate([da.from_delayed(part[1], (3,), float) for part in parts])


@pytest.mark.parametrize("weight", [None, np.arange(12.0), da.arange(12.0, chunks=3)], ids=["none", "here", "there"])
def test_a_block_is_one_task(weight):
    blocks = blocks_of(*generated(), weight)
    assert len(blocks) == 4
    for i, block in enumerate(blocks):
        whole = block.then(rows_of)
        assert n_tasks(whole) == 1
        X, y, w = whole.compute(scheduler="synchronous")
        np.testing.assert_array_equal(X, made(i)[0])
        np.testing.assert_array_equal(y, made(i)[1])
        assert w is None if weight is None else (w == np.arange(3.0) + 3 * i).all()


@pytest.mark.parametrize("shared", [("X", 1), "X"])
def test_what_several_blocks_need_is_made_once(shared):
    count = []

    def read():
        count.append(1)
        return np.arange(24.0).reshape(12, 2)

    X = da.from_delayed(dask.delayed(read)(dask_key_name=shared), (12, 2), float).rechunk({0: 3}) + 1.0
    blocks = blocks_of(X, np.ones(12))
    found = dask.compute(*[block.then(rows_of) for block in blocks], scheduler="synchronous")
    np.testing.assert_array_equal(np.concatenate([X for X, _, _ in found]), np.arange(24.0).reshape(12, 2) + 1.0)
    assert len(count) == 1

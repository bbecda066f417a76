"""Statistics of dask arrays: the numbers of NumPy, without loading them; on a real cluster, of which a worker dies."""

import os
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas
import pytest
from scipy import sparse

import forgetless as fl
from support.streams import linear

CHUNKS = (7, 5, 11, 1)
N = sum(CHUNKS)


def remotely(array):
    return da.from_array(array, chunks=(CHUNKS, *((each,) for each in array.shape[1:])))


@pytest.fixture
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize(
    "kind", ["plain", "weights", "targets", "sparse", "y in memory", "columns apart", "no intercept"]
)
def test_numbers_are_those_of_numpy(kind, in_this_thread):
    X, y = linear(N, 6, targets=(2,) if kind == "targets" else ())
    weight = np.arange(N) % 3.0 if kind == "weights" else None
    there = remotely(X)
    if kind == "sparse":
        there = there.map_blocks(sparse.csr_matrix, meta=sparse.csr_matrix((0, 0)))
    if kind == "columns apart":
        there = there.rechunk({0: 5, 1: 2})
    options = {"fit_intercept": kind != "no intercept"}
    ours, theirs = fl.StreamingRidge(**options), fl.StreamingRidge(**options)
    targets = y if kind == "y in memory" else remotely(y)
    for _ in range(2):
        ours.partial_fit(there, targets, None if weight is None else remotely(weight))
        theirs.partial_fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-9)
    assert (ours.rows_.n, ours.n_tasks_seen_) == (theirs.rows_.n, 2)


def test_data_frames_and_unknown_lengths(in_this_thread):
    X, y = linear(N, 6)
    frame = dd.from_pandas(pandas.DataFrame(X).assign(y=y), npartitions=3)
    rows = fl.rows_of(frame[list(range(6))], frame["y"])
    np.testing.assert_allclose(rows.cross, fl.rows_of(X, y).cross)
    some = remotely(X)[remotely(y) > -100]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        fl.rows_of(some, remotely(y))
    with pytest.raises(ValueError, match="do not add up"):
        fl.rows_of(remotely(X), da.ones(9))


def test_only_statistics_leave_a_block(in_this_thread):
    """Sixty blocks of 1,000 rows become one object of d × d numbers."""
    X = da.random.default_rng(0).standard_normal((60_000, 3), chunks=(1000, 3))
    rows = fl.rows_of(X, X.sum(axis=1))
    assert rows.n == 60_000
    assert rows.gram.matrix.shape == (3, 3)
    np.testing.assert_allclose(fl.StreamingRidge().partial_fit_rows(rows).coef_, 1.0, rtol=1e-5)


def test_a_worker_may_die_on_a_cluster():
    from distributed import Client, LocalCluster

    def slow(block):  # inside, so that workers need not import this module
        time.sleep(0.3)
        return block

    X, y = linear(N, 6)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        there = remotely(X).map_blocks(slow, dtype=float)
        rows = fl.rows_of(there, remotely(y))
        np.testing.assert_allclose(rows.cross, fl.rows_of(X, y).cross)
        persisted = remotely(X).map_blocks(slow, dtype=float).persist()
        first, _ = client.run(os.getpid).values()
        os.kill(first, 9)
        found = fl.rows_of(persisted, remotely(y))
    np.testing.assert_allclose(found.cross, rows.cross)

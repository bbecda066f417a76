"""Sweeps on a dask cluster: the same bits, workers that die, clusters that go."""

import os
import signal
import time
from concurrent.futures import Future

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import forgetless as fl
from forgetless.estimators import rules
from forgetless.solvers import _costs, remote
from forgetless.sweeps import run as runs
from forgetless.sweeps import workers
from support.sweeping import gauss, small, waiting


@pytest.fixture(scope="module")
def started():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
        yield cluster


@pytest.fixture
def client(started):
    with Client(started) as client:
        yield client


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def test_a_cluster_gives_the_bits_of_one_process(client, path, tmp_path):
    sweep = small(scales=[0.1, 1.0], metrics=("average_loss", "seen_loss"))
    assert sweep.run(path, client).columns == sweep.run(tmp_path / "here.db", n_workers=0).columns
    assert workers._sweeps == {}
    assert not [key for keys in client.processing().values() for key in keys]


def test_a_killed_worker_is_survived(client, path, tmp_path):
    sweep = small(tasks={"waiting": waiting}, seeds=range(8), k=4)
    count = 0

    def kill(done, total, label):
        nonlocal count
        if not count:  # later, workers that are dead or not yet back would not answer
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            count += 1

    table = sweep.run(path, client, progress=kill)
    assert count == 1
    assert table.columns == sweep.run(tmp_path / "here.db", n_workers=0).columns


@pytest.mark.long
def test_workers_that_dask_gave_up_are_asked_for_again(client, started, path, monkeypatch):
    """What distributed does to a worker that does not return within its timeout: close it, and forget it."""
    monkeypatch.setattr(runs, "WAIT", 0.2)
    name = next(iter(started.workers))
    started.sync(started.workers.pop(name).close)
    name = next(iter(started.workers))
    started.sync(started.workers.pop(name).close)
    while client.nthreads():
        time.sleep(0.05)
    assert len(small().run(path, client)) == 18


def test_work_that_dask_forgot_is_given_again(client, path, monkeypatch):
    monkeypatch.setattr(runs, "WAIT", 0.2)
    monkeypatch.setattr(runs, "STALLED", 0.5)
    real, lost = client.get_executor, []

    def get_executor(**options):
        executor = real(**options)
        submit = executor.submit

        def forgetful(*call):
            if len(lost) < 2:
                lost.append(Future())  # never done
                return lost[-1]
            return submit(*call)

        executor.submit = forgetful
        return executor

    monkeypatch.setattr(client, "get_executor", get_executor)
    assert len(small().run(path, client)) == 18
    assert len(lost) == 2


def test_a_worker_without_the_sweep_is_given_it(client, path, monkeypatch):
    real = client.register_plugin
    monkeypatch.setattr(
        client, "register_plugin", lambda *_, **__: monkeypatch.setattr(client, "register_plugin", real)
    )
    assert len(small().run(path, client)) == 18


@pytest.mark.parametrize("side", [1000, 3], ids=["gram", "passes"])
def test_one_task_is_learned_where_its_blocks_are(client, monkeypatch, side):
    for module in (remote, _costs, rules):
        monkeypatch.setattr(module, "GRAM_SIDE" if module is remote else "SMALL_SIDE", side)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 8)), rng.standard_normal(60)
    ours = fl.ContinualRidge(alpha=2.0).partial_fit(da.from_array(X, chunks=(13, 8)), da.from_array(y, chunks=13))
    theirs = fl.ContinualRidge(alpha=2.0).partial_fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)


def test_other_versions_on_workers_are_refused(client, path, monkeypatch):
    monkeypatch.setattr(fl, "__version__", "9.9")
    with pytest.raises(
        fl.errors.StoreError, match=r"^a worker has forgetless .* and the driver 9.9; install one version"
    ):
        small().run(path, client)


def test_a_cluster_that_goes_takes_nothing_with_it(path):
    sweep = small(tasks={"waiting": waiting}, seeds=range(30))
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50, processes=False)
    client = Client(cluster)

    def stop(done, total, label):
        if done >= 12 and client.status == "running":
            client.close()
            cluster.close()

    with pytest.raises(fl.errors.StoreError, match=r"^the dask cluster is gone \(.*what was committed is safe"):
        sweep.run(path, client, progress=stop)
    there = len(sweep.table(path))
    assert 12 <= there < len(sweep)
    assert len(sweep.run(path, n_workers=0)) == len(sweep)


def test_a_run_that_ends_before_it_begins_leaves_nothing_on_the_workers(client, path, monkeypatch):
    real = client.register_plugin

    def interrupted(*plugin, **options):
        real(*plugin, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "register_plugin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small().run(path, client)

    def count():
        from forgetless.sweeps import workers

        return len(workers._sweeps)

    assert set(client.run(count).values()) == {0}


@pytest.mark.long
def test_time_limits_end_workers_of_a_cluster(client, path):
    def hanging(seed):
        if seed == 1:
            time.sleep(1000)
        return gauss(seed)

    sweep = small(tasks={"own": hanging}, schedules="none", k=4)
    assert sweep.run(path, client, time_limit=1).columns["seed"] == [0, 2]
    assert sweep.failures(path).columns["error"] == ["TimeLimit: it took longer than 1 seconds"]


def test_time_limits_need_worker_processes(path):
    with (
        LocalCluster(n_workers=1, dashboard_address=":0", silence_logs=50, processes=False) as cluster,
        Client(cluster) as client,
        pytest.raises(ValueError, match=r"time_limit=1 ends worker processes.*start it with processes=True"),
    ):
        small().run(path, client, time_limit=1)


@pytest.fixture
def deserted():
    """A client of a cluster without workers, and short patience."""
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
        dask.config.set({"forgetless.worker-timeout": "0.1s"}),
    ):
        yield client


def test_a_task_on_a_cluster_without_workers_is_an_error_and_leaves_the_model(deserted, rng):
    X = rng.standard_normal((20, 3))
    model = fl.ContinualRidge(alpha=1.0).partial_fit(X, X.sum(axis=1))
    before = model.coef_.copy()
    rows = da.from_array(X, chunks=(10, 3))
    with pytest.raises(TimeoutError, match=r"has had no workers for 0\.1 seconds; start some .*worker-timeout"):
        model.partial_fit(rows, rows[:, 0])
    assert model.n_tasks_seen_ == 1
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(TimeoutError, match="has had no workers"):
        fl.TaskCollection([(rows, rows[:, 0])])
    deserted.cluster.scale(1)
    dask.config.set({"forgetless.worker-timeout": "10m"})
    assert model.partial_fit(rows, rows[:, 0]).n_tasks_seen_ == 2


def test_a_sweep_on_a_cluster_without_workers_is_an_error(deserted, path):
    with pytest.raises(fl.errors.StoreError, match=r"has had no workers for .* what was committed is safe"):
        small().run(path, deserted)

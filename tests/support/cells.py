"""Cells of small sweeps, importable by workers; and a driver that tests kill: python -m support.cells STORE ENGINE."""

import os
import signal
import sys
import time
from contextlib import contextmanager, nullcontext

import joblib
import numpy as np

import forgetless as fl


def grid(n_seeds):
    """Four cells of every seed."""
    return {"seed": list(range(n_seeds)), "k": [2, 5], "name": ["a", "ä"]}


def slow(seed, k, name):
    """A cell that takes long enough to be hit; every seventh seed fails."""
    time.sleep(0.05)
    if seed % 7 == 6:
        raise ValueError(f"no result for {name}")
    return {"value": np.random.default_rng([seed, k]).standard_normal(k), "text": name * k}


def fatal(x):
    """A cell that kills its worker where x is 3, and gives up where it is 4."""
    time.sleep(0.02)
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if x == 4:
        sys.exit("given up")
    return x


@contextmanager
def cluster():
    """Two worker processes of dask, as joblib's backend."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**options) as processes, Client(processes), joblib.parallel_config("dask"):
        yield


def without_seconds(rows):
    """Rows without what differs from run to run."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def drive(store, engine, n_seeds):
    """Run a sweep to its end."""
    with cluster() if engine == "dask" else nullcontext():
        fl.sweeps.run(slow, grid(int(n_seeds)), store, n_jobs=2)


if __name__ == "__main__":
    from support import cells  # not __main__, whose functions have no file in a worker

    cells.drive(*sys.argv[1:])

"""Small sweeps that tests share; importable by worker processes, and a script that runs one for tests to kill."""

import os
import signal
import sys
import time

import numpy as np

import forgetless as fl

SCHEDULES = {"none": fl.Projection(), "up": fl.schedules.increasing(), "ridge": fl.Ridge(0.3)}


def gauss(seed, d=4, M=5, rank=2, noise=0.0, wait=0.0):
    """Random tasks; ``wait`` makes a cell long enough to be hit by a kill."""
    time.sleep(wait)
    rng = np.random.default_rng([seed, d, M])
    w = rng.standard_normal(d)
    return [(X := rng.standard_normal((rank, d)), X @ w + noise * rng.standard_normal(rank)) for _ in range(M)]


def waiting(seed):
    """The same, slowly."""
    return gauss(seed, wait=0.03)


def broken(seed):
    """Tasks that cannot be made for every second seed."""
    if seed % 2:
        raise ValueError("no tasks for odd seeds")
    return gauss(seed)


def fatal(seed):
    """Tasks that kill the process which makes them, for one seed."""
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return gauss(seed)


class Unpicklable:
    """Tasks that cannot be sent to another process."""

    def __call__(self, seed):
        return gauss(seed)

    def __reduce__(self):
        raise TypeError("this one does not travel")


class Unloadable(Unpicklable):
    """Tasks that can be sent and not received."""

    def __reduce__(self):
        return _fail, ()


def _fail():
    raise ImportError("there is no such module here")


def small(**changes):
    """A sweep of a few cells."""
    options = {"tasks": {"gauss": gauss}, "schedules": SCHEDULES, "k": [4, 16], "seeds": range(3)}
    return fl.sweeps.Sweep(**{**options, **changes})


def slow(n_seeds):
    """A sweep that lives long enough to be killed."""
    return small(tasks={"waiting": waiting}, seeds=range(n_seeds), scales=[0.1, 1.0])


def main(store, n_seeds, engine):
    """Run the slow sweep and say after every commit how many cells are there."""
    sweep = slow(int(n_seeds))

    def report_progress(done, total, label):
        print(f"committed {done}", flush=True)

    if engine == "local":
        sweep.run(store, n_workers=2, progress=report_progress)
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
            Client(cluster) as client,
        ):
            sweep.run(store, client, progress=report_progress)
    print("complete", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
